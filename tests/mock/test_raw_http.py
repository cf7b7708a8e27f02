"""What arrives on a socket and isn't quite HTTP: the service's error body or a clear end, and others are served on."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import struct
from collections.abc import Iterator, Sequence

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk_mock import MockClock, MockServer
from tradesdk_mock.serving import uvicorn_server

from ._http import FULL, START, add_wallet, client, ok

pytestmark = pytest.mark.long

HOST = b"Host: a\r\n"
KEY = f"Authorization: Bearer {FULL}\r\n".encode()
JSON = b"Content-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def request(line: bytes, *headers: bytes, body: bytes = b"") -> bytes:
    """With a host and a key."""
    return line + b" HTTP/1.1\r\n" + HOST + KEY + b"".join(headers) + b"\r\n" + body


def get(target: bytes, *headers: bytes) -> bytes:
    return request(b"GET " + target, *headers)


def post(*headers: bytes, body: bytes = b"{}") -> bytes:
    """A new agent, in JSON."""
    return request(b"POST /v1/agents", JSON, *headers, body=body)


def connect(server: MockServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


def exchange(server: MockServer, *sent: bytes, half_close: bool = True) -> bytes:
    """Everything that comes back until the server closes. With `half_close`, it is told that nothing more will come."""
    received = b""
    with connect(server) as wire:
        # It may close before it has read everything.
        with contextlib.suppress(OSError):
            for piece in sent:
                wire.sendall(piece)
            if half_close:
                wire.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while chunk := wire.recv(65_536):
                received += chunk
    return received


def one_answer(wire: socket.socket) -> httpx.Response:
    """The next answer on a connection that stays open."""
    received, wanted = b"", 1
    while len(received) < wanted:
        piece = wire.recv(65_536)
        assert piece, "hung up"
        received += piece
        head, ended, _ = received.partition(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head)[1]) if ended else 1  # type: ignore[index]  # it has one
        wanted = len(head + ended) + length
    (answer,) = answers(received)
    return answer


def reset(wire: socket.socket) -> None:
    """Leave without a goodbye."""
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.close()


def answers(received: bytes, *, bodies: bool = True) -> list[httpx.Response]:
    """The answers in what was received, all of them whole. `bodies`: False for those to HEAD."""
    found: list[httpx.Response] = []
    while received:
        head, ended, received = received.partition(b"\r\n\r\n")
        assert ended, head
        first, *lines = head.split(b"\r\n")
        version, status, _ = first.split(b" ", 2)
        assert version == b"HTTP/1.1"
        headers = [(name, value) for name, _, value in (line.partition(b": ") for line in lines)]
        answer = httpx.Response(int(status), headers=headers)
        length = int(answer.headers.get("content-length", 0)) if bodies else 0
        assert len(received) >= length
        found.append(httpx.Response(int(status), headers=headers, content=received[:length] if bodies else None))
        received = received[length:]
    return found


def codes(found: Sequence[httpx.Response]) -> list[tuple[int, str | None]]:
    """Status and error code of answers; an error must have the service's form."""
    seen: list[tuple[int, str | None]] = []
    for answer in found:
        code = None
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/json"
            (inner,) = answer.json().values()
            assert set(inner) == {"code", "message"}
            assert inner["message"].isprintable()
            code = inner["code"]
        seen.append((answer.status_code, code))
    return seen


GET = get(b"/v1/account")
OK = (200, None)
BAD = (400, "invalid_request")
NO_KEY = (401, "unauthorized")
MISSING = (404, "not_found")
METHOD = (405, "invalid_request")
HUGE = b"10000\r\n" + b"a" * 65_536 + b"\r\n"


@pytest.fixture(scope="module")
def complaints() -> Iterator[list[str]]:
    """What the server logs."""
    found: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    listener = Listener(logging.WARNING)
    logging.getLogger().addHandler(listener)
    yield found
    logging.getLogger().removeHandler(listener)


@pytest.fixture(scope="module")
def running() -> Iterator[MockServer]:
    with MockServer(clock=MockClock(START)) as server:
        yield server


