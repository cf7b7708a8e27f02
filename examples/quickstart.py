"""First calls, blocking: read the account, agents, trades and signals; create, change and delete an agent.

    python quickstart.py            read
    python quickstart.py --write    also create an agent, and delete it: this changes the account

With TRADE_API_KEY and TRADE_BASE_URL set, it uses the service; without both, it starts a mock, and always writes.
The new agent stays idle, so it trades nothing.
"""

import os
import sys

from tradesdk import Risk, TradeClient
from tradesdk_mock import MockClock, MockServer

BASE = 8453


def read(client: TradeClient) -> None:
    account = client.account.get()
    usage = client.account.usage()
    print(f"{account.email}, plan {account.plan}, {usage.agents.used} of {usage.agents.limit} agents")

    for summary in client.agents.list():
        print(f"  {summary.status:<7} {summary.name}")

    results = [trade.pnl_usd or 0 for trade in client.trades.list(status="closed")]
    won = sum(result > 0 for result in results)
    print(f"{len(results)} closed trades, {won} of them won, {sum(results):+,.2f} USD in all")

    for signal in client.signals.latest(chain=BASE, min_confidence=0.9, limit=3):
        print(f"  {signal.direction:<4} {signal.token_symbol:<8} {signal.confidence:.0%} at {signal.price_usd:g} USD")


def write(client: TradeClient) -> None:
    """Change the account: create an agent, change it, delete it."""
    wallet = client.wallets.list(chain_id=BASE).first()
    if wallet is not None:
        agent = client.agents.create(name="quickstart", wallet_id=wallet.id, chain_id=BASE, risk=Risk(stop_loss_pct=5))
        agent = client.agents.update(agent.id, min_confidence=0.9)
        print(f"new agent {agent.name!r}: {agent.status}, trades signals from {agent.min_confidence:.0%} on")
        client.agents.delete(agent.id)


if __name__ == "__main__":
    if {"TRADE_API_KEY", "TRADE_BASE_URL"} & os.environ.keys():
        with TradeClient() as client:
            read(client)
            if "--write" in sys.argv:
                write(client)
    else:
        with (
            MockServer(seed=7, clock=MockClock(1_795_262_400)) as server,
            TradeClient(api_key="mock_full_me", base_url=server.url) as client,
        ):
            server.populate("me")
            read(client)
            write(client)
