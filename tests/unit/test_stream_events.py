"""From bytes to signals, heartbeats and what cannot be read: on the stream, in the history, and under gzip."""

from __future__ import annotations

import gzip
import json
import zlib
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tradesdk import APIResponseError
from tradesdk._stream.events import (
    MAX_RAW,
    Event,
    Gzip,
    HistoryPage,
    conflict,
    decode_history,
    read_other,
    signal_reader,
    unix,
)
from tradesdk._values.http import Headers, RawResponse
from tradesdk.models.stream import Heartbeat, InvalidEvent, StreamSignal, UnknownEvent

from .._clock import START
from .._streamscript import fields


def read(data: bytes) -> Event:
    """As a stream reads it, but for the chain."""
    try:
        signal: StreamSignal = signal_reader()(data)
    except ValidationError as error:
        return read_other(data, error)
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


@pytest.mark.parametrize("late", [True, False])
def test_marks_are_shown_dumped_and_read_back(late: bool) -> None:
    plain = read(sent(venue="x"))
    assert isinstance(plain, StreamSignal)
    signal = plain.marked(replayed=True, late=late)
    assert signal == plain
    for text in (str(signal), repr(signal)):
        assert f"replayed=True{', ' if text[0] == 'S' else ' '}late={late}" in text
    dumped = signal.model_dump_json()
    assert dumped.endswith(f',"venue":"x","replayed":true,"late":{str(late).lower()}}}')
    for again in (StreamSignal.model_validate_json(dumped), StreamSignal.model_validate(signal.model_dump())):
        assert (again, again.replayed, again.late) == (signal, True, late)
        assert again.model_dump_json() == dumped


def test_a_heartbeat() -> None:
    beat = read(b'{"type": "heartbeat", "timestamp": %d}' % START)
    assert isinstance(beat, Heartbeat)
    assert beat.timestamp == datetime.fromtimestamp(START, UTC)


def test_another_kind() -> None:
    raw = b'{"type": "fill", "of": "a"}'
    assert read(raw) == UnknownEvent("fill", {"type": "fill", "of": "a"}, raw)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "it is not JSON"),
        (b"{", "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b"null", "it has no type"),
        (b'"signal"', "it has no type"),
        (b'{"type": null}', "it has no type"),
        (b'{"type": ["signal"]}', "it has no type"),
        (b'{"type": "signal"}', "id: Field required"),
        (sent(price_usd="cheap"), "price_usd: "),
        (sent(timestamp=None), "timestamp: "),
        (sent(id=None), "id: "),
        (b'{"type": "heartbeat", "timestamp": "noon"}', "timestamp: "),
    ],
)
def test_what_cannot_be_read(raw: bytes, reason: str) -> None:
    bad = read(raw)
    assert isinstance(bad, InvalidEvent)
    assert bad.reason.startswith(reason)
    assert (bad.raw, bad.source) == (raw, "stream")


OUTSIDE: dict[str, list[Any]] = {
    "confidence": [2.0, -0.1, 1.0000001, True, "0.5"],
    "price_usd": [True, False, "0.25"],
    "chain_id": [8453.5, True, "8453"],
    "timestamp": [True, [], "soon"],
    "id": [5, True],
    "token_symbol": [5, True],
    "direction": [5, True],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in OUTSIDE.items() for value in values])
def test_a_value_outside_the_contract_is_no_signal(name: str, value: Any) -> None:
    """Neither on the stream nor in the history, where it hides no other."""
    bad = read(sent(**{name: value}))
    assert isinstance(bad, InvalidEvent)
    assert bad.reason.startswith(f"{name}: ")
    page = history({"data": [fields("b", 6), fields("s1", 5, **{name: value}), fields("a", 4)]})
    assert [signal.id for signal in page.signals] == ["b", "a"]
    assert [(one.source, one.reason) for one in page.invalid] == [("history", bad.reason)]


@pytest.mark.parametrize(("name", "value"), [("confidence", 0), ("confidence", 1), ("price_usd", 3)])
def test_a_whole_number_is_a_number(name: str, value: int) -> None:
    assert isinstance(read(sent(**{name: value})), StreamSignal)


def test_the_reason_does_not_say_what_stands_there() -> None:
    bad = read(sent(price_usd="secret"))
    assert isinstance(bad, InvalidEvent)
    assert "secret" not in bad.reason


