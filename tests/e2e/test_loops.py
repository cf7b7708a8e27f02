"""An async client in a second event loop: its connections cannot follow, so it is refused before anything is sent."""

from __future__ import annotations

import asyncio
import json

import pytest
import trio

from tradesdk import AsyncTradeClient, TradeError

from .._answers import ACCOUNT, KEY
from .._hostile import Visit, answer, hostile

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
