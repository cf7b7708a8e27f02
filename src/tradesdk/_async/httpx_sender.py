"""Sends through an httpx or httpx2 client: a given one, or the SDK's own if the environment names a proxy."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl

from .._http.proxies import Proxy, unusable
from .._http.settings import SecretPath
from .._http.tls import tls_context
from .._http.transport_errors import UnsendableError, before_sending
from .._system.clock import SystemClock
from .._values.http import Headers
from ..errors import TradeError
from .concurrency import AsyncLoopBinding
from .sending import CLOSED, Outgoing


class AsyncHttpClient(Protocol):
    """An `AsyncClient` of httpx or httpx2."""

    @property
    def is_closed(self) -> bool: ...
    @property
    def base_url(self) -> Any: ...
    def build_request(self, *args: Any, **options: Any) -> Any: ...
    async def send(self, *args: Any, **options: Any) -> Any: ...
    async def aclose(self) -> None: ...


def proxied_client(proxy: Proxy) -> AsyncHttpClient:
    """A client that sends everything through `proxy`. It reads nothing else from the environment."""
    import httpx

    tls = tls_context()
    of_proxy = tls if proxy.url.startswith("https:") else None
    try:
        through = httpx.Proxy(proxy.url, auth=proxy.auth, ssl_context=of_proxy)
        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        return httpx.AsyncClient(proxy=through, trust_env=False, verify=tls, cookies=no_cookies)
    except ImportError:
        raise unusable(proxy.name, 'SOCKS needs another package: pip install "httpx[socks]>=0.28.1,<0.29"') from None
    except (httpx.InvalidURL, ValueError):
        raise unusable(proxy.name, "its host name is invalid") from None


class AsyncHttpxSender:
    """Sends through `client`: a given one, or the SDK's own for the proxy that the variable `proxy` names."""

    def __init__(
        self, base_url: str, client: AsyncHttpClient, *, proxy: str = "", secret_path: SecretPath | None = None
    ) -> None:
        self.proxy = proxy
        self._base_url = base_url
        self._secret_path = secret_path
        self._client = client
        self._owned = bool(proxy)
        self._home = AsyncLoopBinding()
        # The transport of a test, or of the mock, has no connections that belong to an event loop.
        self._connects = type(getattr(client, "_transport", None)).__name__.endswith("HTTPTransport")

    @property
    def is_closed(self) -> bool:
        return self._client.is_closed

    async def enter(self, timeout: float | None) -> Callable[[], None]:
        if self._client.is_closed:
            raise TradeError(CLOSED)
        return _leave

    async def send(self, outgoing: Outgoing) -> AsyncHttpxAnswer:
        if self._connects:
            self._home.check()
        timeout, most = outgoing.timeout, max(outgoing.deadline, 0.001)
        url = self._base_url + outgoing.target
        options: dict[str, Any] = {
            "headers": outgoing.headers,
            "timeout": tuple(min(timeout[part] or most, most) for part in ("connect", "read", "write", "pool")),
            "extensions": {"trace": partial(_seen, outgoing.watch)},
        }
        limit = _Limit(SystemClock.monotonic() + outgoing.deadline, outgoing.is_stream)
        try:
            with limit.applied():
                if outgoing.is_stream:
                    return await self._open(outgoing, url, options, limit)
                request = self._built(outgoing, url, options)
                response = await self._client.send(request, stream=True, auth=None, follow_redirects=False)
            return AsyncHttpxAnswer(response, outgoing, limit, owned=self._owned)
        except Exception as error:
            if type(error).__name__ == "HTTPStatusError":  # a hook raised it, after the response
                return AsyncHttpxAnswer(error.response, outgoing, limit, owned=self._owned)  # type: ignore[attr-defined] # known by its name
            _forget_request(error)
            raise

    def _built(self, outgoing: Outgoing, url: str, options: dict[str, Any]) -> Any:
        try:
            request = self._client.build_request(outgoing.method, url, content=outgoing.body, **options)
            request.url = type(request.url)(url)  # the client's default parameters would replace the query
        except Exception as error:
            raise UnsendableError(str(error)) from error
        if self._secret_path is not None:
            request.url = _with_secret(request.url, self._secret_path)
        return request

    def tells_if_sent(self, error: BaseException) -> bool:
        # The transport of a given client may retry by itself, and a hook may raise anything after the request was sent.
        # With our own client, httpx raises errors about the request while it reads a response.
        return self._owned and before_sending(error)

    async def _open(self, outgoing: Outgoing, url: str, options: dict[str, Any], limit: _Limit) -> AsyncHttpxAnswer:
        import httpx
        from httpx_sse import aconnect_sse  # only for streams

        options["headers"] = httpx.Headers(outgoing.headers)
        path, _, query = url.partition("?")
        # The query as parameters: the client's own would replace a query in the URL.
        client: Any = self._client
        opening = aconnect_sse(
            client, "GET", path, params=parse_qsl(query), auth=None, follow_redirects=False, **options
        )
        response = (await opening.__aenter__()).response
        return AsyncHttpxAnswer(response, outgoing, limit, owned=self._owned, opening=opening)

    async def aclose(self) -> None:
        if self._owned and not self.is_closed:
            self._home.check()
            await self._client.aclose()


