"""Scenarios: each does to prices what its name says, from the moment it begins, and forever within bounds."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk_mock import MockClock, MockServerError, MockService
from tradesdk_mock.market.indicators import CrossoverSeries, past_signals
from tradesdk_mock.market.price_model import Prices, prices
from tradesdk_mock.market.scenarios import ORDINARY, SCENARIOS, Course
from tradesdk_mock.market.tokens import Token, lively

from ._http import START

pytestmark = pytest.mark.long

HOUR, DAY = 3_600, 86_400
NAMED = [name for name in SCENARIOS if name != ORDINARY]
# Not at a full minute.
ANCHOR = START + 1_234.5
BEGIN = START + 1_260


def some(seed: int, chain_id: int = 8453) -> tuple[Token, ...]:
    return lively(seed, chain_id)[::10]


def hourly(market: Prices, token: Token, hours: int, first: int = 1) -> list[float]:
    """USD at full hours after the beginning."""
    return [market.usd(token, BEGIN + HOUR * hour) for hour in range(first, first + hours)]


def minutes(market: Prices, token: Token, hours: int) -> list[float]:
    start = BEGIN // HOUR + 1
    return [price for hour in range(start, start + hours) for price in market.closes(token, hour)]


def deviation(found: list[float]) -> float:
    """Of the changes from one price to the next, as logarithms."""
    return math.sqrt(sum(math.log(after / before) ** 2 for before, after in pairwise(found)) / len(found))


@pytest.mark.parametrize("scenario", NAMED)
def test_until_it_begins_it_is_the_ordinary_market(scenario: str) -> None:
    market, plain = Prices(7, scenario, ANCHOR), prices(7)
    tokens = [*some(7), *some(7, 56)]
    for back in (0, 1, 59, 61, HOUR, 3 * DAY, 500 * DAY):
        at = BEGIN - back
        assert [market.usd(token, at) for token in tokens] == [plain.usd(token, at) for token in tokens]
        assert (market.rate(at), market.native_usd(56, at)) == (plain.rate(at), plain.native_usd(56, at))
    assert past_signals(market, ANCHOR) == past_signals(plain, ANCHOR)
    later = BEGIN + 6 * DAY
    assert all(market.eth(token, later) != plain.eth(token, later) for token in tokens)


@pytest.mark.parametrize("scenario", NAMED)
def test_it_begins_without_a_jump(scenario: str) -> None:
    market = Prices(7, scenario, ANCHOR)
    for token in some(7):
        for at in range(BEGIN - 120, BEGIN + 120):
            # A minute of a spike is a seventeenth of a percent in a second.
            assert abs(market.usd(token, at + 1) / market.usd(token, at) - 1) < 0.0015


@settings(deadline=None, max_examples=60)
@given(scenario=st.sampled_from(NAMED), at=st.integers(0, 10**11 - 1), place=st.integers(0, 59))
def test_it_stays_within_bounds_for_ever(scenario: str, at: int, place: int) -> None:
    market = prices(7, scenario, ANCHOR)
    token = lively(7, 8453)[place]
    assert 0.1 < market.usd(token, at) / token.price_usd < 8
    assert 900 < market.rate(at) < 7_000


@settings(deadline=None, max_examples=100)
@given(scenario=st.sampled_from(NAMED), seed=st.integers(0, 9), minute=st.integers(1, 10**9))
def test_its_course_has_no_jumps(scenario: str, seed: int, minute: int) -> None:
    course = Course(seed, scenario)
    before, here = course.heights(minute - 1, 2, 1)
    assert abs(here - before) < 0.055
    assert course.heights(minute, 1, 60) == [here]
    assert course.heights(-5, 6, 1) == [0.0] * 6
    # The border of two months, of two waves, of two hours.
    for border in (43_200, 4 * 1_440, 180, 75, 60):
        before, here = course.heights(minute // border * border + border - 1, 2, 1)
        assert abs(here - before) < 0.055


def test_trending_has_days_of_rise_and_days_of_fall() -> None:
    for seed in range(3):
        market = Prices(seed, "trending", ANCHOR)
        ordinary = Prices(seed, ORDINARY, 0.0)

        def legs(which: Prices, token: Token, seed: int = seed) -> list[float]:
            """What each leg comes to, from turn to turn of the scenario's own course."""
            course = Course(seed, "trending").heights(0, 40 * 24, 60)
            turns = [
                hour
                for hour in range(1, len(course) - 1)
                if (course[hour] - course[hour - 1]) * (course[hour + 1] - course[hour]) < 0
            ]
            prices_then = [which.usd(token, BEGIN + HOUR * hour) for hour in turns]
            assert all(36 <= after - before <= 160 for before, after in pairwise(turns))
            return [math.log(after / before) for before, after in pairwise(prices_then)]

        for token in some(seed):
            found = legs(market, token)
            assert len(found) >= 6
            signs = [one * other < 0 for one, other in pairwise(found)]
            assert sum(signs) >= len(signs) - 1
            mean = sum(map(abs, found)) / len(found)
            assert 0.15 < mean < 0.9
            assert mean > 1.5 * sum(map(abs, legs(ordinary, token))) / len(found)


