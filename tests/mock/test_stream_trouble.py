"""What the client of a stream has to live through: refusals, foreign answers, odd content, a wrong history."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockServerError, MockService

from ._faulty import ASK, CARRIERS, STREAM, Reader, carried, connect, emit, events, ids, listen
from ._support import START, error, ok, walk

HISTORY = "/v1/signals/history"
PAGE: dict[str, Any] = {**ASK, "from": START}


@pytest.fixture(params=CARRIERS)
def mock(request: pytest.FixtureRequest) -> Iterator[MockService]:
    with carried(request.param) as made:
        yield made


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with connect(mock) as made:
        yield made


def works(mock: MockService, http: httpx.Client) -> bool:
    """Whether a stream that is opened now has what is published."""
    with http.stream("GET", STREAM, params=ASK) as answer:
        return answer.status_code == 200 and emit(mock, 2) == Reader(answer).until(2)


# Refusals


@pytest.mark.parametrize(("status", "code"), [(429, "rate_limited"), (503, "service_unavailable")])
def test_only_the_history_is_refused(mock: MockService, http: httpx.Client, status: int, code: str) -> None:
    mock.add_fault("status", route=HISTORY, status=status, count=10, retry_after=2)
    with http.stream("GET", STREAM, params=ASK) as answer:
        emitted = emit(mock, 2)
        for _ in range(10):
            refused = http.get(HISTORY, params=PAGE)
            error(refused, status, code)
            assert refused.headers["retry-after"] == "2"
        assert [signal["id"] for signal in walk(http, HISTORY, **PAGE)] == emitted[::-1]
        assert Reader(answer).until(2) == emitted


@pytest.mark.parametrize(("status", "code"), [(429, "rate_limited"), (503, "service_unavailable")])
def test_only_the_stream_is_refused(mock: MockService, http: httpx.Client, status: int, code: str) -> None:
    mock.add_fault("status", route=STREAM, status=status, count=3)
    for _ in range(3):
        error(http.get(STREAM, params=ASK), status, code)
        emitted = emit(mock, 1)
        assert ok(http.get(HISTORY, params={**PAGE, "limit": 1}))["data"][0]["id"] == emitted[0]
    assert works(mock, http)


@pytest.mark.parametrize("status", [204, 301, 302, 304, 307, 401, 403, 404, 500])
def test_an_opening_with_another_status(mock: MockService, http: httpx.Client, status: int) -> None:
    headers = {"Location": "/v1/elsewhere"} if status in (301, 302, 307) else {}
    mock.add_fault("status", route=STREAM, status=status, headers=headers, count=1)
    answer = http.get(STREAM, params=ASK)
    assert answer.status_code == status
    assert answer.headers.get("location") == headers.get("Location")
    assert bool(answer.content) is (status not in (204, 304))
    assert works(mock, http)


def test_a_key_that_is_revoked_in_the_middle(mock: MockService) -> None:
    key = mock.create_key()
    with connect(mock, key.value) as http:
        with http.stream("GET", STREAM, params=ASK) as answer:
            stream = Reader(answer)
            emitted = emit(mock, 2)
            assert stream.until(2) == emitted
            mock.revoke_key(key.id)
            emit(mock, 1)
            assert ids(stream.rest()) == emitted, "it ends as an answer does, and says nothing of the reason"
        for path in (STREAM, HISTORY):
            error(http.get(path, params=ASK), 401, "unauthorized")


# Answers that are no stream


def test_a_page_instead_of_a_stream(mock: MockService, http: httpx.Client) -> None:
    page = "<!doctype html><title>Please log in</title>"
    mock.add_fault("body", route=STREAM, text=page, content_type="text/html; charset=utf-8", count=1)
    answer = http.get(STREAM, params=ASK)
    assert (answer.status_code, answer.text) == (200, page)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert works(mock, http)


def packed(mock: MockService) -> tuple[list[str], str]:
    """(ids of what will be published later, their events in gzip, in base64)"""
    coming = [mock.emit_signal(at=START + 3_600 + n) for n in range(3)]
    fields = ("id", "token_symbol", "timestamp")
    lines = [json.dumps({"type": "signal", **{name: getattr(each, name) for name in fields}}) for each in coming]
    text = "".join(f"data: {line}\n\n" for line in lines).replace('": ', '":')
    return [each.id for each in coming], base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


@pytest.mark.parametrize("slowly", [False, True])
def test_a_stream_in_gzip(mock: MockService, http: httpx.Client, slowly: bool) -> None:
    """Real bytes under a real header; `drip` keeps it open for as long as a test needs."""
    coming, content = packed(mock)
    mock.add_fault("body", route=STREAM, base64=content, headers={"Content-Encoding": "gzip"})
    if slowly:
        mock.add_fault("drip", route=STREAM, piece=50, seconds=0.01)
    with http.stream("GET", STREAM, params=ASK) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["content-encoding"] == "gzip"
        pieces = list(answer.iter_raw())
    came = b"".join(pieces)
    assert came == base64.b64decode(content)
    assert (len(pieces) > 2) is slowly
    assert ids(gzip.decompress(came)) == coming


def test_a_stream_that_says_gzip_and_is_none(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("body", route=STREAM, text="data: {}\n\n", headers={"Content-Encoding": "gzip"})
    with http.stream("GET", STREAM, params=ASK) as answer, pytest.raises(httpx.DecodingError):
        answer.read()


# Strange content


@pytest.mark.parametrize("timestamp", [0, 99_999_999_999, 2**53 - 1], ids=["1970", "5138", "no-date-at-all"])
def test_dates_far_away(mock: MockService, http: httpx.Client, timestamp: int) -> None:
    """`timestamp` is any; the time of publication is one that the clock can show."""
    with http.stream("GET", STREAM, params=ASK) as answer:
        before, odd, after = emit(mock, 1)[0], mock.emit_signal(timestamp=timestamp), emit(mock, 1)[0]
        stream = Reader(answer)
        assert stream.until(3) == [before, odd.id, after]
    assert [json.loads(data)["timestamp"] for data in events(bytes(stream.came))] == [START, timestamp, START]
    listed = [signal["id"] for signal in walk(http, HISTORY, chain=8453, limit=100)]
    assert listed.index(odd.id) == (0 if timestamp else len(listed) - 1)
    in_range = [signal["id"] for signal in walk(http, HISTORY, **PAGE)]
    assert in_range == ([odd.id] if timestamp else []) + [after, before]


@pytest.mark.parametrize("at", [0, START - 61, 1e11, 2**53])
def test_nothing_is_published_at_a_time_that_never_comes(mock: MockService, at: float) -> None:
    with pytest.raises(MockServerError, match=r"^at: "):
        mock.emit_signal(at=at)


@pytest.mark.parametrize(("how", "end"), [("close", "RemoteProtocolError"), ("clean", "end")])
def test_a_line_without_an_end(mock: MockService, http: httpx.Client, how: str, end: str) -> None:
    """The event behind it belongs to the line, too: whoever goes on reading loses both."""
    mock.add_fault("inject", after=1, text="data: " + "x" * 2**21)
    mock.add_fault("drop", after=3, how=how)
    emitted, content, ended = listen(mock, http, 3)
    assert ended == end
    assert ids(content) == [emitted[0], emitted[2]]
    assert max(map(len, content.split(b"\n"))) > 2**21


# A history that can't be trusted


def spoil(mock: MockService, body: Any, count: int = 1) -> None:
    """So many answers of the history have this body."""
    mock.add_fault("body", route=HISTORY, text=json.dumps(body), count=count)


def test_the_wrong_order(mock: MockService, http: httpx.Client) -> None:
    emitted = emit(mock, 5)
    page = ok(http.get(HISTORY, params=PAGE))
    spoil(mock, {**page, "data": page["data"][::-1]})
    assert [each["id"] for each in ok(http.get(HISTORY, params=PAGE))["data"]] == emitted
    assert ok(http.get(HISTORY, params=PAGE)) == page


def test_a_cursor_that_repeats(mock: MockService, http: httpx.Client) -> None:
    emit(mock, 5)
    page = ok(http.get(HISTORY, params={**PAGE, "limit": 2}))
    spoil(mock, page, count=3)
    for _ in range(3):
        assert ok(http.get(HISTORY, params={**PAGE, "limit": 2, "cursor": page["next_cursor"]})) == page
    after = ok(http.get(HISTORY, params={**PAGE, "limit": 2, "cursor": page["next_cursor"]}))
    assert after["next_cursor"] != page["next_cursor"]


def test_an_id_with_other_content(mock: MockService, http: httpx.Client) -> None:
    """On the stream it is one thing and in the history another, until the rule is used up."""
    with http.stream("GET", STREAM, params=ASK) as answer:
        emitted = emit(mock, 1)
        stream = Reader(answer)
        assert stream.until(1) == emitted
    page = ok(http.get(HISTORY, params=PAGE))
    spoil(mock, {"data": [{**page["data"][0], "price_usd": 1e9, "direction": "BOTH"}]})
    (other,) = ok(http.get(HISTORY, params=PAGE))["data"]
    (data,) = events(bytes(stream.came))
    assert other["id"] == json.loads(data)["id"]
    assert other["price_usd"] != json.loads(data)["price_usd"]
    assert ok(http.get(HISTORY, params=PAGE)) == page


@pytest.mark.parametrize(
    "text",
    ['{"data":[{"id":"sig_1","price_usd":NaN}]}', '{"data":null}', "[]", "", "<html>", '{"data":[', '{"data":[]}'],
)
def test_a_body_that_is_no_page(mock: MockService, http: httpx.Client, text: str) -> None:
    emitted = emit(mock, 1)
    mock.add_fault("body", route=HISTORY, text=text, count=1)
    assert http.get(HISTORY, params=PAGE).text == text
    assert [signal["id"] for signal in walk(http, HISTORY, **PAGE)] == emitted
