"""A mock on a real socket that goes on publishing signals, and both flavours of reading them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tradesdk import AsyncTradeClient, RetryPolicy, StreamSignal, TradeClient
from tradesdk_mock import MockServer, MockService

STREAM, HISTORY = "/v1/signals/stream", "/v1/signals/history"
QUICKLY = RetryPolicy(base=0.001, jitter=0, cap=0.02)


class Publisher(threading.Thread):
    """Publishes signals until it is told to stop; `ids` are those of what it has published, in order."""

    def __init__(self, service: MockService, *, every: float = 0.005, chain: int = 8453) -> None:
        super().__init__(name="publisher", daemon=True)
        self.ids: list[str] = []
        self._service = service
        self._every = every
        self._chain = chain
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(self._every):
            self.ids.append(self._service.emit_signal(chain_id=self._chain).id)

    def stop(self) -> None:
        self._over.set()
        self.join()


@contextmanager
def publishing(service: MockService, *, every: float = 0.005, chain: int = 8453) -> Iterator[Publisher]:
    publisher = Publisher(service, every=every, chain=chain)
    publisher.start()
    try:
        yield publisher
    finally:
        publisher.stop()


def server_of(seed: int, **gaps: Any) -> MockServer:
    """A server that publishes only what is asked for, and whose keys have room for many looks into history."""
    server = MockServer(seed=seed, signals="scripted")
    server.set_gaps(**{"heartbeat": 1, "enterprise_limit": 60_000} | gaps)
    return server


def key_of(server: MockService) -> str:
    return server.create_key(plan="enterprise", tenant="follower").value or ""


Begun = Callable[[], object]
Enough = Callable[[list[StreamSignal]], bool]


def follow(
    server: MockServer, enough: Enough, begun: Begun, *, key: str, chain: int = 8453, **options: Any
) -> tuple[list[StreamSignal], Any]:
    """Signals until they are enough, and what the stream says of itself; `begun` is called when it is open."""
    got: list[StreamSignal] = []
    with (
        TradeClient(api_key=key, base_url=server.url, retry=QUICKLY) as client,
        client.signals.stream(chain=chain, **options) as stream,
    ):
        begun()
        for signal in stream:
            got.append(signal)
            if enough(got):
                break
    return got, stream.stats


async def afollow(
    server: MockServer, enough: Enough, begun: Begun, *, key: str, chain: int = 8453, **options: Any
) -> tuple[list[StreamSignal], Any]:
    """The same without blocking."""
    got: list[StreamSignal] = []
    async with (
        AsyncTradeClient(api_key=key, base_url=server.url, retry=QUICKLY) as client,
        client.signals.stream(chain=chain, **options) as stream,
    ):
        begun()
        async for signal in stream:
            got.append(signal)
            if enough(got):
                break
    return got, stream.stats
