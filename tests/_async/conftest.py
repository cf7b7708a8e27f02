"""What the tests of both flavours share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tradesdk import LocalSigner
from tradesdk_mock import MockClock, MockService

from .._clock import START
from .._stock import stocked


@pytest.fixture
def mock() -> Iterator[MockService]:
    """A market in process, with books of its own and trades to show, on a clock that stands still."""
    with MockService(clock=MockClock(START), signals="scripted") as service:
        stocked(service, START)
        yield service


@pytest.fixture(scope="session")
def signer() -> LocalSigner:
    return LocalSigner.from_key("0x" + "2b" * 32)
