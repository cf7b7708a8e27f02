"""One mock server for a file; every test has a tenant of its own there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from tradesdk import AsyncTradeClient, LocalSigner
from tradesdk_mock import MockClock, MockServer, MockService

from .._clock import START
from .._stock import stocked

numbers = count(1)


@dataclass
class Tenant:
    """`client` has full access on the enterprise plan and waits on the server's clock."""

    name: str
    server: MockServer
    client: AsyncTradeClient

    def key(self, scope: str = "full") -> str:
        return f"mock_{scope}_enterprise_{self.name}"

    def another(self, key: Any, **options: Any) -> AsyncTradeClient:
        """A client with another key; the test closes it."""
        settings: dict[str, Any] = {"api_key": key, "base_url": self.server.url, "clock": self.server.clock}
        return AsyncTradeClient(**settings | options)


@pytest.fixture(scope="module")
def server() -> Iterator[MockServer]:
    # On a clock that stands still: a market that goes on lets agents trade between two looks at a list.
    with MockServer(seed=7, clock=MockClock(START)) as running:
        yield running


@pytest.fixture
async def tenant(server: MockServer) -> AsyncIterator[Tenant]:
    name = f"t{next(numbers)}"
    key = f"mock_full_enterprise_{name}"
    async with AsyncTradeClient(api_key=key, base_url=server.url, clock=server.clock) as client:
        yield Tenant(name, server, client)


@pytest.fixture
def client(tenant: Tenant) -> AsyncTradeClient:
    return tenant.client


@pytest.fixture
async def populated(tenant: Tenant) -> Tenant:
    """With wallets, agents in every state, 250 trades, positions and signals."""
    await tenant.client.account.get()  # the first use of its key makes the tenant, on the plan that the key names
    tenant.server.populate(tenant.name)
    return tenant


@pytest.fixture
def mock() -> Iterator[MockService]:
    """A market in process, with books of its own and trades to show, on a clock that stands still."""
    with MockService(clock=MockClock(START), signals="scripted") as service:
        stocked(service, START)
        yield service


@pytest.fixture(scope="session")
def signer() -> LocalSigner:
    return LocalSigner.from_key("0x" + "2b" * 32)
