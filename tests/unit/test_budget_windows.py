"""The hours, days and months in which payments count, beside a calendar: ends of months, leap years, December."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk import Budget, Ledger, Receipt
from tradesdk.payments import BudgetDetails, ReasonCode
from tradesdk.payments.ledger.changes import Lookup
from tradesdk.payments.ledger.rules import Sums, refusal, unit_numbers

from ._ledger import draft, submitted, told

PAID = Receipt(success=True, transaction="0x1", network="eip155:8453", raw={})
BEGUN = [
    datetime(year, month, 1, tzinfo=UTC)
    for year, month in ((2023, 3), (2024, 2), (2024, 3), (2025, 1), (2025, 12), (2026, 1), (2026, 5), (2100, 3))
]
SECONDS = st.sampled_from(
    [-86_401, -86_400, -3_661, -3_600, -3_540, -60, -1, 0, 1, 59, 60, 3_599, 3_660, 86_399, 86_400]
)
WAYS = ("per_hour", "per_day", "per_month", "total")


class Paid(NamedTuple):
    end: datetime
    """It may be taken before."""
    amount: int
    proven: bool

    def counts_in(self, limit: str, now: datetime) -> bool:
        last = self.end - timedelta(seconds=1)
        if limit == "per_hour":
            return last >= (now - timedelta(hours=1)).replace(second=0, microsecond=0)
        if limit == "per_day":
            return last.date() >= now.date()
        return limit == "total" or (last.year, last.month) >= (now.year, now.month)

    def leaves(self) -> Iterator[datetime]:
        """When it leaves an hour, a day, a month."""
        last = (self.end - timedelta(seconds=1)).replace(second=0)
        yield last + timedelta(minutes=61)
        midnight = last.replace(hour=0, minute=0)
        yield midnight + timedelta(days=1)
        yield (midnight.replace(day=1) + timedelta(days=31)).replace(day=1)


@st.composite
def courses(draw: st.DrawFn) -> tuple[list[Paid], datetime]:
    """Payments about the beginning of one or two months, and a time."""
    begun = draw(st.lists(st.sampled_from(BEGUN), min_size=1, max_size=2))
    moments = st.tuples(st.sampled_from(begun), SECONDS).map(lambda at: at[0] + timedelta(seconds=at[1]))
    paid = st.builds(Paid, moments, st.integers(1, 3), st.booleans())
    fraction = draw(st.sampled_from([0, 0.25, 0.999]))
    return draw(st.lists(paid, max_size=8)), draw(moments) + timedelta(seconds=fraction)


Sources = Callable[[list[Paid], datetime], Sums]


def from_sums(payments: list[Paid], now: datetime) -> Sums:
    units: tuple[dict[int, tuple[int, int]], ...] = ({}, {}, {})
    for one in payments:
        for sums, at in zip(units, unit_numbers(int(one.end.timestamp())), strict=True):
            counted, held = sums.get(at, (0, 0))
            sums[at] = counted + one.amount, held + (not one.proven) * one.amount
    return Sums(now.timestamp(), units)


def from_ledger(payments: list[Paid], now: datetime) -> Sums:
    with Ledger.memory() as ledger:
        for one in payments:
            end = int(one.end.timestamp())
            made = submitted(ledger, draft(amount=one.amount, valid_before=end), Budget.unlimited(), now=end - 60)
            if one.proven:
                told(ledger, made, ReasonCode.DELIVERED, receipt=PAID, now=end - 1)
        return ledger.overview(Lookup(now=now.timestamp(), budget=Budget())).sums


@pytest.mark.parametrize("source", [from_sums, pytest.param(from_ledger, marks=pytest.mark.long)])
@settings(max_examples=30)
@given(
    course=courses(),
    amount=st.integers(1, 3),
    more=st.integers(0, 2),
    limits=st.tuples(*[st.none() | st.integers(0, 9)] * 3),
)
def test_what_counts_and_when_there_is_room(
    source: Sources, course: tuple[list[Paid], datetime], amount: int, more: int, limits: tuple[int | None, ...]
) -> None:
    """`more`: what was signed for the nonce before is larger by it."""
    (payments, now), counts = course, amount + more
    most = dict(zip(WAYS, limits, strict=False))
    budget, sums = Budget.from_micro(most), source(payments, now)
    spending = sums.spending(budget).by_limit()
    for limit in WAYS:
        counted = [one for one in payments if one.counts_in(limit, now)]
        held = sum(one.amount for one in counted if not one.proven)
        assert (spending[limit].counted, spending[limit].held) == (sum(one.amount for one in counted), held), limit
        assert spending[limit].limit == most.get(limit)

    def fits(at: datetime) -> bool:
        return all(
            limit is None or counts + sum(one.amount for one in payments if one.counts_in(name, at)) <= limit
            for name, limit in most.items()
        )

    before = draft(counted=counts, counts_until=0)  # which has left all windows
    refused = refusal(amount, before, sums, budget, max_total=counts)
    assert (refused is None) == fits(now)
    if refused is not None:
        details = refused.details
        assert isinstance(details, BudgetDetails)
        moments = sorted(at for one in payments for at in one.leaves() if at > now)
        is_small = all(limit is None or counts <= limit for limit in most.values())
        assert details.room_at == (next(filter(fits, moments), None) if is_small else None)
        assert most[details.limit or ""] is not None
