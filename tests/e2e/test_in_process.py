"""The clients and the mock in one process, without sockets: they see what they see over sockets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import httpx
import pytest

from tradesdk import (
    APIConnectionError,
    APIResponseError,
    APITimeoutError,
    AsyncTradeClient,
    LocalSigner,
    TradeClient,
)
from tradesdk_mock import GapOptions, MockClock, MockServer, MockServerError, MockService

from .._async._tour import AsyncTour
from .._clock import START
from .._sync._tour import Tour

pytestmark = pytest.mark.long

KEY = "mock_full_bot"


class InProcess(Tour):
    def client(self, plan: str = "enterprise", scope: str = "full", **options: Any) -> TradeClient:
        http = httpx.Client(transport=self.server.transport())
        return super().client(plan, scope, http_client=http, **options)


class AsyncInProcess(AsyncTour):
    def client(self, plan: str = "enterprise", scope: str = "full", **options: Any) -> AsyncTradeClient:
        http = httpx.AsyncClient(transport=self.server.transport())
        return super().client(plan, scope, http_client=http, **options)


def asked(service: MockService) -> list[Any]:
    return [(entry.method, entry.path, entry.query, entry.body, entry.status) for entry in service.journal()]


@pytest.fixture
def mock() -> Iterator[MockService]:
    with MockService(clock=MockClock(START), signals="scripted") as service:
        service.populate("bot")
        yield service


@pytest.fixture
def trade(mock: MockService) -> Iterator[TradeClient]:
    with (
        httpx.Client(transport=mock.transport(), base_url=mock.url) as http,
        TradeClient(http_client=http, api_key=KEY, clock=mock.clock) as client,
    ):
        yield client


@pytest.fixture
async def atrade(mock: MockService) -> AsyncIterator[AsyncTradeClient]:
    async with (
        httpx.AsyncClient(transport=mock.transport(), base_url=mock.url) as http,
        AsyncTradeClient(http_client=http, api_key=KEY, clock=mock.clock) as client,
    ):
        yield client


async def test_both_flavours_see_what_they_see_over_sockets(signer: LocalSigner) -> None:
    with MockServer(seed=3, clock=MockClock(START)) as server:
        real = Tour(server, "tour", signer).everything()
        sent = asked(server)
    with MockService(seed=3, clock=MockClock(START)) as service:
        assert InProcess(service, "tour", signer).everything() == real
        assert asked(service) == sent
    with MockService(seed=3, clock=MockClock(START)) as service:
        assert await AsyncInProcess(service, "tour", signer).everything() == real
        assert asked(service) == sent


def test_all_gaps_at_once(signer: LocalSigner) -> None:
    options = {gap.name: gap.others[0] for gap in GapOptions.describe()} | {"quotas": "default"}
    with MockService(gaps=GapOptions().changed(**options), clock=MockClock(START)) as service:
        assert InProcess(service, "tour", signer).everything()


def test_a_closed_mock_is_not_tried_again(mock: MockService, trade: TradeClient) -> None:
    mock.close()
    with pytest.raises(MockServerError, match="the mock is closed"):
        trade.account.get()
    assert mock.clock.now() == START


async def test_a_closed_mock_is_not_tried_again_by_tasks(mock: MockService, atrade: AsyncTradeClient) -> None:
    mock.close()
    with pytest.raises(MockServerError, match="the mock is closed"):
        await atrade.account.get()
    assert mock.clock.now() == START


async def test_awaited_retries_wait_on_the_clock_of_the_mock(mock: MockService, atrade: AsyncTradeClient) -> None:
    mock.add_fault("status", route="/v1/account", status=503, count=2, retry_after=40)
    assert (await atrade.account.get()).plan == "pro"
    assert [entry.status for entry in mock.journal()] == [503, 503, 200]
    assert mock.clock.now() - START >= 80


FAULTS: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "latency": ({"seconds": 3600}, APITimeoutError),
    "drip": ({"seconds": 60}, APITimeoutError),
    "reset": ({}, APIConnectionError),
    "truncate": ({}, APIConnectionError),
    "bad_chunk": ({}, APIConnectionError),
    "malformed_json": ({}, APIResponseError),
    "huge_body": ({}, APIResponseError),
}

# An answer that isn't read to its end leaves generators of httpx to the collector, and trio warns of that.
asyncio_only = pytest.mark.parametrize("anyio_backend", ["asyncio"])


@asyncio_only
@pytest.mark.parametrize("kind", FAULTS)
async def test_faults_are_the_errors_that_they_are_over_sockets(
    kind: str, mock: MockService, trade: TradeClient, atrade: AsyncTradeClient
) -> None:
    parameters, error = FAULTS[kind]
    mock.add_fault(kind, **parameters)
    once = trade.with_options(max_retries=0)
    with pytest.raises(error) as blocking:
        once.account.get()
    assert type(blocking.value) is error
    with pytest.raises(error) as awaited:
        await atrade.with_options(max_retries=0).account.get()
    assert (type(awaited.value), str(awaited.value)) == (error, str(blocking.value))
    mock.clear_faults()
    if error is APITimeoutError:
        return  # on a socket it would take that long
    with MockServer(clock=MockClock(START)) as server:
        server.add_fault(kind, **parameters)
        with TradeClient(api_key=KEY, base_url=server.url, max_retries=0) as client, pytest.raises(error) as real:
            client.account.get()
    assert str(real.value).replace(server.url, mock.url) == str(blocking.value)


def test_the_deadline_counts_on_the_clock_of_the_mock(mock: MockService, trade: TradeClient) -> None:
    mock.add_fault("latency", seconds=3600)
    with pytest.raises(APITimeoutError):
        trade.with_options(deadline=100).account.get()
    assert 60 < mock.clock.now() - START <= 101
    assert len(mock.journal()) > 1


@asyncio_only
async def test_the_deadline_counts_on_the_clock_of_the_mock_when_awaited(
    mock: MockService, atrade: AsyncTradeClient
) -> None:
    mock.add_fault("drip", seconds=9, piece=1)
    with pytest.raises(APITimeoutError):
        await atrade.with_options(deadline=100, max_retries=0).account.get()
    assert 90 < mock.clock.now() - START <= 120


async def test_the_rate_limit_is_waited_out_without_waiting(mock: MockService) -> None:
    async with httpx.AsyncClient(transport=mock.transport(), base_url=mock.url) as http:
        client = AsyncTradeClient(http_client=http, api_key="mock_full_free_few", clock=mock.clock)
        for _ in range(130):
            await client.account.get()
    assert 120 <= mock.clock.now() - START < 200
    assert {entry.status for entry in mock.journal("few")} == {200}


async def test_tasks_share_a_client(mock: MockService, atrade: AsyncTradeClient) -> None:
    mock.add_fault("latency", seconds=5)
    found: list[str] = []

    async def walk() -> None:
        found.extend([trade.id async for trade in atrade.trades.list()])

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(walk)
    assert len(found) == 5000
    assert len(set(found)) == 250
    # Three pages of five seconds each: the tasks waited together.
    assert mock.clock.now() - START == pytest.approx(15, abs=1)


def test_threads_share_a_client(mock: MockService, trade: TradeClient) -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(len({each.id for each in trade.trades.list()}))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [250] * 8


def test_a_client_may_go_on_in_another_event_loop(mock: MockService) -> None:
    """There are no connections that belong to one."""
    client = AsyncTradeClient(
        http_client=httpx.AsyncClient(transport=mock.transport()), api_key=KEY, base_url=mock.url, clock=mock.clock
    )

    async def read() -> str:
        return (await client.account.get()).plan

    assert [asyncio.run(read()) for _ in range(2)] == ["pro", "pro"]