@pytest.fixture
def server(running: MockServer, complaints: list[str], capfd: pytest.CaptureFixture[str]) -> Iterator[MockServer]:
    """One that afterwards has nothing to complain of, and serves on."""
    running.world.limiter.clear()
    yield running
    assert codes(answers(exchange(running, GET))) == [OK]
    assert complaints == []
    assert capfd.readouterr() == ("", "")


ODD: dict[str, tuple[bytes, list[tuple[int, str | None]]]] = {
    # What is no request at all
    "nothing": (b"", []),
    "empty lines": (b"\r\n\r\n\r\n", [BAD]),
    "words": (b"hello\r\n\r\n", [BAD]),
    "zeros": (b"\x00" * 100 + b"\r\n\r\n", [BAD]),
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", [BAD]),
    "half a head": (b"GET /v1/account HT", []),
    "http 0.9": (b"GET /v1/account\r\n\r\n", [BAD]),
    "http 2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [MISSING, BAD]),
    "a version that does not exist": (GET.replace(b"HTTP/1.1", b"HTTP/x.1"), [BAD]),
    "http 1.0": (GET.replace(b"HTTP/1.1", b"HTTP/1.0"), [OK]),
    "http 1.0 without a host": (b"GET /v1/account HTTP/1.0\r\n" + KEY + b"\r\n", [OK]),
    "lines that end in LF": (GET.replace(b"\r\n", b"\n"), [OK]),
    # The first line
    "no host": (b"GET /v1/account HTTP/1.1\r\n" + KEY + b"\r\n", [BAD]),
    "two hosts": (get(b"/v1/account", HOST), [BAD]),
    "no target": (get(b""), [BAD]),
    "no slash": (get(b"v1/account"), [MISSING]),
    "absolute form": (get(b"http://a/v1/account"), [MISSING]),
    "star": (request(b"OPTIONS *"), [MISSING]),
    "connect": (request(b"CONNECT a:80"), [MISSING]),
    "trace": (request(b"TRACE /v1/account"), [METHOD]),
    "options": (request(b"OPTIONS /v1/account"), [METHOD]),
    "a method of their own": (request(b"A" * 300 + b" /v1/account"), [METHOD]),
    "a method that is no word": (request(b"G\xc3\x89T /v1/account"), [BAD]),
    "raw bytes in the path": (get(b"/v1/agents/\xff"), [BAD]),
    "raw bytes in the query": (get(b"/v1/agents?status=\xff"), [BAD]),
    "raw zero in the path": (get(b"/v1/acc\x00ount"), [BAD]),
    "a space in the path": (get(b"/v1/agents/a b"), [BAD]),
    "a fragment": (get(b"/v1/account#top"), [MISSING]),
    "a very long target": (get(b"/v1/" + b"a" * 60_000), [MISSING]),
    # Headers
    "a zero in a header": (get(b"/v1/account", b"X: a\x00b\r\n"), [BAD]),
    "a space in a header's name": (get(b"/v1/account", b"X y: a\r\n"), [BAD]),
    "no name of a header": (get(b"/v1/account", b": a\r\n"), [BAD]),
    "no colon": (get(b"/v1/account", b"X\r\n"), [BAD]),
    "a folded header": (get(b"/v1/account", b"X: a\r\n b\r\n"), [OK]),
    "raw bytes in a header": (get(b"/v1/account", b"X: \xff\xfe\r\n"), [OK]),
    "raw bytes as a key": (request(b"GET /v1/account").replace(FULL.encode(), b"\xff\xfe"), [NO_KEY]),
    "two keys": (get(b"/v1/account", KEY), [NO_KEY]),
    "10,000 headers": (get(b"/v1/account", *(b"a:\r\n" for _ in range(10_000))), [OK]),
    "a header of 64 KiB": (get(b"/v1/account", b"X: " + b"a" * 65_530 + b"\r\n"), [BAD]),
    "many headers of 64 KiB": (get(b"/v1/account", *(b"X%d: abcdefg\r\n" % n for n in range(6_500))), [BAD]),
    "a header without an end": (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 66_000, [BAD]),
    "websocket": (get(b"/v1/account", b"Connection: Upgrade\r\nUpgrade: websocket\r\n"), [OK]),
    # How long a body is
    "the same length twice": (post(b"Content-Length: 2\r\nContent-Length: 2\r\n"), [BAD]),
    "two lengths": (post(b"Content-Length: 2\r\nContent-Length: 3\r\n"), [BAD]),
    "two lengths in one": (post(b"Content-Length: 2, 3\r\n"), [BAD]),
    "a negative length": (post(b"Content-Length: -2\r\n"), [BAD]),
    "a length with a sign": (post(b"Content-Length: +2\r\n"), [BAD]),
    "a length in words": (post(b"Content-Length: two\r\n"), [BAD]),
    "a length of 26 digits": (post(b"Content-Length: " + b"9" * 26 + b"\r\n"), [BAD]),
    "a length of 5,000 digits": (post(b"Content-Length: " + b"9" * 5_000 + b"\r\n"), [BAD]),
    "a length of 2 MiB": (post(b"Content-Length: 2097152\r\n", body=b"a" * 100), [BAD]),
    "2 MiB": (post(b"Content-Length: 2097152\r\n", body=b"a" * 2_097_152), [BAD]),
    "2 MiB in chunks": (post(CHUNKED, body=HUGE * 32 + b"0\r\n\r\n"), [BAD]),
    "chunks and a length": (post(b"Content-Length: 2\r\n", CHUNKED, body=b"2\r\n{}\r\n0\r\n\r\n"), [BAD]),
    "chunks and a wrong length": (post(b"Content-Length: 500\r\n", CHUNKED, body=b"2\r\n{}\r\n0\r\n\r\n"), [BAD]),
    "a chunk's length in words": (post(CHUNKED, body=b"two\r\n{}\r\n0\r\n\r\n"), [BAD]),
    "a chunk's length below zero": (post(CHUNKED, body=b"-2\r\n{}\r\n0\r\n\r\n"), [BAD]),
    "a chunk that is too short": (post(CHUNKED, body=b"5\r\n{}\r\n0\r\n\r\n"), [BAD]),
    "a chunk of 80 bits": (post(CHUNKED, body=b"f" * 20 + b"\r\n{}\r\n0\r\n\r\n"), []),
    "another coding": (post(b"Transfer-Encoding: gzip, chunked\r\n", body=b"2\r\n{}\r\n0\r\n\r\n"), [BAD]),
    "two codings": (post(CHUNKED * 2, body=b"2\r\n{}\r\n0\r\n\r\n"), [BAD]),
    "more than a mebibyte, then no chunk": (post(CHUNKED, body=HUGE * 18 + b"no length\r\n"), [BAD]),
    "no chunk for a GET": (request(b"GET /v1/account", CHUNKED, body=b"no length\r\n"), [BAD]),
    "no chunk for a stream": (request(b"GET /v1/signals/stream?chain=56", CHUNKED, body=b"no length\r\n"), [BAD]),
    "no chunk for control": (request(b"GET /_mock/status", CHUNKED, body=b"no length\r\n"), [BAD]),
    "a body that ends too early": (post(b"Content-Length: 20\r\n"), []),
    "a body for a GET": (request(b"GET /v1/account", JSON, b"Content-Length: 2\r\n", body=b"{}"), [OK]),
    "a body for a GET that ends too early": (request(b"GET /v1/account", b"Content-Length: 9\r\n", body=b"a"), [OK]),
    "expecting something else": (post(b"Expect: a miracle\r\n", b"Content-Length: 2\r\n"), [BAD]),
    # One after the other
    "three at once": (GET * 3, [OK, OK, OK]),
    "two and words": (GET * 2 + b"hello\r\n\r\n", [OK, OK, BAD]),
    "words after a body": (post(b"Content-Length: 2\r\n") + b"hello\r\n\r\n", [BAD, BAD]),
    "a smuggled request": (post(b"Content-Length: 2\r\n", CHUNKED, body=b"0\r\n\r\n") + GET, [BAD, OK]),
    "one after a close": (get(b"/v1/account", b"Connection: close\r\n") + GET, [OK]),
}


