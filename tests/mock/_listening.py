"""Open streams, over sockets and in process, read event by event."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tradesdk_mock import MockClock, MockServer, MockService

from ._support import FULL, START, client, in_process

CARRIERS = ("sockets", "in process")
PATH = "/v1/signals/stream"


@contextmanager
def carried(carrier: str, **options: Any) -> Iterator[MockService]:
    """A mock whose time stands still and whose market is silent, unless the options say otherwise."""
    made = MockServer if carrier == "sockets" else MockService
    with made(**{"clock": MockClock(START), "signals": "scripted", **options}) as mock:
        yield mock


def connect(mock: MockService, key: str | None = FULL) -> httpx.Client:
    """In process timeouts are of the mock's clock: there, sixteen seconds without a heartbeat are too long."""
    http = client(mock, key) if isinstance(mock, MockServer) else in_process(mock, key)
    http.timeout = httpx.Timeout(16)
    return http


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
    with http.stream("GET", PATH, params={"chain": chain}, **options) as answer:
        assert answer.status_code == 200, answer.read()
        yield Stream(answer)
