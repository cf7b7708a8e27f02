"""What happens to connections, over real sockets: refused, broken off, kept, shared, limited."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

import httpcore
import pytest

from tradesdk import APIConnectionError, APIStatusError, APITimeoutError, AsyncTradeClient, Timeout
from tradesdk._async.sending import AsyncAnswer, Outgoing

from .._answers import ACCOUNT, KEY, page, summary
from .._answers import agent as whole
from .._clock import VirtualClock
from .._flavour_async import at_once, until
from .._hostile import Visit, always, answer, hostile, listening
from .._ports import free_port
from .._rows import each_of
from ._client import at_most, connected, facing

GOOD = answer(json.dumps(ACCOUNT).encode())


@each_of("host", ["127.0.0.1", "localhost"])
async def test_refused_by_this_machine(host: str) -> None:
    """Nothing listens there, and waiting a minute would not change that."""
    clock = VirtualClock()
    async with connected(f"http://{host}:{free_port()}", clock=clock) as client:
        with pytest.raises(APIConnectionError, match=r"could not connect.*after 1 retry\)") as caught:
            await client.agents.create(name="mine", wallet_id="w1", chain_id=8453)
        error = caught.value
        with pytest.raises(APIConnectionError, match=r"could not connect") as opening:
            async with client.signals.stream(chain=8453) as stream:
                await anext(stream)
    assert (error.sent, error.outcome, error.retries, error.code) == (False, "none", 1, "connection_refused")
    assert type(error.__cause__) is ConnectionRefusedError
    assert opening.value.retries == 1
    assert len(clock.waits) == 2
    assert max(clock.waits) < 2.9


async def test_refused_on_the_way_to_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service, or the proxy before it, that restarts refuses connections for a while."""
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{free_port()}")
    clock = VirtualClock()
    async with connected("https://service.example", clock=clock) as client:
        with pytest.raises(APIConnectionError, match="after 5 retries") as caught:
            await client.account.get()
    assert (caught.value.code, len(clock.waits)) == ("proxy_failed", 5)


async def test_unknown_host_is_hopeless() -> None:
    async with AsyncTradeClient(api_key=KEY, base_url="https://nowhere.invalid", clock=VirtualClock()) as client:
        with pytest.raises(APIConnectionError) as caught:
            await client.account.get()
        assert not caught.value.sent


@each_of("host", ["a..b", "x" * 64 + ".example"])
async def test_a_host_name_that_cannot_be_looked_up_is_hopeless(host: str) -> None:
    async with connected(f"https://{host}") as client:
        with pytest.raises(APIConnectionError) as caught:
            await client.account.get()
        error = caught.value
    assert (error.sent, error.temporary, error.retries) == (False, False, 0)


@pytest.mark.long  # a time-out is waited for
async def test_plain_http_where_tls_is_due() -> None:
    async with facing(lambda visit: visit.close()) as (server, _):
        client = connected(server.url.replace("http:", "https:"), timeout=0.2, max_retries=0)
        with pytest.raises(APIConnectionError) as caught:
            await client.account.get()
        assert not caught.value.sent
        await client.aclose()


async def test_head_and_body_are_sent_together() -> None:
    """One packet, not two."""
    pieces: list[bytes] = []
    body = json.dumps(whole()).encode()

    def serve(connection: socket.socket) -> None:
        while piece := connection.recv(65536):
            pieces.append(piece)
            connection.sendall(answer(body))

    with listening(serve) as port:
        async with connected(f"http://127.0.0.1:{port}") as client:
            for name in ("one", "two"):
                await client.agents.update("a1", name=name)
    assert [piece.partition(b"\r\n\r\n")[2] for piece in pieces] == [b'{"name":"one"}', b'{"name":"two"}']