def test_a_long_one_is_cut() -> None:
    bad = read(b"x" * 1_000_000)
    assert isinstance(bad, InvalidEvent)
    assert len(bad.raw) == MAX_RAW
    assert len(bad.reason) <= 310


@pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"])
def test_bytes_that_are_no_utf_8_are_replaced_wherever_they_stand(bad: bytes) -> None:
    signal = read(sent(token_symbol="HERE").replace(b"HERE", b"A" + bad + b"B"))
    assert isinstance(signal, StreamSignal)
    assert signal.token_symbol == (b"A" + bad + b"B").decode("utf-8", "replace")
    other = read(b'{"type": "fi' + bad + b'll"}')
    assert isinstance(other, UnknownEvent)
    assert "\ufffd" in other.type
    assert other.raw == b'{"type": "fi' + bad + b'll"}'


@given(st.binary(max_size=300))
def test_whatever_comes_is_an_event_of_some_kind(raw: bytes) -> None:
    assert isinstance(read(raw), StreamSignal | Heartbeat | UnknownEvent | InvalidEvent)


@settings(max_examples=40)
@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists), st.booleans())
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


def test_a_page() -> None:
    page = history({"data": [fields("b", 2), fields("a", 1)], "next_cursor": "c"})
    assert ([signal.id for signal in page.signals], page.next_cursor, page.invalid) == (["b", "a"], "c", [])


@pytest.mark.parametrize("price", ["NaN", "Infinity", "-Infinity", "null", '"one"', "1e999", "[]"])
def test_one_bad_price_hides_no_other_signal(price: str) -> None:
    items = [json.dumps(fields(f"s{number}", number)) for number in range(100)]
    items[40] = items[40].replace("0.25", price)
    page = history(f'{{"data": [{",".join(items)}], "next_cursor": "c"}}'.encode())
    assert [signal.id for signal in page.signals] == [f"s{number}" for number in range(100) if number != 40]
    assert page.next_cursor == "c"
    (bad,) = page.invalid
    assert bad.reason.startswith("price_usd: ")
    assert (bad.source, json.loads(bad.raw)["id"]) == ("history", "s40")


def test_other_chains_are_kept_apart() -> None:
    page = history({"data": [fields("a", 1), fields("b", 2, chain_id=56)]})
    assert [signal.id for signal in page.signals] == ["a"]
    (bad,) = page.invalid
    assert (bad.reason, bad.source, json.loads(bad.raw)["id"]) == ("a signal of another chain: 56", "history", "b")


@pytest.mark.parametrize(
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
        b'{"data": [' + b"0," * 1_000_000 + b"0]}",
    ],
    ids=lambda body: repr(body)[:30],
)
def test_what_is_no_page(body: Any) -> None:
    with pytest.raises(APIResponseError):
        history(body)


def test_a_page_of_nothing_but_bad_items_is_still_a_page() -> None:
    page = history({"data": [5, None, {}], "next_cursor": "c"})
    assert (page.signals, page.next_cursor, len(page.invalid)) == ([], "c", 3)


# gzip


@given(st.binary(max_size=5_000), st.integers(1, 64))
def test_gzip_in_pieces(data: bytes, size: int) -> None:
    coded = gzip.compress(data)
    coding = Gzip()
    pieces = [coded[start : start + size] for start in range(0, len(coded), size)]
    assert b"".join(found for piece in pieces for found in coding.undo(piece)) == data


def test_a_bomb_comes_in_pieces() -> None:
    coding = Gzip()
    size = 0
    for piece in coding.undo(gzip.compress(bytes(10_000_000))):
        assert len(piece) <= 64 * 1024
        size += len(piece)
    assert size == 10_000_000


def test_damage_is_seen() -> None:
    with pytest.raises(zlib.error):
        list(Gzip().undo(b"<h1>hello</h1>"))
    whole = bytearray(gzip.compress(bytes(1000)))
    whole[-5] ^= 0xFF
    with pytest.raises(zlib.error):
        list(Gzip().undo(bytes(whole)))


# times


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), st.sampled_from([0, 60, -330, 840]))
def test_unix_seconds(moment: datetime, offset: int) -> None:
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=offset)))
    assert unix(aware) == pytest.approx(aware.timestamp(), abs=1e-4)
