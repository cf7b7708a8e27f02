"""Decisions of the ledger without a database: what is found, what counts, what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal, NamedTuple

from ..._values.details import BudgetDetails, RecipientDetails
from ..._values.money import shown_usd, usd
from ..._values.payment import Payment, PaymentStage
from ..._values.text import printable
from ...errors import PaymentRefusedError
from ..budget import SUMS, Budget, Spending

HOUR = 3600.0
DAY = 86400
REPLY_AGE = 60.0
"""Seconds for which the next equal unnamed call gets an answer that was not collected."""
KEPT = 30 * 86400.0
"""Seconds for which answers are kept that were collected."""
_SLACK = 5.0
"""Seconds by which the clock may have been set back since."""

_HOW_TO_PROVE = (
    "held money may have been taken: see client.payments.reconcile() (trade pay reconcile), check the wallet, and mark "
    "what was not taken (trade pay reconcile --mark unpaid --older-than 1h)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What a call asks for in `Ledger.reserve`.

    Attributes:
        payment: what it wants to sign, at stage RESERVED.
        budget: its limits.
        pay_to: the only recipients; empty: those known for the origin, or any if none is.
        owner: the call.
        until: when its claim ends, in Unix seconds by the local clock.
        over: the service's time until which a signature is too old to be sent.
        since: when an unnamed payment must have been created to be continued.
        max_price: micro-dollars that it may cost.
        max_total: micro-dollars that all payments of the payment's `run` may count.
        now: the local time in Unix seconds.
    """

    payment: Payment
    budget: Budget
    pay_to: Sequence[str] = ()
    owner: str
    until: float
    over: float
    since: float = 0.0
    max_price: int | None = None
    max_total: int | None = None
    now: float

    def of(self, earlier: Payment | None) -> Payment:
        """The payment with the reservation. An `earlier` one keeps terms, header and run until it is signed again."""
        wanted = self.payment
        until = wanted.counts_until
        if earlier is None:
            now = self.now
            return replace(wanted, created=now, updated=now, reserved=wanted.amount, reserved_until=until)
        return replace(earlier, reserved=max(earlier.counted, wanted.amount), reserved_until=until)


def reply_times(now: float) -> tuple[float, float]:
    """When an answer must have arrived to be used at `now`: after the first moment, and not after the second.

    One from further in the future was written before the clock was set back, so its age is unknown.
    """
    return now - REPLY_AGE, now + _SLACK


def kept_answer(payment: Payment, now: float) -> Payment:
    """A payment without the answer of a named purchase that is no longer kept."""
    is_answered = payment.purchase is not None and payment.stage is PaymentStage.ANSWERED
    return replace(payment, reply=None) if is_answered and payment.updated < now - KEPT else payment


def without_void(payment: Payment, now: float) -> Payment:
    """A payment without a reservation that does not hold."""
    is_void = payment.reserved and not payment.is_reserved(now)
    return replace(payment, reserved=0, reserved_until=0) if is_void else payment


class NextStep(StrEnum):
    """What a call does about the earlier payment for its purchase."""

    SIGN = "sign"
    """Nothing else can come of it: its nonce is signed (again)."""
    RESEND = "resend"
    """The same bytes may still bring the answer."""
    ASK = "ask"
    """It has expired. The same bytes once more: the service may have kept the answer. If not, as SIGN."""
    COLLECT = "collect"
    """The answer is kept here."""
    REFUSE = "refuse"
    """It is not paid for again."""


def next_step(payment: Payment | None, over: float) -> NextStep:
    """What a call does about an earlier payment. `over`: until which service's time a signature is too old to send."""
    if payment is None or payment.stage is PaymentStage.RESERVED:
        return NextStep.SIGN
    if payment.stage is PaymentStage.SENT:
        if payment.paid is None and payment.valid_before > over:
            return NextStep.RESEND
        return NextStep.ASK if payment.paid is None and payment.identified else NextStep.SIGN
    is_kept = payment.stage is PaymentStage.ANSWERED and payment.reply is not None
    return NextStep.COLLECT if is_kept else NextStep.REFUSE


