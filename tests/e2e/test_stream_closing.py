"""A stream ends at once when another thread or task closes it, wherever it waits, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import gc
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest

from tradesdk import AsyncSignalStream, AsyncTradeClient, TradeClient
from tradesdk._async.connection_pool import AsyncConnectionPool
from tradesdk._sync.connection_pool import ConnectionPool
from tradesdk_mock import MockService

from .._answers import KEY
from .._hostile import HostileServer, Visit, hostile
from ._streamplaces import EMPTY, OPEN, PLACES, Place, signal_event
from ._streamrelay import relay, tls_contexts

pytestmark = pytest.mark.long

AT_ONCE = 20.0  # it takes milliseconds; what else would end the waits here takes 30 seconds
PLACES_IN_MIND = [pytest.param(make, id=name) for name, make in PLACES.items()]
# Where somebody else's blocking client has taken a connection once more, its library doesn't say which.
UNSEEN = "the headers of a reconnect"


class Following(threading.Thread):
    """Reads a stream in a thread; its outcome is what it got and what was raised."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self.stream = stream
        self.began = time.monotonic()
        self.items: list[Any] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with self.stream:
                for item in self.stream:
                    self.items.append(item)
        except BaseException as error:
            self.error = error

    def ends_at_once(self, close: Callable[[], object]) -> None:
        began = time.monotonic()
        close()
        self.join(60)
        assert not self.is_alive()
        assert time.monotonic() - began < AT_ONCE
        assert self.error is None


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [
        each for each in threading.enumerate() if each not in before and not each.name.startswith(("AnyIO", "Trio"))
    ]
    for each in left:
        each.join(20)  # a timer that was canceled ends at once, when it gets its turn
    assert [each for each in left if each.is_alive()] == []


def free_slots(connections: Any) -> int:
    """How many connections could be opened now."""
    free = 0
    while free < 101 and connections._slots.acquire(0):
        free += 1
    for _ in range(free):
        connections._slots.release()
    return free


def client_of(server: HostileServer, place: Place, **more: Any) -> TradeClient:
    return TradeClient(api_key=KEY, base_url=server.url, **place.client, **more)


@pytest.mark.parametrize("make", PLACES_IN_MIND)
def test_from_another_thread(make: Callable[[], Place]) -> None:
    place = make()
    with hostile(place) as server:
        with client_of(server, place) as client:
            following = Following(client.signals.stream(chain=8453, **place.options))
            following.start()
            assert place.there.wait(60)
            time.sleep(0.02)
            following.ends_at_once(following.stream.close)
            assert following.items == []
            following.stream.close()
            connections = client._session.sender
            assert isinstance(connections, ConnectionPool)
            assert free_slots(connections) == 100
        assert server.settled(open_connections=0)


@pytest.mark.parametrize("make", [param for param in PLACES_IN_MIND if param.id != UNSEEN])
def test_from_another_thread_with_a_client_of_ones_own(make: Callable[[], Place]) -> None:
    place = make()
    with hostile(place) as server, httpx.Client() as http:
        with client_of(server, place, http_client=http) as client:
            following = Following(client.signals.stream(chain=8453, **place.options))
            following.start()
            assert place.there.wait(60)
            time.sleep(0.02)
            following.ends_at_once(following.stream.close)
        http.close()
        assert server.settled(open_connections=0)


def test_a_connection_used_again_by_a_client_of_ones_own_ends_with_its_timeout() -> None:
    place = PLACES[UNSEEN]()
    with hostile(place) as server, httpx.Client() as http:
        with client_of(server, place, http_client=http) as client:
            following = Following(client.signals.stream(chain=8453, idle_timeout=0.3))
            following.start()
            assert place.there.wait(60)
            following.stream.close()
            following.join(60)
            assert following.error is None
            assert not following.is_alive()
        http.close()
        assert server.settled(open_connections=0)


@pytest.mark.parametrize("make", PLACES_IN_MIND)
async def test_from_another_task(make: Callable[[], Place]) -> None:
    place = make()
    with hostile(place) as server:
        async with AsyncTradeClient(api_key=KEY, base_url=server.url, **place.client) as client:
            await ends_at_once(client.signals.stream(chain=8453, **place.options), place)
            connections = client._session.sender
            assert isinstance(connections, AsyncConnectionPool)
            assert connections._slots._inner.value == 100
        assert await anyio.to_thread.run_sync(lambda: server.settled(open_connections=0))


@pytest.mark.parametrize("make", PLACES_IN_MIND)
async def test_from_another_task_with_a_client_of_ones_own(make: Callable[[], Place]) -> None:
    place = make()
    with hostile(place) as server:
        async with (
            httpx.AsyncClient() as http,
            AsyncTradeClient(api_key=KEY, base_url=server.url, http_client=http, **place.client) as client,
        ):
            await ends_at_once(client.signals.stream(chain=8453, **place.options), place)
        assert await anyio.to_thread.run_sync(lambda: server.settled(open_connections=0))


