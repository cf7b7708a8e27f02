"""Decisions of the ledger without a database: what is found, what counts, what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal, NamedTuple

from ..._values.details import BudgetDetails, RecipientDetails, WalletDetails
from ..._values.money import shown_usd, usd
from ..._values.payment import Payment, PaymentProof, PaymentStage
from ..._values.text import printable
from ...errors import PaymentRefusedError
from ..budget import Budget, Spending, WindowSpending
from .settings import ASKED_FOR, BUDGET, EmptyWallet

END = 60_000_000_000
"""Unix seconds in the year 3871; as many before 1970, it is the year 68. Dates have years from 1 to 9999."""
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
    return counts(payment.counted, payment.amount, payment.paid, payment.proof)


def counts(counted: int, amount: int, paid: bool | None, proof: PaymentProof) -> tuple[int, int]:
    """The same of these fields. A receipt proves its amount only."""
    if paid is None:
        return counted, counted
    if not paid:
        return 0, 0
    return counted, max(0, counted - amount) if proof is PaymentProof.RECEIPT else 0


def to_count(earlier: Payment | None, amount: int) -> int:
    """Micro-dollars that a nonce counts once `amount` is signed for it (again): the largest amount.

    The chain proves that nothing signed before can be taken any more; a person may be wrong.
    """
    if earlier is None or (earlier.paid is False and earlier.proof is PaymentProof.CHAIN):
        return amount
    return max(earlier.counted, amount)


Sum = tuple[int, int]
"""What counts, and the part that is held, in micro-dollars."""


def _month(second: int) -> int:
    date = datetime.fromtimestamp(second, UTC)
    return (date.year - 1970) * 12 + date.month - 1


def _month_begin(month: int) -> int:
    return int(datetime(1970 + month // 12, month % 12 + 1, 1, tzinfo=UTC).timestamp())


class Window(NamedTuple):
    """What a limit of time is for: whole units of UTC, from the one of `back` seconds ago on.

    Attributes:
        limit: its name in a budget.
        unit: the unit's name; units are numbered from 1970 on.
        number: the number of the unit that a second is in.
        begin: the first second of a unit.
        back: 0: the unit that has begun is all.
    """

    limit: str
    unit: str
    number: Callable[[int], int]
    begin: Callable[[int], int]
    back: int = 0

    def first(self, now: float) -> int:
        """Its first unit."""
        return self.number(math.floor(now - self.back))

    def end(self, number: int) -> int:
        """The moment from which on it is without this unit."""
        return self.begin(number + 1) + self.back


WINDOWS = (
    Window("per_hour", "minute", lambda second: second // MINUTE, lambda minute: minute * MINUTE, HOUR),
    Window("per_day", "day", lambda second: second // DAY, lambda day: day * DAY),
    Window("per_month", "month", _month, _month_begin),
)
"""From short to long. The sums by the last unit are kept for all time: their sum is the total."""
UNITS = tuple(window.unit for window in WINDOWS)


def place(counts_until: int) -> tuple[int, ...]:
    """The minute, day and month of UTC, since 1970, of the last second in which a payment counts."""
    return tuple(window.number(counts_until - 1) for window in WINDOWS)


def begin(now: float) -> tuple[int, ...]:
    """The first minute of the last hour, today, and this month."""
    return tuple(window.first(now) for window in WINDOWS)


def since(limit: str, now: float) -> int:
    """The second after which a payment must end to count against a limit at a time."""
    begins = (window.begin(window.first(now)) for window in WINDOWS if window.limit == limit)
    return next(begins, -END)


@dataclass(frozen=True, slots=True)
class Sums:
    """What all signatures count, by the minute, day and month at whose end they cease to.

    Attributes:
        now: the time.
        units: of each window, the sums from its first unit on, or more.
    """

    now: float
    units: tuple[Mapping[int, Sum], ...] = ({},) * len(WINDOWS)

    def spending(self, budget: Budget) -> Spending:
        """What is spent and held in each window, from its beginning on."""
        hour, day, month = (_together(window.limit, sums, budget) for window, sums in self._windows())
        total = _together("total", self.units[-1], budget)
        return Spending(last_hour=hour, today=day, this_month=month, total=total, budget=budget)

    def without(self, payment: Payment | None) -> Sums:
        """The same without what one payment counts."""
        if payment is None or not payment.counted:
            return self
        less, less_held = signed(payment)

        def but(sums: Mapping[int, Sum], at: int) -> Mapping[int, Sum]:
            if at not in sums:  # it is over
                return sums
            counted, held = sums[at]
            return {**sums, at: (counted - less, held - less_held)}

        return Sums(self.now, tuple(map(but, self.units, place(payment.counts_until))))

    def without_held(self) -> Sums:
        """The same if nothing that is held was taken."""
        return Sums(
            self.now, tuple({at: (counted - held, 0) for at, (counted, held) in one.items()} for one in self.units)
        )

    def room_at(self, amount: int, budget: Budget) -> datetime | None:
        """When all windows leave room for `amount`, if nothing else is paid; None: now, or never."""
        try:
            at = max(
                _room(amount, getattr(budget, window.limit), sums, window.end, self.now)
                for window, sums in self._windows()
            )
            return datetime.fromtimestamp(math.ceil(at), UTC) if at > self.now else None
        except (OverflowError, ValueError, OSError):
            return None

    def _windows(self) -> Iterator[tuple[Window, Mapping[int, Sum]]]:
        """The windows, and the sums by their units."""
        for window, sums, first in zip(WINDOWS, self.units, begin(self.now), strict=True):
            yield window, {at: one for at, one in sums.items() if at >= first}


def _together(limit: str, sums: Mapping[int, Sum], budget: Budget) -> WindowSpending:
    held = sum(held for _, held in sums.values())
    counted = sum(counted for counted, _ in sums.values())
    return WindowSpending(spent=counted - held, held=held, limit=getattr(budget, limit))


def _room(amount: int, limit: int | None, sums: Mapping[int, Sum], end: Callable[[int], float], now: float) -> float:
    """When a window leaves room for an amount: the ends of its oldest units take what they count away."""
    counts, moment = sum(counted for counted, _ in sums.values()), now
    for at in sorted(sums):
        if limit is None or counts + amount <= limit:
            return moment
        counts, moment = counts - sums[at][0], end(at)
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


def balance_refusal(payer: str, service: str, amount: int, balance: int) -> PaymentRefusedError:
    """The refusal of an amount that a wallet does not have, by a node."""
    return PaymentRefusedError(
        f"this call costs {shown_usd(amount)}, and the wallet {payer} has {shown_usd(balance)}",
        code="insufficient_funds",
        hint=f"add USDC on Base to {payer}, then make the call again",
        details=WalletDetails(address=payer, service=service, cost=usd(amount), balance=usd(balance)),
    )


def empty_refusal(payer: str, service: str, amount: int, empty: EmptyWallet) -> PaymentRefusedError:
    """The refusal of an amount that a wallet does not have, by the word of the service."""
    asks, since = empty.payment, datetime.fromtimestamp(empty.since, UTC)
    open_at = datetime.fromtimestamp(math.ceil(empty.tried + ASKED_FOR), UTC)
    return PaymentRefusedError(
        f"this call costs {shown_usd(amount)}, and the service says since {since:%Y-%m-%d %H:%M:%S} UTC that the "
        f"wallet {payer} has too little USDC; until it has enough, only the call of payment {asks} is tried",
        code="insufficient_funds",
        hint=f"add USDC on Base to {payer}, then make the call of client.payments.get({asks!r}) again (trade pay show "
        f"{asks}), or any call after {open_at:%H:%M:%S} UTC",
        details=WalletDetails(
            address=payer, service=service, cost=usd(amount), since=since, tried_by=asks, open_at=open_at
        ),
    )


LimitName = Literal["per_call", "per_hour", "per_day", "per_month", "total"]
_ORDER: tuple[LimitName, ...] = ("per_call", "total", "per_month", "per_day", "per_hour")
"""Limits that free up by themselves come last: if two limits refuse, the one that stays is reported."""


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


def exceeded(amount: int, counts: int, sums: Sums, budget: Budget) -> dict[LimitName, WindowSpending]:
    """The limits that leave no room for an amount, and what else counts against each."""
    spending, before = sums.spending(budget).by_limit(), counts - amount  # what was signed before counts besides
    over: dict[LimitName, WindowSpending] = {}
    for name in _ORDER:
        one = spending[name]
        if name != "per_call":
            one = replace(one, held=one.held + before)
        if one.limit is not None and one.counted + amount > one.limit:
            over[name] = one
    return over


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
            "PER_HOUR, PER_MONTH, TOTAL), or trade pay budget set --per-day 5",
        )
    over = exceeded(amount, counts, sums, budget)
    if not over:
        return None
    # Those that are too small for it at any time come before the others.
    name = min(over, key=lambda one: counts <= (over[one].limit or 0))
    is_window = name in {window.limit for window in WINDOWS}
    return _over(amount, name, over[name], sums.room_at(counts, budget) if is_window else None)


def _over(amount: int, name: LimitName, spending: WindowSpending, room_at: datetime | None) -> PaymentRefusedError:
    limit, held, cost = spending.limit or 0, spending.held, f"this call costs {shown_usd(amount)}"
    of_budget = f"the budget of {shown_usd(limit)} {'in total' if name == 'total' else name.replace('_', ' ')}"
    details = BudgetDetails(
        cost=usd(amount),
        limit=name,
        limit_amount=usd(limit),
        spent=spending.spent_usd,
        held=spending.held_usd,
        left=spending.left_usd,
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
        f"{cost}, and {of_budget} leaves {shown_usd(spending.left or 0)}: {shown_usd(spending.spent)} is spent and "
        f"{shown_usd(held)} is held",
        code="over_budget",
        hint=hint + (f"; {_HOW_TO_PROVE}" if held else ""),
        details=details,
    )
