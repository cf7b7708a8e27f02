"""The transport in process does to a client what a socket does: requests, answers, and how they break off.

Every case is played over a real connection, too. Whatever ends an exchange, its body is closed and nothing is left.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import httpx
import pytest

from tradesdk_mock import MockClock, MockServerError, MockService
from tradesdk_mock.api.validation import MAX_BODY
from tradesdk_mock.core.messages import BodyStep, Delay, Disconnect, Request, Response, WaitForEvent
from tradesdk_mock.core.subscribers import Notifier

from ._http import START
from ._scripted import FLAVOURS, FOR_EVER, Bell, Body, fetch, in_process, once, over_a_socket, plain, seen

pytestmark = pytest.mark.long

BIG = bytes(range(256)) * 1024
BROKEN = httpx.RemoteProtocolError
CLOSE, CHUNK, RESET = Disconnect.CLOSE, Disconnect.CHUNK, Disconnect.RESET


def crashing() -> Iterator[BodyStep]:
    yield b"some"
    raise RuntimeError("in the middle")


# name: (how the response is made, the error that a client gets, what of the body is there before)
ANSWERS: dict[str, tuple[Callable[[], Response], type[Exception] | None, bytes]] = {
    "whole": (lambda: plain(b"hello", length=5), None, b"hello"),
    "empty": (lambda: plain(b"", length=0), None, b""),
    "nothing to say": (lambda: Response(204), None, b""),
    "large": (lambda: plain(BIG, length=len(BIG)), None, BIG),
    "in chunks": (lambda: plain(iter([b"one", b"", b"two", BIG])), None, b"onetwo" + BIG),
    "no chunks at all": (lambda: plain(iter([])), None, b""),
    "in pieces of a known length": (lambda: plain(iter([b"one", b"two"]), length=6), None, b"onetwo"),
    "with a pause": (lambda: plain(iter([b"one", Delay(0.01), b"two"]), before=[Delay(0.01)]), None, b"onetwo"),
    "a known status": (lambda: plain(b"x", status=503, length=1), None, b"x"),
    "a status without a name": (lambda: plain(b"x", status=299, length=1), None, b"x"),
    "reset before": (lambda: plain(before=[RESET]), httpx.ReadError, b""),
    "closed before": (lambda: plain(before=[CLOSE]), BROKEN, b""),
    "nonsense before": (lambda: plain(before=[CHUNK]), BROKEN, b""),
    "reset after a pause": (lambda: plain(before=[Delay(0.01), RESET]), httpx.ReadError, b""),
    "reset in the body": (lambda: plain(iter([RESET]), length=5), httpx.ReadError, b""),
    "reset in chunks": (lambda: plain(iter([RESET])), httpx.ReadError, b""),
    "closed in the body": (lambda: plain(iter([b"abc", CLOSE]), length=5), BROKEN, b"abc"),
    "closed in chunks": (lambda: plain(iter([b"abc", CLOSE])), BROKEN, b"abc"),
    "closed when it was whole": (lambda: plain(iter([b"abcde", CLOSE]), length=5), None, b"abcde"),
    "a bad chunk": (lambda: plain(iter([b"abc", CHUNK])), BROKEN, b"abc"),
    "a bad chunk where none is": (lambda: plain(iter([b"abc", CHUNK]), length=30), BROKEN, b"abcnot a length\r\n"),
    "a bad chunk that fits": (lambda: plain(iter([b"abc", CHUNK]), length=17), None, b"abcnot a length\r\n"),
    "a bad chunk that is too much": (lambda: plain(iter([b"abc", CHUNK]), length=10), None, b"abcnot a l"),
    "too short": (lambda: plain(b"abc", length=5), BROKEN, b"abc"),
    "too short in pieces": (lambda: plain(iter([b"a", b"bc"]), length=5), BROKEN, b"abc"),
    "a crash in chunks": (lambda: plain(crashing()), BROKEN, b"some"),
    "a crash in the body": (lambda: plain(crashing(), length=9), BROKEN, b"some"),
    "too slow": (lambda: plain(before=[Delay(60)]), httpx.ReadTimeout, b""),
    "too slow in the body": (lambda: plain(iter([b"abc", Delay(60), b"de"]), length=5), httpx.ReadTimeout, b"abc"),
    "too slow in steps": (lambda: plain(iter([b"abc", *[Delay(0.06)] * 5, b"x"])), httpx.ReadTimeout, b"abc"),
}


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_what_a_socket_gives(name: str, flavour: str) -> None:
    make, error, body = ANSWERS[name]
    patience = 0.15 if "slow" in name else 5
    with in_process(lambda request: make()) as service:
        found = fetch(flavour, service, read=patience)
    assert (found.error, found.body) == (error, body)
    with over_a_socket(lambda request: make()) as server:
        real = fetch(flavour, server, read=patience)
    assert found == real


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_pieces_before_a_reset_arrive(flavour: str) -> None:
    """A socket may lose them."""
    with in_process(lambda request: plain(iter([b"abc", RESET]))) as service:
        found = fetch(flavour, service)
    assert (found.status, found.body, found.error) == (200, b"abc", httpx.ReadError)


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("name", ["whole", "in chunks"])
def test_head_has_no_body(name: str, flavour: str) -> None:
    make = ANSWERS[name][0]
    with in_process(lambda request: make()) as service, over_a_socket(lambda request: make()) as server:
        found = fetch(flavour, service, "HEAD")
        assert found.body == b""
        assert found == fetch(flavour, server, "HEAD")


class Pieces:
    """A body that is sent piece by piece; `taken` counts those that were asked for."""

    def __init__(self, *content: bytes) -> None:
        self._content = content
        self.taken = 0

    def body(self, flavour: str) -> Any:
        """What a client of this flavour can send."""
        return (piece for piece in self) if flavour == "blocking" else Awaited(self)

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._content:
            self.taken += 1
            yield piece


class Awaited:
    def __init__(self, pieces: Pieces) -> None:
        self._pieces = iter(pieces)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration


def answer(request: Request) -> Response:
    return plain(b"ok", length=2)


REQUESTS: dict[str, dict[str, Any]] = {
    "bare": {"path": "/v1/account"},
    "no path": {"path": ""},
    "query": {"path": "/v1/trades?limit=5&cursor=a%2Fb+c&empty=&twice=1&twice=2"},
    "params": {"path": "/v1/trades", "params": {"q": "ä b&c", "n": 5}},
    "quoted": {"path": "/v1/agents/a%2Fb%20c%C3%A4"},
    "not UTF-8": {"path": "/v1/agents/%ff%00?x=%ff"},
    "to be quoted": {"path": "/v1/agents/ä b"},
    "dots": {"path": "/v1/agents/../agents/./x"},
    "its own target": {"path": "/v1/x", "extensions": {"target": b"/v1/agents/../y?z=1"}},
    "headers": {"path": "/", "headers": [("X-A", "1"), ("x-a", "2"), ("Accept", "*/*"), ("X-Empty", "")]},
    "latin-1": {"path": "/", "headers": {"X-A": "caf\xe9".encode("latin-1")}},
    "json": {"method": "POST", "path": "/v1/agents", "json": {"name": "x"}},
    "no body": {"method": "POST", "path": "/v1/agents"},
    "form": {"method": "PATCH", "path": "/", "data": {"a": "b"}},
    "put": {"method": "PUT", "path": "/", "content": b"\x00\xff"},
    "streamed": {"method": "POST", "path": "/", "content": Pieces(b"one", b"", b"two")},
    "streamed nothing": {"method": "POST", "path": "/", "content": Pieces()},
    "the most that is read": {"method": "POST", "path": "/", "content": b"x" * MAX_BODY},
    "too long": {"method": "POST", "path": "/", "content": b"x" * (MAX_BODY + 1)},
    "too long, streamed": {"method": "POST", "path": "/", "content": Pieces(*[b"x" * 65_536] * 17)},
    "a body with GET": {"method": "GET", "path": "/", "content": b"nobody looks at it"},
    "a long body with GET": {"method": "GET", "path": "/", "content": b"x" * (MAX_BODY + 1)},
    "a body with DELETE": {"method": "DELETE", "path": "/", "content": b"{}"},
    "lower case": {"method": "delete", "path": "/"},
    "unknown method": {"method": "FROBNICATE", "path": "/"},
}


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_arrives_as_over_a_socket(name: str, flavour: str) -> None:
    with in_process(answer) as service, over_a_socket(answer) as server:
        for place in (service, server):
            sent = dict(REQUESTS[name])
            if isinstance(sent.get("content"), Pieces):
                sent["content"] = sent["content"].body(flavour)
            found = fetch(flavour, place, **sent)
            assert (found.status, found.body) == (200, b"ok")
        (ours,), (real,) = seen(service), seen(server)
        address = server.url.removeprefix("http://")
    ours.headers, real.headers = list(ours.headers), list(real.headers)
    ours.headers.remove((b"host", b"localhost"))
    real.headers.remove((b"host", address.encode()))
    assert ours == real
    assert ours.client == "127.0.0.1"


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(
    "headers",
    [{"X-A": "a\nb"}, {"X-A": "a\x00"}, {"X-A": " a"}, {"a b": "1"}, [("Host", "a"), ("Host", "b")]],
    ids=["line break", "null", "space", "name", "two hosts"],
)
def test_what_is_no_request_is_not_sent(headers: Any, flavour: str) -> None:
    with in_process(answer) as service, over_a_socket(answer) as server:
        found = fetch(flavour, service, headers=headers)
        assert found.error is httpx.LocalProtocolError
        assert found == fetch(flavour, server, headers=headers)
        for place in (service, server):
            assert fetch(flavour, place, path="/good").body == b"ok"
            assert [request.path for request in seen(place)] == ["/good"]


def test_where_a_request_may_go() -> None:
    with in_process(answer) as service, over_a_socket(answer) as server:
        for flavour in FLAVOURS:
            found = fetch(flavour, service, path="ftp://localhost/x")
            assert found.error is httpx.UnsupportedProtocol
            assert found == fetch(flavour, server, path="ftp://localhost/x")
        for host in ("https://api.example.com", "http://10.0.0.1:8080", "http://[::1]"):
            assert fetch("blocking", service, path=f"{host}/v1/x").body == b"ok"
        assert [request.path for request in seen(service)] == ["/v1/x"] * 3
        with (
            httpx.Client(transport=service.transport()) as http,
            pytest.raises(httpx.UnsupportedProtocol, match="missing an 'http://' or 'https://'"),
        ):
            http.get("/v1/account")


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_the_port_of_the_market_data(flavour: str) -> None:
    """Only where they have one of their own."""
    with in_process(answer) as service:
        for gap, url in (("same", service.url), ("another", "http://localhost:8402")):
            service.set_gaps(b_port=gap)
            assert service.market_url == url
            for path in (f"{url}/v1/token-prices", "http://localhost:8402/x", "http://localhost:80/x", "/x"):
                fetch(flavour, service, path=path)
        assert [request.market for request in seen(service)] == [False] * 4 + [True, True, False, False]


def test_the_port_of_the_market_data_of_a_server() -> None:
    """A server can be reached in process as well, and by its addresses."""
    with over_a_socket(answer) as server:
        server.set_gaps(b_port="another")
        assert fetch("blocking", server, path=f"{server.market_url}/x").body == b"ok"
        with httpx.Client(transport=server.transport()) as http:
            for url in (server.market_url, server.url):
                assert http.get(f"{url}/x").content == b"ok"
        assert [request.market for request in seen(server)] == [True, True, False]


# The end of an exchange


@contextmanager
def read_by_another_thread(body: Body) -> Iterator[tuple[httpx.Response, list[bytes]]]:
    """Its reader has ended when this does."""
    got: list[bytes] = []
    with (
        in_process(lambda request: plain(body)) as service,
        httpx.Client(transport=service.transport(), timeout=FOR_EVER) as http,
        http.stream("GET", "http://x/") as response,
    ):
        reader = threading.Thread(target=lambda: got.extend(response.iter_raw()))
        reader.start()
        yield response, got
        reader.join(10)
        assert not reader.is_alive()
    assert body.closed


def test_closing_ends_a_read_in_another_thread() -> None:
    bell = Bell()
    with read_by_another_thread(Body(once(bell, WaitForEvent(None, bell)))) as (response, got):
        assert bell.awaited.wait(10)
        response.close()
    assert got == []


def test_closing_waits_for_a_step_that_is_being_made() -> None:
    """A generator can't be closed while it runs: the reader does it when it comes back."""
    begun, go_on = threading.Event(), threading.Event()

    def steps() -> Iterator[BodyStep]:
        begun.set()
        assert go_on.wait(10)
        yield b"too late"

    body = Body(steps())
    with read_by_another_thread(body) as (response, got):
        assert begun.wait(10)
        response.close()
        assert not body.closed
        go_on.set()
    assert got == []


