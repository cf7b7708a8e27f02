"""Both flavours, doing the same on equal worlds, see the same."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tradesdk import AsyncTradeClient, ConfigError, LocalSigner, TradeClient
from tradesdk_mock import MockClock, MockServer

from .._answers import BASE, KEY
from .._async._tour import AsyncTour
from .._clock import START
from .._sync._tour import Tour


def requests_of(server: MockServer) -> list[Any]:
    return [(entry.method, entry.path, entry.query, entry.body, entry.status) for entry in server.journal()]


@pytest.mark.long
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_both_see_the_same(signer: LocalSigner) -> None:
    with MockServer(seed=3, clock=MockClock(START)) as server:
        blocking = Tour(server, "tour", signer).everything()
        sent = requests_of(server)
    with MockServer(seed=3, clock=MockClock(START)) as server:
        awaited = await AsyncTour(server, "tour", signer).everything()
        assert requests_of(server) == sent
    assert len(blocking) == len(awaited) > 15
    for one, other in zip(blocking, awaited, strict=True):
        assert type(one) is type(other)
        assert one == other


@pytest.mark.parametrize(("ours", "theirs"), [(TradeClient, httpx.AsyncClient), (AsyncTradeClient, httpx.Client)])
def test_an_http_client_of_the_other_flavour_is_refused(ours: Any, theirs: Any) -> None:
    with pytest.raises(ConfigError, match=f"must be an httpx.*, not {theirs.__name__}\n"):
        ours(
            api_key=KEY, base_url=BASE, http_client=theirs(transport=httpx.MockTransport(lambda _: httpx.Response(200)))
        )
