"""Events of the stream and pages of the history, from bytes to models. Unreadable ones keep their bytes. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import FailFast, Field, ValidationError
from pydantic_core import TzInfo

from .._http.arguments import MAX_PAGE
from .._http.response import explained, validated
from .._values.http import RawResponse, parse_json, read_json
from .._values.text import printable
from ..models._base import Model
from ..models.signals import Signal
from ..models.stream import MARKS, Heartbeat, InvalidEvent, StreamSignal, UnknownEvent

MAX_RAW = 64 * 1024
_EPOCH = datetime(1970, 1, 1, tzinfo=TzInfo(0))  # pydantic's zone, which timestamps have

Event: TypeAlias = StreamSignal | Heartbeat | UnknownEvent | InvalidEvent


@cache
def signal_reader() -> Any:
    """The function that reads a signal from an event's bytes. A stream builds it, and the one of heartbeats, first.

    While it is built, pydantic would turn an exception of a SIGTERM handler into its own error.
    """
    for model in (StreamSignal, Heartbeat):
        model.model_rebuild()
    return StreamSignal.__pydantic_validator__.validate_json


def read_other(raw: bytes) -> Event:
    """Read an event that `signal_reader` could not. The JSON has its type; the SSE event name is ignored."""
    content = raw.decode("utf-8", "replace").encode()  # the standard replaces bytes that are not UTF-8
    try:
        body = parse_json(content)
    except ValueError as error:
        return _invalid(f"it is not JSON: {error}", raw)
    kind = body.get("type") if isinstance(body, dict) else None
    if not isinstance(kind, str):
        return _invalid("it has no type", raw)
    try:
        if kind == "heartbeat":
            return read_json(Heartbeat.model_validate_json, content)
        if kind == "signal":
            return read_json(StreamSignal.model_validate_json, content)
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


class _Items(Model):
    data: Annotated[list[Any], FailFast(), Field(max_length=MAX_PAGE)]
    next_cursor: str | None = None


def decode_history(chain: int, method: str, url: str, response: RawResponse) -> HistoryPage:
    """A page, without items that cannot be read: one bad price must not hide ninety-nine signals."""
    read = _Items.__pydantic_validator__.validate_json
    page: _Items = validated(read, "a page of Signal", method, url, response)
    signals, invalid = [], []
    for item in page.data:
        content = json.dumps(item)  # NaN and Infinity are refused item by item
        try:
            signal = Signal.model_validate_json(content)
        except ValidationError as error:
            invalid.append(_invalid(explained(error), content.encode(), "history"))
            continue
        if signal.chain_id == chain:
            signals.append(signal)
        else:
            invalid.append(of_another_chain(signal))
    return HistoryPage(signals, page.next_cursor or None, response.headers, invalid)


def unix(moment: datetime) -> float:
    """Unix seconds. Subtracting times with the same zone object takes a third of the time of `timestamp()`."""
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
