"""Decisions of the ledger without a database: what is found, settings, what counts, what is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from ..._values.payment import GRACE, LONGEST_VALIDITY, Payment, PaymentProof, PaymentStage
from ...errors import PaymentRefusedError
from ..budget import Budget, LimitName, Spending, WindowSpending
from ..messages import no_budget, over_budget, over_total, recipient_changed, wallet_empty

END = 60_000_000_000
"""Unix seconds, in the year 3871; the negative is in the year 68. Dates have years from 1 to 9999."""
MINUTE = 60
HOUR = 3600
DAY = 86400
REPLY_AGE = 60.0
"""Seconds for which the next equal unnamed call gets an answer that was not collected."""
KEPT = 30 * 86400.0
"""Seconds for which collected answers are kept."""
_SLACK = 5.0
"""Seconds that the clock may have been set back."""


def latest_end(now: float) -> int:
    """The latest time at which a payment signed now can end. A later end was signed by a clock that was ahead."""
    return math.floor(now) + LONGEST_VALIDITY + GRACE


def times(now: float, since: float, over: float) -> tuple[float, ...]:
    """The parameters of `schema.FIND` after the fingerprint.

    If an answer is dated further in the future than that, the clock was set back since, and its age is unknown.
    """
    return since, math.floor(over), latest_end(now), now - REPLY_AGE, now + _SLACK


def kept_answer(payment: Payment, now: float) -> Payment:
    """A payment of a named purchase whose answer was deleted."""
    is_answered = payment.purchase is not None and payment.stage is PaymentStage.ANSWERED
    return replace(payment, reply=None) if is_answered and payment.updated < now - KEPT else payment


class NextStep(StrEnum):
    """What a call does about the earlier payment for its purchase."""

    SIGN = "sign"
    """Sign its nonce, or sign it again: nothing else can bring the answer."""
    RESEND = "resend"
    """Resend the same bytes: they may still bring the answer."""
    ASK = "ask"
    """It has expired. Resend the same bytes once, as the service may have kept the answer. If not: SIGN."""
    COLLECT = "collect"
    """The answer is in the ledger."""
    REFUSE = "refuse"
    """It is not paid for again."""


def next_step(payment: Payment | None, over: float) -> NextStep:
    """What a call does about an earlier payment. `over`: the service's time at which a signature is too old to send."""
    if payment is None or payment.is_unsent:
        return NextStep.SIGN
    if payment.stage is PaymentStage.SENT:
        if payment.paid is None and payment.valid_before > over:
            return NextStep.RESEND
        return NextStep.ASK if payment.paid is None and payment.identified else NextStep.SIGN
    is_kept = payment.stage is PaymentStage.ANSWERED and payment.reply is not None
    return NextStep.COLLECT if is_kept else NextStep.REFUSE


# Settings: text by name.


BUDGET = "budget"
"""`Budget.to_json`."""
_RECIPIENTS = "recipients of "
_EMPTY = "empty wallet "
ASKED_FOR = 3600.0
"""Seconds after its last try in which only one purchase asks whether an empty wallet has been funded."""


def recipients_of(origin: str) -> str:
    """The name of the setting with the known recipients of an origin: `addresses`."""
    return f"{_RECIPIENTS}{origin}"


def secret_of(payer: str) -> str:
    """The name of the setting with the id of the secret that makes the nonces of a payer's named purchases."""
    return f"purchase secret of {payer.lower()}"


def empty_of(payer: str, origin: str) -> str:
    """The name of the setting with the `EmptyWallet` of a payer at a service."""
    return f"{_EMPTY}{payer.lower()} at {origin}"


@dataclass(frozen=True, slots=True)
class EmptyWallet:
    """The service said, the last time, that a wallet has too little money. One purchase asks it again, for all of them.

    Attributes:
        payment: the id of the payment of the purchase that asks.
        since: when the service first said so, in Unix seconds by the local clock.
        tried: when a purchase last asked, likewise.
    """

    payment: str
    since: float
    tried: float

    @classmethod
    def read(cls, text: str) -> EmptyWallet:
        """Read the setting `empty_of`. Raises `ValueError` for a text that no release writes."""
        payment, since, tried = text.split(" ")
        found = cls(payment, float(since), float(tried))
        if not (0 <= found.since < END and 0 <= found.tried < END):
            raise ValueError("not a time")
        return found

    def __str__(self) -> str:
        return f"{self.payment} {self.since!r} {self.tried!r}"  # `schema.FIND` reads the id, too

    def refusal(
        self, payment_id: str | None, now: float, *, payer: str, service: str, amount: int
    ) -> PaymentRefusedError | None:
        """The refusal while another purchase asks. If the last try is in the future, the clock was set back."""
        if self.payment == payment_id or abs(now - self.tried) >= ASKED_FOR:
            return None
        since = datetime.fromtimestamp(self.since, UTC)
        open_at = datetime.fromtimestamp(math.ceil(self.tried + ASKED_FOR), UTC)
        return wallet_empty(payer, service, amount, asks=self.payment, since=since, open_at=open_at)


