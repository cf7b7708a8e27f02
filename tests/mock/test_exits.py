"""When a position is over: the look ahead against a plain walk from second to second."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk_mock.market.price_model import Prices, prices, significant
from tradesdk_mock.market.tokens import Token, lively
from tradesdk_mock.trading.exits import ExitForecast, ExitLevels, first_exit, trailing_peak

BORN = 1_800_000_000
SPAN = 3 * 3_600


def _walked(course: Prices, token: Token, levels: ExitLevels, peak: float, since: int, upto: int) -> ExitForecast:
    """The same, second by second."""
    for second in range(since + 1, upto + 1):
        price = course.usd(token, second)
        trailing = significant(peak * (1 - levels.trailing))
        if price >= levels.take_profit:
            return ExitForecast(second, "take_profit", peak)
        if price <= max(levels.stop_loss, trailing):
            return ExitForecast(second, "stop_loss" if levels.stop_loss >= trailing else "trailing_stop", peak)
        if second % 60 == 0:
            peak = max(peak, price)
    return ExitForecast(None, None, peak)


def _levels(entry: float, stop: float, trailing: float, target: float) -> ExitLevels:
    return ExitLevels(entry * (1 - stop), entry * (1 + target), trailing)


shares = st.floats(0.0002, 0.05)


@given(
    seed=st.integers(1, 30),
    which=st.tuples(st.sampled_from([8453, 56]), st.integers(0, 19)),
    times=st.tuples(st.integers(0, 20 * 86_400), st.integers(0, SPAN)),
    risk=st.tuples(shares, shares, shares),
)
def test_the_look_ahead_finds_the_first_second(
    seed: int, which: tuple[int, int], times: tuple[int, int], risk: tuple[float, float, float]
) -> None:
    course, token = prices(seed), lively(seed, which[0])[which[1]]
    since = BORN + times[0]
    entry = course.usd(token, since)
    question = course, token, _levels(entry, *risk), entry, since, since + times[1]
    assert first_exit(*question) == _walked(*question)


CUTS = ([SPAN], [60, SPAN], [1, SPAN], [59, 61, SPAN], [3_600, SPAN], [7, 700, 3_599, 3_601, 9_000, SPAN])


@pytest.mark.long
def test_every_way_to_end_is_met_and_may_be_looked_for_in_parts() -> None:
    course, token = prices(3), lively(3, 8453)[4]
    met = Counter[str | None]()
    for since in range(BORN, BORN + 3 * 86_400, 38_003):
        entry = course.usd(token, since)
        for risk in ((0.03, 0.01, 0.02), (0.004, 0.006, 0.008), (0.3, 0.3, 0.3)):
            levels = _levels(entry, *risk)
            whole = _walked(course, token, levels, entry, since, since + SPAN)
            for cuts in CUTS:
                peak, at, part = entry, since, whole
                for cut in cuts:
                    part = first_exit(course, token, levels, peak, at, since + cut)
                    peak, at = part.peak, since + cut
                    if part.at is not None:
                        break
                assert part == whole
            met[whole.by] += 1
    assert met.keys() == {"stop_loss", "trailing_stop", "take_profit", None}
    assert min(met.values()) >= 2


@given(begin=st.integers(0, 86_400), span=st.integers(0, 9_000), start=st.floats(0.99, 1.01))
@settings(max_examples=40, deadline=None)
def test_the_peak_is_the_highest_of_the_full_minutes(begin: int, span: int, start: float) -> None:
    course, token = prices(7), lively(7, 8453)[1]
    since = BORN + begin
    peak = course.usd(token, since) * start
    marks = [second for second in range(since + 1, since + span + 1) if second % 60 == 0]
    expected = max([peak, *(course.usd(token, mark) for mark in marks)])
    assert trailing_peak(course, token, peak, since, since + span) == pytest.approx(expected, rel=1e-8)
