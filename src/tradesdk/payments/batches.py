"""Batches of tokens: what they are, what they cost, what the next one may cost. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Generic, TypeVar

from .._http.request import optional_text, wrong_argument
from .._market import MAX_BATCH, MarketRequest, TokenQuery, price
from .._values.money import show_usd, shown_usd, usd
from .._values.payment import Payment
from ..errors import APIError, BudgetDetails, PaymentError, PaymentRefusedError
from .money import Usd, micro_usd
from .purchases import purchase_name
from .results import MarketResult

T = TypeVar("T")


@show_usd("spent")
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


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """A batch before it is bought.

    Attributes:
        tokens: its tokens.
        call: the request for them.
    """

    tokens: tuple[str, ...]
    call: MarketRequest[T]

    @property
    def amount(self) -> int:
        """Its published price in micro-dollars."""
        return price(self.call.request.path, self.call.tokens or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """The options of a run, checked.

    Attributes:
        size: tokens per batch.
        job: the name under which the ledger keeps the answers.
        max_price: micro-dollars that one batch may cost.
        max_total: micro-dollars that the run may spend.
        new_purchase: the id of an earlier payment for one of the batches, which is bought again.
    """

    size: int
    job: str | None
    max_price: int | None
    max_total: int | None
    new_purchase: str | None = None

    @classmethod
    def of(
        cls,
        size: int,
        job: str | None,
        max_price: Usd | None,
        max_total: Usd | None,
        new_purchase: str | None = None,
    ) -> BatchOptions:
        """Check the options of a caller."""
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MAX_BATCH:
            raise wrong_argument("size", f"a whole number from 1 to {MAX_BATCH}", size)
        return cls(
            size=size,
            job=purchase_name(job, "job"),
            max_price=None if max_price is None else micro_usd("max_price", max_price),
            max_total=None if max_total is None else micro_usd("max_total", max_total),
            new_purchase=optional_text("new_purchase", new_purchase),
        )


class BatchPlan(Generic[T]):
    """The batches of a run, its progress, and what it has spent.

    Args:
        tokens: all tokens, without duplicates.
        ask: makes the request for some of them.
        options: the caller's options.
    """

    def __init__(
        self,
        tokens: Sequence[TokenQuery],
        ask: Callable[[Sequence[TokenQuery]], MarketRequest[T]],
        options: BatchOptions,
    ) -> None:
        names = tuple(one.identifier for one in tokens)
        self.parts: list[Part[T]] = []
        for at in range(0, len(tokens), options.size):
            # Symbols of later batches are looked up too: nothing is bought if the run cannot be finished.
            call = replace(ask(tokens[at : at + options.size]), to_look_up=names[at:])
            self.parts.append(Part(names[at : at + options.size], call))
        self.options = options
        self.done = 0
        self._paid: dict[str, int] = {}
        # The payment ids of the newest batch, and of one that is tried again: that payment costs nothing more.
        self._newest = self._again = ""

    @property
    def amount(self) -> int:
        """The published price of all batches in micro-dollars."""
        return sum(part.amount for part in self.parts)

    @property
    def spent(self) -> int:
        """Micro-dollars spent, including failed payments that may have been taken."""
        return sum(self._paid.values())

    def most(self, part: Part[T]) -> int | None:
        """Micro-dollars that a batch may cost now; None if only the client's limits apply.

        Raises:
            PaymentRefusedError: `over_total`: it would exceed `max_total`.
        """
        most, total = self.options.max_price, self.options.max_total
        if total is not None:
            room = total - self.spent + self._paid.get(self._again, 0)
            if part.amount > room:
                raise PaymentRefusedError(
                    f"the next batch costs {shown_usd(part.amount)}, and max_total={shown_usd(total)} leaves "
                    f"{shown_usd(max(room, 0))}",
                    code="over_total",
                    hint="to continue, call again with a higher max_total=; with job= nothing is paid for twice",
                    details=BudgetDetails(
                        cost=usd(part.amount),
                        limit="max_total",
                        limit_amount=usd(total),
                        spent=usd(self.spent),
                        left=usd(max(room, 0)),
                    ),
                )
            most = min(room, part.amount if most is None else most)
        return most

    def failed(self, error: BaseException, *, resends: bool) -> None:
        """Count the payment of a failed batch, as it may have been taken. Each payment counts once.

        A refusal took nothing: a payment on it is an earlier one. With `resends`, the next attempt sends this payment
        again, or asks what became of it; otherwise it may make another one.
        """
        if isinstance(error, PaymentError | APIError) and not isinstance(error, PaymentRefusedError):
            if resends and error.payment is not None:  # first: a Ctrl-C after the next line must find it
                self._again = error.payment.id
            self._add(error.payment)

    def delivered(self, number: int, result: MarketResult[T]) -> Batch[T]:
        """The result of batch `number` (from 1)."""
        self.done, self._newest, self._again = number, self._again, ""
        if not result.again:
            self._add(result.payment)
            self._newest = "" if result.payment is None else result.payment.id
        return Batch(
            number=number,
            count=len(self.parts),
            tokens=self.parts[number - 1].tokens,
            result=result,
            spent=self.spent,
            again=result.again,
        )

    def undo(self, number: int) -> None:
        """Note that batch `number` did not reach the caller. The next attempt gets its answer without paying."""
        if self.done == number:
            self.done, self._again = self.done - 1, self._newest

    def _add(self, payment: Payment | None) -> None:
        if payment is None or payment.charged is False:
            return
        self._paid[payment.id] = payment.amount