@pytest.mark.parametrize("end", ["closing", "cancelling"])
async def test_closing_and_cancelling_end_a_read_in_another_task(end: str) -> None:
    bell = Bell()
    body = Body(once(bell, WaitForEvent(None, bell)))
    got: list[bytes] = []
    with in_process(lambda request: plain(body)) as service:
        async with httpx.AsyncClient(transport=service.transport(), timeout=FOR_EVER) as http:
            response = await http.send(http.build_request("GET", "http://x/"), stream=True)

            async def read() -> None:
                async for piece in response.stream:  # type: ignore[union-attr]  # an async client's
                    got.append(piece)

            async with anyio.create_task_group() as group:
                group.start_soon(read)
                await anyio.to_thread.run_sync(bell.awaited.wait, 10)
                if end == "closing":
                    await response.aclose()
                else:
                    group.cancel_scope.cancel()
            assert body.closed
            await response.aclose()
    assert got == []


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("before", [[], [RESET], [Delay(60)]], ids=["plain", "refusing", "slow"])
def test_a_body_is_closed_whatever_happens(before: list[Any], flavour: str) -> None:
    bodies: list[Body] = []

    def broken(request: Request) -> Response:
        bodies.append(Body(iter([b"a", CLOSE])))
        return plain(bodies[-1], before=before)

    with in_process(broken, MockClock(START)) as service:
        assert fetch(flavour, service).error is not None
        assert fetch(flavour, service, "HEAD").error is None or before
        assert [bool(body.closed) for body in bodies] == [True, True]
        with httpx.Client(transport=service.transport()) as http:
            if not before:
                # One that nobody reads.
                with http.stream("GET", "http://x/"):
                    assert not bodies[-1].closed
                assert bodies[-1].closed


