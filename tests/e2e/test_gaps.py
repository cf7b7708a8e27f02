"""Where the service may behave in several ways, the client works under each of them: a whole tour for every value."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count

import pytest

from tradesdk import LocalSigner
from tradesdk_mock import GapOptions, MockClock, MockServer

from .._async._tour import AsyncTour
from .._clock import START
from .._seeds import EVERY_STEP
from .._sync._tour import Tour

pytestmark = pytest.mark.long

VALUES = [("order", "newest")] + [(gap.name, other) for gap in GapOptions.describe() for other in gap.others]
# Of the stream and of market data, where the tour does not come: under these it is a walk like any other, so that a run
# draws a quarter of them. All together come below.
FAR_OFF = (
    *("b_", "payment_", "unknown_token", "paywall", "heartbeat", "resume", "stream_filter", "history_lag"),
    *("offer", "reason_in", "flow", "delegated_payers"),
)
DISTANT = [value for value in VALUES if value[0].startswith(FAR_OFF)]
TURN = int(os.environ.get("TRADE_SEED") or 0)
TOURS = [value for value in VALUES if value not in DISTANT] + (DISTANT if EVERY_STEP else DISTANT[TURN % 4 :: 4])
LIMITS = {"order", "clock_skew", "rate_headers", "quotas", "request_quota", "enterprise_limit"}
# Where a client waits or goes through pages, each flavour has code of its own; all else is decided by the same code.
AGAIN = LIMITS - {"enterprise_limit"} | {"cursor_ttl"}
TOURS_AGAIN = [(gap, other) for gap, other in VALUES if gap in AGAIN]
numbers = count(1)


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """One will do here: what the service answers has nothing to do with it."""
    return str(request.param)


@pytest.fixture(scope="module")
def running() -> Iterator[MockServer]:
    with MockServer(seed=11, clock=MockClock(START)) as server:
        yield server


@pytest.fixture
def server(running: MockServer) -> Iterator[MockServer]:
    yield running
    running.set_gaps(**GapOptions().as_dict())


@pytest.mark.parametrize(("gap", "value"), TOURS)
def test_blocking_client_under(gap: str, value: str, server: MockServer, signer: LocalSigner) -> None:
    server.set_gaps(**{gap: value})
    assert Tour(server, f"b{next(numbers)}", signer, hurried=gap not in LIMITS).everything()


@pytest.mark.parametrize(("gap", "value"), TOURS_AGAIN)
async def test_async_client_under(gap: str, value: str, server: MockServer, signer: LocalSigner) -> None:
    server.set_gaps(**{gap: value})
    assert await AsyncTour(server, f"a{next(numbers)}", signer, hurried=gap not in LIMITS).everything()


def test_every_gap_has_another_value() -> None:
    """So that none is left out above and below."""
    assert {gap for gap, _ in VALUES} == {gap.name for gap in GapOptions.describe()} == set(GapOptions().as_dict())


@pytest.mark.parametrize("place", [0, -1], ids=["first", "last"])
def test_all_gaps_at_once(server: MockServer, signer: LocalSigner, place: int) -> None:
    options = {gap.name: gap.others[place] for gap in GapOptions.describe()}
    server.set_gaps(**options | {"quotas": "default"})  # a period of ten requests would end the tour before it began
    assert Tour(server, f"c{next(numbers)}", signer).everything()