@pytest.mark.parametrize("what", ODD)
def test_what_is_odd(server: MockServer, what: str) -> None:
    sent, expected = ODD[what]
    found = codes(answers(exchange(server, sent)))
    assert found == expected


@pytest.mark.parametrize("what", [what for what, (_, expected) in ODD.items() if expected == [BAD]])
def test_whoever_waits_for_more_is_answered_as_well(server: MockServer, what: str) -> None:
    """Without an end of what was sent: the answer doesn't wait for one. What isn't HTTP is hung up on."""
    with connect(server) as wire:
        # It may hang up while there is still something to send.
        with contextlib.suppress(ConnectionError):
            wire.sendall(ODD[what][0])
        answer = one_answer(wire)
        assert codes([answer]) == [BAD]
        if answer.headers.get("connection") == "close":
            with contextlib.suppress(ConnectionError):
                assert wire.recv(1) == b""


def test_pipelined_requests_are_answered_in_order(server: MockServer) -> None:
    sent = GET + get(b"/v1/agents") + get(b"/_mock/nothing") + get(b"/v1/account/usage")
    keys = [next(iter(answer.json())) for answer in answers(exchange(server, sent))]
    assert keys == ["id", "data", "error", "requests"]
    for path in (b"/v1/account", b"/v1/nothing", b"/v1/signals/stream?chain=56"):
        # Without a body each.
        found = answers(exchange(server, request(b"HEAD " + path) * 2), bodies=False)
        assert [answer.status_code for answer in found] == [404 if path == b"/v1/nothing" else 405] * 2


