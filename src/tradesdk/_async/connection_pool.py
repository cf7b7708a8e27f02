"""Connection pool: idle connections in a last-in-first-out list.

httpx's pool goes through all connections for every request, so its cost grows with the number of tasks. Here a request
takes the connection that was used last and puts it back on top: the cost stays flat, and surplus connections expire.

The HTTP library's timeouts apply to each piece: a response that arrives byte by byte, or after endless `1xx`
responses, would exceed any of them. So connections respect the deadline of a call.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket
import ssl
import sys
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import Any, cast

import h11
import httpcore

from .._http.settings import Origin
from .._http.tls import tls_context
from .._http.transport_errors import UnsendableError
from .._system.clock import SystemClock
from .._system.forks import bind
from .._system.interrupts import failures
from .._values.http import Headers, SentHeaders
from ..errors import TradeError
from .concurrency import AsyncLoopBinding, AsyncSemaphore, connect, run_to_completion
from .sending import CLOSED, Outgoing

_NO_BODY = (204, 304)
_LONGEST_TARGET = 65_536  # the same as httpx


class AsyncEmptyBody:
    """The body of a request without one: no pieces. Empty bytes would be a piece, and go through all of httpcore."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration


_EMPTY_BODY = AsyncEmptyBody()


class _CheckedHeaders:
    """Headers of a client that h11 has checked. Not a tuple: a tuple's `repr` would show the API key."""

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
        if self._closed:
            raise TradeError(CLOSED)
        slots = self._slots
        if not await slots.acquire(timeout):
            raise httpcore.PoolTimeout("no connection became free in time")
        return slots.release

    async def send(self, outgoing: Outgoing) -> AsyncPooledAnswer:
        self._home.check()  # async only
        connection = await self._connection()
        try:
            connection.watch = outgoing.watch
            if connection.watch is not None:
                connection.watch(connection)  # another thread may interrupt the wait for the response
            connection.holds_head = bool(outgoing.body)
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
        most = max(outgoing.deadline, 0.001)
        parts = {part: seconds and min(seconds, most) for part, seconds in outgoing.timeout.items()}
        extensions = {"timeout": parts}
        request = httpcore.Request(outgoing.method, url, content=outgoing.body or _EMPTY_BODY, extensions=extensions)
        request.headers = self._headers(outgoing)  # as an argument, all headers would be checked and copied
        return request

    def _headers(self, outgoing: Outgoing) -> Any:
        headers, body = outgoing.headers, outgoing.body
        if body is not None or outgoing.method in ("POST", "PUT", "PATCH"):
            return SentHeaders([self._host, *headers, (b"Content-Length", b"%d" % len(body or b""))])
        # A client sends the same list with every GET. Checking it again would take longer than sending it.
        checked = self._checked
        if checked is None or checked.sent is not headers:
            checked = self._checked = _CheckedHeaders(headers, self._host)
        return checked.known

    def tells_if_sent(self, error: BaseException) -> bool:
        return True  # httpcore's errors arrive unchanged, with no hooks in between

    def forked(self) -> None:
        """Start over: using or closing the parent's connections would mix up its responses."""
        self._of_parent = self._idle
        self._idle = []
        self._slots = AsyncSemaphore(self._max_connections)
        self._home = AsyncLoopBinding()

    async def _connection(self) -> AsyncDeadlineConnection:
        while (connection := _popped(self._idle)) is not None:
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
        """Keep a connection if a `whole` response was read and it can be reused, else close it."""
        connection.watch = None
        if self._closed or not whole or not connection.is_idle() or connection.has_leftover():
            if not connection.is_closed():
                await connection.aclose()
            return
        idle = self._idle
        idle.append(connection)
        if self._closed:  # closed meanwhile by another thread
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
        while (connection := _popped(self._idle)) is not None:
            await connection.aclose()


def _popped(idle: list[AsyncDeadlineConnection]) -> AsyncDeadlineConnection | None:
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
        # Runs to its end even if closed early: an unfinished generator would be cleaned up too late.
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
            # A body where none is allowed would be read as the next response.
            whole = self._whole and not (self.status in _NO_BODY and _announces_body(self._response))
        finally:
            await self._pool.finished(self._connection, whole=whole)


