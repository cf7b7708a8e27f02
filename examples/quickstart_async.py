"""First calls, async: the same as quickstart.py, with two reads at the same time.

    python quickstart_async.py            read
    python quickstart_async.py --write    also create an agent, and delete it: this changes the account

With TRADE_API_KEY and TRADE_BASE_URL set, it uses the service; without both, it starts a mock, and always writes.
The new agent stays idle, so it trades nothing.
"""

import asyncio
import os
import sys

from tradesdk import AsyncTradeClient, Risk
from tradesdk_mock import MockClock, MockServer

BASE = 8453


async def read(client: AsyncTradeClient) -> None:
    account, usage = await asyncio.gather(client.account.get(), client.account.usage())
    print(f"{account.email}, plan {account.plan}, {usage.agents.used} of {usage.agents.limit} agents")

    async for summary in client.agents.list():
        print(f"  {summary.status:<7} {summary.name}")

    results = [trade.pnl_usd or 0 async for trade in client.trades.list(status="closed")]
    won = sum(result > 0 for result in results)
    print(f"{len(results)} closed trades, {won} of them won, {sum(results):+,.2f} USD in all")

    for signal in await client.signals.latest(chain=BASE, min_confidence=0.9, limit=3):
        print(f"  {signal.direction:<4} {signal.token_symbol:<8} {signal.confidence:.0%} at {signal.price_usd:g} USD")


async def write(client: AsyncTradeClient) -> None:
    """Change the account: create an agent, change it, delete it."""
    wallet = await client.wallets.list(chain_id=BASE).first()
    if wallet is not None:
        risk = Risk(stop_loss_pct=5)
        agent = await client.agents.create(name="quickstart", wallet_id=wallet.id, chain_id=BASE, risk=risk)
        agent = await client.agents.update(agent.id, min_confidence=0.9)
        print(f"new agent {agent.name!r}: {agent.status}, trades signals from {agent.min_confidence:.0%} on")
        await client.agents.delete(agent.id)


async def main() -> None:
    if {"TRADE_API_KEY", "TRADE_BASE_URL"} & os.environ.keys():
        async with AsyncTradeClient() as client:
            await read(client)
            if "--write" in sys.argv:
                await write(client)
    else:
        with MockServer(seed=7, clock=MockClock(1_795_262_400)) as server:
            server.populate("me")
            async with AsyncTradeClient(api_key="mock_full_me", base_url=server.url) as client:
                await read(client)
                await write(client)


if __name__ == "__main__":
    asyncio.run(main())