def is_signable(payment: Payment, over: float) -> bool:
    """Whether the nonce of an earlier payment may be signed again."""
    return next_step(payment, over) in (NextStep.SIGN, NextStep.ASK)


# What counts


def signed(payment: Payment) -> tuple[int, int]:
    """Micro-dollars that it counts by its signatures, and the part that is held: without proof."""
    if payment.paid is not None:
        return payment.counted * payment.paid, 0
    return payment.counted, payment.counted


def last_day(counts_until: int) -> int:
    """The last UTC day on which a payment counts, in days since 1970. At that second it counts no more."""
    return (counts_until - 1) // DAY


def counted(payment: Payment, now: float) -> Spending:
    """What a payment counts by its signatures."""
    total, held = signed(payment)
    in_hour, in_day = payment.counts_until > now - HOUR, last_day(payment.counts_until) >= now // DAY
    return Spending(
        last_hour=total * in_hour,
        today=total * in_day,
        total=total,
        held_last_hour=held * in_hour,
        held_today=held * in_day,
        held=held,
        budget=Budget(),
    )


def reserved(amount: int) -> Spending:
    """What a reservation counts: in the last hour and today too, as it may be taken until its end."""
    return Spending(**dict.fromkeys(SUMS, amount), budget=Budget())


def with_reservations(spending: Spending, payments: Iterable[Payment], now: float) -> Spending:
    """What is spent by all signatures, with the payments that are reserved: each counts what it will once signed."""
    for payment in payments:
        spending = spending.minus(counted(payment, now)).plus(reserved(payment.reserved))
    return spending


def spending_before(again: Payment, amount: int, earlier: Payment, spending: Spending, now: float) -> Spending:
    """The spending to which `amount` adds what `again`, with its reservation, counts in place of `earlier`."""
    counts = counted(earlier, now)
    if earlier.is_reserved(now):
        counts = reserved(earlier.reserved)
    return spending.minus(counts).plus(reserved(again.reserved - amount))


def recipient_refusal(
    pay_to: str, *, origin: str, configured: Sequence[str], known: Sequence[str]
) -> PaymentRefusedError | None:
    """The refusal of a recipient that is neither configured nor, if none is configured, known for `origin`."""
    accepted = configured or known
    if not accepted or pay_to.lower() in {address.lower() for address in accepted}:
        return None
    source = "pay_to= accepts" if configured else f"the known recipient of {printable(origin, 200)} is"
    shown = printable(pay_to, 60)
    remedy = (
        "add it to pay_to=" if configured else f"client.payments.trust({shown!r}) (trade pay trust {shown}), or pay_to="
    )
    return PaymentRefusedError(
        f"the offer is to pay {shown}, and {source} {printable(', '.join(accepted), 400)}",
        code="recipient_changed",
        hint=f"if the new address is correct: {remedy}",
        details=RecipientDetails(address=shown, trusted=tuple(accepted)),
    )


_Window = Literal["per_call", "per_hour", "per_day", "total"]


def total_refusal(amount: int, max_total: int | None, run: Spending | None) -> PaymentRefusedError | None:
    """The refusal of an amount for which `max_total` of a batch run leaves no room."""
    if max_total is None or run is None or run.total + amount <= max_total:
        return None
    left = max(0, max_total - run.total)
    return PaymentRefusedError(
        f"the next batch costs {shown_usd(amount)}, and max_total={shown_usd(max_total)} leaves {shown_usd(left)}",
        code="over_total",
        hint="to continue, call again with a higher max_total=; with job= nothing is paid for twice"
        + (f"; {_HOW_TO_PROVE}" if run.held else ""),
        details=BudgetDetails(
            cost=usd(amount),
            limit="max_total",
            limit_amount=usd(max_total),
            spent=usd(run.spent),
            held=usd(run.held),
            left=usd(left),
        ),
    )


class Counted(NamedTuple):
    """A payment that counts in the last hour or today, and until before when."""

    until: float
    micro: int


