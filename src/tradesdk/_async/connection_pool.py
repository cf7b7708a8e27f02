"""Connection pool: idle connections in a last-in-first-out list.

httpx's pool goes through all connections for every request, so its cost grows with the number of tasks. Here a request
takes the connection that was used last and puts it back on top: the cost stays flat, and surplus connections expire.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any, cast

import h11
import httpcore

from .._http.settings import Origin
from .._http.tls import tls_context
from .._system.clock import SystemClock
from .._system.forks import bind
from .._values.http import Headers, SentHeaders
from .concurrency import AsyncLoopBinding, AsyncSemaphore
from .deadline_stream import AsyncDeadlineConnection
from .sending import Outgoing

_NO_BODY = (204, 304)
_LONGEST_TARGET = 65_536  # as httpx has it


class AsyncEmptyBody:
    """The body of a request without one: no pieces. Empty bytes would be a piece, and pass through all of httpcore."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration


_EMPTY_BODY = AsyncEmptyBody()


class _CheckedHeaders:
    """Headers of a client that h11 has checked. Not a tuple: its `repr` would show the API key."""

    __slots__ = ("known", "sent")

    def __init__(self, sent: SentHeaders, host: tuple[bytes, bytes]) -> None:
        self.sent = sent
        self.known: Any = h11.Request(method="GET", target="/", headers=[host, *sent]).headers


class AsyncConnectionPool:
    """Sends by HTTP/1.1, directly: no proxies, no redirects, no retries, no cookies."""

    proxy = ""

    def __init__(self, origin: Origin, *, max_connections: int = 100, keepalive_expiry: float = 5.0) -> None:
        self._origin = origin
        self._host = (b"Host", origin.authority)
        self._max_connections = max_connections
        self._keepalive_expiry = keepalive_expiry
        self._idle: list[AsyncDeadlineConnection] = []
        self._checked: _CheckedHeaders | None = None
        bind(self)
        self.forked()
        self._closed = False

    @property
    def is_closed(self) -> bool:
        return self._closed

    async def enter(self, timeout: float | None) -> Callable[[], None]:
        slots = self._slots
        if not await slots.acquire(timeout):
            raise httpcore.PoolTimeout("no connection became free in time")
        return slots.release

    async def send(self, outgoing: Outgoing) -> AsyncPooledAnswer:
        self._home.check()
        connection = await self._connection()
        try:
            connection.watch = outgoing.watch
            if connection.watch is not None:
                connection.watch(connection)  # another thread may interrupt the wait for the answer
            connection.give_up = SystemClock.monotonic() + outgoing.deadline
            response = await connection.handle_async_request(self._request(outgoing))
        except BaseException:
            await self.finished(connection, whole=False)
            raise
        return AsyncPooledAnswer(self, connection, response)

    def _request(self, outgoing: Outgoing) -> httpcore.Request:
        origin = self._origin
        if len(outgoing.target) > _LONGEST_TARGET:
            raise httpcore.LocalProtocolError("URL too long")
        target = origin.path + outgoing.target.encode()
        url = httpcore.URL(scheme=origin.scheme, host=origin.host, port=origin.port, target=target)
        extensions = {"timeout": outgoing.timeout}
        request = httpcore.Request(outgoing.method, url, content=outgoing.body or _EMPTY_BODY, extensions=extensions)
        request.headers = self._headers(outgoing)  # as an argument, they would all be checked and copied
        return request

    def _headers(self, outgoing: Outgoing) -> Any:
        headers, body = outgoing.headers, outgoing.body
        if body is not None or outgoing.method in ("POST", "PUT", "PATCH"):
            return SentHeaders([self._host, *headers, (b"Content-Length", b"%d" % len(body or b""))])
        # A client sends the same list with every GET. Checking it again would take longer than writing it.
        checked = self._checked
        if checked is None or checked.sent is not headers:
            checked = self._checked = _CheckedHeaders(headers, self._host)
        return checked.known

    def tells_if_sent(self, error: BaseException) -> bool:
        return True  # httpcore's errors are raised as they happen, with no hooks in between

    def forked(self) -> None:
        """Start afresh: to use or close the connections of the process that forked would mix up its answers."""
        self._of_parent = self._idle
        self._idle = []
        self._slots = AsyncSemaphore(self._max_connections)
        self._home = AsyncLoopBinding()

    async def _connection(self) -> AsyncDeadlineConnection:
        while (connection := _taken(self._idle)) is not None:
            if not connection.has_expired():
                return connection
            await connection.aclose()
        origin = self._origin
        return AsyncDeadlineConnection(
            httpcore.Origin(origin.scheme, origin.host, origin.port),
            tls_context() if origin.scheme == b"https" else None,
            self._keepalive_expiry,
        )

    async def finished(self, connection: AsyncDeadlineConnection, *, whole: bool) -> None:
        """Keep a connection if a `whole` answer was read and it can be used again, else close it."""
        connection.watch = None
        if self._closed or not whole or not connection.is_idle() or connection.has_leftover():
            if not connection.is_closed():
                await connection.aclose()
            return
        idle = self._idle
        idle.append(connection)
        if self._closed:  # by another thread, in between
            await self.aclose()
            return
        oldest = next(iter(idle), connection)
        if oldest is not connection and oldest.has_expired():
            with contextlib.suppress(ValueError):  # another thread has just taken it
                idle.remove(oldest)
                await oldest.aclose()

    async def aclose(self) -> None:
        if self._idle or not self._closed:
            self._home.check()
        self._closed = True
        self._checked = None
        while (connection := _taken(self._idle)) is not None:
            await connection.aclose()


def _taken(idle: list[AsyncDeadlineConnection]) -> AsyncDeadlineConnection | None:
    """The connection that was used last, or None. Another thread may take it after the check, hence the `except`."""
    try:
        return idle.pop() if idle else None
    except IndexError:
        return None


class AsyncPooledAnswer:
    coding: str

    def __init__(
        self, pool: AsyncConnectionPool, connection: AsyncDeadlineConnection, response: httpcore.Response
    ) -> None:
        self._pool = pool
        self._connection = connection
        self._response = response
        self._closed = self._whole = False
        self.status = response.status
        self.headers = Headers.received(response.headers)
        self.coding = self.headers.get("content-encoding", "")

    @property
    def connection(self) -> object:
        return self._connection.network_stream or self._connection

    async def __aiter__(self) -> AsyncIterator[bytes]:
        # Runs to its end even when closed early: an unfinished generator would be cleaned up too late.
        try:
            async for chunk in cast(AsyncIterable[bytes], self._response.stream):
                if not self._closed:
                    yield chunk
            self._whole = not self._closed
        except Exception:
            if not self._closed:
                raise

    def wait_for(self, seconds: float) -> None:
        self._connection.give_up = SystemClock.monotonic() + seconds

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        whole = False
        try:
            await self._response.aclose()
            # A body where none is allowed would be read as the next answer.
            whole = self._whole and not (self.status in _NO_BODY and _announces_body(self._response))
        finally:
            await self._pool.finished(self._connection, whole=whole)


def _announces_body(response: httpcore.Response) -> bool:
    return any(
        (name.lower() == b"content-length" and value != b"0") or name.lower() == b"transfer-encoding"
        for name, value in response.headers
    )
