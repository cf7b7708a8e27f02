"""The ledger: every payment and every budget, in one SQLite file that threads and processes share."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..._values.payment import GRACE, LIVE, Payment, PaymentState, Receipt, SignedHeader, newer_receipt
from ..._values.text import printable, without_keys
from ...errors import InvalidArgumentError, LedgerError, PaymentRefusedError
from ..budget import Budget, Spending
from . import errors, rules
from . import schema as sql
from .leases import holds
from .opening import default_path, mark_signed, open_file, open_memory

if TYPE_CHECKING:
    from typing import Self

_NEWEST = 2**63 - 1


class Ledger:
    """A `LedgerStore` in a SQLite file, mode 0600: it holds signed payments.

    It is made and opened at first use, and every method that changes something has it synced when it returns. Threads
    may share one ledger, processes a file; a forked child opens the file for itself. After a crash at any moment it
    holds each step whole or not at all.

    Args:
        path: the file; without one `ledger.sqlite3` in `TRADE_HOME`, or else in the platform's folder for data.
        sync: False leaves out the syncing, for tests and benchmarks: a power cut may then undo what was written.
        timeout: seconds to wait for another thread or process that writes.

    Raises:
        InvalidArgumentError: a path or a timeout that cannot be used.
        ConfigError: no path, and there is no home folder.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, sync: bool = True, timeout: float = 10.0) -> None:
        if path is not None and os.fspath(path) in ("", ":memory:"):
            raise InvalidArgumentError("path must name a file; Ledger.memory() makes a ledger without one")
        if not 0 <= timeout <= 3600:
            raise InvalidArgumentError("timeout must be seconds from 0 to 3600")
        self.path: Path | None = (default_path() if path is None else Path(path)).absolute()
        """The file; None for a ledger in memory."""
        self._file = _LedgerFile(os.fspath(self.path), sync=sync, timeout=timeout)

    @classmethod
    def memory(cls) -> Ledger:
        """A ledger that lives in this process only, as long as the object: no child and no second run knows of it."""
        ledger = cls.__new__(cls)
        ledger.path = None
        ledger._file = _LedgerFile(None, sync=False, timeout=10.0)
        return ledger

    def __repr__(self) -> str:
        if "path" not in vars(self):
            return "<Ledger that could not be made>"
        return "Ledger.memory()" if self.path is None else f"Ledger({os.fspath(self.path)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a ledger cannot be copied or pickled: open its path once more")

    def find(self, fingerprint: str, *, now: float) -> Payment | None:
        """The newest payment for a call that stands in the way of another: live or unresolved, and not superseded.

        Or a delivered one without a job, with its `reply`, that came less than 60 seconds before `now` and that nobody
        has collected.
        """
        with self._file.reading() as db:
            return _standing(db, fingerprint, now)

    def reserve(
        self,
        payment: Payment,
        budget: Budget,
        *,
        origin: str,
        pay_to: Sequence[str],
        owner: str,
        until: float,
        expired: float,
        now: float,
        new_purchase: bool = False,
    ) -> Payment:
        """Set the money of `payment` aside and claim it, unless another one for the same call stands in the way.

        When its job has paid for the same call already, or somebody has whose answer was not collected, the delivered
        payment is the result, with its reply.
        `LedgerStore.reserve` says in which order. `created` and `updated` become `now`. A refusal closes what has
        expired, and changes nothing else.

        Raises:
            PaymentRefusedError: `recipient_changed`, `no_budget` or `over_budget`.
            LedgerError: it cannot be written.
            InvalidArgumentError: the payment is not RESERVED.
        """
        if payment.state is not PaymentState.RESERVED:
            raise InvalidArgumentError("payment must be in state RESERVED")
        payment = replace(payment, created=now, updated=now, reason=sql.plain(payment.reason))
        with self._file.writing(errors.NOTHING_SENT) as db:
            _close_expired(db, expired, now, origin)
            if payment.job is not None and not new_purchase:
                delivered = _one(db, sql.DELIVERED, (payment.job, payment.fingerprint))
                if delivered is not None:
                    return delivered
            standing = _standing(db, payment.fingerprint, now)
            if standing is not None and not new_purchase:
                return standing
            known = [] if pay_to else _trusted(db, origin)
            refusal = rules.recipient_refusal(payment.pay_to, origin=origin, configured=pay_to, known=known)
            if refusal is None:
                refusal = rules.budget_refusal(
                    payment.amount,
                    _spending(db, budget, now),
                    now=now,
                    last_hour=_counted(db, now - rules.HOUR),
                )
            if refusal is None:
                db.execute(sql.ADD, [*sql.to_row(payment), int(now // 1), owner, until])
        if refusal is not None:
            raise refusal
        return payment

    def submit(self, payment_id: str, header: SignedHeader, *, pay_to: Sequence[str] = (), now: float) -> Payment:
        """Write the signed payment down: RESERVED becomes SUBMITTED, with one submission.

        Only now its recipient is remembered, and what stood before it for the same call is superseded: a payment that
        is never signed changes neither.

        Raises:
            PaymentRefusedError: `reservation_lost`: it is not RESERVED any more, and must not be sent.
                `recipient_changed`: another recipient has been remembered meanwhile; it must not be sent either.
            LedgerError: it cannot be written, and must not be sent.
        """
        with self._file.writing(errors.NOTHING_SENT) as db:
            payment = _need(db, payment_id, errors.NOTHING_SENT)
            if payment.state is not PaymentState.RESERVED:
                raise PaymentRefusedError(
                    "its reservation does not hold any more, so it was not sent",
                    code="reservation_lost",
                    hint="make the call again",
                    payment=payment,
                )
            if not pay_to:
                origin = payment.origin
                known = _trusted(db, origin)
                refusal = rules.recipient_refusal(payment.pay_to, origin=origin, configured=(), known=known)
                if refusal is not None:
                    refusal.payment = payment
                    raise refusal
                if not known:
                    db.execute(sql.TRUST, (origin, payment.pay_to, now))
            db.execute(sql.SUPERSEDE, (payment.fingerprint, payment.id))
            self._file.mark_signed(errors.NOTHING_SENT)
            return _change(db, payment, state=PaymentState.SUBMITTED, header=header, submissions=1, reason="", now=now)

    def resubmit(self, payment_id: str, *, now: float, job: str | None = None) -> Payment:
        """Count one more submission, before it happens: what was REJECTED_LIVE is SUBMITTED again.

        Without a job it becomes one of `job`. What is no longer live is returned as it is, and must not be sent.

        Raises:
            PaymentRefusedError: `not_submitted`: it has not been written down as signed.
            LedgerError: it cannot be written.
        """
        told = "the payment was not sent once more"
        with self._file.writing(told) as db:
            payment = _need(db, payment_id, told)
            if payment.state in (PaymentState.RESERVED, PaymentState.CANCELLED):
                raise PaymentRefusedError(
                    "it was never signed, so it cannot be sent", code="not_submitted", payment=payment
                )
            if not payment.live:
                return payment
            # From here on it may be taken, whatever was known before.
            state = PaymentState.SUBMITTED if payment.state is PaymentState.REJECTED_LIVE else payment.state
            return _change(
                db, payment, state=state, submissions=payment.submissions + 1, job=payment.job or job, now=now
            )

    def settle(
        self,
        payment_id: str,
        state: PaymentState,
        *,
        reason: str = "",
        receipt: Receipt | None = None,
        reply: bytes | None = None,
        submissions: int | None = None,
        now: float,
    ) -> Payment:
        """Move a payment on; the result is what it is then. What is None stays, and a receipt of success before others.

        A final state stays, and nothing else changes then, unless the same state is given once more. Two exceptions:
        proof of payment (DELIVERED, PAID_UNDELIVERED) counts for one that was taken for unpaid or unknown, and
        PAID_UNDELIVERED may still become DELIVERED. What is final has no `header` any more. The reply of what becomes
        DELIVERED waits until it is collected.

        Raises:
            LedgerError: it cannot be written; what has been handed over is not undone by that.
        """
        told = "what became of the payment is not written down"
        with self._file.writing(told) as db:
            payment = _need(db, payment_id, told)
            after = rules.state_after(payment.state, state)
            if after is not state:
                return payment
            if state is PaymentState.DELIVERED is not payment.state and reply is not None:
                db.execute(sql.KEEP, (payment_id,))
            return _change(
                db,
                payment,
                state=state,
                reason=sql.plain(reason) if reason or state is not payment.state else payment.reason,
                receipt=newer_receipt(payment.receipt, receipt),
                reply=payment.reply if reply is None else reply,
                submissions=payment.submissions if submissions is None else submissions,
                now=now,
            )

    def mark(self, payment_id: str, *, paid: bool, now: float) -> Payment:
        """What a person says of a payment that is unresolved (or live and expired).

        Raises:
            PaymentRefusedError: `not_unresolved`: its outcome is known, or it is still live.
            InvalidArgumentError: there is no payment of that id.
        """
        with self._file.writing(errors.NOTHING_CHANGED) as db:
            payment = _one(db, sql.BY_ID, (payment_id,))
            if payment is None:
                raise _no_payment(payment_id)
            if not rules.may_be_marked(payment, now):
                raise rules.not_unresolved(payment)
            state = PaymentState.MARKED_PAID if paid else PaymentState.MARKED_UNPAID
            return _change(db, payment, state=state, now=now)

    def claim(self, payment_id: str, *, owner: str, until: float, now: float) -> bool:
        """Claim a payment for at most 300 seconds; False while another owner has it whose claim holds.

        Raises:
            InvalidArgumentError: there is no payment of that id.
        """
        with self._file.writing(errors.NOTHING_SENT) as db:
            row = db.execute(sql.CLAIMED, (payment_id,)).fetchone()
            if row is None:
                raise _no_payment(payment_id)
            holder, held_until = row
            if holder is not None and holder != owner and holds(holder, held_until, now=now):
                return False
            db.execute(sql.CLAIM, (owner, until, payment_id))
            return True

    def collect(self, payment_id: str, *, owner: str, keep: bool = False, job: str | None = None) -> None:
        """Close the answer of a delivered payment: the caller has it, no other call gets it. The claim is given back.

        The reply is kept for a job only, which may be `job` from here on, or with `keep`.
        """
        with self._file.writing("the answer is not closed, and the claim stays until its time has passed") as db:
            db.execute(sql.COLLECT, {"id": payment_id, "keep": keep, "job": job})
            db.execute(sql.GIVE_BACK, (payment_id, owner))

    def reopen(self, payment_id: str, *, owner: str, reply: bytes) -> None:
        """Undo `collect`, or make it unnecessary: the next equal call gets the answer. The claim is given back."""
        with self._file.writing("the answer of the payment may be lost") as db:
            db.execute(sql.REOPEN, (reply, payment_id))
            db.execute(sql.GIVE_BACK, (payment_id, owner))

    def give_back(self, payment_id: str, *, owner: str) -> None:
        """Give a claim back. A claim of somebody else stays."""
        with self._file.writing("the claim stays until its time has passed") as db:
            db.execute(sql.GIVE_BACK, (payment_id, owner))

    def expire(self, at: float, *, now: float, origin: str | None = None) -> list[Payment]:
        """Close what has expired at `at` (the service's time in Unix seconds); what was closed, oldest first.

        With `origin` (`https://host`) only payments for that service, whose time it is.
        """
        with self._file.writing(errors.NOTHING_CHANGED) as db:
            return _close_expired(db, at, now, origin)

    def get(self, payment_id: str) -> Payment | None:
        """One payment; None when there is none of that id."""
        with self._file.reading() as db:
            return _one(db, sql.BY_ID, (payment_id,))

    def history(
        self, *, states: Sequence[PaymentState] = (), limit: int = 100, before: str | None = None
    ) -> list[Payment]:
        """Payments, newest first, of some states or all; `before` is the id of the last one of the page before.

        Raises:
            InvalidArgumentError: a limit below 1, or a `before` that is no payment here.
        """
        if limit < 1:
            raise InvalidArgumentError("limit must be 1 or more")
        with self._file.reading() as db:
            seq, limit = _NEWEST, min(limit, _NEWEST)
            if before is not None:
                row = db.execute(sql.SEQ, (before,)).fetchone()
                if row is None:
                    raise _no_payment(before)
                seq = row[0]
            if not states:
                return _every(db, sql.NEWEST, (seq, limit))
            wanted = sorted({sql.stored_state(state) for state in states})
            each = [value for state in wanted for value in (state, seq, limit)]
            return _every(db, sql.newest_of(len(wanted)), (*each, limit))

    def delivered(self, job: str, fingerprint: str) -> Payment | None:
        """The newest delivered payment of a job for a call whose `reply` was kept."""
        with self._file.reading() as db:
            return _one(db, sql.DELIVERED, (job, fingerprint))

    def spending(self, budget: Budget, *, now: float) -> Spending:
        """What is spent and reserved, and what `budget` and the store's own leave.

        The last hour is `now - 3600 < created`, today is `created` from midnight UTC on. What was created after `now`,
        by a clock that has been put back since, counts in both.
        """
        with self._file.reading() as db:
            return _spending(db, budget, now)

    def budget(self) -> Budget:
        """The store's own budget."""
        with self._file.reading() as db:
            return sql.to_budget(db.execute(sql.BUDGET).fetchone())

    def set_budget(self, budget: Budget) -> None:
        """Replace the store's own budget; `Budget()` takes it away."""
        with self._file.writing(errors.NOTHING_CHANGED) as db:
            db.execute(sql.SET_BUDGET, sql.budget_row(budget))

    def trusted(self, origin: str) -> list[str]:
        """The recipients that are remembered or trusted for an origin, oldest first."""
        with self._file.reading() as db:
            return _trusted(db, origin)

    def trust(self, origin: str, address: str, *, now: float) -> None:
        """Accept one more recipient for an origin. Addresses are compared without regard to case."""
        with self._file.writing(errors.NOTHING_CHANGED) as db:
            db.execute(sql.TRUST, (origin, address, now))

    def check(self) -> None:
        """Read all of the file: `LedgerError` when any of it is damaged."""
        with self._file.reading() as db:
            _check(db)

    def close(self) -> None:
        """Close what is open. It opens again when it is used again. A ledger in memory keeps what it knows."""
        self._file.close()


def _need(db: sqlite3.Connection, payment_id: str, told: str) -> Payment:
    payment = _one(db, sql.BY_ID, (payment_id,))
    if payment is None:
        raise LedgerError(
            f"payment {printable(without_keys(payment_id), 60)} is not in the ledger any more; {told}",
            code="ledger_failed",
            hint="was its file replaced by another one?",
        )
    return payment


def _no_payment(payment_id: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"there is no payment {printable(without_keys(payment_id), 60)} in this ledger")


class _DamagedRowError(Exception):
    """A row that none of our releases has written."""


def _one(db: sqlite3.Connection, statement: str, values: Sequence[object]) -> Payment | None:
    """The first payment that a statement finds."""
    return next(map(_payment, db.execute(statement, values)), None)  # rows hold signed payments: no name for one


def _standing(db: sqlite3.Connection, fingerprint: str, now: float) -> Payment | None:
    """What another payment for a call has to wait for, or need not be made for."""
    after, until = rules.young(now)
    found = db.execute(sql.STANDING, {"fingerprint": fingerprint, "after": after, "until": until})
    return next(map(_payment, found), None)


def _every(db: sqlite3.Connection, statement: str, values: Sequence[object]) -> list[Payment]:
    """The payments that a statement finds."""
    return list(map(_payment, db.execute(statement, values)))


def _change(db: sqlite3.Connection, payment: Payment, *, now: float, **changes: Any) -> Payment:
    """Write `changes` of a payment down. The signed payment is forgotten at its end."""
    state = changes.get("state", payment.state)
    if state is not payment.state:
        changes["updated"] = now
    if state not in LIVE:
        changes["header"] = None
    changed = replace(payment, **changes)
    db.execute(
        sql.CHANGE,
        (
            sql.stored_state(changed.state),
            changed.reason,
            sql.receipt_text(changed.receipt),
            changed.reply,
            changed.submissions,
            changed.header,
            changed.job,
            changed.updated,
            changed.id,
        ),
    )
    return changed


def _close_expired(db: sqlite3.Connection, at: float, now: float, origin: str | None) -> list[Payment]:
    """Close what has expired at `at`, of one origin or of all."""
    dead = at - GRACE
    expired = (
        _every(db, sql.EXPIRING, (dead,)) if origin is None else _every(db, sql.EXPIRING_OF, (origin, origin, dead))
    )
    return [
        _change(db, payment, state=rules.state_when_expired(payment.state), reason=_why(payment), now=now)
        for payment in expired
    ]


def _spending(db: sqlite3.Connection, budget: Budget, now: float) -> Spending:
    """What is spent at `now`, and what `budget` and the one that is stored leave."""
    since = now - rules.HOUR
    second = int(since // 1)
    last_hour, today, total, reserved = db.execute(
        sql.SPENT,
        {
            "since": since,
            "second": second,
            "minute": second // 60,
            "day": second // rules.DAY,
            "today": int(now // rules.DAY),
        },
    ).fetchone()
    own = sql.to_budget(db.execute(sql.BUDGET).fetchone())
    return Spending(last_hour=last_hour, today=today, total=total, reserved=reserved, budget=budget.strictest(own))


def _counted(db: sqlite3.Connection, since: float) -> Iterable[tuple[float, int]]:
    """Moments and amounts of what counts and is newer than `since`, oldest first."""
    return db.execute(sql.COUNTED, (since,))


def _trusted(db: sqlite3.Connection, origin: str) -> list[str]:
    """The recipients of an origin, oldest first."""
    return [row[0] for row in db.execute(sql.TRUSTED, (origin,))]


def _payment(row: Sequence[Any]) -> Payment:
    try:
        return sql.to_payment(row)
    except (ValueError, TypeError) as error:
        problem = str(error)
    del row  # here and in the frames of that error, a traceback would show the signed payment
    raise _DamagedRowError(problem)


def _why(payment: Payment) -> str:
    # RESERVED has no reason of its own; the others keep the word of the service.
    return payment.reason or ("expired before it was signed" if payment.state is PaymentState.RESERVED else "")


def _check(db: sqlite3.Connection) -> None:
    """Nothing, when the engine finds nothing wrong with the file, and every row of it can be read."""
    said = [str(row[0]) for row in db.execute("PRAGMA integrity_check(3)")]
    if said != ["ok"]:
        raise _DamagedRowError("; ".join(said))
    _every(db, sql.NEWEST, (_NEWEST, _NEWEST))


class _LedgerFile:
    """Opens at first use; `reading` and `writing` give the connection to one thread at a time. No path means memory."""

    def __init__(self, path: str | None, *, sync: bool, timeout: float) -> None:
        self._path = path
        self._shown = path or "in memory"
        self._sync = sync
        self._timeout = timeout
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._opened: tuple[int, int, bool] | None = None
        self._real = ""
        self._marked = False
        self._process = os.getpid()
        with _REGISTRY:
            _FILES.add(self)

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """One state of the file, while others may go on writing."""
        return self._transaction("BEGIN", errors.NOTHING_SENT)

    def writing(self, told: str) -> AbstractContextManager[sqlite3.Connection]:
        """All of the block or nothing, synced at its end. A block that raises has changed nothing.

        Raises:
            LedgerError: it cannot be done; `told` is said of the call.
        """
        return self._transaction("BEGIN IMMEDIATE", told)

    @contextmanager
    def _transaction(self, begin: str, told: str) -> Iterator[sqlite3.Connection]:
        if self._process != os.getpid() and (self._path is None or self._db is not None):
            raise errors.failed(
                self._shown,
                "it belongs to the process that this one was forked from",
                told,
                "use a file, which processes can share, and open it in each of them",
            )
        held: list[threading.Lock] = []
        try:
            try:
                try:
                    held += [self._lock] if self._lock.acquire(timeout=self._timeout) else []
                    if not held:
                        raise errors.locked(self._shown, told)
                    db = self._open(told)
                    self._end(db)  # a signal's handler may have kept the one before from its end
                    db.execute(begin)
                    self._same_version(db, told)
                    yield db
                    db.execute("COMMIT")
                finally:
                    if held and self._db is not None:
                        self._end(self._db)
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY:
                    self._close()  # what was opened like that stays so, even when the file may be written again
                raise errors.from_sqlite(error, self._shown, told) from error
            except _DamagedRowError as error:
                raise errors.damaged(self._shown, str(error), told) from error
            except (OverflowError, UnicodeError) as error:
                raise errors.failed(self._shown, str(error), told) from error
            finally:
                while held:
                    held.pop().release()
        except BaseException:  # a signal's handler may have raised before that was done
            while held:
                held.pop().release()
            raise

    def _end(self, db: sqlite3.Connection) -> None:
        if db.in_transaction:
            db.execute("ROLLBACK")

    def mark_signed(self, told: str) -> None:
        """Within `writing`: what is written now is a signed payment, so that the file is missed when it vanishes."""
        if self._path is not None and not self._marked:
            try:
                mark_signed(self._real, sync=self._sync)
            except OSError as error:
                raise errors.from_os(error, self._shown, told) from error
            self._marked = True

    def close(self) -> None:
        """Close the file. What is in memory has nothing to close: it goes with its owner."""
        with self._lock:
            self._close()
            self._opened = None

    def _open(self, told: str) -> sqlite3.Connection:
        if self._path is None:
            if self._db is None:
                self._db = open_memory()
                weakref.finalize(self, self._db.close)
            return self._db
        if self._opened is not None and (found := _identity(self._path)) != self._opened:
            # An empty one in its place, or an older copy, would forget what is spent.
            what = "removed" if found is None else "replaced by another one" if found[-1] else "emptied"
            raise errors.failed(
                self._shown, f"the file was {what} while it was in use", told, "put it back, or start again"
            )
        if self._db is None:
            self._process = os.getpid()
            self._real = os.path.realpath(self._path)
            self._marked = False
            self._db = open_file(self._real, sync=self._sync, timeout=self._timeout, told=told)
            self._db.execute(f"PRAGMA busy_timeout = {int(self._timeout * 1000)}")
            self._opened = _identity(self._path)
        return self._db

    def _close(self) -> None:
        if self._db is not None and self._path is not None:
            db, self._db = self._db, None
            db.close()

    def _same_version(self, db: sqlite3.Connection, told: str) -> None:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version > len(sql.MIGRATIONS):  # another process runs a newer release
            raise errors.newer(self._shown, version, len(sql.MIGRATIONS), told)


def _identity(path: str) -> tuple[int, int, bool] | None:
    """Which file it is, and whether there is anything in it."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size > 0


# A connection must not cross a fork: the child would take the parent's locks for its own, and could throw away what
# the parent has written. So every file is closed before a fork, and each process opens it again when it needs it.
_REGISTRY = threading.Lock()
_FILES: weakref.WeakSet[_LedgerFile] = weakref.WeakSet()
_held: list[_LedgerFile] = []


def _before_fork() -> None:
    _REGISTRY.acquire()
    for file in list(_FILES):
        file._lock.acquire()
        _held.append(file)
        file._close()


def _after_fork() -> None:
    while _held:
        _held.pop()._lock.release()
    if _REGISTRY.locked():  # it is not in the child of a fork that Python was not told of before
        _REGISTRY.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
