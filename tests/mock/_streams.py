"""Streams of a mock, over sockets and in process: read event by event, or as the bytes that arrive."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tradesdk_mock import MockService

STREAM = "/v1/signals/stream"
BASE_CHAIN = {"chain": 8453}

# Event by event


class Stream:
    """An open stream. Its events are dictionaries."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.iter_lines()

    def next(self) -> dict[str, Any]:
        for line in self._lines:
            if line.startswith("data: "):
                found: dict[str, Any] = json.loads(line[6:])
                return found
        raise EOFError("the stream has ended")

    def take(self, count: int) -> list[dict[str, Any]]:
        return [self.next() for _ in range(count)]

    def rest(self) -> list[dict[str, Any]]:
        """Until it ends."""
        return [json.loads(line[6:]) for line in self._lines if line.startswith("data: ")]


@contextmanager
def listening(http: httpx.Client, chain: int = 8453, **options: Any) -> Iterator[Stream]:
    with http.stream("GET", STREAM, params={"chain": chain}, **options) as answer:
        assert answer.status_code == 200, answer.read()
        yield Stream(answer)


@dataclass(frozen=True)
class Event:
    """One event of a stream."""

    data: Any
    id: str | None = None


def first_events(
    http: httpx.Client,
    count: int,
    *,
    timeout: float = 60,
    headers: dict[str, Any] | None = None,
    **query: str,
) -> list[Event]:
    """The first events of a stream of Base. Where the clock stands still, `timeout` is of its seconds."""
    found: list[Event] = []
    ident: str | None = None
    asked = {"chain": "8453", **query}
    with http.stream("GET", "/v1/signals/stream", params=asked, headers=headers, timeout=timeout) as answer:
        assert answer.status_code == 200, answer.read()
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                ident = value
            elif name == "data":
                found.append(Event(json.loads(value), ident))
                ident = None
                if len(found) == count:
                    break
    return found


# Bytes, whatever faults have made of them


def data_of(content: bytes) -> list[str]:
    """The data of the events in a stream that was read to its end, by the rules of the WHATWG."""
    text = content.decode("utf-8", "replace").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    found, data = [], list[str]()
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for line in lines[:-1]:  # a line without an end isn't one
        if not line:
            if data:
                found.append("\n".join(data))
            data = []
        name, _, value = line.partition(":")
        if name == "data":
            data.append(value.removeprefix(" "))
    return found


def signal_id(data: str) -> str | None:
    """The id of the signal in an event's data; None for any other event."""
    try:
        event = json.loads(data)
    except ValueError:
        return None
    is_signal = isinstance(event, dict) and event.get("type") == "signal" and "token_symbol" in event
    return event["id"] if is_signal else None


def ids(content: bytes) -> list[str]:
    """The ids of the signals in a stream."""
    return [ident for data in data_of(content) if (ident := signal_id(data)) is not None]


def emit(mock: MockService, count: int, **fields: Any) -> list[str]:
    return [mock.emit_signal(**fields).id for _ in range(count)]


def listen(mock: MockService, http: httpx.Client, count: int) -> tuple[list[str], bytes, str]:
    """Open the stream, publish so many signals, and read to the end: their ids, what came, and how it ended."""
    came = bytearray()
    with http.stream("GET", STREAM, params=BASE_CHAIN) as answer:
        assert answer.status_code == 200
        emitted = emit(mock, count)
        try:
            for piece in answer.iter_raw():
                came += piece
        except httpx.TransportError as failure:
            return emitted, bytes(came), type(failure).__name__
    return emitted, bytes(came), "end"


class Reader:
    """Reads a stream piece by piece and remembers all of it."""

    def __init__(self, answer: httpx.Response) -> None:
        self._pieces = answer.iter_raw()
        self.came = bytearray()

    def until(self, count: int) -> list[str]:
        """The ids of the signals so far, as soon as they are so many."""
        while len(ids(bytes(self.came))) < count:
            self.came += next(self._pieces)
        return ids(bytes(self.came))

    def until_text(self, text: bytes, times: int = 1) -> None:
        while self.came.count(text) < times:
            self.came += next(self._pieces)

    def rest(self) -> bytes:
        for piece in self._pieces:
            self.came += piece
        return bytes(self.came)
