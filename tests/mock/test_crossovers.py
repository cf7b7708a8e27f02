"""The market's signals against a plain recomputation of the averages; rates, confidences, pieces of time."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk_mock.market import indicators
from tradesdk_mock.market.indicators import COLUMNS, LONG, SHORT, crossover_series, past_signals
from tradesdk_mock.market.price_model import Prices, prices
from tradesdk_mock.market.tokens import Token, lively

from ._http import BASE, BNB, DAY, HOUR, START

pytestmark = pytest.mark.long

Found = dict[str, object]
CHAINS = [BASE, BNB]


def named(rows: list[indicators.Row] | tuple[indicators.Row, ...]) -> list[Found]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def recomputed(market: Prices, token: Token, marks: range) -> dict[int, Found]:
    """What the candles that close at these marks come to, by loops over their closes; the marks are `step` apart."""

    def close(mark: int) -> float:
        return market.marks(token, mark // HOUR)[mark % HOUR // 60]

    def average(mark: int, count: int) -> float:
        return sum(close(mark - back * marks.step) for back in range(count)) / count

    found: dict[int, Found] = {}
    for mark in marks:
        before = mark - marks.step
        is_above = average(mark, SHORT) > average(mark, LONG)
        if is_above != (average(before, SHORT) > average(before, LONG)):
            green = 0
            while close(mark - green * marks.step) > close(mark - (green + 1) * marks.step):
                green += 1
            gap = average(mark, SHORT) - average(mark, LONG)
            slope = abs(gap - average(before, SHORT) + average(before, LONG)) * LONG
            recent = [close(mark - back * marks.step) for back in range(12)]
            strength = slope / (max(recent) - min(recent)) + 0.1 * (green if is_above else max(0, 2 - green))
            found[mark] = {
                "direction": "BUY" if is_above else "SELL",
                "short_sma": pytest.approx(average(before, SHORT), rel=1e-10),
                "long_sma": pytest.approx(average(before, LONG), rel=1e-10),
                "green_candles": green,
                "confidence": pytest.approx(1 - 0.5 * math.exp(-((strength / 2.15) ** 2.5)), abs=0.006),
            }
    return found


def check(market: Prices, token: Token, rows: list[Found], marks: range) -> None:
    mine = [row for row in rows if row["token_address"] == token.address]
    expected = recomputed(market, token, marks)
    published = {}
    for row in mine:
        timestamp = row["timestamp"]
        assert isinstance(timestamp, int)
        mark = timestamp - timestamp % marks.step
        published[mark] = {name: row[name] for name in next(iter(expected.values()))}
        assert 0.5 <= float(str(row["published_at"])) - mark < 59.5
        assert row["price_usd"] == market.usd(token, timestamp)
    assert published == expected
    assert len(published) == len(mine)


@pytest.mark.parametrize("chain_id", CHAINS)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10**9), hour=st.integers(1, 10**7), picked=st.integers(0, 19))
def test_signals_are_the_crossings_of_the_averages_and_no_others(
    chain_id: int, seed: int, hour: int, picked: int
) -> None:
    market = Prices(seed)
    rows = named(crossover_series(market, chain_id).between(hour * HOUR, (hour + 2) * HOUR))
    for token in lively(seed, chain_id)[picked::20]:
        check(market, token, rows, range(hour * HOUR, (hour + 2) * HOUR, 60))


@pytest.mark.parametrize("created_at", [START, START + 1_799.25, 10**9 + 7])
def test_before_the_world_was_made_candles_are_of_an_hour(created_at: float) -> None:
    market = prices(7)
    rows = named(past_signals(market, created_at))
    assert all(created_at - 7 * DAY < float(str(row["published_at"])) <= created_at for row in rows)
    # What was published in the first and in the last hour depends on the second.
    marks = range(int(created_at // HOUR) * HOUR - 7 * DAY + HOUR, int(created_at // HOUR) * HOUR, HOUR)
    inner = [row for row in rows if marks.start <= int(str(row["timestamp"])) < marks.stop]
    for token in [*lively(7, BASE)[::15], *lively(7, BNB)[::7]]:
        check(market, token, inner, marks)


def test_the_past_has_both_chains_and_fewer_signals() -> None:
    rows = past_signals(prices(7), START)
    times = [row[0] for row in rows]
    assert times == sorted(times)
    assert rows is past_signals(prices(7), START)
    count = Counter(row[4] for row in rows)
    assert 60 * 168 / 7.5 < count[BASE] < 60 * 168 / 5
    assert 20 * 168 / 7.5 < count[BNB] < 20 * 168 / 5
    assert past_signals(prices(7), 0) == ()
    early = past_signals(prices(7), DAY)
    assert early
    assert min(row[0] for row in early) > 0


@pytest.mark.parametrize("chain_id", CHAINS)
@settings(max_examples=25, deadline=None)
@given(start=st.floats(0, 1e11), lengths=st.lists(st.floats(0, 4_000), min_size=1, max_size=6))
def test_pieces_of_time_give_what_the_whole_gives(chain_id: int, start: float, lengths: list[float]) -> None:
    market_of = crossover_series(prices(7), chain_id)
    found, at = [], start
    for length in lengths:
        found += market_of.between(at, at + length)
        at += length
    whole = market_of.between(start, at)
    assert found == whole
    assert [row[0] for row in whole] == sorted(row[0] for row in whole)
    assert all(start < row[0] <= at for row in whole)
    assert market_of.between(at, at) == market_of.between(at, at - 1) == []
    following = market_of.next_after(start)
    assert following > start
    assert {row[0] for row in market_of.between(start, following)} == {following}


@pytest.fixture(scope="module")
def day() -> dict[int, list[indicators.Row]]:
    """The signals of a day of two worlds."""
    found: dict[int, list[indicators.Row]] = {BASE: [], BNB: []}
    for seed in range(7, 9):
        for chain_id in CHAINS:
            found[chain_id] += crossover_series(prices(seed), chain_id).between(START, START + DAY)
    return found


def test_base_has_one_in_six_seconds_and_bnb_one_in_eighteen(day: dict[int, list[indicators.Row]]) -> None:
    assert 5.5 < 2 * DAY / len(day[BASE]) < 6.6
    assert 16.5 < 2 * DAY / len(day[BNB]) < 19.8
    # At any time: no quarter of an hour has half or double of that.
    times = Counter(int(row[0] // 900) for row in crossover_series(prices(7), BASE).between(START, START + 8 * HOUR))
    assert 75 < min(times.values()) <= max(times.values()) < 260
    seconds = Counter(int(row[0] % 60) for row in day[BASE])
    assert set(seconds) == set(range(1, 59))


def test_how_sure_signals_are(day: dict[int, list[indicators.Row]]) -> None:
    for direction in ("BUY", "SELL"):
        sure = [row[6] for rows in day.values() for row in rows if row[5] == direction]
        assert all(0.5 <= each <= 1 and each == round(each, 3) for each in sure)
        assert 0.33 < sum(each >= 0.75 for each in sure) / len(sure) < 0.41
        assert 0.11 < sum(each >= 0.9 for each in sure) / len(sure) < 0.17


def test_what_a_signal_says(day: dict[int, list[indicators.Row]]) -> None:
    greens = set()
    for chain_id, rows in day.items():
        assert len({row[1] for row in rows}) == len(rows)
        for row in named(rows[:3_000]):
            assert (row["chain_id"], row["crossover"]) == (chain_id, 1)
            millis = round(float(str(row["published_at"])) * 1_000)
            assert str(row["id"])[:16] == f"sig_{millis:012x}"
            assert len(str(row["id"])) == 28
            short, long, green = (float(str(row[name])) for name in ("short_sma", "long_sma", "green_candles"))
            reason = str(row["reason"])
            # Before the crossing they stood the other way round.
            assert (short <= long) == (row["direction"] == "BUY") == ("above" in reason)
            assert (f"after {green:.0f} green candles" in reason) == (row["direction"] == "BUY" and green > 1)
            greens.add(green)
    assert greens >= {0, 1, 2, 3}


def some_signals() -> tuple[list[indicators.Row], list[indicators.Row]]:
    return list(past_signals(prices(7), START)[-300:]), crossover_series(prices(7), BNB).between(
        START + 5_000, START + 9_000
    )


def test_another_process_and_a_cold_start_have_the_same_signals() -> None:
    code, root = "from tests.mock.test_crossovers import *; print(some_signals())", Path(__file__).parents[2]
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True, cwd=root).stdout
    assert printed == f"{some_signals()}\n"