def addresses(text: str | None) -> list[str]:
    """The known recipients of an origin, oldest first. Raises `ValueError` for a text that no release writes."""
    known = [] if text is None else json.loads(text)
    if not isinstance(known, list) or not all(isinstance(one, str) for one in known):
        raise ValueError("not a list of recipients")
    return known


def by_name(rows: Sequence[Sequence[object]]) -> dict[str, str]:
    """Settings by name. Raises `ValueError` for one that no release writes."""
    found: dict[str, str] = {}
    for name, text in rows:
        if not isinstance(name, str) or not isinstance(text, str):
            raise ValueError("a setting is not text")
        if name == BUDGET:
            Budget.from_json(text)
        elif name.startswith(_RECIPIENTS):
            addresses(text)
        elif name.startswith(_EMPTY):
            EmptyWallet.read(text)
        found[name] = text
    return found


def with_address(text: str | None, address: str) -> str:
    """The text with one more address. Addresses are compared without regard to case."""
    known = addresses(text)
    is_known = address.lower() in {one.lower() for one in known}
    return json.dumps(known if is_known else [*known, address])


# What counts.


Sum = tuple[int, int]
"""What counts, and the part that is held, in micro-dollars."""


def signed(payment: Payment) -> Sum:
    """What it counts by its signatures."""
    return 0 if payment.paid is False else payment.counted, payment.held


def to_count(earlier: Payment | None, amount: int) -> int:
    """Micro-dollars that a nonce counts if `amount` is signed for it now: the largest amount signed.

    If the chain proved it unpaid, earlier signatures no longer count; after a person's mark they do.
    """
    if earlier is None or (earlier.paid is False and earlier.proof is PaymentProof.CHAIN):
        return amount
    return max(earlier.counted, amount)


def _month(second: int) -> int:
    date = datetime.fromtimestamp(second, UTC)
    return (date.year - 1970) * 12 + date.month - 1