async def ends_at_once(stream: AsyncSignalStream[Any], place: Place) -> None:
    async def follow() -> None:
        async with stream:
            async for _ in stream:
                raise AssertionError("there is nothing to be had")

    began = time.monotonic()
    async with anyio.create_task_group() as group:
        group.start_soon(follow)
        assert await anyio.to_thread.run_sync(place.there.wait, 60)
        await anyio.sleep(0.02)
        began = time.monotonic()
        await stream.aclose()
    assert time.monotonic() - began < AT_ONCE
    await stream.aclose()


@pytest.mark.parametrize(
    ("whose", "name"),
    [
        ("ours", "the read of a quiet stream"),
        ("ours", "the headers of a reconnect"),
        ("ours", "half a page of history"),
        ("theirs", "the read of a quiet stream"),
        ("theirs", "half a page of history"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*SSLSocket:pytest.PytestUnraisableExceptionWarning")
def test_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, whose: str) -> None:
    place = PLACES[name]()
    serving, trusting = tls_contexts(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
    with hostile(place) as server, relay(server.port, tls=serving) as between, httpx.Client(verify=trusting) as http:
        url = f"https://127.0.0.1:{between.port}"
        client = TradeClient(api_key=KEY, base_url=url, http_client=http if whose == "theirs" else None, **place.client)
        with client:
            following = Following(client.signals.stream(chain=8453, **place.options))
            following.start()
            assert place.there.wait(60)
            time.sleep(0.05)
            following.ends_at_once(following.stream.close)
        http.close()
        assert server.settled(open_connections=0)
    gc.collect()  # a socket that is reset before its handshake is left to it by `ssl`, with a warning


async def test_over_tls_from_another_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = PLACES["the read of a quiet stream"]()
    serving, _ = tls_contexts(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
    with hostile(place) as server, relay(server.port, tls=serving) as between:
        url = f"https://127.0.0.1:{between.port}"
        async with AsyncTradeClient(api_key=KEY, base_url=url) as client:
            await ends_at_once(client.signals.stream(chain=8453), place)
        assert await anyio.to_thread.run_sync(lambda: server.settled(open_connections=0))


def test_while_it_connects() -> None:
    """A connection that comes about after the end is not waited for."""
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):  # from now on nobody gets in
            crowd = stack.enter_context(socket.socket())
            crowd.setblocking(False)
            crowd.connect_ex(listener.getsockname())
        with TradeClient(api_key=KEY, base_url=f"http://127.0.0.1:{listener.getsockname()[1]}") as client:
            following = Following(client.signals.stream(chain=8453, since=1.0))
            following.start()
            time.sleep(0.05)
            following.stream.close()
            while not select.select([listener], [], [], 0.01)[0]:
                pass
            listener.settimeout(0.2)
            while following.is_alive():  # the next try to connect follows a second after the first
                with contextlib.suppress(TimeoutError):
                    stack.enter_context(listener.accept()[0])
                following.join(0.01)
                assert time.monotonic() - following.began < 60
            assert following.error is None


def test_in_process() -> None:
    with MockService(signals="scripted") as service, httpx.Client(transport=service.transport()) as http:
        client = TradeClient(api_key="mock_full_me", base_url=service.url, http_client=http)
        following = Following(client.signals.stream(chain=8453))
        following.start()
        while not service.status()["streams"]:
            time.sleep(0.005)
        time.sleep(0.02)
        following.ends_at_once(following.stream.close)
        assert service.status()["streams"] == 0


async def test_in_process_from_another_task() -> None:
    with MockService(signals="scripted") as service:
        async with (
            httpx.AsyncClient(transport=service.transport()) as http,
            AsyncTradeClient(api_key="mock_full_me", base_url=service.url, http_client=http) as client,
        ):
            place = Place(lambda *_: None)
            place.there.set()
            await ends_at_once(client.signals.stream(chain=8453), place)
        assert service.status()["streams"] == 0


def test_while_the_consumer_is_busy() -> None:
    busy, go_on = threading.Event(), threading.Event()

    def act(place: Place, visit: Visit, what: str, number: int) -> None:
        if what == "stream":
            now = int(time.time())
            visit.send(OPEN, signal_event(1, now), signal_event(2, now))
            visit.hold()
        visit.send(EMPTY)

    place = Place(act)
    with hostile(place) as server:
        with client_of(server, place) as client:
            stream = client.signals.stream(chain=8453)
            got = []

            def follow() -> None:
                with stream:
                    for signal in stream:
                        got.append(signal.id)
                        busy.set()
                        assert go_on.wait(60)

            with ThreadPoolExecutor(1) as pool:
                done = pool.submit(follow)
                assert busy.wait(60)
                stream.close()
                assert free_slots(client._session.sender) == 100
                go_on.set()
                done.result(60)
            assert got == ["sig_1"]
        assert server.settled(open_connections=0)