def _leave() -> None:
    """Do nothing: the HTTP library limits its connections itself."""


def _with_secret(url: Any, path: SecretPath) -> Any:
    """The URL with another path, which its text does not show: the HTTP library logs the URL of every request."""
    kind: Any = type(url)

    class HostOnly(kind):  # type: ignore[misc] # of httpx or httpx2
        def __str__(self) -> str:
            return str(url)

        def __repr__(self) -> str:
            return repr(url)

    return HostOnly(str(url) + path)


class AsyncHttpxAnswer:
    """A response of httpx. Iterating runs to the end even after closing: see `AsyncPooledAnswer`."""

    def __init__(self, response: Any, outgoing: Outgoing, limit: _Limit, *, owned: bool, opening: Any = None) -> None:
        self._response = response
        self._opening = opening
        self._owned = owned
        self._closed = False
        self._limit = limit
        self._timeout: dict[str, float] = response.request.extensions.get("timeout", {})
        self.status: int = response.status_code
        self.headers = Headers.received(response.headers.raw)
        network_stream = response.extensions.get("network_stream")
        _limit_reads(network_stream)
        self.connection: object = network_stream or response
        if outgoing.watch is not None:
            outgoing.watch(self.connection)

    @property
    def coding(self) -> str:
        # If a hook has read the body, it is already decoded.
        return "" if self._response.is_stream_consumed else self.headers.get("content-encoding", "")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        response = self._response
        if response.is_stream_consumed:
            yield response.content
            return
        if response.is_closed:
            return
        chunks = aiter(response.stream)  # raw bytes
        try:
            while True:
                before = _limit.set(self._limit)  # `applied` would take as long as reading a signal
                try:
                    chunk = await anext(chunks, None)
                finally:
                    _limit.reset(before)
                if chunk is None:
                    break
                if not self._closed:
                    yield chunk
                if self._closed and not self._owned:
                    break  # a stream's body may never end
        except Exception as error:
            if not self._closed:
                _forget_request(error)
                raise
        finally:
            close = getattr(chunks, "aclose", None)
            if close is not None:
                await close()

    def wait_for(self, seconds: float) -> None:
        self._timeout["read"] = seconds  # HTTP/1 connections read it only once
        self._limit = _Limit(SystemClock.monotonic() + seconds, True)

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._opening is None:
            await self._response.aclose()
        else:
            await self._opening.__aexit__(None, None, None)


class _Limit(NamedTuple):
    """When reads have to end. The HTTP library's timeouts are for single pieces.

    It applies to the task or thread that reads: the library does not tell which connection it uses for a request.
    """

    end: float  # a time of `SystemClock.monotonic`
    is_stream: bool = False  # it then replaces the library's timeout

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        before = _limit.set(self)
        try:
            yield
        finally:
            _limit.reset(before)


_UNLIMITED = _Limit(math.inf)
_limit: ContextVar[_Limit] = ContextVar("limit", default=_UNLIMITED)


def _limit_reads(stream: Any) -> None:
    """Make the reads of a network stream end by the current limit."""
    if stream is not None and getattr(stream.read, "func", None) is not _read:
        stream.read = partial(_read, stream.read)


async def _read(read: Any, max_bytes: int, timeout: float | None = None) -> bytes:
    end, is_stream = _limit.get()
    left = end - SystemClock.monotonic()
    if left <= 0:
        raise TimeoutError("the deadline has passed")
    if left < math.inf:
        timeout = left if is_stream or timeout is None else min(timeout, left)
    content: bytes = await read(max_bytes, timeout)
    return content


async def _seen(watch: Callable[[object], None] | None, name: str, info: Mapping[str, Any]) -> None:
    """Learn of new connections by the HTTP library's trace, which does not report reused ones."""
    if name.endswith((".connect_tcp.complete", ".connect_unix_socket.complete", ".start_tls.complete")):
        _limit_reads(info["return_value"])
        if watch is not None:
            watch(info["return_value"])


def _forget_request(error: Exception) -> None:
    """Remove the headers from the error's request: they contain the API key."""
    request = getattr(error, "_request", None)
    if request is not None:
        error.request = type(request)(request.method, request.url)  # type: ignore[attr-defined] # httpx's own errors
