"""The ledger: all payments and budgets in one SQLite file, shared by threads and processes."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import weakref
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..._http.request import seconds
from ..._system.clock import SystemClock
from ..._values.payment import GRACE, Payment, PaymentState, Receipt, SignedHeader
from ...errors import InvalidArgumentError, LedgerError, PaymentRefusedError
from ..budget import Budget, Spending
from ..messages import purchase_secret_changed
from . import errors, rules
from . import schema as sql
from .leases import holds
from .opening import default_path, mark_signed, open_file, open_memory

if TYPE_CHECKING:
    from typing import Self

_NEWEST = 2**63 - 1
_SUMS = ("last_hour", "today", "held_last_hour", "held_today", "total", "held")


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
        """The newest payment for the same purchase that is not closed.

        A named purchase is found forever. Without a name, one that was `created` after `since` or may still be taken;
        and a delivered one whose `reply` arrived less than 60 seconds before `now` and was not collected.
        """
        with self._file.reading() as db:
            return _blocking(db, fingerprint, now, since)

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
        over: float,
        since: float = 0.0,
        max_total: int | None = None,
        now: float,
    ) -> tuple[Payment, bool]:
        """Reserve the amount of `payment` and claim it, unless another payment blocks the same purchase.

        Returns the payment, and whether it is reserved for `owner`. An earlier payment for the same purchase that can
        be signed again is reserved again: it keeps its id, its nonce, and its terms until `submit`. If the purchase is
        delivered, returns that payment with its reply. `LedgerStore.reserve` has the order of the steps. A refusal
        closes expired payments and changes nothing else.

        Raises:
            PaymentRefusedError: `recipient_changed`, `no_budget`, `over_budget` or `over_total`.
            LedgerError: the ledger cannot be written.
            InvalidArgumentError: the payment is not RESERVED.
        """
        payment = rules.draft(payment, now=now)
        with self._file.writing(errors.NOTHING_SENT, owner) as db:
            _close_expired(db, expired, now, origin)
            db.execute(sql.FORGET, (now - rules.KEPT,))
            reserved, earlier = payment, _blocking(db, payment.fingerprint, now, since)
            if earlier is not None:
                if not rules.is_renewable(earlier, over) or _is_claimed(db, earlier.id, owner, now):
                    return earlier, False
                reserved = rules.renewed(earlier, payment)
            known = [] if pay_to else _trusted(db, origin)
            refusal = rules.recipient_refusal(payment.pay_to, origin=origin, configured=pay_to, known=known)
            if refusal is None:
                refusal = _budget_refusal(db, payment, reserved, earlier, budget, max_total, now)
            if refusal is None:
                _save(db, earlier, reserved)
                db.execute(sql.CLAIM, (owner, until, reserved.id))
        if refusal is not None:
            raise refusal
        return reserved, True

    def submit(
        self,
        payment: Payment,
        header: SignedHeader,
        *,
        pay_to: Sequence[str] = (),
        owner: str | None = None,
        secret_id: str | None = None,
        now: float,
    ) -> Payment:
        """Write down the signed payment with its terms: RESERVED becomes SUBMITTED, with one more submission.

        Its recipient and the purchase secret are remembered only now: a payment that is never signed changes neither.
        After an error it must not be sent.

        Raises:
            PaymentRefusedError: `reservation_lost`: it is no longer RESERVED, or no longer claimed by `owner` (None:
                anyone). `recipient_changed`, `purchase_secret_changed`: another one was remembered meanwhile.
            LedgerError: the ledger cannot be written.
        """
        with self._file.writing(errors.NOTHING_SENT, owner) as db:
            stored = _need(db, payment.id, errors.NOTHING_SENT)
            rules.check_submittable(stored, owner=owner, holder=_holder(db, payment.id))
            payment = rules.with_terms(stored, payment)
            if not pay_to:
                known = _trusted(db, payment.origin)
                rules.check_recipient(payment, known)
                if not known:
                    db.execute(sql.TRUST, (payment.origin, payment.pay_to, now))
            if secret_id is not None:
                found = db.execute(sql.SECRET_ID, (payment.payer,)).fetchone()
                if found is not None and found[0] != secret_id:
                    raise purchase_secret_changed(payment.payer, found[0], secret_id)
                db.execute(sql.SET_SECRET_ID, (payment.payer, secret_id))
            self._file.mark_signed(errors.NOTHING_SENT)
            return _save(db, stored, rules.submitted(payment, header, now=now))

    def resubmit(
        self,
        payment_id: str,
        *,
        signatures: int,
        owner: str | None = None,
        run: str | None = None,
        max_total: int | None = None,
        now: float,
    ) -> tuple[Payment, bool]:
        """Count one more submission before it is sent: REJECTED_LIVE becomes SUBMITTED again.

        Returns the payment, and whether it may be sent. It may not, and nothing is counted, if it is no longer live,
        has another number of signatures, or is not claimed by `owner` (None: any). It moves to the batch `run`.

        Raises:
            PaymentRefusedError: `not_submitted`: it was never signed. `over_total`: the run has no room for it.
            LedgerError: the ledger cannot be written.
        """
        with self._file.writing(errors.NOT_RESENT, owner) as db:
            payment = _need(db, payment_id, errors.NOT_RESENT)
            is_own = owner is None or _holder(db, payment_id) == owner
            again = rules.resubmitted(payment, signatures=signatures, is_own=is_own, now=now)
            if again is None:
                return payment, False
            if run is not None and run != payment.run:
                refusal = rules.total_refusal(rules.counts(again)[0], max_total, _run_spending(db, run))
                if refusal is not None:
                    raise refusal
                again = replace(again, run=run)
            return _save(db, payment, again), True

    def settle(
        self,
        payment_id: str,
        state: PaymentState,
        *,
        reason: str = "",
        receipt: Receipt | None = None,
        reply: bytes | None = None,
        submissions: int | None = None,
        settle_failed: int | None = None,
        signatures: int | None = None,
        owner: str | None = None,
        now: float,
    ) -> Payment:
        """Move a payment to `state` and return it. Fields that are None stay, and so does a receipt of success.

        In a final state nothing changes unless the same state is given again. Two exceptions: DELIVERED and
        PAID_UNDELIVERED overrule states of expiry and MARKED_UNPAID, and DELIVERED overrules PAID_UNDELIVERED and
        SUSPECT_PAID. CANCELLED ends a reservation that `owner` (None: anyone) has claimed, or its signature that was
        never sent: one that was signed before is as it was before. With another number of `signatures` than
        when it was sent, only DELIVERED and PAID_UNDELIVERED change it; REJECTED_LIVE only while `owner` has it.
        The reply of a payment that becomes DELIVERED is kept until it is collected.

        Raises:
            LedgerError: the ledger cannot be written. Submissions stay as they are.
        """
        with self._file.writing(errors.NOT_WRITTEN_DOWN, owner) as db:
            payment = _need(db, payment_id, errors.NOT_WRITTEN_DOWN)
            report = rules.Report(
                state=state,
                reason=reason,
                receipt=receipt,
                reply=reply,
                submissions=submissions,
                settle_failed=settle_failed,
                signatures=signatures,
            )
            after = rules.settled(payment, report, owner=owner, holder=_holder(db, payment_id), now=now)
            if after is None:
                return payment
            if rules.keeps_answer(payment, after, reply):
                db.execute(sql.KEEP, (payment_id,))
            return _save(db, payment, after)

    def mark(
        self, payment_id: str, *, paid: bool, evidence: str = "", signatures: int | None = None, now: float
    ) -> Payment:
        """Mark a payment without proof as paid or unpaid, on the word of a person or of the chain.

        `LedgerStore.mark` explains the arguments.

        Raises:
            PaymentRefusedError: `not_unresolved`: its outcome is known, it may still be taken, or it was signed again.
            InvalidArgumentError: there is no payment with that id.
        """
        with self._file.writing(errors.NOTHING_CHANGED) as db:
            payment = _one(db, sql.BY_ID, (payment_id,))
            if payment is None:
                raise errors.no_payment(payment_id)
            after = rules.marked(payment, paid=paid, evidence=evidence, signatures=signatures, now=now)
            return _save(db, payment, after)

    def claim(self, payment_id: str, *, owner: str, until: float, now: float) -> bool:
        """Claim a payment for at most 300 seconds; False while the claim of another owner is in force.

        Raises:
            InvalidArgumentError: there is no payment with that id.
        """
        with self._file.writing(errors.NOTHING_SENT, owner) as db:
            if db.execute(sql.CLAIMED, (payment_id,)).fetchone() is None:
                raise errors.no_payment(payment_id)
            if _is_claimed(db, payment_id, owner, now):
                return False
            db.execute(sql.CLAIM, (owner, until, payment_id))
            return True

    def collect(self, payment_id: str, *, owner: str, keep: bool = False) -> None:
        """Note that the caller has the answer of a delivered payment. Releases the claim.

        The reply is kept, for 30 days, only with `keep` or for a named purchase. No other unnamed call gets it.
        """
        with self._file.writing(errors.NOT_COLLECTED, owner) as db:
            db.execute(sql.COLLECT, {"id": payment_id, "keep": keep})
            db.execute(sql.GIVE_BACK, (payment_id, owner))

    def reopen(self, payment_id: str, *, owner: str, reply: bytes) -> None:
        """Undo `collect`: the next equal call gets the answer. Releases the claim."""
        with self._file.writing(errors.ANSWER_MAY_BE_LOST, owner) as db:
            db.execute(sql.REOPEN, (reply, payment_id))
            db.execute(sql.GIVE_BACK, (payment_id, owner))

    def give_back(self, payment_id: str, *, owner: str) -> None:
        """Release the claim of `owner`. The claims of others stay."""
        with self._file.writing(errors.CLAIM_STAYS, owner) as db:
            db.execute(sql.GIVE_BACK, (payment_id, owner))

    def expire(self, at: float, *, now: float, origin: str | None = None) -> list[Payment]:
        """Close payments that have expired at `at` (the service's time in Unix seconds). Returns them, oldest first.

        With `origin` (`https://host`) only payments for that service, whose time it is.
        """
        with self._file.writing(errors.NOTHING_CHANGED) as db:
            return _close_expired(db, at, now, origin)

    def get(self, payment_id: str) -> Payment | None:
        """The payment with this id, or None."""
        with self._file.reading() as db:
            return _one(db, sql.BY_ID, (payment_id,))

    def history(
        self,
        *,
        states: Sequence[PaymentState] = (),
        unproven: bool = False,
        limit: int = 100,
        before: str | None = None,
    ) -> list[Payment]:
        """Payments in some states or all, newest first; `before` is the id of the last payment of the previous page.

        With `unproven` only those that nothing proves to be paid: no receipt, chain or person.

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
            if not states and not unproven:
                return _every(db, sql.NEWEST, (seq, limit))
            wanted = sorted({state.value for state in states or PaymentState})
            each = [value for state in wanted for value in (state, seq, limit)]
            return _every(db, sql.newest_of(len(wanted), unproven=unproven), (*each, limit))

    def spending(self, budget: Budget, *, now: float) -> Spending:
        """What is spent and held, and what `budget` and the store's own budget leave.

        A payment counts in the last hour if it may be taken after `now - 3600`, and today if it may be taken after
        midnight UTC: until `counts_until`, by the largest amount that was signed for its nonce.
        """
        with self._file.reading() as db:
            return _spending(db, budget, now)

    def run_spending(self, run: str) -> Spending:
        """What the payments of a batch run count: `total` and `held`; its other fields are 0."""
        with self._file.reading() as db:
            return _run_spending(db, run)

    def budget(self) -> Budget:
        """The store's own budget."""
        with self._file.reading() as db:
            return sql.to_budget(db.execute(sql.BUDGET).fetchone())

    def set_budget(self, budget: Budget) -> None:
        """Replace the store's own budget; `Budget()` removes it."""
        with self._file.writing(errors.NOTHING_CHANGED) as db:
            db.execute(sql.SET_BUDGET, sql.budget_row(budget))

    def trusted(self, origin: str) -> list[str]:
        """The known recipients of an origin, remembered or trusted, oldest first."""
        with self._file.reading() as db:
            return _trusted(db, origin)

    def trust(self, origin: str, address: str, *, now: float) -> None:
        """Add a trusted recipient for an origin. Addresses are compared without regard to case."""
        with self._file.writing(errors.NOTHING_CHANGED) as db:
            db.execute(sql.TRUST, (origin, address, now))

    def purchase_secret(self, payer: str) -> str | None:
        """The id of the secret for a payer's named purchases, if there are any."""
        with self._file.reading() as db:
            found = db.execute(sql.SECRET_ID, (payer,)).fetchone()
        return None if found is None else str(found[0])

    def set_purchase_secret(self, payer: str, secret_id: str) -> None:
        """Replace that id."""
        with self._file.writing(errors.NOTHING_CHANGED) as db:
            db.execute(sql.SET_SECRET_ID, (payer, secret_id))

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


def _need(db: sqlite3.Connection, payment_id: str, consequence: str) -> Payment:
    payment = _one(db, sql.BY_ID, (payment_id,))
    if payment is None:
        raise errors.gone(payment_id, consequence, "its file may have been replaced by another one")
    return payment


def _one(db: sqlite3.Connection, statement: str, values: Sequence[object] | Mapping[str, object]) -> Payment | None:
    """The first payment that a statement finds."""
    # No local name: rows hold signed payments, and tracebacks may show locals.
    return next(map(_payment, db.execute(statement, values)), None)


def _blocking(db: sqlite3.Connection, fingerprint: str, now: float, since: float = 0.0) -> Payment | None:
    """The payment that blocks another one for the call, or has its answer."""
    after, until = rules.reply_window(now)
    values = {"fingerprint": fingerprint, "since": since, "over": now - GRACE, "after": after, "until": until}
    return _one(db, sql.BLOCKING, values)


def _every(db: sqlite3.Connection, statement: str, values: Sequence[object]) -> list[Payment]:
    """All payments that a statement finds."""
    return list(map(_payment, db.execute(statement, values)))


def _save(db: sqlite3.Connection, before: Payment | None, after: Payment) -> Payment:
    """Write a new payment, or one that has changed."""
    if before is None:
        db.execute(sql.ADD, [*sql.to_row(after), None, 0])
    else:
        db.execute(sql.SAVE, [*sql.to_row(after), after.id])
    (old, old_held), (new, new_held) = rules.counts(before), rules.counts(after)
    if (new, new_held) != (old, old_held):
        db.execute(sql.COUNT, (new - old, new_held - old_held))
    return after


def _budget_refusal(
    db: sqlite3.Connection,
    payment: Payment,
    reserved: Payment,
    earlier: Payment | None,
    budget: Budget,
    max_total: int | None,
    now: float,
) -> PaymentRefusedError | None:
    """Why a reservation has no room in a budget: `reserved` for `payment`, in place of `earlier`."""
    run = _run_spending(db, payment.run or "")
    spending = _spending(db, budget, now)
    if earlier is not None:
        own = earlier if payment.run and earlier.run == payment.run else replace(earlier, counted=0)
        run = rules.spending_before(reserved, payment.amount, own, run, now)
        spending = rules.spending_before(reserved, payment.amount, earlier, spending, now)
    refusal = rules.total_refusal(payment.amount, max_total, run)
    if refusal is not None:
        return refusal
    # Closed here: a raised refusal would keep its SELECT open, and with it an old state of the file.
    with closing(_counted(db, now, spending.budget, earlier)) as counted:
        return rules.budget_refusal(payment.amount, spending, now=now, counted=counted, has_total=max_total is not None)


def _close_expired(db: sqlite3.Connection, at: float, now: float, origin: str | None) -> list[Payment]:
    """Close payments that have expired at `at`, for one origin or all."""
    dead = at - GRACE
    expired = (
        _every(db, sql.EXPIRING, (dead,)) if origin is None else _every(db, sql.EXPIRING_OF, (origin, origin, dead))
    )
    return [_save(db, payment, rules.expired(payment, now=now)) for payment in expired]


def _spending(db: sqlite3.Connection, budget: Budget, now: float) -> Spending:
    """What is spent at `now`, and what `budget` and the stored budget leave."""
    limits = budget.strictest(sql.to_budget(db.execute(sql.BUDGET).fetchone()))
    moments = {"hour": now - rules.HOUR, "today": now // rules.DAY * rules.DAY}
    moments["since"] = min(moments.values())
    sums = [*db.execute(sql.SPENT, moments).fetchone(), *db.execute(sql.TOTALS).fetchone()]
    if limits.release == "service":
        released = [*db.execute(sql.SPENT_RELEASED, moments).fetchone(), *db.execute(sql.TOTALS_RELEASED).fetchone()]
        sums = [one - less for one, less in zip(sums, released, strict=True)]
    return Spending(**dict(zip(_SUMS, sums, strict=True)), budget=limits)


def _run_spending(db: sqlite3.Connection, run: str) -> Spending:
    total, held = db.execute(sql.SPENT_BY_RUN, (run,)).fetchone()
    return replace(Spending(**dict.fromkeys(_SUMS, 0), budget=Budget()), total=total, held=held)


def _counted(
    db: sqlite3.Connection, now: float, limits: Budget, without: Payment | None
) -> Generator[tuple[float, int], None, None]:
    """Until when the payments of the last hour and of today may be taken, and their amounts, in order, without one."""
    since = min(now - rules.HOUR, now // rules.DAY * rules.DAY)
    for payment_id, until, amount in db.execute(
        sql.COUNTED_SERVICE if limits.release == "service" else sql.COUNTED, (since,)
    ):
        if without is None or payment_id != without.id:
            yield until, amount


def _holder(db: sqlite3.Connection, payment_id: str) -> str | None:
    holder: str | None = db.execute(sql.CLAIMED, (payment_id,)).fetchone()[0]
    return holder


def _is_claimed(db: sqlite3.Connection, payment_id: str, owner: str, now: float) -> bool:
    """Whether another owner has claimed it."""
    holder, until = db.execute(sql.CLAIMED, (payment_id,)).fetchone()
    return holder is not None and holder != owner and holds(holder, until, now=now)


def _trusted(db: sqlite3.Connection, origin: str) -> list[str]:
    """The known recipients of an origin, oldest first."""
    return [row[0] for row in db.execute(sql.TRUSTED, (origin,))]


def _payment(row: Sequence[Any]) -> Payment:
    try:
        return sql.to_payment(row)
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
