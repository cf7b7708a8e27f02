"""The ledger: all payments and budgets in one SQLite file, shared by threads and processes."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..._http.request import seconds
from ..._system.clock import SystemClock
from ..._values.payment import GRACE, Payment, PaymentStage
from ...errors import InvalidArgumentError, LedgerError, PaymentRefusedError
from ..budget import Budget, Spending
from . import errors, rules
from . import schema as sql
from .changes import LedgerChange, LedgerRow
from .opening import default_path, mark_signed, open_file, open_memory
from .rules import Reservation
from .settings import BUDGET, addresses, recipients_of

if TYPE_CHECKING:
    from typing import Self

_NEWEST = 2**63 - 1
_SUMS = ("last_hour", "held_last_hour", "today", "held_today", "total", "held")
"""In the order of the statements."""


class Ledger:
    """A `LedgerStore` in a SQLite file. The file has mode 0600, as it holds signed payments.

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
        if path is not None and (not isinstance(path, str | os.PathLike) or os.fspath(path) in ("", ":memory:")):
            raise InvalidArgumentError("path must name a file; for a ledger without one use Ledger.memory()")
        timeout = seconds("timeout", timeout, most=3600)
        self.path: Path | None = (default_path() if path is None else Path(path)).absolute()
        """The file; None for a ledger in memory."""
        self._file = LedgerFile(os.fspath(self.path), sync=sync, timeout=timeout)

    @classmethod
    def memory(cls) -> Ledger:
        """A ledger in memory: for this process only, and gone with the object."""
        ledger = cls.__new__(cls)
        ledger.path = None
        ledger._file = LedgerFile(None, sync=False, timeout=10.0)
        return ledger

    def __repr__(self) -> str:
        if "path" not in vars(self):
            return "<Ledger, not initialized>"
        return "Ledger.memory()" if self.path is None else f"Ledger({os.fspath(self.path)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a ledger cannot be copied or pickled: open its path again")

    def find(self, fingerprint: str, *, now: float, since: float = 0.0) -> Payment | None:
        """The newest payment for the same purchase that a call continues, or whose answer it gets.

        A named purchase is found forever. Without a name, one that was `created` after `since` or may still be taken;
        and an answered one whose answer arrived less than 60 seconds before `now` and was not collected.
        """
        with self._file.reading() as db:
            row = _find(db, fingerprint, now, since)
        return None if row is None else row.payment

    def get(self, payment_id: str) -> Payment | None:
        """The payment with this id, or None."""
        with self._file.reading() as db:
            row = _one(db, sql.BY_ID, (payment_id,))
        return None if row is None else row.payment

    def history(
        self,
        *,
        stages: Sequence[PaymentStage] = (),
        unproven: bool = False,
        limit: int = 100,
        before: str | None = None,
    ) -> list[Payment]:
        """Payments at some stages or all, newest first; `before` is the id of the last payment of the previous page.

        With `unproven` only those without any proof, paid or unpaid.

        Raises:
            InvalidArgumentError: the limit is below 1, or there is no payment with the id `before`.
        """
        if limit < 1:
            raise InvalidArgumentError("limit must be 1 or more")
        with self._file.reading() as db:
            seq, limit = _NEWEST, min(limit, _NEWEST)
            if before is not None:
                row = db.execute(sql.SEQ, (before,)).fetchone()
                if row is None:
                    raise errors.no_payment(before)
                seq = row[0]
            if not stages and not unproven:
                return _every(db, sql.NEWEST, (seq, limit))
            wanted = sorted({stage.value for stage in stages or PaymentStage})
            each = [value for stage in wanted for value in (stage, seq, limit)]
            return _every(db, sql.newest_of(len(wanted), unproven=unproven), (*each, limit))

    def spending(self, budget: Budget, *, now: float, run: str | None = None) -> Spending:
        """What is spent and held, and what `budget` and the store's own budget leave; with `run`, by that batch run.

        A payment counts in the last hour if it may be taken after `now - 3600`, and today if it may be taken after
        midnight UTC: until `counts_until`, by the largest amount that was signed for its nonce.
        """
        with self._file.reading() as db:
            return _spending(db, budget, now) if run is None else _run_spending(db, run, now)

    def reserve(self, wanted: Reservation) -> tuple[Payment, bool]:
        """Reserve an amount, and claim its payment, unless another payment blocks the same purchase.

        Returns the payment, and whether it is reserved for the owner. An earlier payment for the same purchase that can
        be signed again is reserved again: it keeps its id, its nonce, and its terms until `Submit`. If the purchase is
        answered, returns that payment with its reply. `LedgerStore.reserve` has the order of the steps.

        Raises:
            PaymentRefusedError: `recipient_changed`, `no_budget`, `over_budget` or `over_total`.
            LedgerError: the ledger cannot be written.
        """
        payment, now = wanted.payment, wanted.now
        with self._file.writing(errors.NOTHING_SENT, wanted.owner) as db:
            db.execute(sql.FORGET, (now - rules.KEPT,))
            found = _find(db, payment.fingerprint, now, wanted.since)
            earlier = None if found is None else found.payment
            if (
                found is not None
                and earlier is not None
                and not (rules.is_signable(earlier, wanted.over) and found.is_free_for(wanted.owner, now))
            ):
                return earlier, False
            again = wanted.of(earlier)
            known = [] if wanted.pay_to else addresses(_setting(db, recipients_of(payment.origin)))
            refusal = rules.recipient_refusal(
                payment.pay_to, origin=payment.origin, configured=wanted.pay_to, known=known
            ) or _budget_refusal(db, wanted, again, earlier)
            if refusal is None:
                _save(db, found, LedgerRow(again, wanted.owner, wanted.until))
        if refusal is not None:
            raise refusal
        return again, True

    def update(self, payment_id: str, change: LedgerChange) -> LedgerRow:
        """Make a change in one transaction, and return the row then.

        Raises:
            PaymentError: the change is refused, and nothing has changed.
            LedgerError: the ledger cannot be written, or has no payment with that id.
        """
        with self._file.writing(change.consequence, change.owner) as db:
            row = _one(db, sql.BY_ID, (payment_id,))
            if row is None:
                raise errors.gone(payment_id, change.consequence, "its file may have been replaced by another one")
            settings = {name: value for name in change.reads(row.payment) if (value := _setting(db, name)) is not None}
            run = None if change.run is None else _run_spending(db, change.run, change.now)
            row = LedgerRow(row.payment, row.owner, row.until, settings, run)
            after = change(row)
            if after.payment.header is not None:
                self._file.mark_signed(change.consequence)
            for name, value in after.settings.items():
                if row.settings.get(name) != value:
                    db.execute(sql.SET_SETTING, (name, value))
            return after if after == row else _save(db, row, after)

    def setting(self, name: str) -> str | None:
        """A setting of the ledger."""
        with self._file.reading() as db:
            return _setting(db, name)

    def set_setting(self, name: str, change: Callable[[str | None], str | None]) -> None:
        """Set a setting to what a pure function makes of it; None removes it."""
        with self._file.writing(errors.NOTHING_CHANGED) as db:
            value = change(_setting(db, name))
            if value is None:
                db.execute(sql.REMOVE_SETTING, (name,))
            else:
                db.execute(sql.SET_SETTING, (name, value))

    def check(self) -> None:
        """Read the whole file.

        Raises:
            LedgerError: it is damaged or cannot be read.
        """
        with self._file.reading() as db:
            problems = [str(row[0]) for row in db.execute("PRAGMA integrity_check(3)")]
            if problems != ["ok"]:
                raise DamagedRowError("; ".join(problems))
            _every(db, sql.NEWEST, (_NEWEST, _NEWEST))

    def close(self) -> None:
        """Close the file. The next use opens it again. A ledger in memory keeps its content."""
        self._file.close()


