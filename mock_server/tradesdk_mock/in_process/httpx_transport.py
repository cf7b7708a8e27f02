"""The service as a transport of httpx, blocking and async: streams, pauses and failures included, without a socket."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

import h11
import httpx

from ..core.errors import MockServerError
from ..core.messages import Request
from .response_stream import ResponseStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..api.context import Context
    from ..api.pipeline import Pipeline

_CLIENT = "127.0.0.1"
_WITH_BODY = ("POST", "PATCH", "PUT")


class MockTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Connects httpx clients, blocking and async, to a service in this process. `MockService.transport` makes one.

    It uses no socket, thread or task. Clients, threads, and tasks under asyncio and trio may share it. Any http or
    https URL reaches the service, whatever its host. Closing it does nothing.

    Errors are those of a real connection: `httpx.ReadTimeout`, `httpx.ReadError` for a reset,
    `httpx.RemoteProtocolError` for an incomplete response. After the service is closed, they are `MockServerError`,
    which no client retries.

    Waits (the fault `latency`, a quiet stream) take real time while the mock's clock runs. A frozen clock is
    moved to the next event: a signal, a heartbeat or the read timeout. Tasks that wait at the same time wait
    together.
    """

    def __init__(self, pipeline: Pipeline, market_port: Callable[[], int]) -> None:
        self._pipeline = pipeline
        self._market_port = market_port

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Handle one request of a blocking client."""
        self._check(request)
        context = self._received(request, request.read())
        stream = self._stream(request, context)
        if stream.begins_late:
            next(stream)
        return stream.response()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Handle one request of an async client."""
        self._check(request)
        context = self._received(request, await request.aread())
        stream = self._stream(request, context)
        if stream.begins_late:
            await anext(stream)
        return stream.response()

    def http_client(self) -> httpx.Client:
        """A client with this transport, for a program that doesn't import httpx. The caller closes it."""
        return httpx.Client(transport=self, trust_env=False)

    def async_http_client(self) -> httpx.AsyncClient:
        """The same for an event loop. The caller closes it."""
        return httpx.AsyncClient(transport=self, trust_env=False)

    def __repr__(self) -> str:
        return f"<MockTransport of MockService(seed={self._pipeline.world.seed})>"

    def _check(self, request: httpx.Request) -> None:
        """Refuse what a real connection would refuse."""
        scheme = request.url.scheme
        if not scheme:
            raise httpx.UnsupportedProtocol("Request URL is missing an 'http://' or 'https://' protocol.")
        if scheme not in ("http", "https", "ws", "wss"):
            raise httpx.UnsupportedProtocol(f"Request URL has an unsupported protocol '{scheme}://'.")
        if self._pipeline.world.closed:
            raise MockServerError("the mock is closed: make requests while it is open")
        try:
            h11.Request(method=request.method, target=_target(request), headers=request.headers.raw)
        except h11.LocalProtocolError as error:
            raise httpx.LocalProtocolError(str(error), request=request) from None

    def _stream(self, request: httpx.Request, context: Context) -> ResponseStream:
        return ResponseStream(self._pipeline.handle(context), request, self._pipeline.world.clock)

    def _received(self, request: httpx.Request, content: bytes) -> Context:
        """The request as it would arrive, routed."""
        path, _, query = _target(request).partition(b"?")
        kept = content if request.method in _WITH_BODY else b""
        received = Request(
            request.method,
            unquote(path.decode("ascii")),
            query,
            [(name.lower(), value) for name, value in request.headers.raw],
            kept if len(kept) <= self._pipeline.longest_body(request.url.path, _CLIENT) else None,
            _CLIENT,
            self._pipeline.world.gaps.b_port == "another" and request.url.port == self._market_port(),
        )
        return self._pipeline.open(received)


def _target(request: httpx.Request) -> bytes:
    target: bytes = request.extensions.get("target", request.url.raw_path)
    return target
