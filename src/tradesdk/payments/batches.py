"""Batches of tokens: their size, their price, and what the next one may cost. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Generic, TypeVar
from uuid import uuid4

from .._http.arguments import whole
from .._http.log_events import event
from .._market import MAX_BATCH, MarketRequest, TokenQuery
from .._values.money import show_usd, usd
from .._values.payment import Payment
from ..errors import APIError, PaymentError, PaymentRefusedError
from .budget import Usd, micro_usd
from .purchases import purchase_name
from .results import MarketResult

T = TypeVar("T")


@show_usd(spent="spent_usd")
@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Generic[T]):
    """One batch of a run.

    Attributes:
        number: its number in the run, from 1.
        count: the number of batches in the run.
        tokens: its tokens, as they were given.
        result: the data, and its payment.
        spent: micro-dollars that the run has spent so far.
        again: it was delivered to the same job before, or to another run of it, and cost nothing now.
    """

    number: int
    count: int
    tokens: tuple[str, ...]
    result: MarketResult[T]
    spent: int
    again: bool

    @property
    def data(self) -> T:
        """The data."""
        return self.result.data

    @property
    def spent_usd(self) -> Decimal:
        """Dollars that the run has spent so far."""
        return usd(self.spent)


_LOST = frozenset({"taken_elsewhere", "unresolved_payment", "already_delivered"})
"""Error codes of a named purchase that was paid for and whose answer no call gets (any more)."""


class BatchPlan(Generic[T]):
    """The batches of a run, its progress, and what it has spent. The ledger decides what `max_total` leaves."""

    def __init__(
        self,
        tokens: Sequence[TokenQuery],
        ask: Callable[[Sequence[TokenQuery]], MarketRequest[T]],
        *,
        size: int,
        job: str | None,
        max_price: Usd | None,
        max_total: Usd | None,
    ) -> None:
        size = whole("size", size, 1, MAX_BATCH)
        self.job = None if job is None else purchase_name(job, "job")
        self._max_price = None if max_price is None else micro_usd("max_price", max_price)
        self._max_total = None if max_total is None else micro_usd("max_total", max_total)
        self.tokens = tuple(one.identifier for one in tokens)
        self._size = size
        self._calls = [ask(tokens[at : at + size]) for at in range(0, len(tokens), size)]
        self.count = len(self._calls)
        self.passed_over: tuple[tuple[str, ...], ...] = ()
        """The tokens of each batch of the job that was skipped."""
        self._id = uuid4().hex  # the payments of this run carry it
        self._done = 0
        self._counted: dict[str, int] = {}

    def _call(self, number: int) -> MarketRequest[T]:
        # Symbols of later batches are looked up too: nothing is bought if the run cannot be finished.
        return replace(self._calls[number - 1], to_look_up=self.tokens[(number - 1) * self._size :])

    @property
    def amount(self) -> int:
        """The published price of all batches in micro-dollars."""
        return sum(call.price for call in self._calls)

    @property
    def price(self) -> Decimal:
        """The published price of all batches in dollars. Batches that a job already has cost nothing."""
        return usd(self.amount)

    @property
    def spent(self) -> int:
        """Micro-dollars spent so far, including failed payments that may have been taken."""
        return sum(self._counted.values())

    def _delivered(self, number: int, result: MarketResult[T]) -> Batch[T]:
        self._done = number
        self._see(result.payment)
        return Batch(
            number=number,
            count=self.count,
            tokens=self._calls[number - 1].to_look_up,
            result=result,
            spent=self.spent,
            again=result.again,
        )

    def _failed(self, number: int, error: BaseException) -> bool:
        """Note that batch `number` failed. Returns whether the run continues with the next one."""
        self._done = number - 1
        if isinstance(error, PaymentError | APIError) and not isinstance(error, PaymentRefusedError):
            self._see(error.payment)
        if self.job is None or not isinstance(error, PaymentError) or error.code not in _LOST:
            return False
        if error.code == "taken_elsewhere" and error.response is not None:
            return False  # its caller got the response and must know first
        self._done = number
        self.passed_over += (self._calls[number - 1].to_look_up,)
        payment_id = "" if error.payment is None else error.payment.id
        text = f"batch {number} of the job is passed over: %(reason)s"
        event("batch_passed_over", text, error, payment_id=payment_id)
        return True

    def _see(self, payment: Payment | None) -> None:
        if payment is not None and payment.run == self._id and payment.charged is not False:
            self._counted[payment.id] = payment.counted
