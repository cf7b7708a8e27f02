"""The `details` of a `PaymentError`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal, TypeAlias

from .money import show_usd


@show_usd()
@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetDetails:
    """`details` of `no_budget`, `over_budget` and `over_total`. Amounts are in dollars.

    Attributes:
        cost: cost of the call or of the next batch.
        limit: the limit that is exceeded; None when no budget is set.
        limit_amount: the amount of that limit.
        spent: spent within that limit.
        held: held within that limit: it was sent, and nothing proves that it was not taken.
        left: left of that limit.
        room_at: when the call will fit (aware, UTC); None if it never will under the current limits.
    """

    cost: Decimal
    limit: Literal["per_call", "per_hour", "per_day", "per_month", "total", "max_total"] | None = None
    limit_amount: Decimal | None = None
    spent: Decimal | None = None
    held: Decimal | None = None
    left: Decimal | None = None
    room_at: datetime | None = None


@show_usd()
@dataclass(frozen=True, slots=True, kw_only=True)
class PriceDetails:
    """`details` of `over_price`. Amounts are in dollars.

    Attributes:
        price: the service's price, or the amount of the earlier payment.
        allowed: the most that the call may cost.
    """

    price: Decimal
    allowed: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipientDetails:
    """`details` of `recipient_changed`.

    Attributes:
        address: the address of the offer.
        trusted: the accepted addresses.
    """

    address: str
    trusted: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenDetails:
    """`details` of `unknown_token`.

    Attributes:
        unknown: the tokens that the service does not list.
        suggestions: symbols of listed tokens with similar names.
    """

    unknown: tuple[str, ...]
    suggestions: tuple[str, ...]


@show_usd()
@dataclass(frozen=True, slots=True, kw_only=True)
class WalletDetails:
    """`details` of `insufficient_funds` if nothing was signed. Amounts are in dollars.

    Attributes:
        address: the paying wallet.
        service: the service's origin.
        cost: cost of the call.
        balance: the wallet's USDC, by a node; None if no node was queried.
        since: when the service first reported that the wallet has too little (aware, UTC).
        tried_by: id of the payment whose call may be tried again at any time.
        open_at: when any other call may be tried again (aware, UTC).
    """

    address: str
    service: str
    cost: Decimal
    balance: Decimal | None = None
    since: datetime | None = None
    tried_by: str | None = None
    open_at: datetime | None = None


PaymentDetails: TypeAlias = BudgetDetails | PriceDetails | RecipientDetails | TokenDetails | WalletDetails
