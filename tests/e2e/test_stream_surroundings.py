"""What happens around a stream: the server restarts, the machine sleeps, a proxy collects, the consumer is slow."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk import AsyncTradeClient, SystemClock, TradeClient
from tradesdk._stream import watchdog
from tradesdk_mock import MockServer

from .._flavour_sync import soon
from .._hostile import Visit, answer, hostile
from ._streamhouse import QUICKLY, key_of, publishing, server_of
from ._streamrelay import Relay, relay

pytestmark = pytest.mark.long

OPTIONS: dict[str, Any] = {"chain": 8453, "settle": 0.05}


def url_of(between: Relay) -> str:
    return f"http://127.0.0.1:{between.port}"


def restarted(file: Path, port: int) -> MockServer:
    """The same service once more, on the same port."""
    return MockServer(seed=6, signals="scripted", db=file, port=port).start()


def test_a_server_that_restarts(tmp_path: Path) -> None:
    """While it is down nobody listens on its port; what it published before the stream is back comes all the same."""
    file = tmp_path / "state.sqlite3"
    first = restarted(file, 0)
    key, ids = key_of(first), []
    with (
        TradeClient(api_key=key, base_url=first.url, retry=QUICKLY) as client,
        client.signals.stream(**OPTIONS, reports=True) as stream,
    ):
        got: list[str] = []

        def read_to(count: int) -> None:
            while len(got) < count:
                if (signal_id := getattr(next(stream), "id", None)) is not None:
                    got.append(signal_id)

        ids += [first.emit_signal().id for _ in range(3)]
        read_to(3)
        ids += [first.emit_signal().id for _ in range(2)]
        first.stop()
        while type(item := next(stream)).__name__ != "Disconnected" or item.tries < 3:  # type: ignore[union-attr]
            if (signal_id := getattr(item, "id", None)) is not None:
                got.append(signal_id)
        second = restarted(file, first.port)
        try:
            ids += [second.emit_signal().id for _ in range(4)]
            with publishing(second, every=0.05) as publisher:
                read_to(15)
            ids += publisher.ids
        finally:
            second.stop()
        assert got == ids[:15]
        assert stream.stats.gaps == 0


class Sleeper(SystemClock):
    """The clock of a machine that can be sent to sleep. As on Linux, its monotonic time stands still meanwhile."""

    def __init__(self, *, monotonic: bool) -> None:
        self._slept = 0.0
        self._monotonic = monotonic

    def sleep_for(self, seconds: float) -> None:
        self._slept += seconds

    def now(self) -> float:
        return super().now() + self._slept

    def monotonic(self) -> float:
        return super().monotonic() + self._slept * self._monotonic


@pytest.mark.parametrize("counted", [False, True], ids=["monotonic time stood still", "monotonic time went on"])
def test_a_machine_that_slept(counted: bool) -> None:
    """Two hours later the connection is gone, and what was published meanwhile is found."""
    clock = Sleeper(monotonic=counted)
    with (
        server_of(6, heartbeat=1) as server,
        relay(server.port) as between,
        TradeClient(api_key=key_of(server), base_url=url_of(between), retry=QUICKLY, clock=clock) as client,
        client.signals.stream(**OPTIONS) as stream,
    ):
        ids = [server.emit_signal().id for _ in range(3)]
        got = [next(stream).id for _ in ids]
        between.frozen = True
        for _ in range(10):
            clock.sleep_for(720)
            server.clock.advance(720)
            ids.append(server.emit_signal().id)
        between.cut()
        between.frozen = False
        with publishing(server, every=0.05) as publisher:
            got += [next(stream).id for _ in range(20)]
        assert got == (ids + publisher.ids)[:23]
        assert (stream.stats.connects, stream.stats.gaps, stream.stats.late) == (2, 0, 0)


@pytest.fixture
def mute(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Three heartbeats, a second apart by what they say; then nothing, on an open connection.

    Silence of a fifth of an interval is too long.
    """
    monkeypatch.setattr(watchdog, "_TIMES", 0.2)
    monkeypatch.setattr(watchdog, "_LEAST", 0.2)

    def answering(visit: Visit) -> None:
        if not visit.request[1].startswith("/v1/signals/stream"):
            visit.send(answer(b'{"data": []}'))
            return
        beats = [b'data: {"type": "heartbeat", "timestamp": %d}\n\n' % (time.time() + at) for at in range(-2, 1)]
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
        visit.send(head + b"".join(beats))  # at once: any time between two of them may be too long
        visit.hold()

    with hostile(answering) as server:
        yield server.url