def _month_begin(month: int) -> int:
    return int(datetime(1970 + month // 12, month % 12 + 1, 1, tzinfo=UTC).timestamp())


class Window(NamedTuple):
    """The window of a time limit: whole units of UTC, from the unit `back` seconds ago to the current one.

    Attributes:
        limit: its name in a budget.
        unit: the unit's name; units are numbered from 1970.
        number: the number of the unit that a second is in.
        begin: the first second of a unit.
        back: seconds; 0: only the current unit.
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
        """When this unit leaves the window."""
        return self.begin(number + 1) + self.back


WINDOWS = (
    Window("per_hour", "minute", lambda second: second // MINUTE, lambda minute: minute * MINUTE, HOUR),
    Window("per_day", "day", lambda second: second // DAY, lambda day: day * DAY),
    Window("per_month", "month", _month, _month_begin),
)
"""From short to long. The sums by the last unit are kept forever: together they are the total."""
UNITS = tuple(window.unit for window in WINDOWS)
LIMITS_AT_A_TIME = tuple(window.limit for window in WINDOWS)


def unit_numbers(counts_until: int) -> tuple[int, ...]:
    """The minute, day and month of UTC, since 1970, of the last second in which a payment counts."""
    return tuple(window.number(counts_until - 1) for window in WINDOWS)


def moved(before: Payment | None, after: Payment) -> dict[tuple[str, int], Sum]:
    """What a change adds to the sums, by unit and number."""
    deltas: dict[tuple[str, int], Sum] = {}
    for payment, sign in ((before, -1), (after, 1)):
        if payment is not None and payment.counted:
            spent, held = signed(payment)
            for at in zip(UNITS, unit_numbers(payment.counts_until), strict=True):
                had, had_held = deltas.get(at, (0, 0))
                deltas[at] = had + sign * spent, had_held + sign * held
    return {at: delta for at, delta in deltas.items() if delta != (0, 0)}


def begin(now: float) -> list[int]:
    """The first minute of the last hour, and today: the sums of months are the total."""
    return [window.first(now) for window in WINDOWS[:-1]]


def since(limit: str, now: float) -> int:
    """The second after which a payment must end to count against a limit at a time."""
    begins = (window.begin(window.first(now)) for window in WINDOWS if window.limit == limit)
    return next(begins, -END)


@dataclass(frozen=True, slots=True)
class Sums:
    """What all signatures count, by the minute, day and month in which they stop counting.

    Attributes:
        now: the time.
        units: of each window, the sums from its first unit on, or more.
    """

    now: float
    units: tuple[Mapping[int, Sum], ...] = ({},) * len(WINDOWS)

    def spending(self, budget: Budget) -> Spending:
        """What is spent and held in each window."""
        hour, day, month, total = (self.against(limit, budget) for limit in (*LIMITS_AT_A_TIME, "total"))
        return Spending(last_hour=hour, today=day, this_month=month, total=total, budget=budget)

    def against(self, limit: str, budget: Budget) -> WindowSpending:
        """What counts against a limit. Nothing counts against `per_call`."""
        sums: Mapping[int, Sum] = {}
        if limit != "per_call":
            sums = self.units[-1] if limit == "total" else self._window(LIMITS_AT_A_TIME.index(limit))
        counted, held = sum(counted for counted, _ in sums.values()), sum(held for _, held in sums.values())
        return WindowSpending(spent=counted - held, held=held, limit=getattr(budget, limit))

    def without(self, payment: Payment | None) -> Sums:
        """The same without one payment."""
        if payment is None or not payment.counted:
            return self
        less, less_held = signed(payment)

        def but(sums: Mapping[int, Sum], at: int) -> Mapping[int, Sum]:
            if at not in sums:  # no longer counted
                return sums
            counted, held = sums[at]
            return {**sums, at: (counted - less, held - less_held)}

        return Sums(self.now, tuple(map(but, self.units, unit_numbers(payment.counts_until))))

    def room_at(self, amount: int, budget: Budget) -> datetime | None:
        """When all windows have room for `amount`, if nothing else is paid; None: now, or never."""
        try:
            at = max(
                _room(amount, getattr(budget, window.limit), self._window(number), window.end, self.now)
                for number, window in enumerate(WINDOWS)
            )
            return datetime.fromtimestamp(math.ceil(at), UTC) if at > self.now else None
        except (OverflowError, ValueError, OSError):
            return None

    def _window(self, number: int) -> Mapping[int, Sum]:
        """The sums by the units of a window."""
        first = WINDOWS[number].first(self.now)
        return {at: one for at, one in self.units[number].items() if at >= first}


def _room(amount: int, limit: int | None, sums: Mapping[int, Sum], end: Callable[[int], float], now: float) -> float:
    """When a window has room for an amount: when enough of its oldest units have left it."""
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


_ORDER: tuple[LimitName, ...] = ("per_call", "total", "per_month", "per_day", "per_hour")
"""Limits that free up by themselves come last: if two limits refuse, the lasting one is reported."""


def recipient_refusal(pay_to: str, accepted: Sequence[str]) -> PaymentRefusedError | None:
    """The refusal of a recipient that is not accepted, if others are."""
    is_accepted = not accepted or pay_to.lower() in {address.lower() for address in accepted}
    return None if is_accepted else recipient_changed(pay_to, accepted)


def total_refusal(amount: int, max_total: int | None, run: Sum | None) -> PaymentRefusedError | None:
    """The refusal of an amount for which `max_total` of a batch run leaves no room beside the rest of the `run`."""
    if max_total is None or run is None or run[0] + amount <= max_total:
        return None
    return over_total(amount, max_total, *run)


def refusal(
    amount: int,
    before: Payment | None,
    sums: Sums,
    budget: Budget,
    *,
    max_total: int | None = None,
    run: Sum | None = None,
) -> PaymentRefusedError | None:
    """The refusal of an amount for which the batch run or the budgets leave no room.

    `sums`: what all payments count. `before`: the payment whose nonce is signed again. `run`: what the other payments
    of its run count. A `max_total` serves as the budget if there is no other.
    """
    counts, sums = to_count(before, amount), sums.without(before)
    refused = total_refusal(counts, max_total, run)
    if refused is not None:
        return refused
    over = exceeded(amount, counts, sums, budget)
    if not over:
        return None if max_total is not None or budget.is_unlimited or budget.is_set else no_budget(amount)
    # Limits that are too small for it at any time come first.
    name = min(over, key=lambda one: counts <= (over[one].limit or 0))
    return over_budget(amount, name, over[name], sums.room_at(counts, budget) if name in LIMITS_AT_A_TIME else None)


def exceeded(amount: int, counts: int, sums: Sums, budget: Budget) -> dict[LimitName, WindowSpending]:
    """The limits that leave no room for an amount, and what else counts against each."""
    over: dict[LimitName, WindowSpending] = {}
    for name in _ORDER:
        limit = getattr(budget, name)
        if limit is not None:
            before = 0 if name == "per_call" else counts - amount  # or what was signed before
            one = sums.against(name, budget)
            if one.counted + before + amount > limit:
                over[name] = replace(one, held=one.held + before)
    return over
