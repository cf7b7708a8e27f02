"""Connections that respect the deadline of a call.

The HTTP library's timeouts apply to each piece: an answer that arrives byte by byte, or after endless `1xx` answers,
would exceed any of them.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable, Iterable
from typing import Any, cast

import httpcore

from .._http.transport_errors import UnsendableError
from .._system.clock import SystemClock
from .._system.sockets import is_readable
from .concurrency import connect, run_to_completion


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
        self.network_stream: httpcore.AsyncNetworkStream | None = None
        self.watch: Callable[[object], None] | None = None

    def reads_from(self, stream: httpcore.AsyncNetworkStream) -> None:
        """Set the network stream: after connecting, and again after TLS."""
        self.network_stream = stream
        if self.watch is not None:
            self.watch(stream)

    def has_leftover(self) -> bool:
        """Whether bytes came after the answer: they would be read as the next answer."""
        http11 = getattr(self._connection, "_h11_state", None)  # not available elsewhere
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
        except UnicodeError as error:  # a name that no resolver takes
            raise UnsendableError(str(error)) from error
        self._connection.reads_from(stream)
        return _AsyncStream(self._connection, stream)


class _AsyncStream(httpcore.AsyncNetworkStream):
    def __init__(self, connection: AsyncDeadlineConnection, inner: httpcore.AsyncNetworkStream) -> None:
        self._connection = connection
        self._inner = inner
        self._socket = inner.get_extra_info("socket")

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._inner.read(max_bytes, self._connection.time_left(timeout, httpcore.ReadTimeout))

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if buffer:  # the end of a body is often empty
            await self._inner.write(buffer, self._connection.time_left(timeout, httpcore.WriteTimeout))

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        try:
            timeout = self._connection.time_left(timeout, httpcore.ConnectTimeout)
            secure = await self._inner.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:  # the library closes the socket after errors, but not when canceled
            await run_to_completion(self._inner.aclose)
            raise
        self._connection.reads_from(secure)
        return _AsyncStream(self._connection, secure)

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable" and self._socket is not None:
            return is_readable(self._socket)  # asked for each call: the layers below would look for it again
        return self._inner.get_extra_info(info)
