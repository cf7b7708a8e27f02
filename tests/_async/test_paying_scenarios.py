"""The table of payment scenarios, on a mock server: one signature, one settlement, and a ledger that agrees."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tradesdk_mock import GapOptions, MockClock, MockServer

from .._clock import START
from .._paidscenarios import PRICE, SCENARIOS, Scenario
from .._rows import each_of
from ._paidrun import LIMIT, AsyncPlay


@pytest.fixture(
    scope="module", params=["both", *(pytest.param(words, marks=pytest.mark.long) for words in ("v1", "v1 official"))]
)
def shop(request: pytest.FixtureRequest) -> Iterator[MockServer]:
    """Speaks both versions of the protocol, or the old one alone, in the mock's words or those of official servers."""
    versions, _, words = request.param.partition(" ")
    gaps = GapOptions(payment_402=versions, v1_errors=words or "reason")
    with MockServer(seed=5, clock=MockClock(START), gaps=gaps) as running:
        yield running


@each_of("scenario", SCENARIOS, ids=str)
async def test_scenario(shop: MockServer, scenario: Scenario) -> None:
    if "payment_identifier" in scenario.gaps and shop.gaps.payment_402 == "v1":
        return  # version 1 has no identifiers
    came = await AsyncPlay(shop, scenario).run()
    assert (came.error, came.charged, came.state) == (scenario.error, scenario.charged, scenario.state)
    assert scenario.code in ("", came.code)
    assert (came.signatures, came.settled) == (1, scenario.settled)
    assert came.again == scenario.again
    assert came.signatures_after == came.operations
    assert came.settled_after <= came.operations
    assert came.counted == PRICE, "reserved once, whatever happened"
    assert came.ledger == came.mock == PRICE * came.settled_after <= LIMIT
