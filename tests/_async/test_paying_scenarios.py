"""The table of payment scenarios, on a mock: one signature, one settlement, and a ledger that agrees."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tradesdk_mock import MockClock, MockService

from .._clock import START
from .._paidscenarios import PRICE, SCENARIOS, Scenario
from .._rows import each_of
from ._paidrun import LIMIT, AsyncPlay

pytestmark = pytest.mark.twin


@pytest.fixture(scope="module")
def shop() -> Iterator[MockService]:
    with MockService(seed=5, clock=MockClock(START)) as running:
        yield running


@each_of("scenario", SCENARIOS, ids=str)
async def test_scenario(shop: MockService, scenario: Scenario) -> None:
    came = await AsyncPlay(shop, scenario).run()
    assert (came.error, came.charged, came.state) == (scenario.error, scenario.charged, scenario.state)
    assert scenario.code in ("", came.code)
    assert (came.signatures, came.settled) == (1, scenario.settled)
    assert came.again == scenario.again
    assert came.signatures_after == came.operations
    assert came.settled_after <= came.operations
    assert came.counted == PRICE, "counted once, whatever happened"
    assert came.ledger == came.mock == PRICE * came.settled_after <= LIMIT