def test_choppy_gets_nowhere() -> None:
    for seed in range(3):
        market = Prices(seed, "choppy", ANCHOR)
        for token in some(seed)[::2]:
            found = hourly(market, token, 10 * 24)
            assert max(found) / min(found) < 1.35
            eth = [market.eth(token, BEGIN + HOUR * hour) for hour in range(10 * 24)]
            # Much way for little distance.
            way = sum(abs(math.log(after / before)) for before, after in pairwise(eth))
            assert way > 8 * abs(math.log(eth[-1] / eth[0]))
            up = [after > before for before, after in pairwise(eth)]
            turns = sum(one != other for one, other in pairwise(up))
            assert 10 * 24 / 4.5 < turns < 10 * 24 / 1.5


def test_crash_is_quiet_for_two_days_then_halves_and_takes_weeks() -> None:
    for seed in range(5):
        market, ordinary = Prices(seed, "crash", ANCHOR), Prices(seed, ORDINARY, 0.0)
        falls = []
        for token in some(seed):
            assert deviation(minutes(market, token, 40)) < 0.6 * deviation(minutes(ordinary, token, 40))
            start, half, low, week, later = (
                market.usd(token, BEGIN + int(hours * HOUR)) for hours in (48, 51.4, 54, 54 + 7 * 24, 29.8 * 24)
            )
            assert 0.78 < start / market.usd(token, BEGIN) < 1.25
            falls.append(1 - low / start)
            assert low < half < start
            assert low < week < 0.95 * start
            assert later > 0.8 * start
            again = [market.usd(token, BEGIN + 30 * DAY + hours * HOUR) for hours in (48, 54)]
            assert 0.4 < again[1] / again[0] < 0.6
        assert 0.45 < sum(falls) / len(falls) < 0.55
        assert all(0.42 < fall < 0.58 for fall in falls)
        rates = [market.rate(BEGIN + hours * HOUR) for hours in (48, 54)]
        assert 0.75 < rates[1] / rates[0] < 0.88


def test_the_fall_of_a_crash_is_rough_and_all_the_rest_is_not() -> None:
    for seed in range(3):
        market, course = Prices(seed, "crash", ANCHOR), Course(seed, "crash")
        for token in some(seed):
            before, within, after = (
                deviation([market.eth(token, BEGIN + 60 * (hour * 60 + minute)) for minute in range(180)])
                for hour in (44, 50, 72)
            )
            assert within > 6 * max(before, after)
            assert 0.004 < within < 0.013
        assert deviation([market.rate(BEGIN + 60 * (50 * 60 + minute)) for minute in range(180)]) > 0.002
        for month in (0, 1, 40):
            fall = (month * 30 + 2) * 1_440
            assert course.roughness(fall + 60, 3) == [0.007] * 3
            assert course.roughness(fall - 12 - 61, 61) is None
            assert course.roughness(fall + 20 * 60, 61) is None
            # In pieces it is what it is at once, and it comes and goes little by little.
            whole = course.roughness(fall - 20, 21 * 60)
            assert whole is not None
            assert [(course.roughness(fall - 20 + minute, 1) or [0.0])[0] for minute in range(21 * 60)] == whole
            assert max(abs(here - there) for here, there in pairwise(whole)) < 0.0005
            assert whole[0] == whole[-1] == 0
    assert [Course(7, name).roughness(48 * 60 + 60, 61) for name in NAMED if name != "crash"] == [None] * 4


def longest_silence(seed: int, scenario: str, first: int, last: int) -> float:
    """Seconds on Base between two hours after the beginning."""
    begin, end = ANCHOR + first * HOUR, ANCHOR + last * HOUR
    times = [row[0] for row in CrossoverSeries(Prices(seed, scenario, ANCHOR), 8453).between(begin, end)]
    return max(after - before for before, after in pairwise([begin, *times, end]))


