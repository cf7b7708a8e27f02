"""Faults of any answer on the live stream, and several faults on one stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tradesdk_mock.control.service import MockService

from ._faulty import ASK, CARRIERS, STREAM, Reader, carried, connect, emit, events, ids, listen
from ._support import error


@pytest.fixture(params=CARRIERS)
def mock(request: pytest.FixtureRequest) -> Iterator[MockService]:
    with carried(request.param) as made:
        yield made


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with connect(mock) as made:
        yield made


def test_the_opening_fails(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("status", route=STREAM, status=503, retry_after=2, count=1)
    mock.add_fault("reset", route=STREAM, count=1)
    mock.add_fault("content_type", route=STREAM, nth=3)
    mock.add_fault("drop", after=1, how="clean")
    answer = http.get(STREAM, params=ASK)
    error(answer, 503, "service_unavailable")
    assert "x-ratelimit-limit" not in answer.headers
    with pytest.raises(httpx.ReadError):
        http.get(STREAM, params=ASK)
    with http.stream("GET", STREAM, params=ASK) as opened:
        assert opened.headers["content-type"] == "text/html"
        emitted = emit(mock, 1)
        assert ids(Reader(opened).rest()) == emitted
    assert [rule.fired for rule in mock.faults()] == [1, 1, 1, 1]


@pytest.mark.parametrize("kind", ["status", "reset"])
def test_an_opening_that_was_carried_out_and_lost_leaves_no_stream(mock: MockService, kind: str) -> None:
    mock.add_fault(kind, route=STREAM, executed=True)
    with connect(mock) as http:
        if kind == "status":
            error(http.get(STREAM, params=ASK), 500, "internal_error")
        else:
            with pytest.raises(httpx.ReadError):
                http.get(STREAM, params=ASK)
    assert len(mock.world.subscribers) == 0


def test_a_stream_that_was_refused_has_not_been_spoiled(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("drop", after=1, count=1, how="clean")
    error(http.get(STREAM, params={"chain": 1}), 422, "validation_error")
    assert mock.journal()[-1].faults == ()
    assert [(rule.seen, rule.fired) for rule in mock.faults()] == [(1, 0)]
    emitted, content, _ = listen(mock, http, 3)
    assert ids(content) == emitted[:1]


@pytest.mark.parametrize(
    ("kind", "parameters", "end"),
    [
        ("truncate", {"after": 30}, "RemoteProtocolError"),
        ("truncate", {}, "RemoteProtocolError"),
        ("bad_chunk", {"after": 30}, "RemoteProtocolError"),
        ("reset", {"after": 30}, "ReadError"),
    ],
)
def test_ends_that_count_bytes(
    mock: MockService, http: httpx.Client, kind: str, parameters: dict[str, Any], end: str
) -> None:
    mock.add_fault(kind, **parameters)
    emitted, content, ended = listen(mock, http, 2)
    assert ended == end
    assert content.startswith(b'data: {"type":"signal","id":"' + (emitted[0][:1].encode() if parameters else b""))
    assert not events(content)
    assert len(content) == 30 or not parameters


def test_a_stream_drips(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("drip", piece=40, seconds=0.001)
    mock.add_fault("drop", after=2, how="clean")
    emitted, content, _ = listen(mock, http, 3)
    assert ids(content) == emitted[:2]


# several at once


def test_all_of_them_together(mock: MockService, http: httpx.Client) -> None:
    """Whatever the order of the rules: reordered, doubled, ended, littered, split, other ends of lines, a mark."""
    rules: list[tuple[str, dict[str, Any]]] = [
        ("drip", {"piece": 33, "seconds": 0}),
        ("bom", {}),
        ("line_endings", {"style": "mixed"}),
        ("split_utf8", {}),
        ("garbage", {}),
        ("drop", {"after": 20, "how": "clean"}),
        ("half_event", {"after": 3}),
        ("silence", {"after": 9, "seconds": 0}),
        ("duplicate", {}),
        ("reorder", {"window": 5}),
    ]
    for kind, parameters in rules:
        mock.add_fault(kind, **parameters)
    emitted, content, ended = listen(mock, http, 10)
    assert ended == "end"
    found = ids(content)
    assert found[::2] == found[1::2]
    assert sorted(found[::2]) == sorted(emitted)
    assert sorted(found[:10:2]) == sorted(emitted[:5])
    assert found[::2] != emitted
    assert content.startswith(b"\xef\xbb\xbf: ")
    order = ("reorder", "duplicate", "silence", "drop", "garbage", "split_utf8", "line_endings", "bom", "drip")
    assert mock.journal()[-1].faults == order
