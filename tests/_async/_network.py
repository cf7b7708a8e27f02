"""A network in memory: what the SDK's own connections are connected to in place of sockets.

They speak HTTP/1.1 with a service of the tests' own, the transport of an HTTP client that lives in virtual time. Only
what the operating system does is left out: what the transport raises is raised by the read.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterable
from typing import Any, cast

import h11
import httpcore
import httpx
import pytest
from anyio.lowlevel import checkpoint  # async only


class AsyncNetwork(httpcore.AsyncNetworkBackend):
    """A network on which every host is `service`. `connections` counts them."""

    def __init__(self, service: httpx.AsyncBaseTransport) -> None:
        self._service = service
        self.connections = 0

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> AsyncWire:
        await checkpoint()  # async only
        self.connections += 1
        return AsyncWire(self._service, host, {"connect": timeout, "read": timeout})


class AsyncWire(httpcore.AsyncNetworkStream):
    """One connection, and the server behind it. A read waits as long as the transport wants, or its timeout says."""

    def __init__(self, service: httpx.AsyncBaseTransport, host: str, timeouts: dict[str, float | None]) -> None:
        self._service = service
        self._host = host
        self._timeouts = timeouts
        self._server = h11.Connection(h11.SERVER)
        self._body: Any = None  # the answer's, while it is read

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await checkpoint()  # async only
        if buffer:  # else it would be the end
            self._server.receive_data(buffer)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        await checkpoint()  # async only
        self._timeouts["read"] = timeout
        if self._body is None:
            return await self._answer()
        piece = await anext(self._body, None)
        return await self._end() if piece is None else self._sent(h11.Data(piece))

    async def _answer(self) -> bytes:
        asked, content = self._server.next_event(), b""
        assert isinstance(asked, h11.Request)
        while isinstance(data := self._server.next_event(), h11.Data):
            content += data.data
        url = f"https://{self._host}{asked.target.decode()}"
        headers, extensions = asked.headers.raw_items(), {"timeout": self._timeouts}
        request = httpx.Request(asked.method.decode(), url, headers=headers, content=content, extensions=extensions)
        response = await self._service.handle_async_request(request)
        head = self._sent(h11.Response(status_code=response.status_code, headers=response.headers.raw))
        self._body, self._close = aiter(cast(AsyncIterable[bytes], response.stream)), response.aclose
        if "content-length" not in response.headers:
            return head
        # Nothing is read after the last byte.
        pieces = [self._sent(h11.Data(piece)) async for piece in self._body]
        return b"".join([head, *pieces, await self._end()])

    def _sent(self, event: h11.Event) -> bytes:
        return self._server.send(event) or b""

    async def _end(self) -> bytes:
        """The end of an answer; the connection may be used again."""
        await self._close_body()
        last = self._sent(h11.EndOfMessage())
        self._server.start_next_cycle()
        return last

    async def _close_body(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            with contextlib.suppress(AttributeError):  # not every iterator is a generator
                await body.aclose()
            await self._close()

    async def aclose(self) -> None:
        await self._close_body()

    async def start_tls(self, ssl_context: ssl.SSLContext, *_: Any, **__: Any) -> AsyncWire:
        return self

    def get_extra_info(self, info: str) -> Any:
        return False if info == "is_readable" else None


def networked(patch: pytest.MonkeyPatch, service: httpx.AsyncBaseTransport) -> AsyncNetwork:
    """From now on, clients with connections of their own reach `service`."""
    network = AsyncNetwork(service)
    patch.setattr(httpcore, "AnyIOBackend", lambda: network)
    patch.setattr("tradesdk._async.connection_pool.connect", lambda backend, *where: backend.connect_tcp(*where))
    return network
