"""Follow the live stream of signals, blocking, with a checkpoint: signals that were missed between two runs come first.

With TRADE_API_KEY and TRADE_BASE_URL set, it follows the service until Ctrl-C and saves its position. Without both, it
runs on a mock in this process, which takes a second: the stream is cut, cannot be opened at first, and later the
program stops for a minute.
"""

import logging
import os
import tempfile
from pathlib import Path

import httpx

from tradesdk import Connected, Disconnected, Gap, InvalidEvent, StreamSignal, TradeClient
from tradesdk_mock import MockClock, MockService

BASE = 8453


def follow(client: TradeClient, checkpoint: Path | bool, *, count: int | None = None) -> None:
    """Print signals as they come: `count` of them, or all until the stream ends."""
    seen = 0
    with client.signals.stream(chain=BASE, min_confidence=0.7, checkpoint=checkpoint, reports=True) as stream:
        for item in stream:
            match item:
                case StreamSignal():
                    # Asking for the next signal acknowledges this one; so does the end of the block.
                    came = " (from the history)" if item.replayed else ""
                    print(f"{item.direction:<4} {item.token_symbol:<7} {item.confidence:.0%}{came}")
                    seen += 1
                    if seen == count:
                        break
                case Connected():
                    print("connected" if item.connects == 1 else "connected again")
                case Disconnected():
                    print(f"not connected: {item.reason}")
                case Gap():
                    print(f"signals may be missing from {item.start} to {item.end}: {item.reason}")
                case InvalidEvent():
                    print(f"left out: {item.reason}")
        stats = stream.stats
    print(f"{seen} signals, connected {stats.connects}x, {stats.gaps} gaps")


def rehearse() -> None:
    start = 1_800_005_580
    clock = MockClock(start)
    with (
        tempfile.TemporaryDirectory() as folder,
        MockService(seed=7, clock=clock) as mock,
        httpx.Client(transport=mock.transport()) as http,
        TradeClient(api_key="mock_full_me", base_url=mock.url, http_client=http, clock=clock) as client,
    ):
        route = "/v1/signals/stream"
        mock.add_fault("drop", route=route, after=3, how="clean", nth=1)
        mock.add_fault("status", route=route, status=502, message="restarting", since=start + 10, until=start + 25)
        checkpoint = Path(folder) / "base.json"
        follow(client, checkpoint, count=6)
        clock.advance(60)
        print("a minute later")
        follow(client, checkpoint, count=8)


if __name__ == "__main__":
    logging.getLogger("tradesdk").setLevel(logging.ERROR)  # the reports say it already
    if {"TRADE_API_KEY", "TRADE_BASE_URL"} & os.environ.keys():
        with TradeClient() as client:
            try:
                follow(client, checkpoint=True)
            except KeyboardInterrupt:
                print("ended; the next run continues from here")
    else:
        rehearse()
