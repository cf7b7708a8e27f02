"""What the ledger decides, without a database: which state follows, and what the budgets say."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from ..._values.money import shown_usd, usd
from ..._values.payment import GRACE, LIVE, UNRESOLVED, Payment, PaymentState
from ..._values.text import printable
from ...errors import BudgetDetails, PaymentRefusedError, RecipientDetails
from ..budget import Spending
from ..messages import already_known, still_live

HOUR = 3600.0
DAY = 86400
YOUNG = 60.0
"""Seconds for which an answer that its caller did not get is given to the next equal call."""
_SLACK = 5.0
"""Seconds that the clock may have been put back meanwhile."""

_PROOF = frozenset({PaymentState.DELIVERED, PaymentState.PAID_UNDELIVERED})
_TAKEN_FOR_OTHERWISE = frozenset(
    {PaymentState.EXPIRED_UNPAID, PaymentState.EXPIRED_UNKNOWN, PaymentState.MARKED_UNPAID}
)


def state_after(current: PaymentState, told: PaymentState) -> PaymentState:
    """Where a payment goes that is `current` when an answer says `told`.

    What is final stays, but for proof that comes late: that money was taken is true whatever was thought before, and
    an answer that had not arrived may still arrive.
    """
    if current in LIVE:
        return told
    if told in _PROOF and current in _TAKEN_FOR_OTHERWISE:
        return told
    if told is PaymentState.DELIVERED and current is PaymentState.PAID_UNDELIVERED:
        return told
    return current


def young(now: float) -> tuple[float, float]:
    """When an answer came that may still be given at `now`: after the first moment, and not after the second.

    What comes from further in the future was written before the clock was put back: nobody knows how old it is.
    """
    return now - YOUNG, now + _SLACK


def state_when_expired(current: PaymentState) -> PaymentState:
    """What becomes of a live payment that has expired."""
    if current is PaymentState.RESERVED:
        return PaymentState.CANCELLED
    if current is PaymentState.REJECTED_LIVE:
        return PaymentState.EXPIRED_UNPAID
    return PaymentState.EXPIRED_UNKNOWN


def may_be_marked(payment: Payment, now: float) -> bool:
    """Whether a person's word about it counts."""
    return payment.state in UNRESOLVED or (payment.live and payment.valid_before + GRACE <= now)


def not_unresolved(payment: Payment) -> PaymentRefusedError:
    """The refusal of a person's word about it."""
    return still_live(payment) if payment.live else already_known(payment)


def recipient_refusal(
    pay_to: str, *, origin: str, configured: Sequence[str], known: Sequence[str]
) -> PaymentRefusedError | None:
    """Whether another address is asked for than the configured ones or, without those, the ones known for `origin`."""
    accepted = configured or known
    if not accepted or pay_to.lower() in {address.lower() for address in accepted}:
        return None
    source = "pay_to= accepts" if configured else f"{printable(origin, 200)} is known with"
    shown = printable(pay_to, 60)
    way = (
        "add it to pay_to=" if configured else f"client.payments.trust({shown!r}) (trade pay trust {shown}), or pay_to="
    )
    return PaymentRefusedError(
        f"the offer is to pay {printable(pay_to, 60)}, and {source} {printable(', '.join(accepted), 400)}",
        code="recipient_changed",
        hint=f"if the new address is right: {way}",
        details=RecipientDetails(address=shown, trusted=tuple(accepted)),
    )


@dataclass(frozen=True, slots=True)
class _Limit:
    name: Literal["per_call", "per_hour", "per_day", "total"]
    micro: int
    spent: int

    @property
    def words(self) -> str:
        return "in total" if self.name == "total" else self.name.replace("_", " ")


def budget_refusal(
    amount: int, spending: Spending, *, now: float, last_hour: Iterable[tuple[float, int]]
) -> PaymentRefusedError | None:
    """Whether the budgets leave no room for `amount`. `last_hour`: moments and amounts that count, oldest first."""
    budget = spending.budget
    if not budget.is_set:
        return PaymentRefusedError(
            f"this call costs {shown_usd(amount)}, and no budget is set",
            code="no_budget",
            details=BudgetDetails(cost=usd(amount)),
            hint='set one: budget=Budget(per_day="5"), max_price= for one call, TRADE_BUDGET_PER_DAY=5 (or PER_CALL, '
            "PER_HOUR, TOTAL), or trade pay budget set --per-day 5",
        )
    # What frees by itself comes last: when two limits stand in the way, the one that stays is the one to know.
    limits: tuple[tuple[Literal["per_call", "per_hour", "per_day", "total"], int | None, int], ...] = (
        ("per_call", budget.per_call, 0),
        ("total", budget.total, spending.total),
        ("per_day", budget.per_day, spending.today),
        ("per_hour", budget.per_hour, spending.last_hour),
    )
    for name, limit, spent in limits:
        if limit is not None and spent + amount > limit:
            return _over(amount, _Limit(name, limit, spent), spending.reserved, now, last_hour)
    return None


def _over(
    amount: int, limit: _Limit, reserved: int, now: float, last_hour: Iterable[tuple[float, int]]
) -> PaymentRefusedError:
    cost = f"this call costs {shown_usd(amount)}"
    held = min(reserved, limit.spent)
    left = max(0, limit.micro - limit.spent)
    never = limit.name == "per_call" or amount > limit.micro
    room_at = None if never else _room_at(amount, limit, now, last_hour)
    details = BudgetDetails(
        cost=usd(amount),
        limit=limit.name,
        limit_amount=usd(limit.micro),
        spent=usd(limit.spent - held),
        held=usd(held),
        left=usd(left),
        room_at=room_at,
    )
    if never:
        return PaymentRefusedError(
            f"{cost}, more than the budget of {shown_usd(limit.micro)} {limit.words}",
            code="over_budget",
            hint="raise that budget",
            details=details,
        )
    if room_at is not None:
        hint = f"there is room from {room_at:%Y-%m-%d %H:%M:%S} UTC on"
    elif limit.name == "total":
        hint = "this budget does not free by itself: raise it to go on"
    else:
        hint = "raise that budget to go on"
    return PaymentRefusedError(
        f"{cost}, and the budget of {shown_usd(limit.micro)} {limit.words} leaves {shown_usd(left)}: "
        f"{shown_usd(limit.spent - held)} is spent and {shown_usd(held)} is held",
        code="over_budget",
        hint=hint + ("; what is held is free again as soon as it has expired unpaid" if held else ""),
        details=details,
    )


def _room_at(amount: int, limit: _Limit, now: float, last_hour: Iterable[tuple[float, int]]) -> datetime | None:
    """From when on the limit leaves room for `amount`; None: nobody knows, or never."""
    moment: float | None = None
    if limit.name == "total":
        return None
    if limit.name == "per_day":
        moment = (now // DAY + 1) * DAY
    else:
        spent = limit.spent
        for created, micro in last_hour:
            spent -= micro
            if spent + amount <= limit.micro:
                moment = created + HOUR
                break
    try:
        return None if moment is None else datetime.fromtimestamp(math.ceil(moment), UTC)
    except (OverflowError, ValueError, OSError):
        return None
