"""What comes instead of a stream, and what comes on it and should not: told by type, and the rest is not touched."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest

from tradesdk import (
    APIStatusError,
    AuthenticationError,
    Disconnected,
    Heartbeat,
    InternalServerError,
    InvalidEvent,
    NotFoundError,
    PermissionDeniedError,
    ServiceUnavailableError,
    StreamEndedError,
    StreamError,
    TradeError,
    UnknownEvent,
)

from .._answers import KEY, bare, failed
from .._rows import each_of
from .._streamscript import SILENCE, Life, StreamScript, beat, event, fields, live
from .._streamservice_plan import BACKEND
from ._following import followed, opened

pytestmark = pytest.mark.twin


@pytest.fixture
def anyio_backend() -> str:
    return BACKEND


HTML = b"<h1>welcome</h1>"


def html() -> httpx.Response:
    return httpx.Response(200, content=HTML, headers={"content-type": "text/html; charset=utf-8"})


def moved() -> httpx.Response:
    return httpx.Response(301, headers={"location": "https://elsewhere.example/v1/signals/stream"})


def coded(coding: str) -> httpx.Response:
    headers = {"content-type": "text/event-stream", "content-encoding": coding}
    return httpx.Response(200, stream=httpx.ByteStream(live("x", 1)), headers=headers)


REFUSALS: dict[str, tuple[Any, type[APIStatusError], str]] = {
    "301": (moved, APIStatusError, ""),
    "401": (lambda: failed(401, f"the key {KEY} was revoked"), AuthenticationError, "unauthorized"),
    "403": (lambda: failed(403), PermissionDeniedError, "forbidden"),
    "404": (lambda: failed(404), NotFoundError, "not_found"),
    "404 in HTML": (lambda: bare(404), NotFoundError, ""),
    "418": (lambda: bare(418), APIStatusError, ""),
}
NO_STREAMS: dict[str, tuple[Any, type[StreamError], str]] = {
    "HTML": (html, StreamError, "its content type is text/html, not text/event-stream"),
    "no type": (lambda: httpx.Response(200, content=b""), StreamError, "its content type is missing"),
    "JSON": (lambda: httpx.Response(200, json={}), StreamError, "its content type is application/json"),
    "202": (lambda: httpx.Response(202, content=b""), StreamError, "202"),
    "204": (lambda: httpx.Response(204), StreamEndedError, "for good (204)"),
    "br": (lambda: coded("br"), StreamError, "its content encoding is br"),
    "gzip, though `identity` was asked for": (lambda: coded("gzip"), StreamError, "its content encoding is gzip"),
}


def hidden(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    """The API key is nowhere to be seen."""
    response = getattr(error, "response", None)  # its bytes are as they came
    for text in (str(error), repr(error), *map(str, error.args), repr(response), caplog.text):
        assert KEY not in text


@each_of(("answer", "kind", "code"), REFUSALS.values(), ids=REFUSALS)
@each_of("lived", [False, True], ids=["at the start", "in the middle of a life"])
async def test_a_refusal_is_its_own_error(
    answer: Any, kind: type[APIStatusError], code: str, lived: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    lives: list[Life] = [[live("a", 1), 2.0]] if lived else []
    script = StreamScript(*lives, answer())
    found = await followed(script)
    assert type(found.error) is kind
    assert isinstance(found.error, APIStatusError)
    assert found.error.status == int(str(found.error.status))
    assert (found.error.service_code or "") == code
    assert found.error.url.endswith("/v1/signals/stream?chain=8453")
    assert found.ids == ["a"] * lived
    assert {request.url.host for request in script.requests} == {"service.example"}
    assert len(script.connects) == 1 + lived
    assert len(found.of(Disconnected)) == lived
    hidden(found.error, caplog)


@each_of(("answer", "kind", "reason"), NO_STREAMS.values(), ids=NO_STREAMS)
@each_of("lived", [False, True], ids=["at the start", "in the middle of a life"])
async def test_what_is_no_stream_is_a_stream_error(
    answer: Any, kind: type[StreamError], reason: str, lived: bool, caplog: pytest.LogCaptureFixture
) -> None:
    lives: list[Life] = [[live("a", 1), 2.0]] if lived else []
    script = StreamScript(*lives, answer())
    found = await followed(script)
    assert type(found.error) is kind
    assert reason in str(found.error)
    assert isinstance(found.error, StreamError)
    assert found.error.response is not None
    assert found.error.response.status in (200, 202, 204)
    assert found.ids == ["a"] * lived
    assert len(script.connects) == 1 + lived
    hidden(found.error, caplog)


async def test_what_was_no_stream_is_kept() -> None:
    found = await followed(StreamScript(html()))
    assert isinstance(found.error, StreamError)
    assert found.error.response is not None
    assert found.error.response.content == HTML


async def test_after_an_error_it_is_over() -> None:
    script = StreamScript([live("a", 1)], failed(401))
    async with opened(script) as stream, stream:
        with pytest.raises(AuthenticationError):
            async for _ in stream:
                pass
        for _ in range(2):
            with pytest.raises(TradeError, match="this stream has failed: 401 unauthorized") as caught:
                await anext(stream)
            assert type(caught.value) is TradeError
    assert len(script.connects) == 2


async def test_the_first_connection_keeps_to_the_rules_of_calls() -> None:
    """503 five times more, 500 twice more; then the error."""
    script = StreamScript(*[failed(503) for _ in range(6)])
    found = await followed(script)
    assert type(found.error) is ServiceUnavailableError
    assert found.error.retries == 5
    script = StreamScript(*[failed(500) for _ in range(3)])
    found = await followed(script)
    assert type(found.error) is InternalServerError
    assert found.error.retries == 2


async def test_500_for_ever_ends_it_after_ten_in_a_row() -> None:
    script = StreamScript([live("a", 1)], *[failed(500) for _ in range(10)])
    found = await followed(script)
    assert type(found.error) is InternalServerError
    assert found.error.retries == 10
    assert (found.ids, len(script.connects), script.lives) == (["a"], 11, [])
    first = script.connects[1]
    assert sum(moment < first + 300 for moment in script.connects) <= 20


TOO_LONG = {
    "a line without an end": b"x" * (3 * 1024 * 1024),
    "an event of 5 MiB": (b"data: " + b"x" * 999_000 + b"\n") * 6 + b"\n",
}


@each_of("long", TOO_LONG.values(), ids=TOO_LONG)
async def test_what_is_too_long_is_reported_and_costs_one_connection(
    long: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    pieces = [long[start : start + 65_536] for start in range(0, len(long), 65_536)]
    script = StreamScript([live("a", 1), *pieces, live("lost", 3), SILENCE], [live("end", 60)], listed=[fields("b", 2)])
    found = await followed(script)
    assert (found.error, found.ids, found.stats.connects) == (None, ["a", "b"], 2)
    (bad,) = found.of(InvalidEvent)
    assert bad.reason.partition(" is ")[2].startswith("longer than ")
    assert bad.source == "stream"
    assert 0 < len(bad.raw) <= 64 * 1024
    assert [gone.reason for gone in found.of(Disconnected)] == [bad.reason]
    assert found.stats.invalid == 1
    assert bad.reason in caplog.text


BROKEN = {
    "no JSON": (b"not json", "it is not JSON"),
    "cut": (b'{"type": "signal", "id"', "it is not JSON"),
    "nothing": (b" ", "it is not JSON"),
    "a number": (b"5", "it has no type"),
    "a list": (b"[]", "it has no type"),
    "no type": (b'{"id": "x"}', "it has no type"),
    "a type that is no text": (b'{"type": 5}', "it has no type"),
    "a signal without fields": (b'{"type": "signal"}', "id: Field required"),
    "NaN": (live("x", 2)[6:-2].replace(b"0.25", b"NaN"), "it is not JSON"),
    "Infinity": (live("x", 2)[6:-2].replace(b"0.25", b"-Infinity"), "it is not JSON"),
    "1e999": (live("x", 2)[6:-2].replace(b"0.25", b"1e999"), ""),
    "another chain": (live("x", 2, chain_id=56)[6:-2], "another chain: 56"),
    "no time": (live("x", 2)[6:-2].replace(b"1760000002", b"null"), "timestamp "),
    "beyond the calendar": (live("x", 2)[6:-2].replace(b"1760000002", b"1" + b"0" * 40), "timestamp "),
    "very deep": (b"[" * 100_000, "it is not JSON"),
    "a heartbeat without time": (b'{"type": "heartbeat"}', "timestamp: Field required"),
}


@each_of(("data", "reason"), BROKEN.values(), ids=BROKEN)
async def test_an_event_that_cannot_be_read_is_reported_with_its_bytes(
    data: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    script = StreamScript([live("a", 1), event(data), live("b", 3), live("end", 4)])
    found = await followed(script, heartbeats=True, unknown_events=True)
    assert (found.error, found.ids, found.stats.connects) == (None, ["a", "b"], 1)
    (bad,) = found.of(InvalidEvent)
    assert reason in bad.reason
    assert bad.reason.isprintable()
    assert (bad.raw, bad.source) == (data[: 64 * 1024], "stream")
    assert [type(item).__name__ for item in found.items] == [
        "Connected",
        "StreamSignal",
        "InvalidEvent",
        "StreamSignal",
    ]
    assert found.stats.invalid == 1
    assert "sent an invalid event" in caplog.text


async def test_bytes_that_are_no_utf_8_are_replaced() -> None:
    spoiled = live("b", 2, token_symbol="SYMBOL").replace(b"SYMBOL", b"A\xff\xc3B")
    found = await followed(StreamScript([live("a", 1), spoiled, live("end", 3)]))
    assert (found.error, found.ids, found.stats.invalid) == (None, ["a", "b"], 0)
    assert found.signals[1].token_symbol == "A\ufffd\ufffdB"


async def test_events_of_unknown_kinds() -> None:
    kinds = [event(b'{"type": "later", "x": 1}'), event(b'{"type": ""}')]
    script = StreamScript([live("a", 1), *kinds, live("end", 3)])
    found = await followed(script, unknown_events=True)
    assert [(one.type, one.data) for one in found.of(UnknownEvent)] == [
        ("later", {"type": "later", "x": 1}),
        ("", {"type": ""}),
    ]
    assert found.of(UnknownEvent)[0].raw == b'{"type": "later", "x": 1}'
    found = await followed(StreamScript([live("a", 1), *kinds, live("end", 3)]))
    assert (found.of(UnknownEvent), found.stats.unknown, found.ids) == ([], 2, ["a"])


async def test_an_id_with_other_content_is_yielded_once_and_reported_once() -> None:
    other = live("a", 1, price_usd=7.0)
    script = StreamScript([live("a", 1), live("a", 1), other, other, live("b", 2), live("end", 3)])
    found = await followed(script)
    assert found.ids == ["a", "b"]
    (bad,) = found.of(InvalidEvent)
    assert (bad.reason, bad.raw) == ("the id 'a' came again with other content", other[6:-2])
    assert (found.stats.conflicts, found.stats.duplicates, found.signals[0].price_usd) == (1, 3, 0.25)


async def test_heartbeats_with_absurd_times_are_signs_of_life_and_nothing_else() -> None:
    absurd = [event(b'{"type": "heartbeat", "timestamp": %d}' % when) for when in (0, 99_999_999_999)]
    lives = [live("a", 1), *[step for one in absurd * 8 for step in (80.0, one)], live("b", 1280), 4.0]
    listed = [fields("a", 1), fields("b", 1280), fields("hole", 1282)]
    script = StreamScript(lives, [live("end", 1300)], listed=listed)
    found = await followed(script, heartbeats=True)
    assert (found.error, found.ids, found.stats.gaps, found.stats.connects) == (None, ["a", "b", "hole"], 0, 2)
    assert (len(found.of(Heartbeat)), found.stats.heartbeats) == (16, 16)
    assert found.stats.position is not None
    assert found.stats.position.timestamp() < 1_760_001_400


@each_of("hours", [0, 1, 20])
async def test_a_heartbeat_hours_ahead_blinds_no_audit(hours: int) -> None:
    """What the stream leaves out afterwards is found all the same."""
    calm = [step for at in range(15, 1500, 15) for step in (15.0, beat(at))]
    lives = [live("a", 1), beat(hours * 3600), *calm[:60], live("b", 450), *calm[60:], live("end", 1500)]
    listed = [fields("a", 1), fields("b", 450), fields("left out", 700)]
    found = await followed(StreamScript(lives, listed=listed))
    assert found.ids == ["a", "b", "left out"]


async def test_the_stream_is_quiet_about_its_key(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    script = StreamScript([live("a", 1), b"x" * 2_000_000], [live("end", 9)])
    async with opened(script) as stream, stream:
        async for item in stream:
            assert KEY not in repr(item)
            assert KEY not in repr(stream)
            assert KEY not in repr(vars(stream._state))
            if getattr(item, "id", "") == "end":
                break
        assert KEY not in repr(stream.stats)
    assert KEY not in caplog.text
    assert beat(1) not in caplog.text.encode()
