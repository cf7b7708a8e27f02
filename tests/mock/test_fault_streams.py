"""Every fault of the live stream, over real sockets and in process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockClock, MockServer
from tradesdk_mock.control.service import MockService
from tradesdk_mock.faults import body_transforms

from ._faulty import ASK, CARRIERS, STREAM, Reader, beating, carried, connect, emit, events, ids, listen, read_raw
from ._support import START


@pytest.fixture(params=CARRIERS)
def mock(request: pytest.FixtureRequest) -> Iterator[MockService]:
    with carried(request.param) as made:
        yield made


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with connect(mock) as made:
        yield made


@pytest.fixture
def sockets() -> Iterator[MockServer]:
    with MockServer(clock=MockClock(START), signals="scripted") as made:
        yield made


@pytest.mark.parametrize(("how", "end"), [("clean", "end"), ("close", "RemoteProtocolError"), ("reset", "ReadError")])
@pytest.mark.parametrize("after", [1, 3])
def test_drop(mock: MockService, http: httpx.Client, how: str, end: str, after: int) -> None:
    mock.add_fault("drop", after=after, how=how)
    emitted, content, ended = listen(mock, http, 4)
    assert ids(content) == emitted[:after]
    assert ended == end


def test_drop_before_the_first_event(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("drop", after=0)
    assert listen(mock, http, 0) == ([], b"", "RemoteProtocolError")


def test_drop_counts_each_connection_for_itself(mock: MockService, http: httpx.Client) -> None:
    rule = mock.add_fault("drop", after=2, count=2, how="clean")
    for _ in range(2):
        emitted, content, _ = listen(mock, http, 3)
        assert ids(content) == emitted[:2]
    with http.stream("GET", STREAM, params=ASK) as answer:
        emitted = emit(mock, 3)
        assert Reader(answer).until(3) == emitted
    (found,) = mock.faults()
    assert (found.id, found.seen, found.fired) == (rule.id, 3, 2)
    assert [entry.faults for entry in mock.journal()] == [("drop",), ("drop",), ()]


def test_half_event(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("half_event", after=2)
    emitted, content, ended = listen(mock, http, 4)
    assert ids(content) == emitted[:2]
    tail = content.rpartition(b"\n\n")[2]
    assert tail.startswith(b'data: {"type":"signal","id":"' + emitted[2].encode())
    assert b"\n" not in tail
    assert ended == "RemoteProtocolError"


def test_silence(mock: MockService, http: httpx.Client) -> None:
    """Another stream has everything; this one has one event, and its end when the world ends."""
    mock.set_gaps(heartbeat=15)
    mock.add_fault("silence", after=1, nth=1)
    with http.stream("GET", STREAM, params=ASK) as first, http.stream("GET", STREAM, params=ASK) as second:
        silent, other = Reader(first), Reader(second)
        emitted = emit(mock, 4)
        assert silent.until(1) == emitted[:1]
        assert other.until(4) == emitted
        mock.clock.advance(15)
        other.until_heartbeat()
        mock.reset()
        assert ids(silent.rest()) == emitted[:1]
        assert len(events(bytes(silent.came))) == 1


def test_whoever_waits_for_a_silent_stream_runs_into_the_timeout() -> None:
    with carried("in process") as mock, connect(mock, read_timeout=90) as http:
        mock.set_gaps(heartbeat=15)
        mock.add_fault("silence", after=1)
        emitted, content, ended = listen(mock, http, 4)
        assert (ids(content), ended) == (emitted[:1], "ReadTimeout")
        assert mock.clock.now() == START + 90


def test_silence_for_a_while(mock: MockService) -> None:
    mock.add_fault("silence", after=1, seconds=40)
    with connect(mock, read_timeout=60) as http, http.stream("GET", STREAM, params=ASK) as answer:
        stream = Reader(answer)
        emitted = emit(mock, 3)
        assert stream.until(1) == emitted[:1]
        if isinstance(mock, MockServer):
            mock.clock.advance(40)
        assert stream.until(3) == emitted
    assert mock.clock.now() == START + 40


def test_heartbeats_are_silent_too_and_come_later() -> None:
    with carried("in process") as mock, connect(mock, read_timeout=50) as http:
        mock.set_gaps(heartbeat=15)
        mock.add_fault("silence", after=0, seconds=40)
        mock.add_fault("drop", after=3, how="clean")
        _, content, _ = listen(mock, http, 0)
    assert [json.loads(data)["timestamp"] - START for data in events(content)] == [15, 30, 45]


def test_silence_ends_with_the_world(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("silence", after=1)
    with http.stream("GET", STREAM, params=ASK) as answer:
        stream = Reader(answer)
        emitted = emit(mock, 1)
        assert stream.until(1) == emitted
        mock.reset()
        assert ids(stream.rest()) == emitted


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, "001122334455"),
        ({"each": 2}, "011233455"),
        ({"after": 3}, "012334455"),
        ({"after": 1, "each": 2}, "01223445"),
        ({"after": 9}, "012345"),
    ],
    ids=["all", "each", "after", "after-each", "too-late"],
)
def test_duplicate(mock: MockService, http: httpx.Client, parameters: dict[str, Any], expected: str) -> None:
    mock.add_fault("duplicate", **parameters)
    mock.add_fault("drop", after=len(expected), how="clean")
    emitted, content, _ = listen(mock, http, 6)
    assert "".join(str(emitted.index(ident)) for ident in ids(content)) == expected


def test_duplicates_of_a_share_follow_from_the_seed() -> None:
    def twice(seed: int) -> list[int]:
        with MockService(seed=seed, clock=MockClock(START), signals="scripted") as mock, connect(mock) as http:
            mock.add_fault("duplicate", share=0.5)
            mock.add_fault("drop", after=45, how="clean")
            emitted, content, _ = listen(mock, http, 60)
            return [ids(content).count(ident) for ident in emitted]

    assert twice(7) == twice(7)
    assert twice(7) != twice(8)
    assert 5 < twice(7).count(2) < 25


@pytest.mark.parametrize("window", [2, 3, 5])
def test_reorder(mock: MockService, http: httpx.Client, window: int) -> None:
    mock.add_fault("reorder", window=window)
    with http.stream("GET", STREAM, params=ASK) as answer:
        emitted = emit(mock, 2 * window)
        found = Reader(answer).until(2 * window)
    for start in (0, window):
        assert sorted(found[start : start + window]) == sorted(emitted[start : start + window])
        assert found[start : start + window] != emitted[start : start + window]


def test_reorder_lets_signals_go_that_have_waited_long_enough(mock: MockService) -> None:
    mock.add_fault("reorder", window=10, seconds=30)
    with connect(mock, read_timeout=60) as http, http.stream("GET", STREAM, params=ASK) as answer:
        emitted = emit(mock, 2)
        if isinstance(mock, MockServer):
            with beating(mock):
                assert Reader(answer).until(2) == emitted[::-1]
            assert mock.clock.now() >= START + 30
        else:
            assert Reader(answer).until(2) == emitted[::-1]
            assert mock.clock.now() == START + 30


def test_garbage(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("garbage")
    count = len(body_transforms.GARBAGE)
    mock.add_fault("drop", after=count, how="clean")
    emitted, content, _ = listen(mock, http, count)
    assert ids(content) == emitted
    assert all(piece in content for piece in body_transforms.GARBAGE)


def test_garbage_now_and_then(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("garbage", after=1, each=2)
    mock.add_fault("drop", after=5, how="clean")
    emitted, content, _ = listen(mock, http, 5)
    assert ids(content) == emitted
    for piece in body_transforms.GARBAGE[:2]:
        content = content.replace(piece, b"", 1)
    assert content.count(b"\n") == 10
    assert [json.loads(data)["id"] for data in events(content)] == emitted


def test_bom(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("bom")
    mock.add_fault("drop", after=2, how="clean")
    emitted, content, _ = listen(mock, http, 2)
    assert content.startswith(b"\xef\xbb\xbfdata: {")
    assert content.count(b"\xef\xbb\xbf") == 1
    assert ids(content) == emitted


@pytest.mark.parametrize("style", ["cr", "lf", "crlf", "mixed"])
def test_line_endings(mock: MockService, http: httpx.Client, style: str) -> None:
    mock.add_fault("line_endings", style=style)
    mock.add_fault("drop", after=20, how="clean")
    emitted, content, _ = listen(mock, http, 20)
    assert ids(content) == emitted
    counts = (
        content.count(b"\r\n"),
        content.replace(b"\r\n", b"").count(b"\r"),
        content.replace(b"\r\n", b"").count(b"\n"),
    )
    expected = {"crlf": (40, 0, 0), "cr": (0, 40, 0), "lf": (0, 0, 40)}.get(style)
    assert counts == expected if expected else all(counts)


def test_split_utf8(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("split_utf8")
    mock.add_fault("drop", after=2, how="clean")
    with http.stream("GET", STREAM, params=ASK) as answer:
        emitted = [mock.emit_signal(token="ETH").id, mock.emit_signal(token="Übermünze").id]
        content = Reader(answer).rest()
    assert ids(content) == emitted
    assert json.loads(events(content)[1])["token_symbol"] == "Übermünze"
    assert content.startswith(b": ")
    assert content.count(b"\n: ") == 0


def test_chunks_on_the_socket_end_inside_characters(sockets: MockServer) -> None:
    sockets.add_fault("split_utf8")
    sockets.add_fault("drop", after=1, how="clean")
    sockets.set_gaps(heartbeat=1)
    with beating(sockets):
        raw = read_raw(sockets, STREAM + "?chain=8453")
    sizes, pieces, rest = [], list[bytes](), raw.body
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        sizes.append(int(size, 16))
        pieces.append(rest[: sizes[-1]])
        rest = rest[sizes[-1] + 2 :]
    assert sizes[-1] == 0
    assert len(sizes) == 3
    with pytest.raises(UnicodeDecodeError):
        pieces[0].decode()
    assert [json.loads(data)["type"] for data in events(b"".join(pieces))] == ["heartbeat"]


@pytest.mark.parametrize(
    ("how", "end", "tail"),
    [("clean", "eof", b"0\r\n\r\n"), ("close", "eof", b"\n\n\r\n"), ("reset", "reset", b"\n\n\r\n")],
)
def test_ends_on_the_socket(sockets: MockServer, how: str, end: str, tail: bytes) -> None:
    sockets.add_fault("drop", after=2, how=how)
    sockets.set_gaps(heartbeat=1)
    with beating(sockets):
        raw = read_raw(sockets, STREAM + "?chain=8453")
    assert raw.head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"text/event-stream" in raw.head
    assert raw.body.count(b'"type":"heartbeat"') == 2
    assert raw.body.endswith(tail)
    assert raw.end == end
