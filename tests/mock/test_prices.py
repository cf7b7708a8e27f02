"""Prices: walks that are worked out from a seed and a time, at any moment of 3,000 years."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk_mock.market.price_model import Prices, cents, prices, significant
from tradesdk_mock.market.tokens import Token, find, lively, tokens

from ._http import START

pytestmark = pytest.mark.long

HOUR, DAY = 3_600, 86_400
EVERY = tokens(7, 8453) + tokens(7, 56)
any_token = st.sampled_from(EVERY)
any_second = st.integers(0, 10**11 - 1)
# The borders of hours, days, and spans of 64 days.
any_seam = st.integers(1, 10**7).map(lambda hour: hour * HOUR) | st.integers(1, 15_000).map(lambda n: n * 64 * DAY)


def brett() -> Token:
    found = find(7, 8453, "BRETT")
    assert found is not None
    return found


@settings(deadline=None)
@given(token=any_token, at=any_second)
def test_usd_is_ether_times_the_rate_and_near_the_table_for_ever(token: Token, at: int) -> None:
    market = prices(7)
    assert market.usd(token, at) == significant(market.eth(token, at) * market.rate(at), 8)
    assert market.eth(token, at) == significant(market.eth(token, at), 8)
    assert market.native_usd(8453, at) == market.rate(at) == round(market.rate(at), 2)
    assert market.native_usd(56, at) == round(market.native_usd(56, at), 2)
    assert market.usd(token, at + 0.999) == market.usd(token, at)
    assert 0.25 < market.usd(token, at) / token.price_usd < 4
    assert 1_500 < market.rate(at) < 6_500
    assert 300 < market.native_usd(56, at) < 1_400


@settings(deadline=None)
@given(token=any_token, at=any_second | any_seam)
def test_a_price_moves_without_jumps(token: Token, at: int) -> None:
    """Also where an hour, a day or 64 days end: at most a wild minute's part."""
    market = prices(7)
    for one in (lambda second: market.usd(token, second), market.rate, lambda second: market.native_usd(56, second)):
        assert abs(one(at) / one(max(0, at - 1)) - 1) < 0.0007


