"""One clock for the mock and for clients that come back: outages of minutes, stalls and late answers, in no time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import anyio
import httpx
import pytest

from tradesdk import AsyncTradeClient, TradeClient
from tradesdk_mock import MockClock, MockService

from .._clock import START
from ._streamhouse import HISTORY, STREAM

MINUTES = 12
CHAINS = (8453, 56)
COUNT = MINUTES * 30


@pytest.fixture
def mock() -> Iterator[MockService]:
    """Twelve minutes with a signal of each chain in two seconds, and with everything that ends a stream."""
    with MockService(seed=7, clock=MockClock(START), signals="scripted") as service:
        service.set_gaps(history_lag_spread=2)
        # Of the rules that end a stream, the oldest that is due is played; the stall comes before any end.
        service.add_fault("drop", route=STREAM, every=2, after=20, how="clean")
        service.add_fault("half_event", route=STREAM, every=3, after=20, at="character", how="reset")
        service.add_fault("silence", route=STREAM, every=5, after=10)
        service.add_fault("drop", route=STREAM, after=30, how="reset")
        service.add_fault("duplicate", share=0.05)
        service.add_fault("garbage", share=0.01)
        service.add_fault("split_utf8")
        service.add_fault("status", route=HISTORY, status=503, count=3, retry_after=2)
        service.add_fault("status", route=STREAM, status=503, since=START + 300, until=START + 600)
        yield service


def publish(mock: MockService) -> dict[int, list[str]]:
    """The ids of each chain, in the order of their publication."""
    return {chain: [mock.emit_signal(after=2 * n, chain_id=chain).id for n in range(1, COUNT + 1)] for chain in CHAINS}


def check(mock: MockService, chains: tuple[int, ...]) -> None:
    """The story is the one that was told, on the mock's clock."""
    kinds: set[str] = set()
    for chain in chains:
        opened = [one for one in mock.journal() if one.path == STREAM and one.query["chain"] == str(chain)]
        kinds |= {kind for one in opened for kind in one.faults}
        refused = [one.at for one in opened if one.status == 503]
        assert refused
        assert all(START + 300 <= at < START + 600 for at in refused)
        assert not any(START + 300 <= one.at < START + 600 for one in opened if one.status == 200)
    assert kinds >= {"drop", "half_event", "silence", "status"}
    assert START + 2 * COUNT <= mock.clock.now() < START + 2 * COUNT + 400


def test_a_blocking_client_comes_back(mock: MockService) -> None:
    emitted, got = publish(mock)[8453], list[str]()
    with httpx.Client(transport=mock.transport(), base_url=mock.url) as http:
        client = TradeClient(http_client=http, api_key="mock_full_enterprise_me", clock=mock.clock)
        with closing(client.signals.stream(chain=8453)) as stream:
            got += [next(iter(stream)).id for _ in emitted]
    assert got == emitted
    check(mock, (8453,))


@pytest.mark.long
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_two_tasks_come_back_on_the_same_clock(mock: MockService) -> None:
    """Each waits for itself, and their waits don't add up."""
    emitted, got = publish(mock), dict[int, list[str]]()

    async def follow(client: AsyncTradeClient, chain: int) -> None:
        async with client.signals.stream(chain=chain) as stream:
            got[chain] = [(await anext(aiter(stream))).id for _ in range(COUNT)]

    async with httpx.AsyncClient(transport=mock.transport(), base_url=mock.url) as http:
        client = AsyncTradeClient(http_client=http, api_key="mock_full_enterprise_me", clock=mock.clock)
        async with anyio.create_task_group() as tasks:
            for chain in CHAINS:
                tasks.start_soon(follow, client, chain)
    assert got == emitted
    check(mock, CHAINS)