def test_it_starts_no_threads_and_no_tasks() -> None:
    bell = Notifier()
    with in_process(
        lambda request: plain(iter([b"a", WaitForEvent(START + 9, bell), b"b"])), MockClock(START)
    ) as service:
        before = set(threading.enumerate())
        with (
            httpx.Client(transport=service.transport()) as http,
            http.stream("GET", "http://x/", timeout=FOR_EVER) as response,
        ):
            assert next(response.iter_raw()) == b"a"
            assert set(threading.enumerate()) <= before

        async def look() -> None:
            async with (
                httpx.AsyncClient(transport=service.transport()) as http,
                http.stream("GET", "http://x/", timeout=FOR_EVER) as response,
            ):
                assert await anext(aiter(response.stream)) == b"a"  # type: ignore[arg-type]  # an async client's
                assert len(asyncio.all_tasks()) == 1

        asyncio.run(look())
        assert set(threading.enumerate()) <= before


LIGHT = """
import sys
import httpx
from tradesdk_mock import MockService

with MockService() as mock, httpx.Client(transport=mock.transport(), base_url=mock.url) as http:
    assert http.get("/v1/account", headers={"Authorization": "Bearer mock_full_me"}).status_code == 200
print(*sorted({"uvicorn", "asyncio", "anyio", "eth_keys", "tradesdk"} & set(sys.modules)))
"""


def test_nothing_heavy_is_loaded_for_it() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=300)
    assert (done.stdout.split(), done.stderr) == ([], "")


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_closed_service_cannot_be_reached(flavour: str) -> None:
    service = MockService()
    service.close()
    # No error of httpx: a client would take it for a failure of the network, and try again.
    with pytest.raises(MockServerError, match="the mock is closed: make requests while it is open"):
        fetch(flavour, service)
    assert repr(service.transport()) == "<MockTransport of MockService(seed=7)>"
