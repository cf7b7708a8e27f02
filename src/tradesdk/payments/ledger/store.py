"""The ledger: all payments and budgets in one database, shared by threads and processes."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from secrets import randbits
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from ..._fleet.server import SCHEMA, Row, server
from ..._http.arguments import file_path, flags, seconds
from ..._values.frames import hides_locals
from ..._values.payment import Payment, PaymentStage, possible_ends
from ...errors import InvalidArgumentError, PaymentError, PaymentRefusedError
from ..budget import Budget, Spending
from . import errors, rules
from . import schema as sql
from .changes import LedgerChange, LedgerRow
from .engine import DamagedRowError, Engine, StaleRowError, Transaction
from .opening import default_path
from .rules import Reservation
from .settings import BUDGET, addresses, by_name, recipients_of
from .sqlite import SqliteEngine

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")

_NEWEST = 2**63 - 1
_MOST_KNOWN = 1000  # payments under way
MAX_AHEAD = 60
"""Seconds by which this machine's clock may differ from the database's: budgets of an hour and a day go by it."""


@dataclass(frozen=True, slots=True)
class Overview:
    """What a call knows before it requests anything.

    Attributes:
        payment: the earlier payment that `Ledger.find` finds.
        spending: what is spent and held, and what the budgets leave.
        run: the same of the call's batch run, to which each payment belongs that it ever handed over.
        settings: settings by name.
    """

    payment: Payment | None
    spending: Spending
    run: Spending | None
    settings: Mapping[str, str]


class Ledger:
    """Payments and settings in a SQLite file, which has mode 0600, as it holds signed payments.

    The file is created and opened at first use. Every method that changes something returns after it is synced. Threads
    may share one ledger, processes may share a file; a forked child opens the file for itself. A crash at any moment
    leaves each step done or not done, never half done.

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
            raise InvalidArgumentError("path must name a file; for a ledger without one use Ledger.memory()")
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
        place = server(url, schema)
        from .postgres import PostgresEngine  # needs psycopg, an extra

        return cls._over(PostgresEngine(place, timeout=timeout))

    @classmethod
    def _over(cls, engine: Engine) -> Self:
        ledger = cls.__new__(cls)
        ledger.path = None
        ledger._use(engine)
        return ledger

    def _use(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, LedgerRow] = {}

    def __repr__(self) -> str:
        engine = getattr(self, "_engine", None)  # a debugger may show one that could not be made
        if engine is None:
            return "<Ledger>"
        return f"<Ledger {engine.shown}>" if self.path is None else f"Ledger({os.fspath(self.path)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def find(self, fingerprint: str, *, now: float, since: float = 0.0) -> Payment | None:
        """The newest payment for the same purchase that a call continues, or whose answer it gets.

        None that was never signed, unless a call may be about to. With a name any other, forever. Without a name:

        - any that has no answer, unless a person says that it was paid, and `created` at `since` or later, or live, but
          for one that ends later than any can, as a clock was ahead;
        - answered, while its answer `waits`, and if it was `updated` after `now - 60`. One `updated` more than 5
          seconds after `now` is ignored: the clock was set back since.
        """
        return self._engine.run(lambda db: _first(db.read(_finding(fingerprint, now, since))))

    def get(self, payment_id: str) -> Payment | None:
        """The payment with this id, or None."""
        return self._engine.run(lambda db: _first(db.read((sql.BY_ID, (payment_id,)))))

    def history(
        self,
        *,
        stages: Sequence[PaymentStage] = (),
        unproven: bool = False,
        limit: int = 100,
        before: str | None = None,
    ) -> list[Payment]:
        """Payments at some stages or all, newest first; `before` is the id of the last payment of the previous page.

        With `unproven` only those without any proof: `paid` is None.

        Raises:
            InvalidArgumentError: the limit is below 1, or there is no payment with the id `before`.
        """
        flags(unproven=unproven)
        if limit < 1:
            raise InvalidArgumentError("limit must be 1 or more")

        def read(db: Transaction) -> list[Payment]:
            seq, most = _NEWEST, min(limit, _NEWEST)
            if before is not None:
                (found,) = db.read((sql.SEQ, (before,)))
                if not found:
                    raise errors.no_payment(before)
                seq = found[0][0]
            if not stages and not unproven:
                (rows,) = db.read((sql.NEWEST, (seq, most)))
            else:
                wanted = sorted({stage.value for stage in stages or PaymentStage})
                statement, parts = sql.newest_of(len(wanted), unproven=unproven)
                each = [value for stage in wanted for value in (stage, seq, most) * parts]
                (rows,) = db.read((statement, (*each, most)))
            return [_payment(row) for row in rows]

        return self._engine.run(read)

    def overview(
        self,
        fingerprint: str,
        budget: Budget,
        *,
        now: float,
        since: float = 0.0,
        max_price: int | None = None,
        run: str | None = None,
    ) -> Overview:
        """What `find` and `spending` return, and the settings, in one read."""
        accounts = _Accounts(budget, now, max_price)
        by_run = [] if run is None else [(sql.BY_RUN, (run, ""))]

        def read(db: Transaction) -> Overview:
            rows, *more = db.read(_finding(fingerprint, now, since), *by_run, *accounts.statements)
            spending = accounts.read(more[len(by_run) :]).spending
            of_run = None if run is None else _of_run(more[0], accounts.reserved, run, now)
            return Overview(_first([rows]), spending, of_run, accounts.settings)

        return self._engine.run(read)

    def spending(self, budget: Budget, *, now: float, max_price: int | None = None) -> Spending:
        """What is spent and held, and what `budget` and the ledger's own budget leave.

        `max_price` of a call, in micro-dollars, is one more limit, and does not change what counts.
        A payment counts in the last hour if it may be taken after `now - 3600`, and today if it may be taken after
        midnight UTC: before `counts_until`, by the largest amount that was signed for its nonce.
        """
        accounts = _Accounts(budget, now, max_price)
        return self._engine.run(lambda db: accounts.read(db.read(*accounts.statements)).spending)

    def reserve(self, wanted: Reservation) -> tuple[Payment, bool]:
        """Reserve an amount, and claim its payment.

        Returns the payment, and whether it is reserved for the owner: else it is another one for the same purchase. In
        this order:

        1. Replies that were collected are deleted after `rules.KEPT` seconds, some at a time. Reservations that do not
           hold at `now` are deleted: should the clock be set back, they would hold again, and their room may be given
           away.
        2. If `find` finds an earlier payment, that one is returned, unless `rules.is_signable` and no other call has
           claimed it: then it is reserved (again), one nonce for one purchase. It keeps its terms until `Submit`.
        3. The recipient must be one of `pay_to`. If that is empty, it must be known for the origin; if none is known,
           any recipient is accepted.
        4. `max_total` for all payments that ever had its `run`, the budget and the ledger's own budget must all leave
           room for its amount, in all windows. For an earlier payment, `rules.spending_before` is what was spent
           before.

        Raises:
            PaymentRefusedError: `recipient_changed`, `no_budget`, `over_budget` or `over_total`. Nothing is reserved.
            LedgerError: the ledger cannot be written.
        """
        payment, now = wanted.payment, wanted.now
        accounts = _Accounts(wanted.budget, now, wanted.max_price)

        def step(db: Transaction) -> LedgerRow | Payment | PaymentRefusedError:
            rows, *more = db.read(_finding(payment.fingerprint, now, wanted.since), *accounts.statements)
            if abs(self._engine.ahead) > MAX_AHEAD:
                raise errors.clocks_differ(self._engine.shown, self._engine.ahead)
            if accounts.read(more).has_old:
                db.write(sql.FORGET, (now - rules.KEPT,))
            if accounts.has_void:
                db.write(sql.VOID, possible_ends(now))
            found, earlier = None, None
            if rows:
                found = self._row(rows[0])
                earlier = rules.kept_answer(rules.without_void(found.payment, now), now)
                if not (rules.is_signable(earlier, wanted.over) and found.is_free_for(wanted.owner, now)):
                    return earlier
                found = replace(found, payment=earlier)
            again = wanted.of(earlier)
            known = addresses(accounts.settings.get(recipients_of(payment.origin)))
            refusal = rules.recipient_refusal(
                payment.pay_to, origin=payment.origin, configured=wanted.pay_to, known=known
            ) or accounts.refusal(db, wanted, again, earlier)
            return refusal or self._save(db, found, LedgerRow(again, wanted.owner, wanted.until))

        result = self._engine.run(step, write=True, owner=wanted.owner)
        if isinstance(result, PaymentRefusedError):  # raised here, so that what is deleted stays so
            raise result
        if isinstance(result, Payment):
            return result, False
        self._remember(replace(result, settings=accounts.settings), wanted.owner)
        return result.payment, True

    def update(self, payment_id: str, change: LedgerChange) -> LedgerRow:
        """Make a change in one transaction that reads the row and what the change compares, and return the row then.

        Raises:
            PaymentError: the change is refused, and nothing has changed.
            LedgerError: the ledger cannot be written, or has no payment with that id.
        """
        known = self._known.get(payment_id)
        written: LedgerRow | None = None
        if known is not None and known.owner != change.owner:
            known = None
        if known is not None and change.run is None and known.settings.keys() >= set(change.reads()):

            def without_reading(db: Transaction) -> LedgerRow:
                nonlocal written
                db.expect(sql.SAME_ROW, (payment_id, known.revision))
                for name in change.reads():
                    db.expect(sql.SAME_SETTING, (name, known.settings[name]))
                written = self._save(db, known, after)
                return written

            try:
                after = change(known)
                row = self._engine.run(without_reading, change.consequence, write=True, owner=change.owner)
                return self._remember(row, change.owner)
            except (StaleRowError, PaymentError):
                pass  # the row decides

        def step(db: Transaction) -> LedgerRow:
            rows, settings = db.read((sql.BY_ID, (payment_id,)), (sql.SETTINGS, ()))
            named = _settings(settings)
            before = row = self._row(rows[0], named) if rows else None
            if known is not None and (row is None or row.payment.signatures < known.payment.signatures):
                row = replace(known, settings=named, revision=0)  # the database was set back since
            if row is None:
                raise errors.gone(payment_id)
            if row != written:  # else the answer was lost that it is written
                if change.run is not None:
                    sums, reserved = db.read((sql.BY_RUN, (change.run, payment_id)), (sql.RESERVED, ()))
                    holding = _holding(reserved, change.now)
                    row = replace(row, run=_of_run(sums, holding, change.run, change.now, without=payment_id))
                row = self._save(db, before, change(row))
            return row

        return self._remember(self._engine.run(step, change.consequence, write=True, owner=change.owner), change.owner)

    def _remember(self, row: LedgerRow, owner: str | None) -> LedgerRow:
        """Keep a row for the next change of the call that has claimed it, which then needs not read it first."""
        self._known.pop(row.payment.id, None)
        if row.owner is not None and row.owner == owner:
            if len(self._known) >= _MOST_KNOWN:  # of calls that ended without a last change
                self._known.clear()
            self._known[row.payment.id] = row
        return row

    def _save(self, db: Transaction, before: LedgerRow | None, after: LedgerRow) -> LedgerRow:
        """Write a new row, or what has changed of one; and what that counts."""
        payment = after.payment
        if payment.header is not None:
            self._engine.sign()
        known = {} if before is None else before.settings
        for name, value in after.settings.items():
            if known.get(name) != value:
                db.write(sql.SET_SETTING, (name, value))
        if before is None:
            db.write(sql.ADD, [*sql.to_row(payment), after.owner, after.until + self._engine.ahead])
        else:
            values = sql.changed(before.payment, payment)
            if (after.owner, after.until) != (before.owner, before.until):
                values |= {"owner": after.owner, "until": after.until + self._engine.ahead}
            # Random, so that one that is there after a backup was restored is that of the same content.
            after = replace(after, revision=randbits(62) if values else before.revision)
            if values:
                db.write(sql.save(tuple(values)), [*values.values(), after.revision, payment.id])
        if payment.run is not None and (before is None or payment.run != before.payment.run):
            db.write(sql.ADD_RUN, (payment.run, payment.id))
        old, new = _counted_on(before), _counted_on(after)
        if old != new:
            for day in sorted({*old, *new}):
                was, now = old.get(day, (0, 0)), new.get(day, (0, 0))
                db.write(sql.COUNT, (day, *(after - before for before, after in zip(was, now, strict=True))))
        return after

    def _row(self, row: Row, settings: Mapping[str, str] = MappingProxyType({})) -> LedgerRow:
        owner, until, revision = row[len(sql.COLUMNS) :]
        return LedgerRow(_payment(row), owner, until - self._engine.ahead, revision, settings)

    def setting(self, name: str) -> str | None:
        """A setting of the ledger."""
        return self._engine.run(lambda db: _setting(db, name))

    def set_setting(self, name: str, change: Callable[[str | None], str | None]) -> None:
        """Set a setting to what a pure function makes of it; None removes it."""

        def step(db: Transaction) -> None:
            value = change(_setting(db, name))
            if value is None:
                db.write(sql.REMOVE_SETTING, (name,))
            else:
                db.write(sql.SET_SETTING, (name, value))

        self._engine.run(step, errors.NOTHING_CHANGED, write=True)

    def check(self) -> None:
        """Read the whole ledger, and compare its sums by day with its payments.

        Raises:
            LedgerError: it is damaged or cannot be read.
        """

        def read(db: Transaction) -> None:
            *found, days = db.read(*self._engine.checks, (sql.WRONG_DAYS, ()))
            problems = [str(text) for rows in found for (text,) in rows if text != "ok"]
            if days:
                problems.append(f"the sums of {len(days)} days are not those of its payments")
            if problems:
                raise errors.damaged(self._engine.shown, "; ".join(problems))

        self._engine.run(read)
        self.history(limit=_NEWEST)
        self.spending(Budget.unlimited(), now=sql.END)

    def close(self) -> None:
        """Close the file or connection. The next use opens it again. A ledger in memory keeps its content."""
        self._engine.close()


