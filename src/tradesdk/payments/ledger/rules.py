"""Decisions of the ledger without a database: what is found, what counts, what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal

from ..._values.details import BudgetDetails, RecipientDetails
from ..._values.money import shown_usd, usd
from ..._values.payment import Payment, PaymentProof, PaymentStage
from ..._values.text import printable
from ...errors import PaymentRefusedError
from ..budget import Budget, Spending
from .settings import BUDGET

MINUTE = 60
HOUR = 3600
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


def reply_times(now: float) -> tuple[float, float]:
    """When an answer must have arrived to be used at `now`: after the first moment, and not after the second.

    One from further in the future was written before the clock was set back, so its age is unknown.
    """
    return now - REPLY_AGE, now + _SLACK


def kept_answer(payment: Payment, now: float) -> Payment:
    """A payment without the answer of a named purchase that is no longer kept."""
    is_answered = payment.purchase is not None and payment.stage is PaymentStage.ANSWERED
    return replace(payment, reply=None) if is_answered and payment.updated < now - KEPT else payment


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
    if payment is None or payment.is_unsent:
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


def to_count(earlier: Payment | None, amount: int) -> int:
    """Micro-dollars that a nonce counts once `amount` is signed for it (again): the largest amount.

    The chain proves that nothing signed before can be taken any more; a person may be wrong.
    """
    if earlier is None or (earlier.paid is False and earlier.proof is PaymentProof.CHAIN):
        return amount
    return max(earlier.counted, amount)


Sum = tuple[int, int]
"""What counts, and the part that is held, in micro-dollars."""
UNITS = ("minute", "day", "month")


def place(counts_until: int) -> tuple[int, int, int]:
    """The minute, day and month of UTC, since 1970, of the last second in which a payment counts."""
    last = counts_until - 1
    date = datetime.fromtimestamp(last, UTC)
    return last // MINUTE, last // DAY, (date.year - 1970) * 12 + date.month - 1


def begin(now: float) -> tuple[int, int]:
    """The first minute of the last hour, and today. An hour is 60 whole minutes and the one that has begun."""
    return math.floor(now - HOUR) // MINUTE, math.floor(now) // DAY


@dataclass(frozen=True, slots=True)
class Sums:
    """What all signatures count, by the minute, day and month at whose end they cease to.

    Only what is needed at `now`: the minutes of the last hour, the days from today on, all months.
    """

    now: float
    minutes: Mapping[int, Sum]
    days: Mapping[int, Sum]
    months: Mapping[int, Sum]

    def spending(self, budget: Budget) -> Spending:
        """What is spent and held in each window, from its beginning on."""
        (in_hour, held_in_hour), (today, held_today), (total, held) = map(_all, (self.minutes, self.days, self.months))
        return Spending(
            last_hour=in_hour,
            today=today,
            total=total,
            held_last_hour=held_in_hour,
            held_today=held_today,
            held=held,
            budget=budget,
        )

    def without(self, payment: Payment | None) -> Sums:
        """The same without what one payment counts."""
        if payment is None or not payment.counted:
            return self
        less, less_held = signed(payment)
        minute, day, month = place(payment.counts_until)

        def but(sums: Mapping[int, Sum], at: int) -> Mapping[int, Sum]:
            if at not in sums:  # it is over
                return sums
            spent, held = sums[at]
            return {**sums, at: (spent - less, held - less_held)}

        return Sums(self.now, but(self.minutes, minute), but(self.days, day), but(self.months, month))

    def room_at(self, amount: int, budget: Budget) -> datetime | None:
        """When the hour and the day both leave room for `amount`, if nothing else is paid; None: now, or never."""
        at = max(
            _room(amount, budget.per_hour, self.minutes, lambda minute: (minute + 1) * MINUTE + HOUR, self.now),
            _room(amount, budget.per_day, self.days, lambda day: (day + 1) * DAY, self.now),
        )
        try:
            return datetime.fromtimestamp(math.ceil(at), UTC) if at > self.now else None
        except (OverflowError, ValueError, OSError):
            return None


def _all(sums: Mapping[int, Sum]) -> Sum:
    return sum(spent for spent, _ in sums.values()), sum(held for _, held in sums.values())


def _room(amount: int, limit: int | None, sums: Mapping[int, Sum], end: Callable[[int], float], now: float) -> float:
    """When a window leaves room for an amount: the ends of its oldest minutes or days take what they count away."""
    spent, moment = sum(counted for counted, _ in sums.values()), now
    for at in sorted(sums):
        if limit is None or spent + amount <= limit:
            return moment
        spent, moment = spent - sums[at][0], end(at)
    return moment if limit is None or amount <= limit else math.inf


def limits_of(budget: Budget, settings: Mapping[str, str], max_price: int | None) -> Budget:
    """The lowest limits: those of a call, of the ledger, and `max_price`."""
    of_ledger = settings.get(BUDGET)
    limits = budget if of_ledger is None else budget.strictest(Budget.from_json(of_ledger))
    return limits if max_price is None else limits.strictest(Budget.from_micro({"per_call": max_price}))


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


def total_refusal(amount: int, max_total: int | None, run: Sum | None) -> PaymentRefusedError | None:
    """The refusal of an amount for which `max_total` of a batch run leaves no room beside what the `run` counts."""
    if max_total is None or run is None or run[0] + amount <= max_total:
        return None
    spent, held = run
    left = max(0, max_total - spent)
    return PaymentRefusedError(
        f"the next batch costs {shown_usd(amount)}, and max_total={shown_usd(max_total)} leaves {shown_usd(left)}",
        code="over_total",
        hint="to continue, call again with a higher max_total=; with job= nothing is paid for twice"
        + (f"; {_HOW_TO_PROVE}" if held else ""),
        details=BudgetDetails(
            cost=usd(amount),
            limit="max_total",
            limit_amount=usd(max_total),
            spent=usd(spent - held),
            held=usd(held),
            left=usd(left),
        ),
    )


def budget_refusal(
    amount: int, counts: int, sums: Sums, budget: Budget, *, has_total: bool = False
) -> PaymentRefusedError | None:
    """The refusal of an amount for which the budgets leave no room.

    `sums`: what all other payments count. `counts`: what its nonce will count, at least `amount`. A `max_total`
    (`has_total`) serves as the budget if there is no other.
    """
    if not (budget.is_set or has_total):
        return PaymentRefusedError(
            f"this call costs {shown_usd(amount)}, and no budget is set",
            code="no_budget",
            details=BudgetDetails(cost=usd(amount)),
            hint='set one: budget=Budget(per_day="5"), max_price= for one call, TRADE_BUDGET_PER_DAY=5 (or PER_CALL, '
            "PER_HOUR, TOTAL), or trade pay budget set --per-day 5",
        )
    spending, before = sums.spending(budget), counts - amount  # what was signed before counts besides
    # Limits that free up by themselves come last: if two limits refuse, report the one that stays.
    limits: tuple[tuple[_Window, int | None, int, int], ...] = (
        ("per_call", budget.per_call, 0, 0),
        ("total", budget.total, spending.total + before, spending.held + before),
        ("per_day", budget.per_day, spending.today + before, spending.held_today + before),
        ("per_hour", budget.per_hour, spending.last_hour + before, spending.held_last_hour + before),
    )
    over: list[tuple[_Window, int, int, int]] = [
        (name, limit, spent, held)
        for name, limit, spent, held in limits
        if limit is not None and spent + amount > limit
    ]
    if not over:
        return None
    # And before them those that are too small for it at any time.
    name, limit, spent, held = min(over, key=lambda one: counts <= one[1])
    room_at = sums.room_at(counts, budget) if name in ("per_day", "per_hour") else None
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