@settings(deadline=None, max_examples=30)
@given(token=any_token, hour=st.integers(0, 10**7))
def test_between_two_full_minutes_ether_and_rate_are_straight_lines(token: Token, hour: int) -> None:
    market, start = Prices(7), hour * HOUR
    marks, rates, closes = market.marks(token, hour), market.rates(hour), market.closes(token, hour)
    assert (len(marks), len(rates), len(closes)) == (61, 61, 60)
    assert marks[60] == pytest.approx(market.marks(token, hour + 1)[0], rel=1e-14)
    assert market.hours(token, hour // 24)[hour % 24] == marks[0]
    for minute in range(60):
        assert closes[minute] == marks[minute] * rates[minute]
        assert market.usd(token, start + 60 * minute) == pytest.approx(closes[minute], rel=1.01e-7)
        for second in (0, 17, 59):
            at, part = start + 60 * minute + second, second / 60
            eth = marks[minute] * (1 - part) + marks[minute + 1] * part
            rate = rates[minute] * (1 - part) + rates[minute + 1] * part
            assert market.eth(token, at) == pytest.approx(eth, rel=1e-7)
            assert abs(market.rate(at) - rate) <= 0.00500001


def test_in_whatever_order_one_looks_it_is_the_same() -> None:
    there, back = Prices(7), Prices(7)
    times = [START + step * 7_919 for step in range(-20, 100)]
    forward = [there.usd(brett(), at) for at in times]
    assert [back.usd(brett(), at) for at in reversed(times)] == forward[::-1]
    first = START // DAY * 24
    marks = [there.marks(brett(), hour) for hour in range(first, first + 240)]
    hours = [price for day in range(10) for price in back.hours(brett(), first // 24 + day)]
    assert hours == [one[0] for one in marks]
    assert [one[60] for one in marks[:-1]] == pytest.approx(hours[1:], rel=1e-14)


def test_what_is_held_is_bounded_and_can_be_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [Prices(7).usd(token, START) for token in EVERY]
    for name in ("_HOURS", "_CLOSES", "_SPANS", "_DAYS"):
        monkeypatch.setattr(f"tradesdk_mock.market.price_model.{name}", 8)
    market = Prices(7)
    for _ in range(2):
        assert [market.usd(token, START) for token in EVERY] == expected
        for token in EVERY:
            market.closes(token, START // HOUR)
    held = (market._hours, market._closes, market._spans, market._days)  # pyright: ignore[reportPrivateUsage]
    assert [len(each) <= 8 for each in held] == [True] * 4


def some_prices() -> list[list[float]]:
    times = [START + 86_399 * step for step in range(-2, 9)] + [0, 10**11 - 1]
    return [[prices(7).usd(token, at) for at in times] for token in (*EVERY[:62:20], *EVERY[620:622])]


def test_another_process_has_the_same_prices() -> None:
    code, root = "from tests.mock.test_prices import *; print(some_prices())", Path(__file__).parents[2]
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True, cwd=root).stdout
    assert printed == f"{some_prices()}\n"


def test_each_seed_and_each_token_has_a_course_of_its_own() -> None:
    def course(seed: int, place: int) -> list[float]:
        token = lively(seed, 8453)[place]
        return [prices(seed).eth(token, START + HOUR * step) / token.price_usd for step in range(24)]

    courses = [tuple(course(seed, place)) for seed in range(4) for place in range(10)]
    assert len(set(courses)) == 40


def moves(market: Prices, token: Token, first: int, count: int, step: int) -> list[float]:
    """Logarithms of a price's changes over so many minutes."""
    logs = [math.log(price) for hour in range(first, first + count) for price in market.marks(token, hour)[:60]][::step]
    return [after - before for before, after in pairwise(logs)]


def midnights(market: Prices, token: Token, count: int) -> list[float]:
    return [market.hours(token, START // DAY + day)[0] for day in range(count)]


def deviation(found: list[float]) -> float:
    return math.sqrt(sum(each**2 for each in found) / len(found))


def test_a_lively_token_moves_by_some_percent_a_day() -> None:
    market, first = Prices(7), START // HOUR
    for token in lively(7, 8453)[:12]:
        minutes = deviation(moves(market, token, first, 24 * 10, 1))
        days = deviation([math.log(after / before) for before, after in pairwise(midnights(market, token, 60))])
        assert 0.0006 < minutes < 0.0016
        assert 0.02 < days < 0.08
    rate = [market.rate(START + DAY * day) for day in range(400)]
    assert 0.012 < deviation([math.log(after / before) for before, after in pairwise(rate)]) < 0.03


def test_some_hours_are_calm_and_some_are_wild_and_some_have_a_direction() -> None:
    """Six hours have a mood; after it there may be another."""
    market, first = Prices(7), START // DAY * 24
    loud, run = [], []
    for token in lively(7, 8453)[:20]:
        for quarter in range(40):
            found = moves(market, token, first + 6 * quarter, 6, 1)
            loud.append(deviation(found))
            run.append(abs(sum(found)) / deviation(found) / math.sqrt(len(found)))
    # In more than half of all days the second six hours are clearly calmer or wilder than the first.
    differing = [not 0.67 < second / one < 1.5 for one, second in zip(loud[::4], loud[1::4], strict=True)]
    assert 0.4 < sum(differing) / len(differing) < 0.75
    loud.sort()
    assert loud[len(loud) * 9 // 10] > 3 * loud[len(loud) // 10]
    # Of a walk without trends one in twenty is beyond two deviations.
    assert sum(each > 2 for each in run) / len(run) > 0.08


def test_tokens_do_not_move_together() -> None:
    market, first = Prices(7), START // HOUR
    every = [moves(market, token, first, 24, 1) for token in lively(7, 8453)[:8]]
    for place, one in enumerate(every):
        for other in every[:place]:
            shared = sum(a * b for a, b in zip(one, other, strict=True)) / len(one)
            assert abs(shared / deviation(one) / deviation(other)) < 0.15


@given(st.floats(0.01, 1e7))
def test_cents_are_those_of_round(usd: float) -> None:
    assert abs(cents(usd) - usd) <= 0.005 + 1e-9 * usd
    assert cents(usd) == round(cents(usd), 2)


def test_ether_costs_one_ether() -> None:
    ether = find(7, 8453, "ETH")
    assert ether is not None
    market = Prices(7)
    assert market.eth(ether, START + 9 * DAY) == 1.0
    assert market.usd(ether, START + 9 * DAY) == market.rate(START + 9 * DAY)
    assert market.hours(ether, 3) == [1.0] * 24
    assert market.closes(ether, START // HOUR) == market.rates(START // HOUR)[:60]