def _announces_body(response: httpcore.Response) -> bool:
    return any(
        (name.lower() == b"content-length" and value != b"0") or name.lower() == b"transfer-encoding"
        for name, value in response.headers
    )


class AsyncDeadlineConnection(httpcore.AsyncHTTPConnection):
    """A connection whose reads and writes end by `give_up`, a time of `SystemClock.monotonic`."""

    def __init__(self, origin: httpcore.Origin, ssl_context: ssl.SSLContext | None, keepalive_expiry: float) -> None:
        super().__init__(
            origin=origin,
            ssl_context=ssl_context,
            keepalive_expiry=keepalive_expiry,
            network_backend=_AsyncBackend(self),
        )
        self.give_up = math.inf
        self.holds_head = False
        """Whether the next write is the head of a request with a body: both are sent together, in one packet."""
        self.network_stream: httpcore.AsyncNetworkStream | None = None
        self.watch: Callable[[object], None] | None = None

    def reads_from(self, stream: httpcore.AsyncNetworkStream) -> None:
        """Set the network stream: after connecting, and again after TLS."""
        self.network_stream = stream
        if self.watch is not None:
            self.watch(stream)

    def has_leftover(self) -> bool:
        """Whether bytes came after the response: they would be read as the next response."""
        http11 = getattr(self._connection, "_h11_state", None)  # h11 shows it only here
        return http11 is not None and bool(http11.trailing_data[0])

    def time_left(self, timeout: float | None, expired: type[httpcore.TimeoutException]) -> float | None:
        """`timeout`, at most the seconds left until `give_up`."""
        left = self.give_up - SystemClock.monotonic()
        if left <= 0:
            raise expired("the deadline has passed")
        return timeout if left == math.inf else left if timeout is None else min(timeout, left)


class _AsyncBackend(httpcore.AsyncNetworkBackend):
    def __init__(self, connection: AsyncDeadlineConnection) -> None:
        self._connection = connection
        self._inner = cast(httpcore.AsyncNetworkBackend, httpcore.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        timeout = self._connection.time_left(timeout, httpcore.ConnectTimeout)
        try:
            stream = await connect(self._inner, host, port, timeout, local_address, socket_options)
        except UnicodeError as error:  # the name is not valid for a resolver
            raise UnsendableError(str(error)) from error
        self._connection.reads_from(stream)
        return _AsyncStream(self._connection, stream)


class _AsyncStream(httpcore.AsyncNetworkStream):
    def __init__(self, connection: AsyncDeadlineConnection, inner: httpcore.AsyncNetworkStream) -> None:
        self._connection = connection
        self._inner = inner
        self._socket = inner.get_extra_info("socket")
        self._head = b""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._head:  # the body is missing
            await self.write(b"", timeout)
        return await self._inner.read(max_bytes, self._connection.time_left(timeout, httpcore.ReadTimeout))

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self._connection.holds_head:
            self._connection.holds_head, self._head = False, buffer
            return
        head, self._head = self._head, b""
        if head or buffer:
            await self._inner.write(head + buffer, self._connection.time_left(timeout, httpcore.WriteTimeout))

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        try:
            timeout = self._connection.time_left(timeout, httpcore.ConnectTimeout)
            secure = await self._inner.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:  # the library closes the socket after errors, but not after a cancellation
            await run_to_completion(self._inner.aclose)
            raise
        self._connection.reads_from(secure)
        return _AsyncStream(self._connection, secure)

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable" and self._socket is not None:
            return _is_readable(self._socket)  # the layers below would have to find the socket again
        return self._inner.get_extra_info(info)


def _is_readable(sock: socket.socket) -> bool:
    """Whether a read would not wait: data came, or either side has closed."""
    try:
        if sys.platform == "win32":
            return bool(select.select([sock], [], [], 0)[0])
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))
    except failures(ValueError):  # another of our threads has just closed it
        return True
