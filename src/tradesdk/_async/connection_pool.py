"""Connection pool: idle connections in a last-in-first-out list.

httpx's pool goes through all connections for every request, so its cost grows with the number of tasks. Here a request
takes the connection that was used last and puts it back on top: the cost stays flat, and surplus connections expire.

The HTTP library's timeouts apply to each piece: a response that arrives byte by byte, or after endless `1xx`
responses, would exceed any of them. So connections respect the deadline of a call.

h11 has the rules of HTTP/1.1, httpcore the sockets and TLS.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket
import sys
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from typing import Any, cast

import h11
import httpcore

from .._http.settings import Origin
from .._http.tls import tls_context
from .._http.transport_errors import UnsendableError, transport_error
from .._system.clock import SystemClock
from .._system.forks import bind
from .._system.interrupts import failures
from .._values.http import Headers, SentHeaders
from ..errors import TradeError
from .concurrency import AsyncLoopBinding, AsyncSemaphore, close_now, connect, holds_bytes
from .sending import CLOSED, Outgoing

_NO_BODY = (204, 304)
_LONGEST_TARGET = 65_536  # the same as httpx
_LONGEST_HEAD = 100 * 1024  # the same as httpcore
_AT_ONCE = 64 * 1024


class _CheckedHeaders:
    """Headers of a client that h11 has checked. Not a tuple: a tuple's `repr` would show the API key."""

    __slots__ = ("known", "sent")

    def __init__(self, sent: SentHeaders, host: tuple[bytes, bytes]) -> None:
        self.sent = sent
        self.known: Any = h11.Request(method="GET", target="/", headers=[host, *sent]).headers


class _Written(bytes):
    """A request, or a piece of it. The key is in it and the layers below hold it, so its `repr` shows nothing."""

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return _Written(found) if isinstance(found, bytes) else found

    def __repr__(self) -> str:
        return f"<{len(self)} bytes>"


class AsyncConnectionPool:
    """Sends by HTTP/1.1, directly: no proxies, no redirects, no retries, no cookies."""

    proxy = ""

    def __init__(self, origin: Origin, *, max_connections: int = 100, keepalive_expiry: float = 5.0) -> None:
        self._origin = origin
        self._host = (b"Host", origin.authority)
        self._max_connections = max_connections
        self._keepalive_expiry = keepalive_expiry
        self._idle: list[AsyncConnection] = []
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
        request, connection = self._request(outgoing), await self._connection()
        try:
            connection.wire.begin(outgoing)
            response = await connection.handle_async_request(request)  # respx replaces it
            return AsyncPooledAnswer(self, connection, response)
        except BaseException:
            await connection.wire.aclose()
            raise

    def _request(self, outgoing: Outgoing) -> httpcore.Request:
        origin = self._origin
        if len(outgoing.target) > _LONGEST_TARGET:
            raise httpcore.LocalProtocolError("URL too long")
        target = origin.path + outgoing.target.encode()
        url = httpcore.URL(scheme=origin.scheme, host=origin.host, port=origin.port, target=target)
        most = max(outgoing.deadline, 0.001)
        timeout = {part: seconds and min(seconds, most) for part, seconds in outgoing.timeout.items()}
        request = httpcore.Request(outgoing.method, url, content=outgoing.body, extensions={"timeout": timeout})
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

    async def _connection(self) -> AsyncConnection:
        while (connection := _popped(self._idle)) is not None:
            if not connection.wire.has_expired():
                return connection
            await connection.wire.aclose()
        return AsyncConnection(self._origin)

    async def finished(self, connection: AsyncConnection, *, whole: bool) -> None:
        """Keep a connection if a `whole` response was read and it can be reused, else close it."""
        if self._closed or not whole or not connection.wire.reuse(self._keepalive_expiry):
            await connection.wire.aclose()
            return
        idle = self._idle
        idle.append(connection)
        if self._closed:  # closed meanwhile by another thread
            await self.aclose()
            return
        oldest = next(iter(idle), connection)
        if oldest is not connection and oldest.wire.has_expired():
            with contextlib.suppress(ValueError):  # another thread has just taken it
                idle.remove(oldest)
                await oldest.wire.aclose()

    async def aclose(self) -> None:
        if self._idle or not self._closed:
            self._home.check()
        self._closed = True
        self._checked = None
        while (connection := _popped(self._idle)) is not None:
            await connection.wire.aclose()


def _popped(idle: list[AsyncConnection]) -> AsyncConnection | None:
    """The connection that was used last, or None. Another thread may take it after the check, hence the `except`."""
    try:
        return idle.pop() if idle else None
    except IndexError:
        return None


def _ignore(reading: object) -> None:
    """Watch nothing."""


class AsyncPooledAnswer:
    coding: str

    def __init__(self, pool: AsyncConnectionPool, connection: AsyncConnection, response: httpcore.Response) -> None:
        self._pool = pool
        self._connection = connection
        self._response = response
        self._closed = self._whole = False
        self.status = response.status
        self.headers = Headers.received(response.headers)
        self.coding = self.headers.get("content-encoding", "")

    @property
    def connection(self) -> object:
        return self._connection.wire.stream

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
        self._connection.wire.give_up = SystemClock.monotonic() + seconds

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        whole = self._whole and not (self.status in _NO_BODY and self._announces_body())
        await self._pool.finished(self._connection, whole=whole)

    def _announces_body(self) -> bool:
        """Whether a body follows, although none may: it would be read as the next response."""
        return "transfer-encoding" in self.headers or self.headers.get("content-length", "0") != "0"


