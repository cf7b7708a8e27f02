"""Connections to the service, kept in a last-in-first-out list.

httpx's own pool looks through every connection for every request, which costs more the more tasks share it. Here a
request takes the connection that was used last and puts it back on top: the cost stays flat, and surplus connections
age at the bottom.
"""

from __future__ import annotations

import contextlib
import math
import ssl
import time
from collections.abc import AsyncIterator
from weakref import ReferenceType

import httpcore
import httpx

from .._httpx import Place
from .concurrency import AsyncLoopBinding, AsyncSemaphore
from .deadline_stream import AsyncDeadlineConnection

_ERRORS = (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol)


class AsyncConnectionPool(httpx.AsyncBaseTransport):
    """HTTP/1.1 straight to the service: no proxies, no redirects, no retries."""

    def __init__(self, *, max_connections: int = 100, keepalive_expiry: float = 5.0) -> None:
        self._home = AsyncLoopBinding()
        self._max_connections = max_connections
        self._slots = AsyncSemaphore(max_connections)
        self._keepalive_expiry = keepalive_expiry
        self._idle: dict[tuple[bytes, bytes, int | None], list[AsyncDeadlineConnection]] = {}
        self._tls: ssl.SSLContext | None = None
        self._closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        if self._home.is_new():
            self._start_afresh()
        # A stream takes none: it lasts, and a hundred of them would leave none for calls.
        place: ReferenceType[Place] | None = request.extensions.get("place")
        if place is not None and not await self._slots.take(request.extensions["timeout"]["pool"], place):
            raise httpx.PoolTimeout("no connection became free in time", request=request)
        connection = None
        try:
            connection = await self._connection(url)
            connection.place = place
            connection.watch = request.extensions.get("watch")
            if connection.watch is not None:
                connection.watch(connection)  # whoever waits for the answer may want to be woken by another thread
            connection.give_up = time.monotonic() + request.extensions.get("deadline", math.inf)
            response = await connection.handle_async_request(
                httpcore.Request(
                    method=request.method,
                    url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        except BaseException as error:
            if connection is not None:
                await self.finished(url, connection, whole=False)
            elif place is not None:
                self._slots.give_back(place)
            if isinstance(error, _ERRORS):
                raise _as_httpx(error, request) from error
            raise
        return httpx.Response(
            status_code=response.status,
            headers=response.headers,
            stream=AsyncBody(self, request, connection, response),
            extensions=response.extensions,
        )

    def _start_afresh(self) -> None:
        # In a forked process the old connections belong to the parent: using or closing them would mix up its answers.
        self._of_parent = self._idle
        self._idle = {}
        self._slots = AsyncSemaphore(self._max_connections)
        self._home = AsyncLoopBinding()

    async def _connection(self, url: httpx.URL) -> AsyncDeadlineConnection:
        idle = self._idle.get((url.raw_scheme, url.raw_host, url.port))
        while (connection := _taken(idle)) is not None:
            if not connection.has_expired():
                return connection
            await connection.aclose()
        secure = url.scheme == "https"
        return AsyncDeadlineConnection(
            httpcore.Origin(url.raw_scheme, url.raw_host, url.port or (443 if secure else 80)),
            self._tls_context() if secure else None,
            self._keepalive_expiry,
        )

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:  # reading the certificates takes 20 ms, and plain loopback never needs them
            self._tls = httpx.create_ssl_context()
        return self._tls

    async def finished(self, url: httpx.URL, connection: AsyncDeadlineConnection, *, whole: bool) -> None:
        """A connection is no longer in use: keep it if it can serve again, else close it.

        What was not read as a `whole` may have been interrupted anywhere, even where the library holds its own lock.
        """
        place = connection.place  # now: once it is back in the list, somebody else may have it
        connection.watch = None
        try:
            if connection.is_closed():
                return
            if self._closed or not whole or not connection.is_idle() or connection.has_leftover():
                await connection.aclose()
                return
            idle = self._idle.setdefault((url.raw_scheme, url.raw_host, url.port), [])
            idle.append(connection)
            if self._closed:  # in the meantime
                await self.aclose()
                return
            oldest = next(iter(idle), connection)
            if oldest is not connection and oldest.has_expired():
                with contextlib.suppress(ValueError):  # it was taken just now
                    idle.remove(oldest)
                    await oldest.aclose()
        finally:
            if place is not None:
                self._slots.give_back(place)

    async def aclose(self) -> None:
        self._closed = True
        for idle in list(self._idle.values()):
            while (connection := _taken(idle)) is not None:
                await connection.aclose()


def _taken(idle: list[AsyncDeadlineConnection] | None) -> AsyncDeadlineConnection | None:
    """The connection that was used last. Asking whether there is one first would be too late among threads."""
    try:
        return idle.pop() if idle else None
    except IndexError:
        return None


class AsyncBody(httpx.AsyncByteStream):
    """The body of a response; closing it gives its connection back."""

    def __init__(
        self,
        connections: AsyncConnectionPool,
        request: httpx.Request,
        connection: AsyncDeadlineConnection,
        response: httpcore.Response,
    ) -> None:
        self._connections = connections
        self._request = request
        self._connection = connection
        self._response = response
        self._closed = self._whole = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        # Closed early, it still comes to its end: a generator that is left in the middle is cleaned up too late.
        try:
            async for chunk in self._response.aiter_stream():
                if not self._closed:
                    yield chunk
            self._whole = not self._closed
        except _ERRORS as error:
            if not self._closed:
                raise _as_httpx(error, self._request) from error

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        whole = False
        try:
            await self._response.aclose()
            # The body of an answer that may have none would be read as the next answer.
            whole = self._whole and not (self._response.status in (204, 304) and _announces_body(self._response))
        finally:
            await self._connections.finished(self._request.url, self._connection, whole=whole)


def _announces_body(response: httpcore.Response) -> bool:
    return any(
        (name.lower() == b"content-length" and value != b"0") or name.lower() == b"transfer-encoding"
        for name, value in response.headers
    )


def _as_httpx(error: Exception, request: httpx.Request) -> httpx.TransportError:
    """httpcore's errors have the same names in httpx."""
    kind: type[httpx.TransportError] = getattr(httpx, type(error).__name__, httpx.TransportError)
    return kind(str(error), request=request)