BREAKS = {
    "before the answer": b"",
    "in the headers": GOOD[:30],
    "in the body": GOOD[:-5],
    "in a chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1000\r\nabc",
    "between chunks": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{  \r\n",
}


@each_of("sent", BREAKS.values(), ids=BREAKS)
@each_of("reset", [True, False])
async def test_broken_off_is_read_again(sent: bytes, reset: bool) -> None:
    """By a reset, or by an end that comes too early: what was read is never taken for the whole."""

    def answering(visit: Visit) -> None:
        if visit.number == 0:
            visit.send(sent)
            visit.reset() if reset else visit.close()
        else:
            visit.send(GOOD)

    clock = VirtualClock()
    async with facing(answering, clock=clock) as (server, client):
        assert (await client.account.get()).id == "acc_1"
        assert (len(server.visits), server.connections) == (2, 2)
    assert len(clock.waits) == 1


async def test_an_end_without_an_answer_is_told() -> None:
    async with facing(lambda visit: visit.close(), max_retries=0) as (_, client):
        with pytest.raises(APIConnectionError, match="closed early: no response came"):
            await client.account.get()


@each_of("sent", BREAKS.values(), ids=BREAKS)
async def test_a_create_broken_off_is_looked_for(sent: bytes) -> None:
    """The agent is there, though its answer never came whole: one POST, no second agent."""
    made: list[bytes] = []

    def answering(visit: Visit) -> None:
        if visit.head.startswith(b"POST"):
            made.append(visit.body)
            visit.send(sent)
            visit.reset()
        elif visit.head.startswith(b"GET /v1/agents?"):
            visit.send(answer(json.dumps(page([summary("a1", name="mine")])).encode()))
        else:
            visit.send(answer(json.dumps(whole("a1")).encode()))

    async with facing(answering) as (_, client):
        assert (await client.agents.create(name="mine", wallet_id="w1", chain_id=8453)).id == "a1"
    assert len(made) == 1


async def test_connection_is_kept() -> None:
    async with facing(lambda visit: visit.close() if not visit.send(GOOD) else None) as (server, client):
        for _ in range(20):
            await client.account.get()
        assert (len(server.visits), server.connections) == (20, 1)


async def test_connection_is_kept_after_errors_and_empty_answers() -> None:
    sent = [
        answer(b'{"error": {"code": "not_found", "message": "x"}}', status="404 Not Found"),
        b"HTTP/1.1 204 No Content\r\n\r\n",
        answer(b"[]"),
        GOOD,
    ]
    async with facing(lambda visit: None if visit.send(sent[visit.number]) else visit.close()) as (server, client):
        for _ in range(3):
            with pytest.raises(Exception, match="GET"):
                await client.account.get()
        assert (await client.account.get()).id == "acc_1"
        assert server.connections == 1


@each_of(
    ("rest", "connections"),
    [
        (b"content-length: 0\r\n\r\n", 1),
        (b"content-length: 2\r\n\r\n{}", 2),
        (b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 2),
    ],
)
async def test_a_body_where_none_may_be_is_not_read_as_the_next_answer(rest: bytes, connections: int) -> None:
    sent = [b"HTTP/1.1 204 No Content\r\n" + rest, GOOD]
    clock = VirtualClock()

    def answering(visit: Visit) -> None:
        visit.send(sent[visit.number])

    async with facing(answering, clock=clock) as (server, client):
        await client.agents.delete("a1")
        assert (await client.account.get()).id == "acc_1"
        assert (len(server.visits), server.connections) == (2, connections)
    assert clock.waits == []


async def test_what_comes_with_an_answer_is_not_taken_for_the_next_one() -> None:
    stray = answer(json.dumps(ACCOUNT | {"id": "acc_stray"}).encode())
    sent = [GOOD + stray, GOOD]

    def answering(visit: Visit) -> None:
        visit.send(sent[visit.number])

    async with facing(answering) as (server, client):
        assert [(await client.account.get()).id for _ in range(2)] == ["acc_1", "acc_1"]
        assert server.connections == 2


def over_tls(sent: bytes, connection: socket.socket) -> None:
    """Answer each request with `sent` twice: two records that come together. Without certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AECDH:@SECLEVEL=0")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_side=True)
    met = False
    with contextlib.suppress(OSError):
        while True:
            try:
                if not met:
                    tls.do_handshake()
                    met = True
                tls.read()
                tls.write(sent)
                tls.write(sent)
            except ssl.SSLWantReadError:
                connection.sendall(outgoing.read())
                if not (received := connection.recv(65_536)):
                    return
                incoming.write(received)


async def test_what_comes_with_an_answer_over_tls_is_not_taken_for_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may be read from the socket with the answer, and wait in a layer below."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("AECDH:@SECLEVEL=0")
    monkeypatch.setattr("tradesdk._async.connection_pool.tls_context", lambda: context)
    made: list[socket.socket] = []

    def serve(connection: socket.socket) -> None:
        made.append(connection)
        over_tls(GOOD, connection)

    with listening(serve) as port:
        async with connected(f"https://127.0.0.1:{port}") as client:
            for number in (1, 2, 3):
                await client.account.get()
                assert len(made) == number


async def test_what_comes_after_a_full_read_is_not_taken_for_the_next_answer() -> None:
    """The event loop reads more at once than a connection asks for."""
    full = answer(json.dumps(ACCOUNT).encode().ljust(65_536 - len(answer(b" " * 65_000)) + 65_000))
    assert len(full) == 65_536
    async with facing(lambda visit: None if visit.send(full + GOOD) else visit.close()) as (server, client):
        for number in (1, 2):
            await client.account.get()
            assert server.connections == number


async def test_server_that_closes_after_every_answer() -> None:
    """A kept connection that is dead by the time of the next request costs nothing: a new one is opened."""
    over = threading.Event()

    def answering(visit: Visit) -> None:
        visit.send(GOOD)
        visit.close()
        over.set()

    clock = VirtualClock()
    async with facing(answering, clock=clock) as (server, client):
        for _ in range(5):
            await client.account.get()
            assert over.wait(60)
            over.clear()
        assert (len(server.visits), server.connections) == (5, 5)
    assert clock.waits == []


class AsyncHalfClosed(httpcore.AsyncMockStream):
    """A connection that takes nothing more and still says something."""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        raise httpcore.WriteError("broken pipe")


async def test_an_answer_to_a_request_that_was_not_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the answer, and the connection takes no other request."""
    made: list[object] = []

    async def connect(*_: object) -> AsyncHalfClosed:
        made.append(stream := AsyncHalfClosed([answer(b"{}", status=413)]))
        return stream

    monkeypatch.setattr("tradesdk._async.connection_pool.connect", connect)
    async with connected("http://127.0.0.1", max_retries=0) as client:
        for number in (1, 2):
            with pytest.raises(APIStatusError) as caught:
                await client.agents.update("a1", name="one")
            assert (caught.value.status, len(made)) == (413, number)


class LimitReached(OSError):
    """What a caller's signal handler raises."""


class AsyncStopped(httpcore.AsyncMockStream):
    """A connection that a signal stops while it writes; any `OSError` would look like a failed write."""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except OSError as error:
            raise httpcore.WriteError from error


async def test_what_a_signal_handler_raises_during_a_write_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def reached(number: int, frame: object) -> None:
        raise LimitReached

    async def connect(*_: object) -> AsyncStopped:
        return AsyncStopped([GOOD])

    monkeypatch.setattr("tradesdk._async.connection_pool.connect", connect)
    before = signal.signal(signal.SIGTERM, reached)
    try:
        async with connected("http://127.0.0.1") as client:
            with pytest.raises(LimitReached):
                await client.account.get()
    finally:
        signal.signal(signal.SIGTERM, before)


class AsyncWrittenTo(httpcore.AsyncMockStream):
    """A connection that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__([GOOD])
        self.written: list[bytes] = []

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.written.append(buffer)


async def test_a_long_request_is_written_in_pieces_that_do_not_show_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece has the time that is left; and a traceback may show a piece whose time ran out."""
    stream = AsyncWrittenTo()

    async def connect(*_: object) -> AsyncWrittenTo:
        return stream

    monkeypatch.setattr("tradesdk._async.connection_pool.connect", connect)
    async with connected("http://127.0.0.1") as client:
        outgoing = outgoing_of(client, body=b"x" * 200_000)
        await (await client._session.sender.send(outgoing)).aclose()
    head, _, body = b"".join(stream.written).partition(b"\r\n\r\n")
    assert KEY.encode() in head
    assert body == outgoing.body
    assert max(map(len, stream.written)) == 65_536
    for piece in stream.written:
        assert repr(piece) == f"<{len(piece)} bytes>"
        assert repr(piece[:100]) == f"<{len(piece[:100])} bytes>"


def outgoing_of(client: AsyncTradeClient, body: bytes | None = None, **more: Any) -> Outgoing:
    session = client._session
    method, headers = "GET" if body is None else "POST", session.header_list(body)
    rest: dict[str, Any] = {"timeout": session.parts, "deadline": 60.0, "watch": None}
    return Outgoing(method, "/v1/account", headers, body, **rest | more)


async def test_after_the_deadline_a_kept_connection_sends_nothing_and_says_so() -> None:
    async with facing(always(GOOD)) as (server, client):
        await client.account.get()
        with pytest.raises(httpcore.ConnectTimeout):
            await client._session.sender.send(outgoing_of(client, deadline=0.0))
        assert (len(server.visits), server.connections) == (1, 1)


async def test_a_connection_that_was_given_back_is_not_cut_off() -> None:
    """Another thread may use it while a stream that used it before is closed."""
    watched: list[object] = []
    async with facing(always(GOOD)) as (_, client):
        sent = await client._session.sender.send(outgoing_of(client, watch=watched.append))
        assert watched[-1] is sent.connection
        async for _ in sent:
            pass
        await sent.aclose()
        assert watched[-1] is None


async def test_a_connection_can_be_shown() -> None:
    """In a traceback with the values of a frame."""
    async with facing(always(GOOD)) as (_, client):
        await client.account.get()
        (kept,) = client._session.sender._idle  # type: ignore[attr-defined]
        assert "HTTP/1.1" in repr(kept)


async def test_connection_close_is_obeyed() -> None:
    sent = answer(json.dumps(ACCOUNT).encode(), connection="close")
    async with facing(lambda visit: None if visit.send(sent) else visit.close()) as (server, client):
        for _ in range(3):
            await client.account.get()
        assert server.connections == 3


@each_of("count", [1, 8])
async def test_many_at_once(count: int) -> None:
    """Each on a connection of its own, which serve again afterwards."""
    together = threading.Barrier(count)

    def answering(visit: Visit) -> None:
        if visit.nth == 0:
            together.wait(60)
        visit.send(GOOD)

    async with facing(answering) as (server, client):
        for _ in range(3):
            accounts = await at_once([client.account.get] * count)
            assert [one.id for one in accounts] == ["acc_1"] * count
        assert len(server.visits) == 3 * count
        assert server.connections == count


async def test_no_more_connections_than_allowed() -> None:
    def answering(visit: Visit) -> None:
        visit.send(GOOD)

    with hostile(answering) as server:
        async with at_most(3, server.url) as client:
            await at_once([client.account.get] * 60)
        assert len(server.visits) == 60
        assert server.most_open <= 3


@pytest.mark.long  # a time-out is waited for
async def test_the_wait_for_a_connection_is_part_of_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, left = VirtualClock(), list[float]()
    async with facing(always(GOOD), clock=clock, deadline=60) as (_, client):
        sender = client._session.sender
        enter, send = sender.enter, sender.send

        async def late(timeout: float | None) -> Callable[[], None]:
            clock.advance(20)
            return await enter(timeout)

        async def noted(outgoing: Outgoing) -> AsyncAnswer:
            left.append(outgoing.deadline)
            return await send(outgoing)

        monkeypatch.setattr(sender, "enter", late)
        monkeypatch.setattr(sender, "send", noted)
        await client.account.get()
    assert left == [40.0]


async def test_no_connection_in_time() -> None:
    """One connection, and it is taken: the others wait for it, then give up without having been sent."""
    first_is_here, go_on = threading.Event(), threading.Event()

    def answering(visit: Visit) -> None:
        first_is_here.set()
        go_on.wait(60)
        visit.send(GOOD)

    with hostile(answering) as server:
        async with at_most(1, server.url) as patient:
            hasty = patient.with_options(timeout=Timeout(pool=0.05), max_retries=2)

            async def second() -> str:
                await until(first_is_here)
                try:
                    with pytest.raises(APITimeoutError) as caught:
                        await hasty.account.get()
                finally:
                    go_on.set()
                assert (caught.value.sent, caught.value.retries) == (False, 2)
                return caught.value.message

            async def first() -> str:
                return (await patient.account.get()).id

            assert await at_once([first, second]) == [
                "acc_1",
                "no connection became free in time: there are more requests than connections",
            ]
            assert (await hasty.account.get()).id == "acc_1"  # the place is free again
        assert len(server.visits) == 2


@each_of("sent", [b"", GOOD[:-5], answer(b"x" * 5_000_000), b"nonsense\r\n\r\n"])
async def test_places_come_back_whatever_happens(sent: bytes) -> None:
    """With a single connection, a place that is lost once would block everything after it."""

    def answering(visit: Visit) -> None:
        if visit.number % 2 == 0:
            visit.send(sent)
            visit.close()
        else:
            visit.send(GOOD)

    with hostile(answering) as server:
        async with at_most(1, server.url, max_retries=0, timeout=Timeout(pool=60)) as client:
            for _ in range(2):
                with pytest.raises(Exception, match="GET"):
                    await client.account.get()
                assert (await client.account.get()).id == "acc_1"
        assert len(server.visits) == 4


async def test_closing_closes_the_connections() -> None:
    async with facing(lambda visit: None if visit.send(GOOD) else visit.close()) as (server, client):
        await client.account.get()
        assert server.now_open == 1
        await client.aclose()
        assert server.settled(open_connections=0)


async def test_without_any_timeout() -> None:
    """Waiting forever is allowed, if somebody asks for it."""
    never = Timeout(connect=None, read=None, write=None, pool=None)
    async with facing(
        lambda visit: None if visit.send(GOOD) else visit.close(), timeout=never, deadline=float("inf")
    ) as (_, client):
        assert (await client.account.get()).id == "acc_1"


async def test_answers_on_the_way_to_the_answer_are_passed_over() -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    async with facing(lambda visit: None if visit.send(hints + GOOD) else visit.close()) as (_, client):
        for _ in range(2):
            assert (await client.account.get()).id == "acc_1"


async def test_a_kept_connection_that_spoke_unasked_is_not_used_again() -> None:
    """What it said is not taken for the next answer."""
    read, spoken = threading.Event(), threading.Event()

    def answering(visit: Visit) -> None:
        visit.send(GOOD)
        if visit.number == 0:
            read.wait(60)
            visit.send(answer(json.dumps(ACCOUNT | {"id": "stray"}).encode()))
            spoken.set()

    async with facing(answering) as (server, client):
        await client.account.get()
        read.set()
        await until(spoken)
        assert (await client.account.get()).id == "acc_1"
        assert server.connections == 2