@pytest.mark.parametrize(("scenario", "first"), [("crash", 47), ("choppy", 0)])
def test_the_hours_of_a_course_have_signals(scenario: str, first: int) -> None:
    assert longest_silence(7, scenario, first, first + 9) < 300


@pytest.mark.long
@pytest.mark.parametrize("seed", [7, 12])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_five_minutes_are_without_a_signal(scenario: str, seed: int) -> None:
    assert longest_silence(seed, scenario, 0, 4 * 24) < 300


def test_quiet_has_a_quarter_of_the_movement() -> None:
    market, ordinary = Prices(7, "quiet", ANCHOR), Prices(7, ORDINARY, 0.0)
    for token in some(7)[::2]:
        share = [
            deviation([each.eth(token, BEGIN + 60 * minute) for minute in range(1_000)]) for each in (market, ordinary)
        ]
        assert share[0] == pytest.approx(share[1] / 4, rel=0.01)
        found = hourly(market, token, 30 * 24)
        assert max(found) / min(found) < 1.45


def test_whipsaw_has_spikes_that_are_taken_back() -> None:
    market = Prices(7, "whipsaw", ANCHOR)
    for token in some(7):
        found = minutes(market, token, 48)
        ups = downs = 0
        for minute in range(5, len(found) - 7):
            before, here, after = found[minute - 5], found[minute], found[minute + 6]
            if here == max(found[minute - 5 : minute + 7]) and here > 1.035 * max(before, after):
                ups += 1
            if here == min(found[minute - 5 : minute + 7]) and here < 0.965 * min(before, after):
                downs += 1
        # One in 75 minutes.
        assert 33 <= ups + downs <= 40
        assert min(ups, downs) >= 8
        spikes = sorted(abs(math.log(after / before)) for before, after in zip(found, found[2:], strict=False))
        assert 0.04 < spikes[-20] <= spikes[-1] < 0.14


@pytest.mark.parametrize("scenario", ["trending", "choppy", "crash", "whipsaw"])
def test_tokens_follow_each_by_its_own_measure_and_a_little_late(scenario: str) -> None:
    course = Course(7, scenario)
    followed = [course.followed_by(f"8453 {token.symbol}") for token in lively(7, 8453)]
    measures = [measure for measure, _ in followed]
    assert 0.7 <= min(measures) < 0.85
    assert 1.15 < max(measures) <= 1.3
    delays = {delay for _, delay in followed}
    if scenario == "choppy":
        # Waves of some hours that begin within three: at any time some tokens rise and some fall.
        assert max(delays) <= 180
        assert len(delays) > 40
    else:
        assert delays == set(range(6))
    market, plain = Prices(7, scenario, ANCHOR), Prices(7, ORDINARY, 0.0)
    for token, (measure, delay) in list(zip(lively(7, 8453), followed, strict=True))[:8]:
        origin = plain.eth(token, BEGIN)
        for minute in (1, 3, 77, 1_000, 2_999, 3_000, 20_000):
            at = BEGIN + 60 * minute
            ordinary = (plain.eth(token, at) / origin) ** course.volatility
            (height,) = course.heights(minute - delay, 1, 1)
            if course.roughness(minute - delay, 1) is not None:
                assert 0 < abs(math.log(market.eth(token, at) / origin / ordinary) - measure * height) < 0.08
                continue
            assert market.eth(token, at) == pytest.approx(origin * ordinary * math.exp(measure * height), rel=1e-6)


def test_a_mock_has_the_scenario_it_was_made_with() -> None:
    at = BEGIN + 54 * HOUR

    def close(mock: MockService) -> float:
        return mock.candles("BRETT", start=at, end=at + 60)[0].open

    with MockService(clock=MockClock(ANCHOR)) as plain, MockService(clock=MockClock(ANCHOR), scenario="crash") as mock:
        assert close(mock) == prices(7, "crash", ANCHOR).usd(lively(7, 8453)[1], at) < 0.7 * close(plain)
        mock.clock.advance(DAY)
        mock.reset(scenario="whipsaw")
        assert mock.world.prices is prices(7, "whipsaw", ANCHOR + DAY)
        mock.reset(scenario=ORDINARY)
        assert mock.world.prices is plain.world.prices
        with pytest.raises(MockServerError, match="'moon' is not a scenario: ordinary, trending"):
            mock.reset(scenario="moon")  # type: ignore[arg-type]  # a mistake
