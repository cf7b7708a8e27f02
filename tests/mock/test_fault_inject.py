"""Stream faults that take events out, put bytes in, or cut them: over real sockets and in process."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockClock, MockServer
from tradesdk_mock.control.service import MockService

from ._faulty import ASK, CARRIERS, STREAM, Reader, beating, carried, connect, emit, events, ids, listen
from ._support import START, ok


@pytest.fixture(params=CARRIERS)
def mock(request: pytest.FixtureRequest) -> Iterator[MockService]:
    with carried(request.param) as made:
        yield made


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with connect(mock) as made:
        yield made


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [({"after": 1, "each": 2}, "0135"), ({"each": 3}, "0134"), ({"after": 4}, "0123")],
    ids=["after-each", "each", "after"],
)
def test_skip(mock: MockService, http: httpx.Client, parameters: dict[str, Any], expected: str) -> None:
    mock.add_fault("skip", **parameters)
    mock.add_fault("drop", after=len(expected), how="clean")
    emitted, content, _ = listen(mock, http, 6)
    assert "".join(str(emitted.index(ident)) for ident in ids(content)) == expected
    listed = ok(http.get("/v1/signals/history", params={"chain": 8453}))["data"]
    assert {signal["id"] for signal in listed} >= set(emitted)


def test_skipped_signals_of_one_stream_are_in_another(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("skip", each=2, nth=1)
    with http.stream("GET", STREAM, params=ASK) as first, http.stream("GET", STREAM, params=ASK) as second:
        emitted = emit(mock, 3)
        assert Reader(second).until(3) == emitted
        assert Reader(first).until(2) == emitted[::2]


def test_a_skipped_share_follows_from_the_seed_and_no_heartbeat_is_skipped() -> None:
    def left(seed: int) -> list[int]:
        with MockService(seed=seed, clock=MockClock(START), signals="scripted") as mock, connect(mock) as http:
            mock.add_fault("skip", share=0.5)
            mock.add_fault("silence", after=1_000)
            with http.stream("GET", STREAM, params=ASK) as answer:
                emitted, stream = emit(mock, 60), Reader(answer)
                stream.until_heartbeat()
                return [emitted.index(ident) for ident in ids(bytes(stream.came))]

    assert left(7) == left(7)
    assert left(7) != left(8)
    assert 15 < len(left(7)) < 45


@pytest.mark.parametrize("how", ["close", "reset"])
def test_half_event_inside_a_character(mock: MockService, http: httpx.Client, how: str) -> None:
    mock.add_fault("half_event", after=1, at="character", how=how)
    emitted, content, ended = listen(mock, http, 2)
    assert ids(content) == emitted[:1]
    with pytest.raises(UnicodeDecodeError, match="unexpected end of data"):
        content.decode()
    assert ended == {"close": "RemoteProtocolError", "reset": "ReadError"}[how]


def test_comments_in_a_silence(mock: MockService) -> None:
    mock.add_fault("silence", after=1, comments=10)
    with connect(mock, read_timeout=15) as http, http.stream("GET", STREAM, params=ASK) as answer:
        stream = Reader(answer)
        emitted = emit(mock, 3)
        if isinstance(mock, MockServer):
            with beating(mock):
                read_comments(stream, 3)
        else:
            read_comments(stream, 3)
            assert mock.clock.now() == START + 30
        mock.reset()
        assert ids(stream.rest()) == emitted[:1]


def read_comments(stream: Reader, count: int) -> None:
    while stream.came.count(b"\n:") < count:
        stream.came += next(stream._pieces)


@pytest.mark.parametrize("after", [0, 1, 2])
def test_inject(mock: MockService, http: httpx.Client, after: int) -> None:
    own = b"\xff\x00: anything\r\n\r\n"
    mock.add_fault("inject", after=after, base64=base64.b64encode(own).decode())
    mock.add_fault("drop", after=3, how="clean")
    emitted, content, _ = listen(mock, http, 3)
    assert content.count(own) == 1
    assert ids(content[: content.index(own)]) == emitted[:after]
    assert ids(content.replace(own, b"")) == emitted


def test_an_event_of_five_mib(mock: MockService, http: httpx.Client) -> None:
    event = json.dumps({"type": "signal", "id": "sig_large", "token_symbol": "A", "reason": "x" * 5 * 2**20})
    mock.add_fault("inject", after=1, text=f"data: {event}\n\n")
    mock.add_fault("drop", after=2, how="clean")
    emitted, content, _ = listen(mock, http, 2)
    assert ids(content) == [emitted[0], "sig_large", emitted[1]]
    assert len(content) > 5 * 2**20


def test_an_endless_line(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("inject", text="data: " + "x" * 2**20)
    mock.add_fault("drop", after=1, how="close")
    _, content, ended = listen(mock, http, 1)
    assert content.index(b"\n") > 2**20
    assert ended == "RemoteProtocolError"


def test_a_repeated_id_with_other_content_and_prices_that_are_no_numbers(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("drop", after=1, how="clean")
    emitted = mock.emit_signal(at=START + 5)
    text = '{"type":"signal","id":"%s","token_symbol":"A","price_usd":NaN}' % emitted.id  # noqa: UP031 - braces
    mock.add_fault("inject", text=f"data: {text}\n\n")
    with http.stream("GET", STREAM, params=ASK) as answer:
        mock.clock.advance(5)
        content = Reader(answer).rest()
    assert ids(content) == [emitted.id] * 2
    assert events(content)[0] == text


def test_other_faults_leave_ones_own_bytes_alone(mock: MockService, http: httpx.Client) -> None:
    """They are counted by none, and none changes them, wherever they are; what counts bytes cuts them."""
    own = "data: é\ndata: é\n\n"
    for kind in ("garbage", "split_utf8", "bom"):
        mock.add_fault(kind)
    mock.add_fault("line_endings", style="cr")
    mock.add_fault("inject", after=1, text=own)
    mock.add_fault("drop", after=2, how="clean")
    emitted, content, _ = listen(mock, http, 3)
    assert own.encode() in content
    assert content.replace(own.encode(), b"").count(b"\n") == 0
    assert ids(content) == emitted[:2]