def budget_refusal(
    amount: int,
    spending: Spending,
    *,
    now: float,
    counted: Iterable[Counted],
    counts: int = 0,
    has_total: bool = False,
) -> PaymentRefusedError | None:
    """The refusal of an amount for which the budgets leave no room.

    `counted`: the other payments of the last hour and today. `counts`: what the payment will count, if more than
    `amount`. A `max_total` (`has_total`) serves as the budget if there is no other.
    """
    budget = spending.budget
    if not (budget.is_set or has_total):
        return PaymentRefusedError(
            f"this call costs {shown_usd(amount)}, and no budget is set",
            code="no_budget",
            details=BudgetDetails(cost=usd(amount)),
            hint='set one: budget=Budget(per_day="5"), max_price= for one call, TRADE_BUDGET_PER_DAY=5 (or PER_CALL, '
            "PER_HOUR, TOTAL), or trade pay budget set --per-day 5",
        )
    # Limits that free up by themselves come last: if two limits refuse, report the one that stays.
    limits: tuple[tuple[_Window, int | None, int, int], ...] = (
        ("per_call", budget.per_call, 0, 0),
        ("total", budget.total, spending.total, spending.held),
        ("per_day", budget.per_day, spending.today, spending.held_today),
        ("per_hour", budget.per_hour, spending.last_hour, spending.held_last_hour),
    )
    over: list[tuple[_Window, int, int, int]] = [
        (name, limit, spent, held)
        for name, limit, spent, held in limits
        if limit is not None and spent + amount > limit
    ]
    if not over:
        return None
    # And before them those that are too small for it at any time.
    name, limit, spent, held = min(over, key=lambda one: max(amount, counts) <= one[1])
    room_at = _room_at(max(amount, counts), budget, now, list(counted)) if name in ("per_day", "per_hour") else None
    return _over(amount, name, limit, spent, held, room_at)


def _over(
    amount: int, name: _Window, limit: int, spent: int, held: int, room_at: datetime | None
) -> PaymentRefusedError:
    cost, left = f"this call costs {shown_usd(amount)}", max(0, limit - spent)
    of_budget = f"the budget of {shown_usd(limit)} {'in total' if name == 'total' else name.replace('_', ' ')}"
    details = BudgetDetails(
        cost=usd(amount),
        limit=name,
        limit_amount=usd(limit),
        spent=usd(spent - held),
        held=usd(held),
        left=usd(left),
        room_at=room_at,
    )
    if name == "per_call" or amount > limit:
        return PaymentRefusedError(
            f"{cost}, more than {of_budget}", code="over_budget", hint="raise that budget", details=details
        )
    if room_at is not None:
        hint = f"wait until {room_at:%Y-%m-%d %H:%M:%S} UTC, or raise that budget"
    elif name == "total":
        hint = "this budget does not reset: raise it to continue"
    else:
        hint = "raise that budget to continue"
    return PaymentRefusedError(
        f"{cost}, and {of_budget} leaves {shown_usd(left)}: {shown_usd(spent - held)} is spent and "
        f"{shown_usd(held)} is held",
        code="over_budget",
        hint=hint + (f"; {_HOW_TO_PROVE}" if held else ""),
        details=details,
    )


def _room_at(amount: int, budget: Budget, now: float, payments: list[Counted]) -> datetime | None:
    """When the hour and the day both leave room for `amount`, if nothing else is paid; None: never, or unknown."""

    def first(limit: int | None, moments: Iterable[float], since: Callable[[float], float]) -> float:
        """The first of `moments` at which there is room beside what may be taken after `since(moment)`."""
        for moment in sorted({now, *moments}):
            spent = sum(one.micro for one in payments if one.until > since(moment))
            if limit is None or spent + amount <= limit:
                return moment
        return math.inf

    today = now // DAY
    room = max(
        first(budget.per_hour, (one.until + HOUR for one in payments), lambda moment: moment - HOUR),
        first(budget.per_day, ((today + 1) * DAY, (today + 2) * DAY), lambda moment: moment // DAY * DAY),
    )
    try:
        return datetime.fromtimestamp(math.ceil(room), UTC) if room > now else None
    except (OverflowError, ValueError, OSError):
        return None
