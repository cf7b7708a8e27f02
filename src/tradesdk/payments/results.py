"""What a call for market data gives: the data, what it cost, and how that was paid."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Generic, TypeVar

from .._values.money import usd
from .._values.payment import Charged, Payment, Receipt
from ..errors import TradeError
from .budget import Spending

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """What a call costs by the published prices, and what the budgets leave. Making one needs no key and no request.

    Attributes:
        path: the endpoint, such as `/v1/token-prices`.
        tokens: how many tokens are asked for; None where the price does not depend on it.
        amount: micro-dollars.
        spending: what is spent, and what the budgets leave.
    """

    path: str
    tokens: int | None
    amount: int
    spending: Spending

    @property
    def price(self) -> Decimal:
        """The price in dollars."""
        return usd(self.amount)

    @property
    def affordable(self) -> bool:
        """Whether the budgets leave enough. Without any budget nothing is paid but what `max_price=` allows."""
        left = self.spending.left
        return self.amount == 0 or (self.spending.budget.is_set and (left is None or self.amount <= left))


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketResult(Generic[T]):
    """What was asked for, and what it cost.

    Attributes:
        data: what was asked for.
        quote: the published price, and what the budgets left before the call.
        payment: the payment; None when the answer cost nothing.
        receipt: what the service said of the settlement; None when it said nothing.
        warnings: where the receipt disagrees with what was signed.
        again: it is an answer that the ledger kept: what it cost was paid before, and nothing was sent now.
        answered_at: when the answer came (aware, UTC): with `again` a while ago, and prices may have changed since.
    """

    data: T
    quote: Quote
    payment: Payment | None = None
    receipt: Receipt | None = None
    warnings: tuple[str, ...] = ()
    again: bool = False
    answered_at: datetime | None = None

    @property
    def charged(self) -> Charged:
        """Whether money was taken: True, False or "unknown"."""
        return False if self.payment is None else self.payment.charged


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """What would be signed. Nothing was, and nothing was reserved.

    Attributes:
        quote: the published price, and what the budgets leave.
        authorization: the fields that would be signed, as strings: `from`, `to`, `value` (micro-dollars), `validAfter`,
            `validBefore` (Unix seconds), `nonce`; None when the answer would cost nothing.
        requirement: the service's offer that would be taken, as it came; None when the answer would cost nothing.
        standing: an earlier payment for the same call, which would be handed over again instead of a new one being
            signed; `authorization` is then its, and `requirement` None. A delivered one has paid for an answer that
            nobody got: the call would give it, and nothing would be signed.
        refusal: why it would be refused; None when it would be paid.
    """

    quote: Quote
    authorization: dict[str, str] | None = None
    requirement: dict[str, Any] | None = None
    standing: Payment | None = None
    refusal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """What a reconciliation found.

    Attributes:
        delivered: answers that had been paid for and have now arrived.
        failed: payments that were handed over again, each with the error that came.
        released: payments that expired unpaid: their money is free again.
        unresolved: payments that a person has to look at, and then mark.
        live: payments that could still be taken; their money stays reserved. A `superseded` one was not handed over.
    """

    delivered: tuple[MarketResult[Any], ...]
    failed: tuple[tuple[Payment, TradeError], ...]
    released: tuple[Payment, ...]
    unresolved: tuple[Payment, ...]
    live: tuple[Payment, ...]