def _one(db: sqlite3.Connection, statement: str, values: Sequence[object] | Mapping[str, object]) -> LedgerRow | None:
    """The first row that a statement finds."""
    # No local name: rows hold signed payments, and tracebacks may show locals.
    return next(map(_row, db.execute(statement, values)), None)


def _find(db: sqlite3.Connection, fingerprint: str, now: float, since: float) -> LedgerRow | None:
    """The payment that blocks another one for the purchase, or has its answer."""
    after, until = rules.reply_window(now)
    values = {"fingerprint": fingerprint, "since": since, "over": now - GRACE, "after": after, "until": until}
    return _one(db, sql.FIND, values)


def _every(db: sqlite3.Connection, statement: str, values: Sequence[object]) -> list[Payment]:
    """All payments that a statement finds."""
    return [row.payment for row in map(_row, db.execute(statement, values))]


def _save(db: sqlite3.Connection, before: LedgerRow | None, after: LedgerRow) -> LedgerRow:
    """Write a new row, or one that has changed."""
    if before is None:
        db.execute(sql.ADD, [*sql.to_row(after.payment), after.owner, after.until])
    else:
        db.execute(sql.SAVE, [*sql.to_row(after.payment), after.owner, after.until, after.payment.id])
    (old, old_held), (new, new_held) = (
        rules.signed(None if before is None else before.payment),
        rules.signed(after.payment),
    )
    if (new, new_held) != (old, old_held):
        db.execute(sql.COUNT, (new - old, new_held - old_held))
    return after