def test_too_long_is_said_to_be_too_long(server: MockServer) -> None:
    headers, body = "The headers are longer than 64 KiB.", "The body is longer than 1 MiB."
    for what, message in (
        *(("a header of 64 KiB", headers), ("many headers of 64 KiB", headers), ("a header without an end", headers)),
        *(("a length of 2 MiB", body), ("2 MiB", body), ("2 MiB in chunks", body)),
    ):
        (answer,) = answers(exchange(server, ODD[what][0]))
        assert answer.json()["error"]["message"] == message


def test_a_header_without_measure(server: MockServer) -> None:
    """It is hung up on before it is read to its end; whether the answer still arrives is up to the network."""
    found = answers(exchange(server, get(b"/v1/account", b"X: " + b"a" * 5_000_000 + b"\r\n")))
    assert codes(found) in ([BAD], [])


def test_what_is_refused_is_not_carried_out(server: MockServer) -> None:
    """A request whose body turns out to be no HTTP, although nobody would have looked at the body."""
    with client(server) as http:
        key = server.create_key(tenant="kept")
        before = len(ok(http.get("/_mock/keys"))["data"])
        for line in (
            b"POST /_mock/keys/%s/revoke" % key.id.encode(),
            b"DELETE /_mock/journal",
            b"DELETE /_mock/faults",
        ):
            assert codes(answers(exchange(server, request(line, CHUNKED, body=b"no length\r\n")))) == [BAD]
        listed = ok(http.get("/_mock/keys"))["data"]
        assert len(listed) == before
        assert {each["state"] for each in listed} == {"valid"}
        assert ok(http.get("/_mock/journal"))["data"]


def test_a_body_that_comes_later(server: MockServer) -> None:
    with connect(server) as wire:
        wire.sendall(post(b"Expect: 100-continue\r\n", b"Content-Length: 2\r\n", body=b""))
        assert wire.recv(1_000).startswith(b"HTTP/1.1 100 ")
        wire.sendall(b"{}")
        assert codes([one_answer(wire)]) == [BAD]
        for place in range(len(sent := post(b"Content-Length: 2\r\n"))):
            wire.sendall(sent[place : place + 1])
        assert codes([one_answer(wire)]) == [BAD]
    # Who asks first is told before a byte of a body that is too long was sent.
    with connect(server) as wire:
        wire.sendall(post(b"Expect: 100-continue\r\n", b"Content-Length: 2000000\r\n", body=b""))
        assert "1 MiB" in one_answer(wire).json()["error"]["message"]


