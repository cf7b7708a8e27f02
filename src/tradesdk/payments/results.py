"""Results of market data calls: the data, the price, the payment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from .._values.money import show_usd, usd
from .._values.payment import Charged, Payment, Receipt
from ..errors import PaymentError, TradeError
from .budget import Spending

if TYPE_CHECKING:
    from ..models.market import MarketModel

T = TypeVar("T")


@show_usd(amount="price")
@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """The published price of a call, and what the budgets leave. It needs no key and no request.

    Attributes:
        path: the endpoint, such as `/v1/token-prices`.
        body: the body of the request, as it would be sent: JSON.
        tokens: the number of tokens; None if the price does not depend on it.
        amount: micro-dollars.
        spending: what is spent, and the limits.
    """

    path: str
    body: bytes
    tokens: int | None
    amount: int
    spending: Spending

    @property
    def price(self) -> Decimal:
        """The price in dollars."""
        return usd(self.amount)

    @property
    def affordable(self) -> bool:
        """Whether the budgets leave enough. Without a budget only calls with `max_price=` are paid."""
        left = self.spending.left
        return self.amount == 0 or (self.spending.budget.is_set and (left is None or self.amount <= left))


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketResult(Generic[T]):
    """The data of a call, and its payment.

    Attributes:
        data: the data.
        quote: the published price, and what the budgets left before the call.
        payment: the payment; None if the answer was free.
        receipt: the receipt of the settlement; None if the service sent none.
        warnings: how the receipt differs from what was signed, and the tokens from those that were bought.
        again: the answer comes from the ledger: it was paid for before, and nothing was sent now.
        answered_at: when the answer arrived (aware, UTC). With `again`, prices may have changed since.
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

    @property
    def paid_usd(self) -> Decimal:
        """What this call paid, in dollars: by the receipt, or what was signed if there is none. 0 if it was free, or
        came from the ledger (`again`)."""
        return Decimal(0) if self.again or self.payment is None else usd(self.payment.amount)


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """What a call would sign. Nothing was signed.

    Attributes:
        quote: the published price, and what the budgets leave.
        authorization: the fields that would be signed, as strings: `from`, `to`, `value` (micro-dollars), `validAfter`,
            `validBefore` (Unix seconds), `nonce` (not for a new named purchase: that takes the key); None if the answer
            would be free.
        requirement: the service's offer that would be accepted, as received; None if the answer would be free.
        existing: an earlier payment for the same call. It would be resent instead of a new one being signed;
            `authorization` is that of this payment then, and `requirement` None. If it is answered, its answer was
            not collected: the call would return it, and nothing would be signed.
        refusal: the error that the call would raise, with `code`, `details` and `hint`; None if it would be paid.
    """

    quote: Quote
    authorization: dict[str, str] | None = None
    requirement: dict[str, Any] | None = None
    existing: Payment | None = None
    refusal: PaymentError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainVerdict:
    """What the chain says about a payment: whether its nonce is used, not with which amount.

    Attributes:
        outcome: `paid`: its nonce is used; `unpaid`: it was not taken and can no longer be; `undecided`: nothing is
            known.
        reason: the evidence, with the number of the finalized block; or why it is undecided. Without secrets.
    """

    outcome: Literal["paid", "unpaid", "undecided"]
    reason: str

    @property
    def paid(self) -> bool | None:
        """Whether it was taken; None while that is undecided."""
        return None if self.outcome == "undecided" else self.outcome == "paid"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountCode:
    """What the chain says about the code at an address.

    Attributes:
        kind: `none`: the account of a key; `contract`: a smart contract wallet; `delegated`: the account of a key that
            is delegated to a contract (EIP-7702).
        delegate: the address of that contract.
    """

    kind: Literal["none", "contract", "delegated"]
    delegate: str | None = None

    def __str__(self) -> str:
        """What that means for payments, in a sentence."""
        if self.kind == "none":
            return "the address has no code: it is the account of a key, or a wallet that is not deployed yet"
        if self.kind == "contract":
            return "the address has code, a smart contract wallet: its signer needs is_contract = True"
        return (
            f"the address has code, as its key is delegated to {self.delegate} (EIP-7702): a service may refuse its "
            "payments, and then takes those of a wallet without code"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The result of a reconciliation.

    Attributes:
        delivered: answers that were paid for before and arrived now.
        failed: payments that were resent, each with the error.
        unresolved: payments that expired without proof, and answered ones without a receipt or with one of less than
            was signed. Their money, or the rest of it, stays held until a person marks them.
        live: payments that may still be taken; their money is held.
        witnessed: the chain's verdicts on payments that a person would otherwise check, each with the payment in its
            new state. Empty without a witness. Payments that the chain proves unpaid are no longer `unresolved`, nor
            are answered ones that it proves paid.
    """

    delivered: tuple[MarketResult[MarketModel], ...]
    failed: tuple[tuple[Payment, TradeError], ...]
    unresolved: tuple[Payment, ...]
    live: tuple[Payment, ...]
    witnessed: tuple[tuple[Payment, ChainVerdict], ...] = ()
