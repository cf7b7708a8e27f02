from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tradesdk_mock import MockClock, MockService

from ._http import READ, START, in_process


@pytest.fixture
def server() -> Iterator[MockService]:
    """An empty world whose time stands still."""
    with MockService(clock=MockClock(START)) as running:
        yield running


@pytest.fixture
def api(server: MockService) -> Iterator[httpx.Client]:
    """The tenant `main` with full access, on the pro plan."""
    with in_process(server) as http:
        yield http


@pytest.fixture
def reader(server: MockService) -> Iterator[httpx.Client]:
    """The same tenant with a read-only key."""
    with in_process(server, READ) as http:
        yield http


@pytest.fixture
def anyone(server: MockService) -> Iterator[httpx.Client]:
    """Somebody without a key."""
    with in_process(server, None) as http:
        yield http


@pytest.fixture
def rich(server: MockService, api: httpx.Client) -> httpx.Client:
    """`main` with wallets, agents, trades and positions."""
    server.populate("main")
    return api
