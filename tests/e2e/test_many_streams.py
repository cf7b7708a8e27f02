"""A thousand live streams of one server, a signal a second: every stream gets each of them, once.

For twelve seconds; for a minute in scripts/soak.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

pytestmark = pytest.mark.long

STREAMS = 1_000
SECONDS = int(os.environ.get("TRADE_STREAM_SECONDS", "12"))
AT_ONCE = 50
"""So many are opened at the same time."""
LATE = 45.0
"""Seconds after the last signal in which the rest may arrive on a machine that is busy with other things."""
ID = re.compile(rb'"id":"(sig_[0-9a-f]+)"')


class Listener(asyncio.Protocol):
    """One stream, read from a raw socket: a client library would cost more than the server."""

    def __init__(self, crowd: Crowd) -> None:
        self.ids: list[str] = []
        self.head = b""
        self.opened = asyncio.get_running_loop().create_future()
        self._crowd = crowd
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        if not self.opened.done():
            self.head, found, data = data.partition(b"\r\n\r\n")
            if not found:
                self._rest = self.head
                return
            self.opened.set_result(None)
        # What has no blank line behind it yet isn't an event.
        events, _, self._rest = data.rpartition(b"\n\n")
        found_ids = ID.findall(events)
        self.ids += [found.decode() for found in found_ids]
        self._crowd.arrived(len(found_ids))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(exc or ConnectionResetError("closed before an answer"))
        self._crowd.left()


class Crowd:
    """All of the streams; `over` when as many signals have come as there should be, or when a stream has ended."""

    def __init__(self, expected: int) -> None:
        self.over = asyncio.Event()
        self.ended = 0
        self._missing = expected

    def arrived(self, count: int) -> None:
        self._missing -= count
        if self._missing <= 0:
            self.over.set()

    def left(self) -> None:
        self.ended += 1
        self.over.set()


async def listen(port: int, http: httpx.AsyncClient) -> tuple[list[str], list[Listener], int]:
    """(ids that were published, the streams, how many of them ended too early)."""
    loop = asyncio.get_running_loop()
    crowd = Crowd(STREAMS * SECONDS)
    request = (
        f"GET /v1/signals/stream?chain=8453 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        "Authorization: Bearer mock_full_crowd\r\n\r\n"
    ).encode()

    async def one() -> tuple[asyncio.Transport, Listener]:
        transport, listener = await loop.create_connection(lambda: Listener(crowd), "127.0.0.1", port)
        transport.write(request)
        await listener.opened
        return transport, listener

    opened: list[tuple[asyncio.Transport, Listener]] = []
    while len(opened) < STREAMS:
        opened += await asyncio.gather(*(one() for _ in range(min(AT_ONCE, STREAMS - len(opened)))))
    try:
        status = (await http.get("/_mock/status")).json()
        assert status["streams"] == STREAMS
        published = []
        for second in range(SECONDS):
            answer = await http.post("/_mock/signals", json={"chain_id": 8453, "at": status["now"] + 5 + second})
            published.append(answer.raise_for_status().json()["id"])
        with contextlib.suppress(TimeoutError):  # what is missing then is counted
            await asyncio.wait_for(crowd.over.wait(), 5 + SECONDS + LATE)
        ended = crowd.ended
        return published, [listener for _, listener in opened], ended
    finally:
        for transport, _ in opened:
            transport.abort()


@pytest.fixture
def many_files() -> Iterator[None]:
    """As many open files as the streams need, for this process and for those that it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = STREAMS + 200
    if soft != resource.RLIM_INFINITY and soft < enough:
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def port(many_files: None) -> Iterator[int]:
    """A server in a process of its own, which has all of one core."""
    command = [sys.executable, "-m", "tradesdk_mock", "--port", "0", "--scripted"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield int(server.stdout.readline().rpartition(":")[2])
        finally:
            server.kill()


@pytest.mark.long
def test_a_thousand_streams_lose_nothing(port: int) -> None:
    async def run() -> tuple[list[str], list[Listener], int]:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            return await listen(port, http)

    published, listeners, ended = asyncio.run(run())
    assert len(set(published)) == SECONDS
    assert {listener.head.partition(b"\r\n")[0] for listener in listeners} == {b"HTTP/1.1 200 OK"}
    lost = sum(len(set(published) - set(listener.ids)) for listener in listeners)
    twice = sum(len(listener.ids) - len(set(listener.ids)) for listener in listeners)
    assert (lost, twice, ended) == (0, 0, 0), f"of {STREAMS * SECONDS:,} signals"
    assert all(listener.ids == published for listener in listeners)
