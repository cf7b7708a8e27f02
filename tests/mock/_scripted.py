"""Responses made by a test, reached over a socket or in process, by a blocking client or by an async one."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx

from tradesdk_mock import MockClock, MockServer, MockService
from tradesdk_mock.api.context import Context
from tradesdk_mock.api.pipeline import Pipeline
from tradesdk_mock.core.messages import BodyStep, Request, Response, WaitForEvent
from tradesdk_mock.core.subscribers import Notifier
from tradesdk_mock.state.world import World

FLAVOURS = ("blocking", "asyncio", "trio")

# A bare context saves every client from loading the certificate store.
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


FOR_EVER = httpx.Timeout(None)


class Scripted(Pipeline):
    """Says what `make` says, and keeps what it was asked."""

    def __init__(self, world: World, make: Callable[[Request], Response]) -> None:
        super().__init__(world)
        self.seen: list[Request] = []
        self.make = make

    def handle(self, context: Context) -> Response:
        self.seen.append(context.request)
        return self.make(context.request)


@contextmanager
def in_process(make: Callable[[Request], Response], clock: MockClock | None = None) -> Iterator[MockService]:
    with MockService(clock=clock, signals="scripted") as service:
        service._pipeline = Scripted(service.world, make)
        yield service


@contextmanager
def over_a_socket(make: Callable[[Request], Response]) -> Iterator[MockServer]:
    server = MockServer(signals="scripted")
    server._pipeline = Scripted(server.world, make)
    with server:
        yield server


def seen(service: MockService) -> list[Request]:
    pipeline = service.pipeline
    assert isinstance(pipeline, Scripted)
    return pipeline.seen


def plain(body: Any = b"", *, status: int = 200, length: int | None = None, before: Any = ()) -> Response:
    """A response whose length is told before, when `length` is given."""
    headers = [(b"content-type", b"text/plain")]
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    return Response(status, headers=headers, body=body, before=list(before))


class Bell(Notifier):
    """Tells when somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.awaited = threading.Event()

    def listen(self, callback: Callable[[], object] | None) -> None:
        super().listen(callback)
        if callback is not None:
            self.awaited.set()


class Body:
    """Steps, and whether they were closed."""

    def __init__(self, steps: Iterator[BodyStep]) -> None:
        self._steps = steps
        self.closed = 0

    def __iter__(self) -> Iterator[BodyStep]:
        return self

    def __next__(self) -> BodyStep:
        return next(self._steps)

    def close(self) -> None:
        self.closed += 1


def once(bell: Notifier, step: WaitForEvent) -> Iterator[BodyStep]:
    yield step
    yield b"woken"


@dataclass
class Outcome:
    """How a request ended, as far as it came."""

    status: int | None = None
    reason: str | None = None
    version: str | None = None
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    pieces: list[int] = field(default_factory=list, compare=False)  # on a socket they come as they like
    error: type[Exception] | None = None
    words: str | None = None
    """What an error says, where clients show it to people."""

    def head(self, response: httpx.Response) -> None:
        self.status, self.reason, self.version = response.status_code, response.reason_phrase, response.http_version
        self.headers = [(name.lower(), value) for name, value in response.headers.multi_items()]

    def take(self, piece: bytes) -> None:
        self.body += piece
        self.pieces.append(len(piece))

    def failed(self, error: httpx.HTTPError) -> None:
        self.error = type(error)
        assert error.request.url.path
        if isinstance(error, httpx.ProtocolError | httpx.UnsupportedProtocol):
            self.words = str(error)


def fetch(
    flavour: str,
    service: MockService,
    method: str = "GET",
    path: str = "/",
    *,
    read: float | None = 5,
    opened: Callable[[], object] = lambda: None,
    **request: Any,
) -> Outcome:
    """Send one request, over the socket of a server or in process, and read the answer piece by piece.

    Args:
        read: the read timeout in seconds.
        opened: called when the head has arrived.
    """
    found = Outcome()
    options: dict[str, Any] = {"base_url": service.url, "trust_env": False, "verify": TLS}
    options["timeout"] = httpx.Timeout(5, read=read)

    def blocking() -> None:
        transport = None if isinstance(service, MockServer) else service.transport()
        with httpx.Client(transport=transport, **options) as http:
            try:
                with http.stream(method, path, **request) as response:
                    found.head(response)
                    opened()
                    for piece in response.iter_raw():
                        found.take(piece)
            except httpx.HTTPError as error:
                found.failed(error)

    async def awaited() -> None:
        transport = None if isinstance(service, MockServer) else service.transport()
        async with httpx.AsyncClient(transport=transport, **options) as http:
            try:
                async with http.stream(method, path, **request) as response:
                    found.head(response)
                    opened()
                    async for piece in response.aiter_raw():
                        found.take(piece)
            except httpx.HTTPError as error:
                found.failed(error)

    if flavour == "blocking":
        blocking()
    else:
        anyio.run(awaited, backend=flavour)
    return found
