"""Nothing lost, nothing twice, nothing out of order: whole plans of faults from a seed, in virtual time."""

from __future__ import annotations

import gc
import json
import logging
import tracemalloc

import pydantic_core
import pytest

from .._seeds import drawn, one_of
from .._streamservice_outages import most_within
from .._streamservice_plan import BACKEND, Plan
from ._streamrun import AsyncStreamRun

pytestmark = pytest.mark.twin

PLANS = 6
PLANS = 3  # what is decided is the same in the blocking flavour, which plays more  # async only
FLAVOUR = 0
FLAVOUR = 1  # async only


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return BACKEND


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of notices would be kept for the report of a failure, which has a log of its own."""
    caplog.set_level(logging.CRITICAL, "tradesdk")


async def played(plan: Plan, patch: pytest.MonkeyPatch | None = None) -> AsyncStreamRun:
    """Thousands of signals through many disconnects and all the rest, and that it really was all of it."""
    run = AsyncStreamRun(plan, patch=patch)
    stats = await run.play()
    service = run.service
    assert stats.signals == plan.expected
    assert stats.late == stats.gaps == 0
    assert service.unfinished == service.escaped == 0
    assert len(service.connects) > len(plan.fates)
    assert most_within(service.tries) <= 20
    assert stats.replayed > 0
    assert stats.duplicates > 0
    return run


@pytest.mark.long
async def test_a_plan() -> None:
    run = await played(Plan.of(0, signals=3000, disconnects=30, stalls=10))
    assert run.service.last_fate < run.plan.end, "the last cut came after the last signal"


async def test_a_plan_by_our_own_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that a client has by default: pool, deadlines and HTTP/1.1, all but the sockets."""
    run = await played(Plan.of(2, signals=250, disconnects=10, stalls=3), monkeypatch)
    assert run.network is not None
    assert run.network.connections > 7


@pytest.mark.long
@pytest.mark.parametrize("seeds", drawn("TRADE_STREAM_SEEDS", PLANS, together=3))
async def test_many_plans(seeds: range) -> None:
    """Or as many as TRADE_STREAM_SEEDS says; every other one by our own connections."""
    for seed in seeds:
        with pytest.MonkeyPatch.context() as patch:
            await played(Plan.of(seed), patch if seed % 2 else None)


async def test_what_the_stream_leaves_out_without_a_word_comes_from_the_history() -> None:
    """Flagged as late when newer ones were there before; never lost, never twice."""
    run = AsyncStreamRun(Plan.of(4, signals=500, disconnects=10, stalls=3, dropped=20))
    stats = await run.play()
    assert stats.signals == run.plan.expected
    assert 0 < stats.late <= 20


async def test_signals_that_are_older_than_their_publication() -> None:
    """The stream brings them in no order of time: what came after a newer one is flagged, and none is lost."""
    run = AsyncStreamRun(Plan.of(6, signals=500, disconnects=15, stalls=3, disorder=8.0))
    stats = await run.play()
    assert stats.signals == run.plan.expected
    assert stats.late > 50


async def test_a_consumer_that_pauses_for_an_hour() -> None:
    """What was sent meanwhile lies unread or is lost with the connection, and comes once either way."""
    plan = Plan.of(7, signals=800, disconnects=12, stalls=3)
    plan.dawdles = {100: 1000.0, 101: 1000.0, 105: 600.0, 300: 3600.0, 500: 300.0, 501: 300.0, 502: 400.0}
    run = AsyncStreamRun(plan)
    stats = await run.play()
    assert stats.signals == plan.expected
    assert stats.late == 0


if FLAVOUR in one_of([0, 1]):  # tracing is slow: scripts/long plays one of the two

    @pytest.mark.long
    async def test_memory_is_flat() -> None:
        """After many signals it needs no more than before: the peaks, by thousands, stay what they were."""
        plan = Plan.of(1, signals=14_000, disconnects=140, stalls=42, refusals=28)
        plan.dawdles = {}  # else it is the longest pause that counts
        peaks: list[int] = []

        def sample() -> None:
            peaks.append(tracemalloc.get_traced_memory()[1])
            gc.collect(1)  # else garbage of circles counts, which tests seldom look for
            tracemalloc.reset_peak()

        run = AsyncStreamRun(plan)
        run.at_thousand = sample
        tracemalloc.start()
        # pydantic keeps up to 16,384 short strings that it has read. Those of earlier tests are not traced, so that
        # memory would seem to grow while new ones replace them.
        pydantic_core.from_json(json.dumps([f"{number:026}" for number in range(100_000)]))
        try:
            stats = await run.play()
        finally:
            tracemalloc.stop()
        assert stats.signals == plan.expected
        begin, end = sorted(peaks[3:8]), sorted(peaks[-5:])
        assert end[2] < begin[2] * 1.15, (begin, end)
