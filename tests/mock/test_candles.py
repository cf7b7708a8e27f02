"""Candles: the prices of a span of time, as anybody can look them up one by one."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk_mock.market.candles import Candle, candles
from tradesdk_mock.market.price_model import prices
from tradesdk_mock.market.tokens import lively

from ._support import START

MARKET = prices(7)
BRETT = lively(7, 8453)[1]
DAY = 86_400


@settings(deadline=None, max_examples=30)
@given(
    start=st.integers(0, 4 * 10**9) | st.floats(0, 4e9),
    length=st.floats(0, 40_000),
    seconds=st.sampled_from([60, 120, 420, 3_600, 13_620]),
)
def test_each_is_what_prices_were(start: float, length: float, seconds: int) -> None:
    found = candles(MARKET, BRETT, start, start + length, seconds)
    for candle in found:
        assert candle.at % seconds == 0
        assert start <= candle.at
        assert candle.at + seconds <= start + length
        usd = [MARKET.usd(BRETT, candle.at + second) for second in range(0, seconds + 1, 60)]
        assert candle == Candle(candle.at, usd[0], max(usd), min(usd), usd[-1])
        for second in range(0, seconds, 613):
            price = MARKET.usd(BRETT, candle.at + second)
            assert candle.low * (1 - 3e-6) <= price <= candle.high * (1 + 3e-6)
    assert all(after.at == before.at + seconds and after.open == before.close for before, after in pairwise(found))
    # None is missing at the ends.
    if found:
        assert found[0].at - seconds < start
        assert found[-1].at + 2 * seconds > start + length
    else:
        assert length < 2 * seconds


def test_longer_ones_are_made_of_shorter_ones() -> None:
    short = candles(MARKET, BRETT, START, START + DAY)
    assert len(short) == 1_440
    (day,) = candles(MARKET, BRETT, START // DAY * DAY, START // DAY * DAY + DAY, DAY)
    hours = candles(MARKET, BRETT, day.at, day.at + DAY, 3_600)
    assert len(hours) == 24
    assert (day.open, day.close) == (hours[0].open, hours[-1].close)
    assert (day.high, day.low) == (max(hour.high for hour in hours), min(hour.low for hour in hours))


def test_without_seconds_they_are_of_a_minute_and_nobody_changes_them() -> None:
    (candle,) = candles(MARKET, BRETT, START, START + 60)
    assert candle.at == START
    with pytest.raises(FrozenInstanceError):
        candle.close = 1.0  # type: ignore[misc]
    assert candles(MARKET, BRETT, START, START + 59) == candles(MARKET, BRETT, START, START) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"start": -1}, "start: must be a time in Unix seconds, not '-1'"),
        ({"start": True}, "start: "),
        ({"start": "now"}, "start: "),
        ({"end": float("nan")}, "end: "),
        ({"end": 1e11}, "end: "),
        ({"end": None}, "end: "),
        ({"end": START - 0.5}, "end: is before start, 1799999999.5 < 1800000000"),
        ({"seconds": 0}, "seconds: must be a multiple of 60 up to 86,400, not '0'"),
        ({"seconds": 59}, "seconds: "),
        ({"seconds": 61}, "seconds: "),
        ({"seconds": 60.0}, "seconds: "),
        ({"seconds": 2 * DAY}, "seconds: "),
        ({"seconds": True}, "seconds: "),
        ({"end": START + 6_000_060}, "end: there are 100,001 candles up to then, at most 100,000 can be had at once"),
    ],
    ids=str,
)
def test_what_can_not_be_had(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}"):
        candles(MARKET, BRETT, **{"start": START, "end": START + 60, **wrong})
