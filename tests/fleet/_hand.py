"""A relay by hand, and members of a fleet whose service has only a history."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable
from typing import Any

import httpx

from tradesdk import StreamSignal, TradeClient
from tradesdk._fleet.streams import Keys, Published, RelayCheckpoint, publish_arguments, text
from tradesdk._stream.checkpoint import CheckpointState
from tradesdk._sync.fleet.pinned_connection import PinnedConnection

from .._answers import signal
from .._redis_server import RedisServer

BASE = "http://127.0.0.1:9"
KEYS = Keys.of("tradesdk", BASE, 8453)
NOW = int(time.time())


def made(signal_id: str, at: float = 0.0, **changes: Any) -> StreamSignal:
    """A signal as a stream brings it; `at`: seconds from now."""
    return StreamSignal.model_validate(
        signal(signal_id, timestamp=int(time.time()) + int(at), type="signal", **changes)
    )


class Hand:
    """Takes the lease of the relay and writes what a test wants."""

    def __init__(self, server: RedisServer, *, name: str = "hand", lease: float = 10.0, keep: int = 10_000) -> None:
        self.connection = PinnedConnection(server.url)
        self.owner = f"{name} {secrets.token_hex(4)}"
        self.lease = lease
        self.keep = keep
        self.incarnation = ""
        self.fence = 0

    def take(self) -> list[Any]:
        """Try to take or renew the lease: the reply of the script, its status as text."""
        run = self.connection.run_of_server()
        joined = self.connection.run("stream_join", KEYS.of_members, [run, secrets.token_hex(4), "", "", "", 0, ""])
        self.incarnation = text(joined[0])
        keys: list[Any] = [self.incarnation, self.owner, int(self.lease * 1000), self.fence, 0]
        reply = self.connection.run("relay_lease", [KEYS.meta, KEYS.stream], keys)
        if reply[0] == b"held":
            self.fence = int(reply[1])
        return [text(reply[0]), *reply[1:]]

    def publish(self, signals: Iterable[StreamSignal | str], *, position: float | None = None) -> tuple[str, Any]:
        """Write signals; those that are only named are dated one second after the other."""
        if not self.fence:
            assert self.take()[0] == "held"
        items = [made(each, at) if isinstance(each, str) else each for at, each in enumerate(signals)]
        state = None if position is None else CheckpointState(0.0, position)
        arguments, _ = publish_arguments(
            self.keep, "", RelayCheckpoint(state, stored=False), [Published.signal(item) for item in items]
        )
        whose: list[Any] = [self.incarnation, self.owner, self.fence, int(self.lease * 1000)]
        reply = self.connection.run("relay_publish", KEYS.of_relay, [*whose, *arguments])
        return text(reply[0]), reply[1:]

    def close(self) -> None:
        self.connection.close()


def client(history: Iterable[StreamSignal] = ()) -> TradeClient:
    """A client whose service has this history and nothing else."""
    listed = sorted(history, key=lambda each: each.timestamp, reverse=True)

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/v1/signals/history"
        query = request.url.params
        first, last = int(query.get("from", 0)), int(query.get("to", 2**40))
        data = [
            each.model_dump(mode="json", exclude_computed_fields=True, exclude={"type"})
            for each in listed
            if first <= each.timestamp.timestamp() <= last
        ]
        return httpx.Response(200, json={"data": data, "next_cursor": None})

    return TradeClient(
        api_key="mock_full_x", base_url=BASE, http_client=httpx.Client(transport=httpx.MockTransport(answer))
    )


def taken(stream: Any, count: int) -> list[Any]:
    """The next items. The last one stays in hand."""
    return [next(stream) for _ in range(count)]


def ids(signals: Iterable[Any]) -> list[str]:
    return [each.id for each in signals]


def soon(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Whether it holds before so many seconds are over."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
