"""What the tests of faults share: a mock over sockets or in process, raw bytes of a socket, a reader of events."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import httpx
import pytest

from tradesdk_mock import MockClock, MockServer
from tradesdk_mock.control.service import MockService
from tradesdk_mock.faults.rules import FaultRule

from ._support import _TLS, FULL, START

CARRIERS = ("sockets", "in process")
STREAM = "/v1/signals/stream"
ASK = {"chain": 8453}


@contextmanager
def carried(carrier: str, **options: Any) -> Iterator[MockService]:
    """A mock whose time stands still and whose market is silent."""
    made = MockServer if carrier == "sockets" else MockService
    with made(clock=MockClock(START), signals="scripted", **options) as mock:
        mock.set_gaps(heartbeat=0)
        yield mock


def connect(mock: MockService, key: str | None = FULL, read_timeout: float = 30) -> httpx.Client:
    """A plain client of a mock, over whatever carries it."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    transport = None if isinstance(mock, MockServer) else mock.transport()
    timeout = httpx.Timeout(30, read=read_timeout)
    return httpx.Client(
        base_url=mock.url, headers=headers, transport=transport, verify=_TLS, trust_env=False, timeout=timeout
    )


@dataclass
class Raw:
    """What came over a socket until its end."""

    head: bytes
    body: bytes
    end: Literal["eof", "reset"]


def read_raw(mock: MockServer, target: str, method: str = "GET", key: str = FULL) -> Raw:
    """One request on a socket of its own, and every byte that comes back."""
    with socket.create_connection(("127.0.0.1", mock.port), timeout=30) as connection:
        connection.sendall(
            f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
            "Connection: close\r\n\r\n".encode()
        )
        came = bytearray()
        end: Literal["eof", "reset"] = "eof"
        try:
            while piece := connection.recv(65_536):
                came += piece
        except ConnectionResetError:
            end = "reset"
    head, _, body = bytes(came).partition(b"\r\n\r\n")
    return Raw(head, body, end)


def read_until(answer: httpx.Response, error: type[httpx.TransportError], words: str) -> bytes:
    """The bytes of a body that come before this error."""
    came = bytearray()

    def read() -> None:
        for piece in answer.iter_raw():
            came.extend(piece)

    with pytest.raises(error, match=words):
        read()
    return bytes(came)


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


def ids(content: bytes) -> list[str]:
    """The ids of the signals in a stream, garbage left aside."""
    found = []
    for data in events(content):
        try:
            event = json.loads(data)
        except ValueError:
            continue
        if isinstance(event, dict) and event.get("type") == "signal" and "token_symbol" in event:
            found.append(event["id"])
    return found


def emit(mock: MockService, count: int) -> list[str]:
    return [mock.emit_signal().id for _ in range(count)]


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


@contextmanager
def beating(mock: MockService) -> Iterator[None]:
    """The mock's time goes on by itself, a thousand times as fast."""
    mock.clock.move(freeze=False, speed=1_000)
    yield
    mock.clock.freeze()


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

    def until_heartbeat(self) -> None:
        while b'"heartbeat"' not in self.came:
            self.came += next(self._pieces)

    def rest(self) -> bytes:
        for piece in self._pieces:
            self.came += piece
        return bytes(self.came)


def hit(http: httpx.Client, path: str = "/v1/account", method: str = "GET", **options: Any) -> bool:
    return http.request(method, path, **options).status_code == 599


def fault(mock: MockService, **conditions: Any) -> FaultRule:
    return mock.add_fault("status", status=599, **conditions)
