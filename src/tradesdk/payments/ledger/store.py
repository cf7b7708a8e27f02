"""The ledger: all payments and budgets in one database, shared by threads and processes.

Blocking. `changes` and `rules` decide and are pure, `schema` has the statements, an `Engine` runs the transactions.

Who waits: each method, up to `timeout`, for another thread of this process; a change also for another process that
writes. Who may write: `submit` and `update`, in one transaction each. A change is applied to the row that is there:
if its revision is still that of the call's row, without a read; otherwise the row is read first. A payment that a
call has claimed (`LedgerRow.owner`) is sent or signed by no other call.

A `Record` that fails is kept as `Late`: reads show it as if written, and it is written before the next change.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from secrets import randbits
from typing import TYPE_CHECKING, TypeVar

from ..._http.arguments import file_path, flags, seconds
from ..._http.log_events import event, ledger_failed
from ..._postgres.server import SCHEMA, server
from ..._values.frames import hides_locals
from ..._values.payment import Payment, PaymentStage
from ..._values.row import Row
from ..._values.text import printable, without_keys
from ...errors import InvalidArgumentError, LedgerError, PaymentError, PaymentRefusedError
from ..budget import Budget, Spending
from . import errors, rules
from . import schema as sql
from .changes import UNWRITTEN, LedgerChange, LedgerRow, Lookup, Overview, Record, Submit
from .engine import Engine, Late, SqliteEngine, StaleRowError, Transaction
from .opening import default_path
from .rules import EmptyWallet, limits_of
from .schema import Statement

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")

_NEWEST = 2**63 - 1
MAX_AHEAD = 60
"""Seconds that this machine's clock may differ from the database's: budgets of hours, days and months go by it."""


class Ledger:
    """Payments and settings in a SQLite file, which has mode 0600, as it holds signed payments.

    The file is created and opened at first use. Every method that changes something returns after it is synced. Threads
    may share one ledger, processes may share a file; a forked child opens the file for itself. A crash at any moment
    leaves each step done or not done, never half done.

    What a call learned of a payment, and could not write down, is kept in memory, where every read sees it. It is
    written before the next change, which is refused otherwise, or by `close`.

    Args:
        path: the file; by default `ledger.sqlite3` in `TRADE_HOME`, or else in the platform's folder for data.
        sync: False turns syncing off, for tests and benchmarks: a power cut may then undo changes.
        timeout: seconds that a call waits while another thread or process writes.

    Raises:
        InvalidArgumentError: the path or the timeout cannot be used.
        ConfigError: there is no path and no home folder.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, sync: bool = True, timeout: float = 10.0) -> None:
        if path in ("", ":memory:"):
            raise InvalidArgumentError("path must name a file", hint="for a ledger without one use Ledger.memory()")
        flags(sync=sync)
        timeout = seconds("timeout", timeout, most=3600)
        self.path: Path | None = file_path("path", default_path() if path is None else path)
        """The file; None for a ledger without one."""
        self._use(SqliteEngine(os.fspath(self.path), sync=sync, timeout=timeout))

    @classmethod
    def memory(cls) -> Self:
        """A ledger in memory: for this process only, and gone with the object."""
        return cls._over(SqliteEngine(None, sync=False, timeout=10.0))

    @classmethod
    @hides_locals
    def postgres(cls, url: str | None = None, *, schema: str = SCHEMA, timeout: float = 10.0) -> Self:
        """A ledger in PostgreSQL, shared by machines. `tradesdk.fleet.create_tables` or `trade fleet init` makes it.

        Args:
            url: `postgresql://USER@HOST/DATABASE`; by default `TRADE_FLEET`.
            schema: the schema that holds the tables.
            timeout: seconds that a call waits while another program writes.

        Raises:
            InvalidArgumentError: the timeout cannot be used.
            ConfigError: the URL or the schema cannot be used, or psycopg is not installed.
        """
        timeout = seconds("timeout", timeout, most=3600)
        database = server(url, schema)
        from .postgres import PostgresEngine  # needs psycopg, an extra

        return cls._over(PostgresEngine(database, timeout=timeout))

    @classmethod
    def _over(cls, engine: Engine) -> Self:
        ledger = cls.__new__(cls)
        ledger.path = None
        ledger._use(engine)
        return ledger

    def _use(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def _blocks(self) -> bool:
        """Whether its methods may wait for a disk or a server. One in memory takes some microseconds."""
        return self._engine.blocks

    def __repr__(self) -> str:
        engine = getattr(self, "_engine", None)  # a debugger may show one that could not be made
        if engine is None:
            return "<Ledger>"
        return f"<Ledger {engine.shown}>" if self.path is None else f"Ledger({os.fspath(self.path)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, payment_id: str) -> Payment | None:
        """The payment with this id, or None."""

        def read(db: Transaction) -> Payment | None:
            (rows,) = db.read((sql.BY_ID, (payment_id,)))
            return self._seen(rows[0]).payment if rows else None

        return self._engine.run(read)

    def history(
        self,
        *,
        stages: Sequence[PaymentStage] = (),
        unproven: bool = False,
        limit: int = 100,
        before: str | None = None,
    ) -> list[Payment]:
        """Payments at some stages or all, newest first; `before` is the id of the last payment of the previous page.

        With `unproven` only those without a proof of all that was signed: `paid` is None, or a receipt has less.

        Raises:
            InvalidArgumentError: the limit is below 1, or there is no payment with the id `before`.
        """
        flags(unproven=unproven)
        if limit < 1:
            raise InvalidArgumentError("limit must be 1 or more", hint="set limit to 1 or more")

        def read(db: Transaction) -> list[Payment]:
            seq, most = _NEWEST, min(limit, _NEWEST)
            if before is not None:
                (found,) = db.read((sql.SEQ, (before,)))
                if not found:
                    what = f"no payment {printable(without_keys(before), 60)} is in this ledger"
                    raise InvalidArgumentError(what, hint="see which there are: history()")
                seq = found[0][0]
            if not stages and not unproven:
                (rows,) = db.read((sql.NEWEST, (seq, most)))
            else:
                wanted = sorted({stage.value for stage in stages or PaymentStage})
                statement, parts = sql.newest_of(len(wanted), unproven=unproven)
                each = [value for stage in wanted for value in (stage, seq, most) * parts]
                (rows,) = db.read((statement, (*each, most)))
            return [self._seen(row).payment for row in rows]

        return self._engine.run(read)

    def held(self, *, since: float, until: float, limit: int) -> list[Payment]:
        """Payments without proof that count, whose validity ended after `since` and by `until`; oldest first."""

        def read(db: Transaction) -> list[Payment]:
            (rows,) = db.read((sql.HELD, (since, until, limit)))
            return [sql.payment_of(row) for row in rows]

        return self._engine.run(read)

    def overview(self, lookup: Lookup) -> Overview:
        """What a call has to know before it requests anything, in one read."""
        return self._engine.run(lambda db: self._overview(db, lookup))

    def _overview(self, db: Transaction, lookup: Lookup) -> Overview:
        now, payment_id, wallet = lookup.now, lookup.payment_id, lookup.wallet
        find = sql.FIND, (lookup.fingerprint, *rules.times(now, lookup.since, lookup.over))
        reads = [
            find if payment_id is None else (sql.BY_ID, (payment_id,)),
            (sql.SUMS, rules.begin(now)),
            (sql.SETTINGS, ()),
        ]
        if lookup.run is not None:
            reads.append((sql.BY_RUN, (lookup.run, lookup.signs)))
        if lookup.name is not None:
            reads.append((sql.OTHER_PAYER, (lookup.name, lookup.payer)))
        rows, sums, settings, *more = db.read(*reads)
        others = more.pop() if lookup.name is not None else []
        row = self._seen(rows[0]) if rows else None
        payment = None if row is None or payment_id is not None else row.payment
        if payment and payment.stage is PaymentStage.ANSWERED and not (payment.purchase or payment.waits):
            row = None  # its answer was collected, and that is not written yet
        counted, named = sql.accounts_of(now, sums, settings)
        return Overview(
            lookup,
            row=None if row is None else replace(row, payment=rules.kept_answer(row.payment, now)),
            sums=counted,
            limits=limits_of(lookup.budget, named, lookup.max_price),
            settings=named,
            empty=EmptyWallet.read(named[wallet]) if wallet and wallet in named else None,
            run=sql.run_sum(more[0]) if more else None,
            other=sql.payment_of(others[0]) if others else None,
        )

    def spending(self, budget: Budget, *, now: float, max_price: int | None = None) -> Spending:
        """What is spent and held, and what `budget` and the ledger's own budget leave.

        `max_price` of a call, in micro-dollars, is one more limit, and does not change what counts.
        A payment counts in the last hour if it may be taken after `now - 3600`, today if it may be taken after midnight
        UTC, this month likewise: before `counts_until`, by the largest amount that was signed for its nonce.
        """
        seen = self.overview(Lookup(now=now, budget=budget, max_price=max_price))
        return seen.sums.spending(seen.limits)

    def submit(self, change: Submit) -> LedgerRow | None:
        """Write down a signature and claim its payment. None, and nothing is written, if another call was faster.

        In one transaction: the purchase must still be as the call saw it, and recipient, secret, wallet and budgets
        must allow it. Replies that were collected are deleted after `rules.KEPT` seconds, some at a time.

        Raises:
            PaymentRefusedError: `purchase_changed`, `recipient_changed`, `purchase_secret_changed`,
                `insufficient_funds`, `no_budget`, `over_budget` or `over_total`. The signature is not written down, and
                must not be sent.
            LedgerError: the ledger cannot be written.
        """
        payment, is_first = change.payment, False  # of the recipients of the service

        def step(db: Transaction) -> LedgerRow | PaymentRefusedError | None:
            nonlocal is_first
            seen = self._overview(db, change.lookup)
            if abs(ahead := self._engine.ahead) > MAX_AHEAD:
                side = f"{abs(ahead)} s {'behind' if ahead > 0 else 'ahead of'} that of {self._engine.shown}"
                problem = f"this machine's clock is {side}, and budgets go by it"
                raise PaymentRefusedError(problem, code="clock_difference")
            after = change(seen)
            if not isinstance(after, LedgerRow):
                return after
            is_first = bool(after.settings) and rules.recipients_of(payment.origin) in after.settings
            return self._save(db, seen.row, after, (sql.FORGET, (seen.lookup.now - rules.KEPT,)))

        def late() -> Late:
            return self._late(payment.id, payment.signatures + 1, change.undo())

        result = self._engine.run(step, write=True, owner=change.owner, late=late)
        if isinstance(result, PaymentRefusedError):  # raised here, as an error in the step ends a connection
            raise result
        if is_first:
            text = "%(address)s is remembered as the recipient of %(url)s; another one is refused"
            url = printable(payment.origin, 300)
            event("recipient_remembered", text, level=logging.INFO, address=payment.pay_to, url=url)
        return result

    def update(self, payment_id: str, change: LedgerChange, row: LedgerRow | None = None) -> LedgerRow:
        """Make a change in one transaction, and return the row then.

        `row`: as the call has it. If the payment has not changed since, it is not read first.

        The end of a call that cannot be written is, later: the row has it, and says why it is `unwritten`.

        Raises:
            PaymentError: the change is refused, and nothing has changed.
            LedgerError: the ledger cannot be written, or has no payment with that id.
        """
        if row is None or change.owner is None or not isinstance(change, Record):
            return self._update(payment_id, change, row, change.consequence)
        try:
            return self._update(payment_id, change, row, errors.LATE)
        except BaseException as error:
            self._engine.late.append(self._late(payment_id, row.payment.signatures, change))
            if not isinstance(error, LedgerError):
                raise
            ledger_failed(error, payment_id)
            return replace(change(row), revision=UNWRITTEN, unwritten=error)

    def _update(self, payment_id: str, change: LedgerChange, row: LedgerRow | None, consequence: str) -> LedgerRow:
        written: LedgerRow | None = None

        def late() -> Late | None:
            undo = None if row is None else change.undo(row)
            return None if row is None or undo is None else self._late(payment_id, row.payment.signatures, undo)

        run_step = partial(self._engine.run, write=True, owner=change.owner, late=late)
        if row is not None and change.run is None:

            def without_reading(db: Transaction) -> LedgerRow:
                nonlocal written
                db.expect(sql.SAME_ROW, (payment_id, row.revision))
                written = self._save(db, row, after)
                return written

            try:
                after = change(row)
                return run_step(without_reading, consequence)
            except (StaleRowError, PaymentError):
                pass  # apply it to the row that is there

        def step(db: Transaction) -> LedgerRow:
            rows, *run = db.read(
                (sql.BY_ID, (payment_id,)), *([(sql.BY_RUN, (change.run, payment_id))] if change.run else [])
            )
            before = found = self._row(rows[0]) if rows else None
            if row is not None and (found is None or found.payment.signatures < row.payment.signatures):
                found = row  # the database was restored from a backup since
            if found is None:
                what = f"payment {printable(without_keys(payment_id), 60)} is no longer in the ledger"
                raise LedgerError(what, code="ledger_failed", hint="another ledger may have taken its place")
            if written is not None and found == written:  # it is written; only the response was lost
                return written
            if run:
                found = replace(found, run=sql.run_sum(run[0]))
            return self._save(db, before, change(found))

        return run_step(step, consequence)

    def _late(self, payment_id: str, signatures: int, change: LedgerChange) -> Late:
        """A change to write later, unless the payment was signed again since."""

        def step(db: Transaction) -> None:
            (rows,) = db.read((sql.BY_ID, (payment_id,)))
            if rows and (found := self._row(rows[0])).payment.signatures == signatures:
                self._save(db, found, change(found))

        return Late(payment_id, signatures, change, step)

    def _save(self, db: Transaction, before: LedgerRow | None, after: LedgerRow, *more: Statement) -> LedgerRow:
        """Write a new row or the changes of one, add to the sums, and write settings and what `more` there is."""
        payment, had, claim = after.payment, None, {"owner": after.owner, "until": after.until + self._engine.ahead}
        revision = 0
        if before is not None:
            # Random, so that after a backup was restored, an equal revision means equal content.
            had, revision = before.payment, randbits(62)
            if (after.owner, after.until) == (before.owner, before.until):
                claim = {}
        if payment.header is not None and not self._engine.is_marked:
            self._engine.mark(db)
        statements = sql.saved(had, payment, claim, revision)
        if before is not None and not statements:
            revision = before.revision
        for name, value in after.settings.items():
            if value is None:
                statements.append((sql.NOT_EMPTY, (name, f"{payment.id} %")))
            else:
                statements.append((sql.SET_SETTING, (name, value)))
        db.write(*statements, *more)
        return replace(after, settings={}, revision=revision)

    def _row(self, row: Row) -> LedgerRow:
        owner, until, revision = row[len(sql.COLUMNS) :]
        return LedgerRow(sql.payment_of(row), owner, until - self._engine.ahead, revision)

    def _seen(self, row: Row) -> LedgerRow:
        """A row, with the changes that are not written yet."""
        found = self._row(row)
        for late in self._engine.late:
            if (late.payment_id, late.signatures) == (found.payment.id, found.payment.signatures):
                found = replace(late.change(found), revision=UNWRITTEN)
        return found

    def setting(self, name: str) -> str | None:
        """A setting of the ledger."""
        return self._engine.run(lambda db: _setting(db, name))

    def set_setting(self, name: str, change: Callable[[str | None], str]) -> None:
        """Set a setting to the result of a pure function of its value."""

        def step(db: Transaction) -> None:
            db.write((sql.SET_SETTING, (name, change(_setting(db, name)))))

        self._engine.run(step, errors.NOTHING_CHANGED, write=True)

    def check(self) -> None:
        """Read the whole ledger, and compare its sums with its payments.

        Raises:
            LedgerError: it is damaged or cannot be read.
        """

        def read(db: Transaction) -> None:
            everything = sql.NEWEST, (_NEWEST, _NEWEST)
            *found, payments, sums = db.read(*self._engine.checks, everything, (sql.ALL_SUMS, ()))
            problems = [str(text) for rows in found for (text,) in rows if text != "ok"]
            if wrong := sql.wrong_sums(map(sql.payment_of, payments), sums):
                problems.append(f"{wrong} sums are not those of its payments")
            if problems:
                raise self._engine.damaged("; ".join(problems))

        self._engine.run(read)
        self.spending(Budget.unlimited(), now=rules.END)

    def close(self) -> None:
        """Close the file or connection. The next use opens it again. A ledger in memory keeps its content.

        Changes that calls could not write are tried once more. What still cannot be written is lost with the process;
        the payment is then as it was when it was sent.
        """
        if self._engine.late:
            try:
                self._engine.run(lambda db: None, errors.LATE, write=True)  # what is late is written first
            except LedgerError as problem:
                for late in self._engine.late:
                    ledger_failed(problem, late.payment_id)
        self._engine.close()


def _setting(db: Transaction, name: str) -> str | None:
    (rows,) = db.read((sql.SETTINGS, ()))
    return sql.read(rules.by_name, rows).get(name)
