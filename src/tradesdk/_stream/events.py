"""Events of the stream and pages of the history, from bytes to models. Unreadable ones keep their bytes. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, Literal, TypeAlias

from pydantic import ValidationError
from pydantic_core import TzInfo, from_json

from .._http.arguments import MAX_PAGE
from .._http.response import decode_page, explained
from .._values.http import RawResponse, parse_json
from .._values.text import printable
from ..errors import APIResponseError
from ..models.signals import Signal
from ..models.stream import MARKS, Heartbeat, InvalidEvent, StreamSignal, UnknownEvent

MAX_RAW = 64 * 1024
_EPOCH = datetime(1970, 1, 1, tzinfo=TzInfo(0))  # pydantic's zone, which timestamps have

Event: TypeAlias = StreamSignal | Heartbeat | UnknownEvent | InvalidEvent


@cache
def signal_reader() -> Any:
    """The function from an event's bytes to a signal."""
    StreamSignal.model_rebuild()
    return StreamSignal.__pydantic_validator__.validate_json


def read_other(raw: bytes, problem: ValidationError) -> Event:
    """Read an event that `signal_reader` could not. Its kind is in its JSON; the SSE event name is ignored."""
    # The standard replaces bytes that are not UTF-8.
    text = raw.decode("utf-8", "replace")
    content = text.encode() if "\ufffd" in text else raw
    try:
        body = parse_json(content)
    except ValueError as error:
        return _invalid(f"it is not JSON: {error}", raw)
    kind = body.get("type") if isinstance(body, dict) else None
    if not isinstance(kind, str):
        return _invalid("it has no type", raw)
    try:
        if kind == "heartbeat":
            return Heartbeat.model_validate_json(content)
        if kind == "signal":
            if content is raw:
                raise problem
            return StreamSignal.model_validate_json(content)
    except ValidationError as error:
        return _invalid(explained(error), raw)
    return UnknownEvent(kind, body, raw)


def of_another_chain(signal: Signal, raw: bytes | None = None) -> InvalidEvent:
    return _about(signal, f"a signal of another chain: {signal.chain_id}", raw)


def conflict(signal: Signal, raw: bytes | None = None) -> InvalidEvent:
    return _about(signal, f"the id {printable(signal.id, 100)!r} came again with other content", raw)


def _about(signal: Signal, reason: str, raw: bytes | None) -> InvalidEvent:
    return _invalid(reason, raw) if raw is not None else _invalid(reason, signal.model_dump_json().encode(), "history")


def _invalid(reason: str, raw: bytes, source: Literal["stream", "history"] = "stream") -> InvalidEvent:
    return InvalidEvent(printable(reason, 300), raw[:MAX_RAW], source)


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A page of the history, newest first; `invalid`: items that could not be read."""

    signals: list[Signal]
    next_cursor: str | None
    headers: Mapping[str, str]
    invalid: list[InvalidEvent] = field(default_factory=list)


def decode_history(chain: int, method: str, url: str, response: RawResponse) -> HistoryPage:
    """A page, without items that cannot be read: one bad price must not hide ninety-nine signals."""
    invalid: list[InvalidEvent] = []
    try:
        page = decode_page(Signal, method, url, response)
        signals, cursor = page.data, page.next_cursor
    except APIResponseError as error:
        found = _item_by_item(response)
        if found is None:
            raise
        signals, cursor, invalid = found
        if not signals and not invalid:
            raise error from None
    invalid += [of_another_chain(signal) for signal in signals if signal.chain_id != chain]
    signals = [signal for signal in signals if signal.chain_id == chain]
    return HistoryPage(signals, cursor, response.headers, invalid)


def _item_by_item(response: RawResponse) -> tuple[list[Signal], str | None, list[InvalidEvent]] | None:
    try:
        body = from_json(response.content)  # NaN and Infinity are refused item by item
    except ValueError:
        return None
    if not isinstance(body, dict) or not isinstance(body.get("data"), list) or len(body["data"]) > MAX_PAGE:
        return None
    cursor = body.get("next_cursor")
    if cursor is not None and not isinstance(cursor, str):
        return None
    signals: list[Signal] = []
    invalid: list[InvalidEvent] = []
    for item in body["data"]:
        content = json.dumps(item)
        try:
            signals.append(Signal.model_validate_json(content))
        except ValidationError as error:
            invalid.append(_invalid(explained(error), content.encode(), "history"))
    return signals, cursor or None, invalid


def unix(moment: datetime) -> float:
    """Unix seconds. Subtracting moments of the same zone object takes a third of the time of `timestamp()`."""
    return (moment - _EPOCH).total_seconds()


def utc(moment: float) -> datetime:
    return datetime.fromtimestamp(moment, UTC)


def marked(signal: Signal, *, replayed: bool, late: bool) -> StreamSignal:
    """The signal as a stream yields it, with the marks `replayed` and `late`."""
    if not isinstance(signal, StreamSignal):
        fields = {name: getattr(signal, name) for name in type(signal).model_fields}
        extra = {name: value for name, value in (signal.model_extra or {}).items() if name not in ("type", *MARKS)}
        signal = StreamSignal.model_construct(**extra, **fields, type="signal")
    return signal.marked(replayed=replayed, late=late)


def content_hash(signal: Signal, when: float) -> int:
    """A hash of the content, to detect another signal with the same id."""
    of = signal.__dict__  # attributes of a model take five times as long
    return hash((of["token_address"], of["direction"], of["confidence"], of["price_usd"], when, of["token_symbol"]))
