# Generated from src/tradesdk/_async/connection_pool.py by scripts/unasync.py: change that file instead.
"""Connection pool: idle connections in a last-in-first-out list.

httpx's pool goes through all connections for every request, so its cost grows with the number of tasks. Here a request
takes the connection that was used last and puts it back on top: the cost stays flat, and surplus connections expire.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import h11
import httpcore

from .._http.settings import Origin
from .._http.tls import tls_context
from .._system.clock import SystemClock
from .._system.forks import bind
from .._values.http import Headers, SentHeaders
from .concurrency import LoopBinding, Semaphore
from .deadline_stream import DeadlineConnection
from .sending import Outgoing

_NO_BODY = (204, 304)
_LONGEST_TARGET = 65_536  # as httpx has it


class EmptyBody:
    """The body of a request without one: no pieces. Empty bytes would be a piece, and pass through all of httpcore."""

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        raise StopIteration


_EMPTY_BODY = EmptyBody()


class _CheckedHeaders:
    """Headers of a client that h11 has checked. Not a tuple: its `repr` would show the API key."""

    __slots__ = ("known", "sent")

    def __init__(self, sent: SentHeaders, host: tuple[bytes, bytes]) -> None:
        self.sent = sent
        self.known: Any = h11.Request(method="GET", target="/", headers=[host, *sent]).headers


class ConnectionPool:
    """Sends by HTTP/1.1, directly: no proxies, no redirects, no retries, no cookies."""

    proxy = ""

    def __init__(self, origin: Origin, *, max_connections: int = 100, keepalive_expiry: float = 5.0) -> None:
        self._origin = origin
        self._host = (b"Host", origin.authority)
        self._max_connections = max_connections
        self._keepalive_expiry = keepalive_expiry
        self._idle: list[DeadlineConnection] = []
        self._checked: _CheckedHeaders | None = None
        bind(self)
        self.forked()
        self._closed = False

    @property
    def is_closed(self) -> bool:
        return self._closed

    def enter(self, timeout: float | None) -> Callable[[], None]:
        slots = self._slots
        if not slots.acquire(timeout):
            raise httpcore.PoolTimeout("no connection became free in time")
        return slots.release

    def send(self, outgoing: Outgoing) -> PooledAnswer:
        self._home.check()
        connection = self._connection()
        try:
            connection.watch = outgoing.watch
            if connection.watch is not None:
                connection.watch(connection)  # another thread may interrupt the wait for the answer
            connection.give_up = SystemClock.monotonic() + outgoing.deadline
            response = connection.handle_request(self._request(outgoing))
        except BaseException:
            self.finished(connection, whole=False)
            raise
        return PooledAnswer(self, connection, response)

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
        self._slots = Semaphore(self._max_connections)
        self._home = LoopBinding()

    def _connection(self) -> DeadlineConnection:
        while (connection := _taken(self._idle)) is not None:
            if not connection.has_expired():
                return connection
            connection.close()
        origin = self._origin
        return DeadlineConnection(
            httpcore.Origin(origin.scheme, origin.host, origin.port),
            tls_context() if origin.scheme == b"https" else None,
            self._keepalive_expiry,
        )

    def finished(self, connection: DeadlineConnection, *, whole: bool) -> None:
        """Keep a connection if a `whole` answer was read and it can be used again, else close it."""
        connection.watch = None
        if self._closed or not whole or not connection.is_idle() or connection.has_leftover():
            if not connection.is_closed():
                connection.close()
            return
        idle = self._idle
        idle.append(connection)
        if self._closed:  # by another thread, in between
            self.close()
            return
        oldest = next(iter(idle), connection)
        if oldest is not connection and oldest.has_expired():
            with contextlib.suppress(ValueError):  # another thread has just taken it
                idle.remove(oldest)
                oldest.close()

    def close(self) -> None:
        if self._idle or not self._closed:
            self._home.check()
        self._closed = True
        self._checked = None
        while (connection := _taken(self._idle)) is not None:
            connection.close()


def _taken(idle: list[DeadlineConnection]) -> DeadlineConnection | None:
    """The connection that was used last, or None. Another thread may take it after the check, hence the `except`."""
    try:
        return idle.pop() if idle else None
    except IndexError:
        return None


class PooledAnswer:
    coding: str

    def __init__(self, pool: ConnectionPool, connection: DeadlineConnection, response: httpcore.Response) -> None:
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

    def __iter__(self) -> Iterator[bytes]:
        # Runs to its end even when closed early: an unfinished generator would be cleaned up too late.
        try:
            for chunk in cast(Iterable[bytes], self._response.stream):
                if not self._closed:
                    yield chunk
            self._whole = not self._closed
        except Exception:
            if not self._closed:
                raise

    def wait_for(self, seconds: float) -> None:
        self._connection.give_up = SystemClock.monotonic() + seconds

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        whole = False
        try:
            self._response.close()
            # A body where none is allowed would be read as the next answer.
            whole = self._whole and not (self.status in _NO_BODY and _announces_body(self._response))
        finally:
            self._pool.finished(self._connection, whole=whole)


def _announces_body(response: httpcore.Response) -> bool:
    return any(
        (name.lower() == b"content-length" and value != b"0") or name.lower() == b"transfer-encoding"
        for name, value in response.headers
    )
