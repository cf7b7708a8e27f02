"""A ledger to which something happens at one of its calls, and what must be true of it and a service at any time."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

from tradesdk import Budget, Ledger, LedgerError, Payment, PaymentStage
from tradesdk.payments import ReasonCode
from tradesdk.payments.ledger.engine import Engine, Transaction

from ._paidservice import PRICE, PaidService
from ._payments import how

T = TypeVar("T")
READS = {"overview", "get", "history", "spending", "setting"}
STEPS = READS | {"submit", "update", "set_setting"}
BUDGET = Budget(total=Decimal(5 * PRICE) / 1_000_000)


class Stop(BaseException):
    """What Ctrl-C raises, and what nobody foresaw."""


class EventfulLedger(Ledger):
    """Before or after its call number `at`, counted from 1, `event` happens. `calls` has their names, and those of
    changes.

    With `lasting` it happens at all that write from there on. An error of the ledger happens to the database: before
    or after its transaction.
    """

    at = 0
    lasting = False
    after = False
    event: Callable[[], object] = staticmethod(lambda: None)
    calls: tuple[str, ...] = ()

    def _use(self, engine: Engine) -> None:
        self._engine, self._inner = engine, engine._run
        engine.blocks = True  # what happens may take long, so async clients call it in threads, as they do for a disk
        self._at_the_end = False
        self._broken: LedgerError | None = None
        engine._run = self._transaction  # type: ignore[method-assign]

    def _transaction(self, step: Callable[[Transaction], T], deadline: float, *, write: bool) -> T:
        if write and self.lasting and 0 < self.at < len(self.calls):
            self._happen()
            broken, self._broken = self._broken, None
            self._break(broken)
        self._break(self._broken)
        result = self._inner(step, deadline, write=write)
        if self._at_the_end:
            self._happen()
            self._break(self._broken)
        return result

    def _happen(self) -> None:
        try:
            self.event()
        except LedgerError as error:
            self._broken = error

    def _break(self, error: LedgerError | None) -> None:
        if error is not None:
            raise LedgerError(error.message, code=error.code)

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return partial(self._step, name, found) if name in STEPS else found

    def _step(self, name: str, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        called = type(args[1]).__name__.lower() if name == "update" else name
        self.calls = (*self.calls, called)
        number = len(self.calls)
        here = number == self.at or (self.lasting and 0 < self.at < number and name not in READS)
        if here and not self.after:
            self._happen()
        self._at_the_end = here and self.after
        try:
            result = call(*args, **options)
            if self._at_the_end and name == "send":  # no transaction has an end here
                self._happen()
            return result
        finally:
            self._at_the_end, self._broken = False, None

    def calm(self) -> None:
        """Nothing happens any more."""
        self.at, self.calls = 0, ()


def broken_disk() -> None:
    raise LedgerError("the disk is broken", code="ledger_failed")


def stop() -> None:
    raise Stop


def agree(service: PaidService, ledger: Ledger) -> None:
    """The ledger may know less than the service, and it may hold money back; it never says what is not true."""
    ledger.check()
    payments = {payment.nonce: payment for payment in ledger.history(limit=1000)[::-1]}
    assert service.authorizations.keys() <= payments.keys(), "handed over, and not written down"
    for nonce, payment in payments.items():
        if nonce in service.taken:
            assert payment.charged is not False, f"taken, and the ledger says {how(payment)}"
            assert payment.in_doubt or payment.stage in (PaymentStage.ANSWERED, PaymentStage.TAKEN), how(payment)
        elif payment.code is ReasonCode.UNDELIVERED or payment.charged is True:
            raise AssertionError(f"not taken, and the ledger says {how(payment)}")
        if nonce in service.authorizations:
            assert not payment.is_unsent or payment.code is ReasonCode.NOT_RECEIVED, how(payment)
    spending = ledger.spending(BUDGET, now=service.clock.now())
    assert service.total <= spending.total.counted
    assert BUDGET.total is not None
    assert spending.total.counted <= BUDGET.total


def paid_once(service: PaidService, ledger: Ledger) -> None:
    """Another nonce arrives only when what the one before had bought was delivered, and the ledger knew."""
    payments = [in_ledger(ledger, nonce) for nonce in service.authorizations]
    assert all(one.stage is PaymentStage.ANSWERED for one in payments[:-1]), list(map(how, payments))


def in_ledger(ledger: Ledger, nonce: str) -> Payment:
    return next(payment for payment in ledger.history(limit=1000) if payment.nonce == nonce)
