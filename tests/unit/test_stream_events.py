"""From bytes to signals, heartbeats and what cannot be read: on the stream and in the history."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tradesdk import APIResponseError, Heartbeat, InvalidEvent, RawResponse, StreamSignal, UnknownEvent
from tradesdk._stream.events import (
    Event,
    HistoryPage,
    conflict,
    decode_history,
    read_other,
    signal_reader,
    unix,
)
from tradesdk._values.http import Headers

from .._rows import each_of
from .._streamscript import fields
from .._texts import texts


def read(data: bytes) -> Event:
    """As a stream reads it, but for the chain."""
    try:
        signal: StreamSignal = signal_reader()(data)
    except ValidationError:
        return read_other(data)
    return signal


def sent(**changes: Any) -> bytes:
    return json.dumps({"type": "signal"} | fields("s1", 5) | changes, ensure_ascii=False).encode()


def history(body: Any) -> HistoryPage:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return decode_history(8453, "GET", "https://service.example", RawResponse(200, Headers(), content))


def test_a_signal() -> None:
    signal = read(sent())
    assert isinstance(signal, StreamSignal)
    wire = {"type": "signal"} | fields("s1", 5)
    assert signal.model_dump(mode="json") == wire | {"replayed": False, "late": False}
    assert signal.model_dump(mode="json", exclude_unset=True, exclude_computed_fields=True) == wire
    assert (signal.replayed, signal.late) == (False, False)


@each_of("late", [True, False])
def test_marks_are_shown_dumped_and_read_back(late: bool) -> None:
    plain = read(sent(venue="x"))
    assert isinstance(plain, StreamSignal)
    signal = plain.marked(replayed=True, late=late)
    assert signal == plain
    for text in (str(signal), repr(signal)):
        assert f"replayed=True{', ' if text[0] == 'S' else ' '}late={late}" in text
    dumped = signal.model_dump_json()
    assert dumped.endswith(f',"venue":"x","replayed":true,"late":{str(late).lower()}}}')
    for read_back in (StreamSignal.model_validate_json(dumped), StreamSignal.model_validate(signal.model_dump())):
        assert read_back == signal
        assert (read_back.replayed, read_back.late) == (True, late)
        assert read_back.model_dump_json() == dumped


OUTSIDE: dict[str, list[Any]] = {
    "confidence": [2.0, -0.1, 1.0000001, True, "0.5"],
    "price_usd": [True, False, "0.25"],
    "chain_id": [8453.5, True, "8453"],
    "timestamp": [True, [], "soon"],
    "id": [5, True],
    "token_symbol": [5, True],
    "direction": [5, True],
}


@each_of(("name", "value"), [(name, value) for name, values in OUTSIDE.items() for value in values])
def test_a_value_outside_the_contract_is_no_signal(name: str, value: Any) -> None:
    """Neither on the stream nor in the history, where it hides no other."""
    bad = read(sent(**{name: value}))
    assert isinstance(bad, InvalidEvent)
    assert bad.reason.startswith(f"{name} ")
    page = history({"data": [fields("b", 6), fields("s1", 5, **{name: value}), fields("a", 4)]})
    assert [signal.id for signal in page.signals] == ["b", "a"]
    assert [(one.source, one.reason) for one in page.invalid] == [("history", bad.reason)]


@each_of(("name", "value"), [("confidence", 0), ("confidence", 1), ("price_usd", 3)])
def test_a_whole_number_is_a_number(name: str, value: int) -> None:
    assert isinstance(read(sent(**{name: value})), StreamSignal)


@given(st.binary(max_size=300))
def test_whatever_comes_is_an_event_of_some_kind(raw: bytes) -> None:
    assert isinstance(read(raw), StreamSignal | Heartbeat | UnknownEvent | InvalidEvent)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | texts(), st.lists), st.booleans())
def test_whatever_a_field_says(value: Any, heartbeat: bool) -> None:
    for name in ("id", "timestamp", "price_usd", "chain_id", "direction", "type"):
        body = {"type": "heartbeat" if heartbeat else "signal"} | fields("s1", 5) | {name: value}
        found = read(json.dumps(body).encode())
        assert isinstance(found, StreamSignal | Heartbeat | UnknownEvent | InvalidEvent)


def test_a_conflict_tells_where_it_came_from() -> None:
    signal = read(sent())
    assert isinstance(signal, StreamSignal)
    live = conflict(signal, b"the bytes")
    assert (live.reason, live.raw, live.source) == ("the id 's1' came again with other content", b"the bytes", "stream")
    past = conflict(signal)
    assert (json.loads(past.raw)["id"], past.source) == ("s1", "history")
    odd = signal.model_copy(update={"id": "\x1b[31m\n" + "x" * 10_000})
    assert len(conflict(odd).reason) < 200
    assert conflict(odd).reason.isprintable()


# the history


def test_other_chains_are_kept_apart() -> None:
    page = history({"data": [fields("a", 1), fields("b", 2, chain_id=56)]})
    assert [signal.id for signal in page.signals] == ["a"]
    (bad,) = page.invalid
    assert (bad.reason, bad.source, json.loads(bad.raw)["id"]) == ("a signal of another chain: 56", "history", "b")


@each_of(
    "body",
    [
        b"",
        b"<h1>hello</h1>",
        b"\xff",
        b"[]",
        b"null",
        {},
        {"data": None},
        {"data": {}},
        {"data": [], "next_cursor": 5},
        {"data": [5], "next_cursor": 5},
        {"data": [fields("a", 1)], "next_cursor": ["x"]},
        b'{"data": [' + b"0," * 100_000 + b"0]}",
    ],
    ids=lambda body: repr(body)[:30],
)
def test_what_is_no_page(body: Any) -> None:
    with pytest.raises(APIResponseError):
        history(body)


def test_a_page_of_nothing_but_bad_items_is_still_a_page() -> None:
    page = history({"data": [5, None, {}], "next_cursor": "c"})
    assert (page.signals, page.next_cursor, len(page.invalid)) == ([], "c", 3)


# times


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), st.sampled_from([0, 60, -330, 840]))
def test_unix_seconds(moment: datetime, offset: int) -> None:
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=offset)))
    assert unix(aware) == pytest.approx(aware.timestamp(), abs=1e-4)