def test_clients_that_leave_in_the_middle(server: MockServer) -> None:
    with client(server) as http:
        wallet = add_wallet(http)
        body = f'{{"name": "half", "wallet_id": "{wallet}", "chain_id": 8453}}'.encode()
        create = post(b"Content-Length: %d\r\n" % len(body), body=body)
        for end in (10, 40, len(create) - len(body), len(create) - 1):
            for leave in (reset, lambda wire: wire.close()):
                wire = connect(server)
                wire.sendall(create[:end])
                leave(wire)
        assert ok(http.get("/v1/agents")) == {"data": []}
        # In the middle of the answers to a hundred requests.
        wire = connect(server)
        wire.sendall(get(b"/v1/signals/history?chain=56&limit=100") * 100)
        wire.recv(10)
        reset(wire)
        # In the middle of a stream.
        wire = connect(server)
        wire.sendall(get(b"/v1/signals/stream?chain=8453"))
        assert wire.recv(1_000).startswith(b"HTTP/1.1 200 ")
        reset(wire)
        server.emit_signal()
        ok(http.get("/v1/account"))


def test_a_stream_whose_reader_speaks_nonsense_ends(server: MockServer) -> None:
    with connect(server) as wire:
        wire.sendall(request(b"GET /v1/signals/stream?chain=56", CHUNKED, body=b"1\r\na\r\n"))
        assert wire.recv(1_000).startswith(b"HTTP/1.1 200 ")
        wire.sendall(b"no length\r\n")
        assert wire.recv(1_000) == b""


@settings(max_examples=80, deadline=None)
@given(
    which=st.sampled_from([GET, GET * 2, post(b"Content-Length: 2\r\n"), post(CHUNKED, body=b"2\r\n{}\r\n0\r\n\r\n")]),
    cuts=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 4), st.binary(max_size=6)), min_size=1, max_size=4),
)
def test_bytes_that_were_garbled_on_the_way(
    running: MockServer, complaints: list[str], which: bytes, cuts: list[tuple[float, int, bytes]]
) -> None:
    for where, gone, new in cuts:
        place = int(where * len(which))
        which = which[:place] + new + which[place + gone :]
    for status, _ in codes(answers(exchange(running, which))):
        assert status in (200, 400, 401, 404, 405, 429)
    assert codes(answers(exchange(running, GET)))[0][0] in (200, 429)
    assert complaints == []


def test_a_client_that_sends_no_headers_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing, one byte, a byte now and then, half a second request; but not one whose body takes its time."""
    monkeypatch.setattr(uvicorn_server, "HEADERS_WITHIN", 0.3)
    with MockServer(seed=7) as server, contextlib.ExitStack() as stack:

        def connected(sent: bytes) -> socket.socket:
            wire = stack.enter_context(connect(server))
            wire.sendall(sent)
            return wire

        def status(wire: socket.socket) -> bytes:
            answer = b""
            while not answer.endswith(b"}"):
                answer += wire.recv(65_536)
            return answer[9:12]

        slow = connected(post(b"Content-Length: 2\r\n", body=b"{"))
        idle, second = connected(get(b"/v1/account")), connected(get(b"/v1/account"))
        assert (status(idle), status(second)) == (b"200", b"200")
        second.sendall(get(b"/v1/account")[:-2])
        nothing, one, many = connected(b""), connected(b"G"), connected(b"GET / HTTP/1.1\r\nX-More: ")
        many.settimeout(0.01)
        with contextlib.suppress(ConnectionError):
            for _ in range(2_000):  # a hundredth of a second each: far longer than the server's patience
                many.sendall(b"x")
                with contextlib.suppress(TimeoutError):
                    assert many.recv(1) == b""
                    break
            else:
                pytest.fail("a byte now and then keeps the connection open")
        assert [wire.recv(65_536) for wire in (nothing, one, second)] == [b"", b"", b""]
        slow.sendall(b"}")
        assert status(slow) == b"400"
        idle.sendall(get(b"/v1/account"))
        assert status(idle) == b"200"