HEARD = ["Connected", "Heartbeat", "Heartbeat", "Heartbeat", "Disconnected"]


@pytest.mark.parametrize("injected", [False, True], ids=["our own client", "an injected one"])
def test_an_interval_learned_counts_on_its_connection(mute: str, injected: bool) -> None:
    http = httpx.Client() if injected else None
    with (
        TradeClient(api_key="k", base_url=mute, http_client=http) as client,
        client.signals.stream(**OPTIONS, heartbeats=True, unknown_events=True, reports=True) as stream,
    ):
        assert [type(next(stream)).__name__ for _ in HEARD] == HEARD
    if http is not None:
        http.close()


@pytest.mark.parametrize("injected", [False, True], ids=["our own client", "an injected one"])
async def test_an_interval_learned_counts_on_its_connection_async(mute: str, injected: bool) -> None:
    http = httpx.AsyncClient() if injected else None
    async with (
        AsyncTradeClient(api_key="k", base_url=mute, http_client=http) as client,
        client.signals.stream(**OPTIONS, heartbeats=True, unknown_events=True, reports=True) as stream,
    ):
        assert [type(await anext(stream)).__name__ for _ in HEARD] == HEARD
    if http is not None:
        await http.aclose()


@pytest.mark.parametrize("collect", [0.3, 1.0])
@pytest.mark.long
def test_a_proxy_that_collects(collect: float) -> None:
    """What arrives late and all at once is neither lost nor taken for silence."""
    with (
        server_of(6, heartbeat=1) as server,
        relay(server.port, collect=collect) as between,
        TradeClient(api_key=key_of(server), base_url=url_of(between), retry=QUICKLY) as client,
        client.signals.stream(**OPTIONS, idle_timeout=10.0) as stream,
        publishing(server, every=0.01) as publisher,
    ):
        got = [next(stream).id for _ in range(150)]
        assert got == publisher.ids[:150]
        assert (stream.stats.connects, stream.stats.duplicates, stream.stats.replayed) == (1, 0, 0)


@pytest.mark.parametrize("seconds", [0.6, pytest.param(3.0, marks=pytest.mark.long)])
def test_a_consumer_that_is_busy(seconds: float) -> None:
    """Meanwhile nobody reads, though the limit of silence passes; nothing is lost, and the connection is kept."""
    clock = Sleeper(monotonic=True)
    with (
        server_of(6, heartbeat=1) as server,
        TradeClient(api_key=key_of(server), base_url=server.url, retry=QUICKLY, clock=clock) as client,
        client.signals.stream(**OPTIONS, idle_timeout=20) as stream,
        publishing(server, every=0.001) as publisher,
    ):
        got = []
        for signal in stream:
            got.append(signal.id)
            if len(got) == 5:
                time.sleep(seconds)
                clock.sleep_for(40)
            if len(got) == 300 * seconds:
                break
        assert got == publisher.ids[: len(got)]
        assert stream.stats.connects == 1


@pytest.mark.long
def test_a_server_that_drops_whoever_is_too_slow() -> None:
    """The consumer is so slow that the service hangs up; the rest is in the history."""
    with server_of(6, heartbeat=1) as server:
        server.add_fault("drop", route="/v1/signals/stream", after=50, how="reset", count=1)
        with (
            TradeClient(api_key=key_of(server), base_url=server.url, retry=QUICKLY) as client,
            client.signals.stream(**OPTIONS) as stream,
            publishing(server, every=0.002) as publisher,
        ):
            got = [next(stream).id]
            assert soon(lambda: server.status()["streams"] == 0)
            got += [next(stream).id for _ in range(200)]
            assert got == publisher.ids[:201]
            assert (stream.stats.connects, stream.stats.gaps) == (2, 0)
