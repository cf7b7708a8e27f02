"""A small bot that changes the risk of one agent when confident signals come.

A confident SELL on its chain halves the agent's position size, a confident BUY doubles it, between 1 % and 8 %. A
signal counts once, even after a lost answer, an hour without the service, or with a history that is behind.

    python testing_your_bot.py          follow the signals until Ctrl-C
    python testing_your_bot.py brake    in an emergency: all agents to 1 %, at once

With TRADE_API_KEY and TRADE_BASE_URL set, it uses the service. Without both, it runs ten minutes on a mock in this
process, which takes a second. Its tests are in test_testing_your_bot.py.
"""

import asyncio
import os
import sys
from collections.abc import Callable

import httpx

from tradesdk import (
    Agent,
    APIError,
    AsyncTradeClient,
    AuthenticationError,
    Clock,
    PermissionDeniedError,
    Risk,
    Signal,
    SystemClock,
    TradeClient,
)

NAME = "careful"
CHAIN = 8453
SURE = 0.9
SMALLEST, USUAL, LARGEST = 1.0, 2.0, 8.0  # percent of the balance for one position
EVERY = 10.0  # seconds between two looks at the signals
OVERLAP = 120.0  # seconds that each look goes back, to find late signals


def next_size(size: float, direction: str) -> float:
    """The position size after a confident signal."""
    if direction == "SELL":
        return max(size / 2, SMALLEST)
    return min(size * 2, LARGEST) if direction == "BUY" else size


class Bot:
    def __init__(self, client: TradeClient, clock: Clock | None = None, say: Callable[[str], object] = print) -> None:
        self.client = client
        self.clock = clock or SystemClock()
        self.say = say
        self.since = self.clock.now()  # earlier signals are ignored
        self.taken: set[str] = set()

    def agent(self) -> Agent:
        """The bot's agent. If there is none, it is created."""
        for summary in self.client.agents.list():
            if (summary.name, summary.chain_id) == (NAME, CHAIN):
                return self.client.agents.get(summary.id)
        wallet = self.client.wallets.list(chain_id=CHAIN).first()
        if wallet is None:
            raise LookupError(f"no wallet on chain {CHAIN}: connect one first")
        # If the answer is lost, the client checks before it sends this again, so there are never two agents.
        return self.client.agents.create(
            name=NAME,
            wallet_id=wallet.id,
            chain_id=CHAIN,
            min_confidence=SURE,
            risk=Risk(position_size_pct=USUAL, stop_loss_pct=5),
        )

    def step(self) -> None:
        """Take every new confident signal, oldest first."""
        now = self.clock.now()
        signals = list(self.client.signals.history(chain=CHAIN, since=self.since))
        for signal in reversed(signals):
            if signal.confidence >= SURE and signal.id not in self.taken:
                self.take(signal)
        # Only these can be found again by the next step.
        self.taken &= {signal.id for signal in signals}
        self.since = max(self.since, now - OVERLAP)

    def take(self, signal: Signal) -> None:
        self.taken.add(signal.id)
        try:
            agent = self.agent()
            size = agent.risk.position_size_pct or USUAL
            wanted = next_size(size, signal.direction)
            if wanted != size:
                self.client.agents.update(agent.id, risk=Risk(position_size_pct=wanted))
        except APIError as error:
            if error.outcome == "none":  # nothing was changed, so the next step may retry it
                self.taken.discard(signal.id)
            raise
        self.say(f"{signal.direction:<4} {signal.token_symbol} {signal.confidence:.0%}: size {size:g} -> {wanted:g} %")

    def run(self, seconds: float = float("inf")) -> None:
        """Follow the signals for this long. Only a refused key ends it earlier; other errors are retried."""
        end = self.clock.now() + seconds
        while self.clock.now() < end:
            try:
                self.step()
            except (AuthenticationError, PermissionDeniedError):
                raise
            except APIError as error:
                self.say(f"later: {error}")
            self.clock.sleep(EVERY)


async def brake(client: AsyncTradeClient) -> list[str]:
    """Set every agent to the smallest size, all at the same time; their names."""
    agents = [agent async for agent in client.agents.list()]
    async with asyncio.TaskGroup() as tasks:
        for agent in agents:
            tasks.create_task(client.agents.update(agent.id, risk=Risk(position_size_pct=SMALLEST)))
    return [agent.name for agent in agents]


def rehearse(seconds: float) -> None:
    """Run on a mock with a frozen clock, so that waits take no time."""
    from tradesdk_mock import MockClock, MockService

    clock = MockClock(1_800_000_000)
    with MockService(seed=7, clock=clock) as mock, httpx.Client(transport=mock.transport()) as http:
        mock.populate("me")
        with TradeClient(api_key="mock_full_me", base_url=mock.url, http_client=http, clock=clock) as client:
            Bot(client, clock).run(seconds)


async def stop() -> None:
    async with AsyncTradeClient() as client:
        print(*await brake(client), sep="\n")


def main() -> None:
    if sys.argv[1:] == ["brake"]:
        asyncio.run(stop())
    elif {"TRADE_API_KEY", "TRADE_BASE_URL"} & os.environ.keys():
        with TradeClient() as client:
            Bot(client).run()
    else:
        rehearse(600)


if __name__ == "__main__":
    main()
