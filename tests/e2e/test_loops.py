"""An async client in a second event loop: its connections cannot follow, so it is refused before anything is sent."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest
import trio
from filelock import FileLock

from tradesdk import AsyncMarketClient, AsyncTradeClient, Budget, Ledger, LocalSigner, TradeError

from .._answers import ACCOUNT, KEY
from .._clock import START
from .._hostile import Visit, answer, hostile
from .._rows import each_of

GOOD = answer(json.dumps(ACCOUNT).encode())


def test_a_second_loop_is_refused_and_the_first_goes_on() -> None:
    def answering(visit: Visit) -> None:
        visit.send(GOOD)

    with hostile(answering) as server, asyncio.Runner() as first:
        client = AsyncTradeClient(api_key=KEY, base_url=server.url)

        async def read() -> str:
            return (await client.account.get()).id

        async def create() -> None:
            await client.agents.create(name="mine", wallet_id="w1", chain_id=8453)

        assert first.run(read()) == "acc_1"
        for _ in range(2):
            with pytest.raises(TradeError, match=r"another event loop: make a client inside each asyncio\.run"):
                asyncio.run(create())
            with pytest.raises(TradeError, match="another event loop"):
                trio.run(create)
        assert len(server.visits) == 1
        assert first.run(read()) == "acc_1"
        assert server.connections == 1
        first.run(client.aclose())
        asyncio.run(client.aclose())  # closing again does nothing
        trio.run(client.aclose)


STREAM = answer(b"", kind="text/event-stream", length=1_000_000, cache_control="no-store")
NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # reading them takes longer than a row
SETTINGS: dict[str, Any] = {"signer": LocalSigner.from_key("0x" + "11" * 32), "budget": Budget(total="1")}


@asynccontextmanager
async def used(url: str, what: str, checkpoint: Path) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    """Something that has connections of this loop; what another one does with it."""
    given = {"httpx": httpx, "httpx2": httpx2}.get(what.partition(" ")[0])
    http = None if given is None else given.AsyncClient(verify=NO_CERTIFICATES)
    trade = AsyncTradeClient(api_key=KEY, base_url=url, http_client=http)
    market = AsyncMarketClient(base_url=url, ledger=Ledger.memory(), **SETTINGS)
    stream = trade.signals.stream(chain=8453, checkpoint=checkpoint, since=START)
    client: AsyncTradeClient | AsyncMarketClient = market if what == "a market client" else trade
    async with stream if "stream" in what else client:
        if what == "a market client":
            with pytest.raises(TradeError):
                await market.supported_tokens()
        elif "stream" not in what:
            await trade.account.get()
        match what.rpartition(" ")[2]:
            case "call":
                yield trade.account.get
            case "read":
                yield lambda: anext(aiter(stream))
            case _:
                yield stream.aclose if "stream" in what else client.aclose
    await client.aclose()
    if http is not None:
        await http.aclose()


WHAT = ["a client", "a market client", "httpx call", "httpx2 call", "a stream", "httpx stream read", "a stream read"]


@pytest.mark.parametrize("first", ["asyncio", pytest.param("trio", marks=pytest.mark.long)])
@each_of("what", WHAT)
def test_another_loop_gets_an_error_of_ours(tmp_path: Path, first: str, what: str) -> None:
    """Closing, calling and reading; the loop that it belongs to goes on and closes it."""

    def answering(visit: Visit) -> None:
        visit.send(STREAM if "stream" in visit.request[1] else GOOD)

    def elsewhere(act: Callable[[], Awaitable[object]]) -> None:
        async def acted() -> None:
            await act()

        for run in (lambda: asyncio.run(acted()), partial(trio.run, acted)):
            with pytest.raises(TradeError, match="another event loop") as caught:
                run()
            assert caught.value.code == "invalid_state"

    async def main() -> None:
        async with used(server.url, what, checkpoint) as act:
            await anyio.to_thread.run_sync(elsewhere, act)

    checkpoint = tmp_path / f"{first} {what}"
    with hostile(answering) as server:
        anyio.run(main, backend=first)
        with FileLock(f"{checkpoint}.lock", blocking=False):
            pass  # the stream has given it back
