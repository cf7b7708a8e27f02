"""An hour of outage: the service is asked seldom, the stream goes on by itself, history brings the rest."""

from __future__ import annotations

import logging

import pytest

from .._seeds import drawn, one_of
from .._streamservice_outages import BEGIN, END, KINDS, Outage, during, most_within
from .._streamservice_plan import BACKEND
from ._streamrun import AsyncStreamRun

pytestmark = pytest.mark.twin


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return BACKEND


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of notices would be kept for the report of a failure, which has a log of its own."""
    caplog.set_level(logging.CRITICAL, "tradesdk")


LIKE_OTHERS = {
    *("no answer", "503", "cut before the answer", "accepted, then reset", "accepted, then only comments"),
    *("accepted, then silence", "accepted, then silence, without history", "an empty body", "503 retry-after"),
}
"""Kinds that scripts/long plays: of each group one is quick."""


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.long if kind in LIKE_OTHERS else ()) for kind in KINDS]
)
async def test_an_outage_of_an_hour(kind: str) -> None:
    """At most 20 tries to connect in any five minutes, it never gives up, and nothing is missing without a word."""
    outage = Outage(kind)
    hidden = kind.endswith("without history")
    run = AsyncStreamRun(outage.plan(), hook=outage, gaps_allowed=hidden)
    await run.play()
    judge, tries = run.judge, run.service.tries
    assert most_within(tries) <= 20
    longest = 1300 if hidden else 660  # seconds from one try to the next, with ten minutes of patience with history
    assert during(tries) >= (END - BEGIN) / longest
    back = next(moment for moment in run.service.connects if moment >= END)
    assert back - END <= longest
    assert judge.reports["Disconnected"] >= during(tries)
    assert bool(judge.gaps) == hidden
    for number in judge.missing:
        moment = run.plan.signals[number].fields["timestamp"]
        assert any(gap.start.timestamp() <= moment <= gap.end.timestamp() for gap in judge.gaps), number


@pytest.mark.parametrize("keeps", [60.0, pytest.param(3_000.0, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "kind",
    [
        "refused",
        *(
            pytest.param(kind, marks=pytest.mark.long)
            for kind in ("accepted, then cut", "accepted, then silence", "an empty body")
        ),
    ],
)
async def test_what_the_history_has_let_go_is_a_gap(kind: str, keeps: float) -> None:
    """It keeps less than the outage lasts: what is missing lies in a gap, and the gaps hold nothing that came."""
    outage = Outage(kind)
    run = AsyncStreamRun(outage.plan(), hook=outage, gaps_allowed=True)
    run.service.keeps = keeps
    stats = await run.play()
    judge, moments = run.judge, [one.fields["timestamp"] for one in run.plan.signals]
    if kind == "refused":
        assert len(judge.missing) > (END - BEGIN - keeps) / 8.0 * 0.8
        assert stats.gaps == 1
    for number in judge.missing:
        assert any(gap.start.timestamp() <= moments[number] <= gap.end.timestamp() for gap in judge.gaps), number
    lost = set(judge.missing)
    for gap in judge.gaps:
        inside = [n for n, at in enumerate(moments) if gap.start.timestamp() < at < gap.end.timestamp()]
        assert lost.issuperset(inside)
        assert gap.reason == "the history does not reach back to the last signal seen"


HALVES = [["refused", "accepted, then silence"], ["accepted, then cut", "a minute of health, then cut"]]
CROWDED = [kind for half in one_of(HALVES) for kind in half]
CROWDED = ["refused"]  # what is decided is the same in the blocking flavour, which plays more  # async only


@pytest.mark.long
@pytest.mark.parametrize("kind", CROWDED)
@pytest.mark.parametrize("seeds", drawn("TRADE_OUTAGE_SEEDS", 1, together=1))
async def test_a_crowded_outage(kind: str, seeds: range) -> None:
    """Eighteen thousand signals are missed, and come in order."""
    for seed in seeds:
        outage = Outage(kind)
        run = AsyncStreamRun(outage.crowded(seed), hook=outage)
        stats = await run.play()
        assert stats.signals == run.plan.expected
        assert stats.late == stats.gaps == 0