class _Accounts:
    """What is spent at a moment, and the settings that matter for it, in one read."""

    def __init__(self, budget: Budget, now: float, max_price: int | None) -> None:
        self._budget, self._now, self._max_price = budget, now, max_price
        # Whole numbers, as the columns have them: PostgreSQL would use no index for others.
        self._hour, day = math.floor(now - rules.HOUR) + 1, math.floor(now // rules.DAY)
        self._midnight = day * rules.DAY + 1
        self.statements: list[tuple[str, Sequence[object]]] = [
            (sql.SETTINGS, ()),
            (sql.SUMS, (self._hour, day, day)),
            (sql.RESERVED, ()),
        ]

    def read(self, rows: Sequence[list[Row]]) -> Self:
        """Take the rows of the statements."""
        settings, (sums,), reserved = rows
        hour, held_in_hour, day, held_in_day, total, held = _whole(sums[:-1])
        collected = sums[-1] if sums[-1] is None else _read(partial(sql.checked, "updated"), sums[-1])
        self.settings = _settings(settings)
        limits = self._budget.strictest(Budget.from_json(self.settings.get(BUDGET)))
        if self._max_price is not None:
            limits = limits.strictest(Budget.from_micro({"per_call": self._max_price}))
        self.reserved = _holding(reserved, self._now)
        self.has_void = len(self.reserved) < len(reserved)
        self.has_old = collected is not None and collected < self._now - rules.KEPT
        signed = Spending(
            last_hour=hour,
            today=day,
            total=total,
            held=held,
            held_last_hour=held_in_hour,
            held_today=held_in_day,
            budget=limits,
        )
        self.spending = rules.with_reservations(signed, self.reserved, self._now)
        return self

    def refusal(
        self, db: Transaction, wanted: Reservation, again: Payment, earlier: Payment | None
    ) -> PaymentRefusedError | None:
        """Why a reservation has no room in a budget: `again` in place of `earlier`."""
        amount, spending, run = wanted.payment.amount, self.spending, wanted.payment.run
        others = None
        if run is not None:
            (sums,) = db.read((sql.BY_RUN, (run, again.id)))
            others = _of_run(sums, self.reserved, run, self._now, without=again.id)
        if earlier is not None:
            spending = rules.spending_before(again, amount, earlier, spending, self._now)
        return rules.total_refusal(again.reserved, wanted.max_total, others) or rules.budget_refusal(
            amount,
            spending,
            now=self._now,
            counted=self._counted(db, earlier),
            counts=again.reserved,
            has_total=wanted.max_total is not None,
        )

    def _counted(self, db: Transaction, without: Payment | None) -> Iterator[rules.Counted]:
        """The payments of the last hour and of today, without one."""
        (rows,) = db.read((sql.COUNTED, (min(self._hour, self._midnight),)))
        skipped = {one.id for one in self.reserved} | ({without.id} if without is not None else set())
        for payment_id, until, amount in rows:
            if payment_id not in skipped:
                _read(partial(sql.checked, "counts_until"), until)
                yield rules.Counted(until, amount)
        for one in self.reserved:
            if without is None or one.id != without.id:
                yield rules.Counted(one.reserved_until, one.reserved)


def _finding(fingerprint: str, now: float, since: float) -> tuple[str, Sequence[object]]:
    """The payment that blocks another one for the purchase, or has its answer."""
    ends = possible_ends(now)
    return sql.FIND, (fingerprint, *ends, since, *ends, *rules.reply_times(now))


def _holding(rows: Sequence[Row], now: float) -> list[Payment]:
    """The payments of rows whose reservation holds."""
    return [payment for row in rows if (payment := _payment(row)).is_reserved(now)]


def _of_run(by_run: Sequence[Row], reserved: Sequence[Payment], run: str, now: float, *, without: str = "") -> Spending:
    """What the payments that ever belonged to a batch run count, without one: `total` and `held`."""
    total, held = _whole(by_run[0])
    spending = replace(rules.reserved(0), total=total, held=held)
    return rules.with_reservations(spending, (one for one in reserved if one.run == run and one.id != without), now)


def _counted_on(row: LedgerRow | None) -> dict[int, tuple[int, int]]:
    """What a payment counts by its signatures, by its day."""
    if row is None or not row.payment.counted:
        return {}
    return {rules.last_day(row.payment.counts_until): rules.signed(row.payment)}


def _setting(db: Transaction, name: str) -> str | None:
    (rows,) = db.read((sql.SETTINGS, ()))
    return _settings(rows).get(name)


def _settings(rows: Sequence[Row]) -> dict[str, str]:
    return _read(by_name, rows)


def _first(found: Sequence[Sequence[Row]]) -> Payment | None:
    """The payment of the first row that a statement found."""
    (rows,) = found
    return _payment(rows[0]) if rows else None


def _payment(row: Row) -> Payment:
    return _read(sql.to_payment, row)


def _read(load: Callable[[Any], T], stored: Any) -> T:
    """What was read from the database; what no release writes is damage."""
    try:
        return load(stored)
    except (ValueError, RecursionError) as error:
        problem = str(error)
    raise DamagedRowError(problem)  # outside of the handler: its frames have what is stored


def _whole(sums: Sequence[Any]) -> list[int]:
    """Sums as integers; SQLite adds up whatever is in a column, to a float if not all of it is integers."""
    if any(isinstance(one, float) for one in sums):
        raise DamagedRowError("a sum is not a whole number")
    return list(map(int, sums))