def _budget_refusal(
    db: sqlite3.Connection, wanted: Reservation, again: Payment, earlier: Payment | None
) -> PaymentRefusedError | None:
    """Why a reservation has no room in a budget: `again` in place of `earlier`."""
    amount, now, run = wanted.payment.amount, wanted.now, wanted.payment.run
    spent_by_run = None if run is None else _run_spending(db, run, now)
    spending = _spending(db, wanted.budget, now)
    if earlier is not None:
        if spent_by_run is not None:
            own = earlier if earlier.run == run else replace(earlier, counted=0, reserved=0)
            spent_by_run = rules.spending_before(again, amount, own, spent_by_run, now)
        spending = rules.spending_before(again, amount, earlier, spending, now)
    refusal = rules.total_refusal(amount, wanted.max_total, spent_by_run)
    if refusal is not None:
        return refusal
    # Closed here: a raised refusal would keep its SELECT open, and with it an old state of the file.
    with closing(_counted(db, now, spending.budget, earlier)) as counted:
        return rules.budget_refusal(amount, spending, now=now, counted=counted, has_total=wanted.max_total is not None)


def _spending(db: sqlite3.Connection, budget: Budget, now: float) -> Spending:
    """What is spent at `now`, and what `budget` and the stored budget leave."""
    limits = budget.strictest(Budget.from_json(_setting(db, BUDGET)))
    sums = _sums(db, sql.SPENT, sql.TOTALS, now)
    if limits.release == "service":
        sums = [
            one - less for one, less in zip(sums, _sums(db, sql.SPENT_RELEASED, sql.TOTALS_RELEASED, now), strict=True)
        ]
    spending = Spending(**dict(zip(_SUMS, sums, strict=True)), budget=limits)
    return rules.with_reservations(spending, _every(db, sql.RESERVED, (now - GRACE,)), now)


