"""A mock server per test, or one for a whole file, called over bare HTTP."""

from collections.abc import Iterator
from itertools import count

import httpx
import pytest

from tradesdk_mock import MockClock, MockServer

from .._clock import START
from ._wire import Wire

tenants = count(1)


@pytest.fixture(scope="session")
def bare_http() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def service() -> Iterator[MockServer]:
    """One world for a whole file, on a clock that stands still: no agent trades between two looks at a list."""
    with MockServer(seed=7, clock=MockClock(START)) as server:
        yield server


@pytest.fixture(scope="module")
def populated(service: MockServer) -> Wire:
    """A tenant with wallets, agents, trades, positions and signals, and the largest rate limit."""
    key = service.create_key(name="populated", scope="full-access", plan="enterprise", tenant="populated")
    service.populate("populated")
    return Wire(service, key.value)


@pytest.fixture
def neighbour(service: MockServer) -> Wire:
    """Somebody else, with nothing yet."""
    key = service.create_key(name="other", scope="full-access", plan="free", tenant=f"other-{next(tenants)}")
    return Wire(service, key.value)


@pytest.fixture
def wire(service: MockServer) -> Wire:
    """An empty tenant of its own for each test."""
    key = service.create_key(name="own", scope="full-access", plan="enterprise", tenant=f"own-{next(tenants)}")
    return Wire(service, key.value)
