"""What the client of a stream has to live through (a table in docs/mock.md), where one fault does not show it alone."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockServerError, MockService

from ._http import CARRIERS, START, carried, client, error, ok, walk
from ._streams import STREAM, listening

pytestmark = pytest.mark.long

HISTORY = "/v1/signals/history"
ASK: dict[str, Any] = {"chain": 8453}
PAGE: dict[str, Any] = {**ASK, "from": START}


@pytest.fixture(params=CARRIERS)
def mock(request: pytest.FixtureRequest) -> Iterator[MockService]:
    with carried(request.param, gaps={"heartbeat": 0}) as made:
        yield made


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with client(mock, timeout=60) as made:
        yield made


def emit(mock: MockService, count: int) -> list[str]:
    return [mock.emit_signal().id for _ in range(count)]


def history(http: httpx.Client, **query: Any) -> list[str]:
    return [signal["id"] for signal in walk(http, HISTORY, **PAGE, **query)]


def works(mock: MockService, http: httpx.Client) -> bool:
    """Whether a stream that is opened now has what is published."""
    with listening(http) as stream:
        return emit(mock, 2) == [event["id"] for event in stream.take(2)]


@pytest.mark.parametrize(("status", "code"), [(429, "rate_limited"), (503, "service_unavailable")])
def test_only_the_history_or_only_the_stream_is_refused(
    mock: MockService, http: httpx.Client, status: int, code: str
) -> None:
    mock.add_fault("status", route=HISTORY, status=status, count=10, retry_after=2)
    with listening(http) as stream:
        emitted = emit(mock, 2)
        for _ in range(10):
            refused = http.get(HISTORY, params=PAGE)
            error(refused, status, code)
            assert refused.headers["retry-after"] == "2"
        assert history(http) == emitted[::-1]
        assert [event["id"] for event in stream.take(2)] == emitted
    mock.add_fault("status", route=STREAM, status=status, count=3)
    for _ in range(3):
        error(http.get(STREAM, params=ASK), status, code)
        assert history(http)[0] == emitted[-1]
    assert works(mock, http)


@pytest.mark.parametrize("status", [204, 301, 302, 304, 307, 401, 403, 404, 500])
def test_an_opening_with_another_status(mock: MockService, http: httpx.Client, status: int) -> None:
    headers = {"Location": "/v1/elsewhere"} if status in (301, 302, 307) else {}
    mock.add_fault("status", route=STREAM, status=status, headers=headers, count=1)
    answer = http.get(STREAM, params=ASK)
    assert (answer.status_code, answer.headers.get("location")) == (status, headers.get("Location"))
    assert bool(answer.content) is (status not in (204, 304))
    assert works(mock, http)


@pytest.mark.parametrize("slowly", [False, True])
def test_a_page_or_packed_bytes_instead_of_a_stream(mock: MockService, http: httpx.Client, slowly: bool) -> None:
    """Real bytes under a real header; `drip` keeps it open for as long as a test needs."""
    page = "<!doctype html><title>Please log in</title>"
    mock.add_fault("body", route=STREAM, text=page, content_type="text/html; charset=utf-8", count=1)
    answer = http.get(STREAM, params=ASK)
    assert (answer.status_code, answer.text) == (200, page)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    coming = mock.emit_signal(at=START + 3_600)
    content = gzip.compress(f'data: {{"type":"signal","id":"{coming.id}"}}\n\n'.encode(), mtime=0)
    packed = {"Content-Encoding": "gzip"}
    mock.add_fault("body", route=STREAM, base64=base64.b64encode(content).decode(), headers=packed, count=1)
    if slowly:
        mock.add_fault("drip", route=STREAM, piece=20, seconds=0.01, count=1)
    with http.stream("GET", STREAM, params=ASK) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["content-encoding"] == "gzip"
        pieces = list(answer.iter_raw())
    assert (b"".join(pieces), len(pieces) > 2) == (content, slowly)
    mock.add_fault("body", route=STREAM, text="data: {}\n\n", headers=packed, count=1)
    with http.stream("GET", STREAM, params=ASK) as answer, pytest.raises(httpx.DecodingError):
        answer.read()
    assert works(mock, http)


@pytest.mark.parametrize("timestamp", [0, 99_999_999_999, 2**53 - 1], ids=["1970", "5138", "no-date-at-all"])
def test_dates_far_away(mock: MockService, http: httpx.Client, timestamp: int) -> None:
    """`timestamp` is any; the time of publication is one that the clock can show."""
    with listening(http) as stream:
        before, odd, after = emit(mock, 1)[0], mock.emit_signal(timestamp=timestamp), emit(mock, 1)[0]
        seen = stream.take(3)
    assert [event["id"] for event in seen] == [before, odd.id, after]
    assert [event["timestamp"] for event in seen] == [START, timestamp, START]
    listed = [signal["id"] for signal in walk(http, HISTORY, chain=8453, limit=100)]
    assert listed.index(odd.id) == (0 if timestamp else len(listed) - 1)
    assert history(http) == ([odd.id] if timestamp else []) + [after, before]


@pytest.mark.parametrize("at", [0, START - 61, 1e11, 2**53])
def test_nothing_is_published_at_a_time_that_never_comes(mock: MockService, at: float) -> None:
    with pytest.raises(MockServerError, match=r"^at: "):
        mock.emit_signal(at=at)


@pytest.mark.parametrize("how", ["close", "clean"])
def test_a_line_without_an_end(mock: MockService, http: httpx.Client, how: str) -> None:
    """The event behind it belongs to the line, too: whoever goes on reading loses both."""
    mock.add_fault("inject", after=1, text="data: " + "x" * 2**21)
    mock.add_fault("drop", after=3, how=how)
    content = b""
    with http.stream("GET", STREAM, params=ASK) as answer:
        emitted = emit(mock, 3)
        try:
            for piece in answer.iter_raw():
                content += piece
        except httpx.RemoteProtocolError:
            assert how == "close"
    first, long, third = [line for line in content.split(b"\n") if line]
    assert [emitted[0] in first.decode(), emitted[1] in long.decode(), emitted[2] in third.decode()] == [True] * 3
    assert len(long) > 2**21


@pytest.mark.parametrize(
    "spoiled",
    [
        lambda page: {**page, "data": page["data"][::-1]},
        lambda page: page,  # its cursor repeats
        lambda page: {"data": [{**page["data"][0], "price_usd": 1e9, "direction": "BOTH"}]},
        *(
            lambda page, text=text: text
            for text in ('{"data":[{"id":"sig_1","price_usd":NaN}]}', '{"data":null}', "[]", "", "<html>", '{"data":[')
        ),
    ],
)
def test_a_history_that_cannot_be_trusted(mock: MockService, http: httpx.Client, spoiled: Any) -> None:
    """A page in another order, the same page again, an id with other content, a body that is no page."""
    emitted = emit(mock, 5)
    page = ok(http.get(HISTORY, params={**PAGE, "limit": 2}))
    found = spoiled(page)
    text = found if isinstance(found, str) else json.dumps(found)
    mock.add_fault("body", route=HISTORY, text=text, count=3)
    for _ in range(3):
        assert http.get(HISTORY, params={**PAGE, "limit": 2, "cursor": page["next_cursor"]}).text == text
    assert history(http, limit=2) == emitted[::-1]