class AsyncConnection(httpcore.AsyncHTTPConnection):
    """A connection as httpcore knows it. Its own `_connection` would lock and trace each step of a request."""

    def __init__(self, origin: Origin) -> None:
        super().__init__(httpcore.Origin(origin.scheme, origin.host, origin.port))
        self.wire = AsyncWire(origin)
        self._connection = cast(Any, self.wire)
        self._request_lock = cast(Any, contextlib.nullcontext())

    def info(self) -> str:
        return "CONNECTING" if self.wire.stream is None else "HTTP/1.1"


class AsyncWire:
    """A connection by HTTP/1.1, for one request at a time. It connects at the first one.

    Reads and writes end by `give_up`, a time of `SystemClock.monotonic`.
    """

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._http = h11.Connection(h11.CLIENT, _LONGEST_HEAD)
        self._body: bytes | None = None
        self._timeout: Mapping[str, float | None] = {}
        self._watch: Callable[[object], None] = _ignore
        self._socket: socket.socket | None = None
        self._tls: Any = None
        self._filled = False  # the last read was as long as it may be, so the layers below may hold more
        self.stream: httpcore.AsyncNetworkStream | None = None
        self.give_up = self.expires = math.inf

    def begin(self, outgoing: Outgoing) -> None:
        """Get ready to send a request. Another thread may then interrupt what waits."""
        self._body, self._watch = outgoing.body, outgoing.watch or _ignore
        self.give_up = SystemClock.monotonic() + outgoing.deadline
        self._watch(self.stream)

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        """Send a request, and read the head of its response."""
        self._timeout = request.extensions["timeout"]
        stream = self.stream or await self._connected()
        written = self._written(request)
        expired: type[httpcore.TimeoutException] = httpcore.ConnectTimeout  # nothing was sent
        try:
            for start in range(0, len(written), _AT_ONCE):
                await stream.write(written[start : start + _AT_ONCE], self._left("write", expired))
                expired = httpcore.WriteTimeout
        except httpcore.WriteError as error:
            if not transport_error(error):  # a caller's time limit
                raise
            self._http.send_failed()  # the response may have come before the whole request was read
        while isinstance(head := await self._event(), h11.InformationalResponse):
            pass
        return httpcore.Response(head.status_code, headers=head.headers.raw_items(), content=self)

    async def _connected(self) -> httpcore.AsyncNetworkStream:
        host, backend = self._origin.host.decode("ascii"), httpcore.AnyIOBackend()
        left = self._left("connect", httpcore.ConnectTimeout)
        try:
            stream: httpcore.AsyncNetworkStream = await connect(backend, host, self._origin.port, left)
        except UnicodeError as error:  # the name is not valid for a resolver
            raise UnsendableError(str(error)) from error
        self.stream = stream
        self._watch(stream)
        if self._origin.scheme == b"https":
            tls = tls_context()
            tls.set_alpn_protocols(["http/1.1"])
            stream = self.stream = await stream.start_tls(tls, host, self._left("connect", httpcore.ConnectTimeout))
            self._watch(stream)
        # The layers below would find both again each time.
        self._socket, self._tls = stream.get_extra_info("socket"), stream.get_extra_info("ssl_object")
        return stream

    def _written(self, request: httpcore.Request) -> _Written:
        """A whole request, for one packet."""
        send, body = self._http.send, self._body
        try:
            head = send(h11.Request(method=request.method, target=request.url.target, headers=request.headers))
            content = send(h11.Data(data=body)) if body else b""
            return _Written(b"".join([head or b"", content or b"", send(h11.EndOfMessage()) or b""]))
        except h11.LocalProtocolError as error:
            raise httpcore.LocalProtocolError(str(error)) from error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces of the body."""
        while isinstance(event := await self._event(), h11.Data):
            yield bytes(event.data)

    async def _event(self) -> Any:
        http, stream = self._http, self.stream
        assert stream is not None  # noqa: S101 - a request was sent
        while True:
            try:
                event = http.next_event()
            except h11.RemoteProtocolError as error:
                raise httpcore.RemoteProtocolError(str(error)) from error
            if event is not h11.NEED_DATA:
                return event
            data = await stream.read(_AT_ONCE, self._left("read", httpcore.ReadTimeout))
            self._filled = len(data) == _AT_ONCE
            if not data and http.their_state is h11.SEND_RESPONSE:
                raise httpcore.RemoteProtocolError("no response came")
            http.receive_data(data)

    def _left(self, part: str, expired: type[httpcore.TimeoutException]) -> float | None:
        """The time-out of a part, at most the seconds left until `give_up`."""
        timeout, left = self._timeout[part], self.give_up - SystemClock.monotonic()
        if left <= 0:
            raise expired("the deadline has passed")
        return timeout if left == math.inf else left if timeout is None else min(timeout, left)

    def reuse(self, seconds: float) -> bool:
        """Get ready for another request within so many seconds. False if the connection cannot be reused."""
        http = self._http
        # Bytes that came after the response would be read as the next one.
        if not http.our_state is http.their_state is h11.DONE or http.trailing_data[0] or self._filled:
            return False
        http.start_next_cycle()
        self._watch(None)  # another thread may use it next
        self._watch, self._body = _ignore, None
        self.expires = SystemClock.monotonic() + seconds
        return True

    def has_expired(self) -> bool:
        """Whether it was idle for too long, or the service has closed it."""
        if SystemClock.monotonic() > self.expires or (self._socket is not None and _is_readable(self._socket)):
            return True
        return self._tls is not None and holds_bytes(self._tls)

    async def aclose(self) -> None:
        if self.stream is not None:
            await close_now(self.stream)


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
