"""What the tests of faults share: a mock over sockets or in process, plain clients, and readers of its streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tradesdk_mock import FaultRule, MockClock, MockServer, MockService

from ._support import _TLS, FULL, START

CARRIERS = ("sockets", "in process")
STREAM = "/v1/signals/stream"
ASK = {"chain": 8453}


@contextmanager
def carried(carrier: str, **options: Any) -> Iterator[MockService]:
    """A mock whose clock is frozen and whose market is silent."""
    made = MockServer if carrier == "sockets" else MockService
    with made(**{"clock": MockClock(START), "signals": "scripted", **options}) as mock:
        mock.set_gaps(heartbeat=0)
        yield mock


def connect(mock: MockService, key: str | None = FULL, read_timeout: float = 30) -> httpx.Client:
    """A plain client of a mock, over sockets or in process."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    transport = None if isinstance(mock, MockServer) else mock.transport()
    timeout = httpx.Timeout(30, read=read_timeout)
    return httpx.Client(
        base_url=mock.url, headers=headers, transport=transport, verify=_TLS, trust_env=False, timeout=timeout
    )


def fault(mock: MockService, **conditions: Any) -> FaultRule:
    """A rule that `hit` can tell from any answer of the service."""
    return mock.add_fault("status", status=599, **conditions)


def hit(http: httpx.Client, path: str = "/v1/account", method: str = "GET", **options: Any) -> bool:
    """Whether a rule made by `fault` applied to this request."""
    return http.request(method, path, **options).status_code == 599


def events(content: bytes) -> list[str]:
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
    return [ident for data in events(content) if (ident := signal_id(data)) is not None]


def emit(mock: MockService, count: int, **fields: Any) -> list[str]:
    return [mock.emit_signal(**fields).id for _ in range(count)]


def listen(mock: MockService, http: httpx.Client, count: int) -> tuple[list[str], bytes, str]:
    """Open the stream, publish so many signals, and read to the end: their ids, what came, and how it ended."""
    came = bytearray()
    with http.stream("GET", STREAM, params=ASK) as answer:
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
