"""Follow the live streams of both chains at once, async, in one task group that ends cleanly.

With TRADE_API_KEY and TRADE_BASE_URL set, it follows the service until Ctrl-C or SIGTERM. Without both, it runs on a
mock in this process, which takes a second: one of the streams is cut, and after ten signals it ends.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress

import httpx

from tradesdk import AsyncSignalStream, AsyncTradeClient, StreamSignal
from tradesdk_mock import MockClock, MockService

CHAINS = {8453: "Base", 56: "BNB Chain"}


async def take(stream: AsyncSignalStream[StreamSignal], taken: Callable[[StreamSignal], object]) -> None:
    """Take all signals of one chain until the stream is closed. An error ends the whole group."""
    async with stream:
        async for item in stream:
            taken(item)


async def follow(
    client: AsyncTradeClient, chains: Sequence[int], taken: Callable[[StreamSignal], object], end: asyncio.Event
) -> None:
    """Follow several chains until `end` is set."""
    streams = [client.signals.stream(chain=chain) for chain in chains]
    async with asyncio.TaskGroup() as tasks:
        for stream in streams:
            tasks.create_task(take(stream, taken))
        await end.wait()
        for stream in streams:
            await stream.aclose()  # ends the loop in `take` at once
    for stream in streams:
        print(f"{CHAINS[stream.chain]}: connected {stream.stats.connects}x, {stream.stats.gaps} gaps")


def show(item: StreamSignal) -> None:
    print(f"{CHAINS[item.chain_id]:<9} {item.direction:<4} {item.token_symbol:<7} {item.confidence:.0%}")


async def rehearse() -> None:
    clock = MockClock(1_800_000_000)
    end = asyncio.Event()
    shown: list[StreamSignal] = []

    def until_ten(item: StreamSignal) -> None:
        if len(shown) < 10:
            show(item)
            shown.append(item)
        if len(shown) == 10:
            end.set()

    with MockService(seed=7, clock=clock) as mock:
        mock.add_fault("drop", route="/v1/signals/stream", query={"chain": 8453}, after=3, how="reset", nth=1)
        async with (
            httpx.AsyncClient(transport=mock.transport()) as http,
            AsyncTradeClient(api_key="mock_full_me", base_url=mock.url, http_client=http, clock=clock) as client,
        ):
            await follow(client, list(CHAINS), until_ten, end)


async def main() -> None:
    if {"TRADE_API_KEY", "TRADE_BASE_URL"} & os.environ.keys():
        end = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError):  # on Windows, Ctrl-C cancels all tasks, which is clean too
                asyncio.get_running_loop().add_signal_handler(number, end.set)
        async with AsyncTradeClient() as client:
            await follow(client, list(CHAINS), show, end)
    else:
        await rehearse()


if __name__ == "__main__":
    logging.getLogger("tradesdk").setLevel(logging.ERROR)  # hides the warnings about reconnects
    asyncio.run(main())