def _sums(db: sqlite3.Connection, spent: str, totals: str, now: float) -> list[int]:
    """What counts in the last hour, today and in total, each with the part that is held."""
    over = now - GRACE
    windows = (math.floor(now - rules.HOUR) + 1, now // rules.DAY * rules.DAY)  # `counts_until` is a whole number
    rows = [db.execute(spent, {"since": since, "over": over}).fetchone() for since in windows]
    return [each for row in (*rows, db.execute(totals, {"over": over}).fetchone()) for each in row]


def _run_spending(db: sqlite3.Connection, run: str, now: float) -> Spending:
    """What the payments of a batch run count: `total` and `held`."""
    total, held = db.execute(sql.SPENT_BY_RUN, (run,)).fetchone()
    spending = replace(rules.reserved(0), total=total, held=held)
    mine = [payment for payment in _every(db, sql.RESERVED, (now - GRACE,)) if payment.run == run]
    return rules.with_reservations(spending, mine, now)


def _counted(
    db: sqlite3.Connection, now: float, limits: Budget, without: Payment | None
) -> Generator[tuple[float, int], None, None]:
    """Until when the payments of the last hour and of today may be taken, and their amounts, without one."""
    reserved = {one.id: one for one in _every(db, sql.RESERVED, (now - GRACE,))}
    apart = {*reserved, *([] if without is None else [without.id])}
    for payment_id, until, amount in db.execute(
        sql.COUNTED_SERVICE if limits.release == "service" else sql.COUNTED,
        {"since": min(now - rules.HOUR, now // rules.DAY * rules.DAY), "over": now - GRACE},
    ):
        if payment_id not in apart:
            yield until, amount
    for one in reserved.values():
        if without is None or one.id != without.id:
            yield one.reserved_until, one.reserved


def _setting(db: sqlite3.Connection, name: str) -> str | None:
    found = db.execute(sql.SETTING, (name,)).fetchone()
    return None if found is None else str(found[0])


def _row(row: Sequence[Any]) -> LedgerRow:
    try:
        return LedgerRow(sql.to_payment(row[:-2]), *row[-2:])
    except (ValueError, TypeError) as error:
        problem = str(error)
    del row  # a traceback that shows locals would show the signed payment
    raise DamagedRowError(problem)


# The file: one connection per process, safe over threads and forks


class DamagedRowError(Exception):
    """A row that no release writes."""


class LedgerFile:
    """The connection to the file, one per process and opened at first use; one thread uses it at a time.

    Without a path it is in memory.
    """

    def __init__(self, path: str | None, *, sync: bool, timeout: float) -> None:
        self._path = path
        self._shown = path or "in memory"
        self._sync = sync
        self._timeout = timeout
        self._lock = threading.Lock()
        self._busy = -1
        self._waited: set[str] = set()
        """Owners that have waited a whole timeout for a lock that is still held: they don't wait again."""
        self._db: sqlite3.Connection | None = None
        self._opened: tuple[int, int, bool] | None = None
        self._real = ""
        self._marked = False
        self._process = os.getpid()
        with _FILES_LOCK:
            _FILES.add(self)

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """A read transaction: one state of the file, while others may write."""
        return self._transaction("BEGIN", errors.NOTHING_SENT)

    def writing(self, consequence: str, owner: str | None = None) -> AbstractContextManager[sqlite3.Connection]:
        """A write transaction of the call `owner`, synced at its end. If the block raises, nothing has changed.

        Raises:
            LedgerError: it failed; `consequence` says what that means for the call.
        """
        return self._transaction("BEGIN IMMEDIATE", consequence, owner)

    @contextmanager
    def _transaction(self, begin: str, consequence: str, owner: str | None = None) -> Iterator[sqlite3.Connection]:
        if self._process != os.getpid() and (self._path is None or self._db is not None):
            raise errors.failed(
                self._shown,
                "it belongs to the process that forked this one",
                consequence,
                "processes can share a file: open its path in each of them",
            )
        held: list[threading.Lock] = []
        deadline = SystemClock.monotonic() + (0 if owner in self._waited else self._timeout)
        try:
            try:
                try:
                    held += [self._lock] if self._lock.acquire(timeout=_left(deadline)) else []
                    if not held:
                        raise errors.locked(self._shown, consequence)
                    db = self._open(consequence, deadline)
                    self._end(db)  # a signal handler may have prevented the end of the last one
                    db.execute(begin)
                    if owner is not None:
                        self._waited.clear()
                    self._same_version(db, consequence)
                    yield db
                    db.execute("COMMIT")
                finally:
                    if held and self._db is not None:
                        self._end(self._db)
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY:
                    self._close()  # a connection that was opened read-only stays so
                raise errors.from_sqlite(error, self._shown, consequence) from error
            except DamagedRowError as error:
                raise errors.damaged(self._shown, str(error), consequence) from error
            except (OverflowError, UnicodeError) as error:
                raise errors.failed(self._shown, str(error), consequence) from error
            finally:
                while held:
                    held.pop().release()
        except BaseException as error:  # a signal handler may have raised before the release
            while held:
                held.pop().release()
            if owner is not None and isinstance(error, LedgerError) and error.code == "ledger_locked":
                self._waited.add(owner)
            raise

    def _end(self, db: sqlite3.Connection) -> None:
        if db.in_transaction:
            db.execute("ROLLBACK")

    def mark_signed(self, consequence: str) -> None:
        """Before the first signed payment is written: create the mark that reveals a missing ledger."""
        if self._path is not None and not self._marked:
            try:
                mark_signed(self._real, sync=self._sync)
            except OSError as error:
                raise errors.from_os(error, self._shown, consequence) from error
            self._marked = True

    def close(self) -> None:
        """Close the file. A ledger in memory stays."""
        with self._lock:
            self._close()
            self._opened = None

    def _open(self, consequence: str, deadline: float) -> sqlite3.Connection:
        if self._path is None:
            if self._db is None:
                self._db = open_memory()
                weakref.finalize(self, self._db.close)
            return self._db
        if self._opened is not None and (found := _identity(self._path)) != self._opened:
            # An empty file in its place, or an older copy, would not know what is spent.
            what = "removed" if found is None else "replaced" if found[-1] else "emptied"
            raise errors.failed(
                self._shown,
                f"the file was {what} while it was in use",
                consequence,
                "restore it, or restart this program",
            )
        if self._db is None:
            self._process = os.getpid()
            self._real = os.path.realpath(self._path)
            self._marked = False
            self._db = open_file(self._real, sync=self._sync, timeout=_left(deadline), consequence=consequence)
            self._opened = _identity(self._path)
            self._busy = -1
        busy = math.ceil(_left(deadline) * 1000)
        if busy != self._busy:
            self._db.execute(f"PRAGMA busy_timeout = {busy}")
            self._busy = busy
        return self._db

    def _close(self) -> None:
        if self._db is not None and self._path is not None:
            db, self._db = self._db, None
            db.close()

    def _same_version(self, db: sqlite3.Connection, consequence: str) -> None:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version > sql.VERSION:  # made by a newer release
            raise errors.newer(self._shown, version, sql.VERSION, consequence)


def _left(deadline: float) -> float:
    return max(0.0, deadline - SystemClock.monotonic())


def _identity(path: str) -> tuple[int, int, bool] | None:
    """The identity of a file, and whether it has content; None when it is missing."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size > 0


# A connection must not cross a fork: the child would treat the parent's locks as its own and could destroy the parent's
# writes. So every file is closed before a fork, and each process opens it again when it needs it.
_FILES_LOCK = threading.Lock()
_FILES: weakref.WeakSet[LedgerFile] = weakref.WeakSet()
_held: list[LedgerFile] = []


def _before_fork() -> None:
    _FILES_LOCK.acquire()
    for file in list(_FILES):
        file._lock.acquire()
        _held.append(file)
        file._close()


def _after_fork() -> None:
    while _held:
        _held.pop()._lock.release()
    if _FILES_LOCK.locked():  # not locked in the child of a fork that did not run the hook before it
        _FILES_LOCK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
