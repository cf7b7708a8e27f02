# Generated from src/tradesdk/_async/httpx_sender.py by scripts/unasync.py: change that file instead.
"""Sends through an httpx or httpx2 client: a given one, or the SDK's own if the environment names a proxy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Protocol
from urllib.parse import parse_qsl

from .._http.proxies import Proxy, unusable
from .._http.settings import SecretPath
from .._http.tls import tls_context
from .._http.transport_errors import UnsendableError, before_sending
from .._values.http import Headers
from .concurrency import LoopBinding
from .sending import Outgoing


class HttpClient(Protocol):
    """An `Client` of httpx or httpx2."""

    @property
    def is_closed(self) -> bool: ...
    @property
    def base_url(self) -> Any: ...
    def build_request(self, *args: Any, **options: Any) -> Any: ...
    def send(self, *args: Any, **options: Any) -> Any: ...
    def close(self) -> None: ...


def proxied_client(proxy: Proxy) -> HttpClient:
    """A client that sends everything through `proxy`. It reads nothing else from the environment."""
    import httpx

    tls = tls_context()
    of_proxy = tls if proxy.url.startswith("https:") else None
    try:
        through = httpx.Proxy(proxy.url, auth=proxy.auth, ssl_context=of_proxy)
        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        return httpx.Client(proxy=through, trust_env=False, verify=tls, cookies=no_cookies)
    except ImportError:
        raise unusable(proxy.name, "SOCKS needs another package: pip install 'httpx[socks]'") from None
    except (httpx.InvalidURL, ValueError):
        raise unusable(proxy.name, "its host name is invalid") from None


class HttpxSender:
    """Sends through `client`: a given one, or the SDK's own for the proxy that the variable `proxy` names."""

    def __init__(
        self, base_url: str, client: HttpClient, *, proxy: str = "", secret_path: SecretPath | None = None
    ) -> None:
        self.proxy = proxy
        self._base_url = base_url
        self._secret_path = secret_path
        self._client = client
        self._owned = bool(proxy)
        self._home = LoopBinding()

    @property
    def is_closed(self) -> bool:
        return self._client.is_closed

    def enter(self, timeout: float | None) -> Callable[[], None]:
        return _leave

    def send(self, outgoing: Outgoing) -> HttpxAnswer:
        self._home.check()
        timeout = outgoing.timeout
        url = self._base_url + outgoing.target
        options: dict[str, Any] = {
            "headers": outgoing.headers,
            "timeout": tuple(timeout[part] for part in ("connect", "read", "write", "pool")),
            "extensions": None if outgoing.watch is None else {"trace": _Trace(outgoing.watch).seen},
        }
        try:
            if outgoing.is_stream:
                return self._open(outgoing, url, options)
            request = self._built(outgoing, url, options)
            response = self._client.send(request, stream=True, auth=None, follow_redirects=False)
            return HttpxAnswer(response, outgoing, owned=self._owned)
        except Exception as error:
            if type(error).__name__ == "HTTPStatusError":  # raised by a hook: the answer is there
                return HttpxAnswer(error.response, outgoing, owned=self._owned)  # type: ignore[attr-defined] # known by its name
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
        # The transport of a given client may retry by itself, and a hook may raise anything after the request was sent;
        # of our own, httpx raises errors about the request while it reads an answer.
        return self._owned and before_sending(error)

    def _open(self, outgoing: Outgoing, url: str, options: dict[str, Any]) -> HttpxAnswer:
        import httpx
        from httpx_sse import connect_sse  # only where there is a stream

        options["headers"] = httpx.Headers(outgoing.headers)
        path, _, query = url.partition("?")
        # The query as parameters: the client's own would replace a query in the URL.
        client: Any = self._client
        opening = connect_sse(
            client, "GET", path, params=parse_qsl(query), auth=None, follow_redirects=False, **options
        )
        return HttpxAnswer((opening.__enter__()).response, outgoing, owned=self._owned, opening=opening)

    def close(self) -> None:
        if self._owned and not self.is_closed:
            self._home.check()
            self._client.close()


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


class HttpxAnswer:
    """A response of httpx. Iterating runs to the end even after closing: see `PooledAnswer`."""

    def __init__(self, response: Any, outgoing: Outgoing, *, owned: bool, opening: Any = None) -> None:
        self._response = response
        self._opening = opening
        self._owned = owned
        self._closed = False
        self._stream: Any = None  # set by `wait_for`: it has its read timeout replaced
        self.status: int = response.status_code
        self.headers = Headers.received(response.headers.raw)
        self.connection: object = response.extensions.get("network_stream") or response
        if outgoing.watch is not None:
            outgoing.watch(self.connection)

    @property
    def coding(self) -> str:
        # If a hook has read the body, it is decoded already.
        return "" if self._response.is_stream_consumed else self.headers.get("content-encoding", "")

    def __iter__(self) -> Iterator[bytes]:
        response = self._response
        if response.is_stream_consumed:
            yield response.content
            return
        if response.is_closed:
            return
        chunks = iter(response.stream)  # bytes as they come
        try:
            for chunk in chunks:
                if not self._closed:
                    yield chunk
                if self._closed and not self._owned:
                    break  # another stream's body may never end
        except Exception as error:
            if not self._closed:
                _forget_request(error)
                raise
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()

    def wait_for(self, seconds: float) -> None:
        """Set how long each read waits from now on.

        The HTTP library reads the timeout only when a body begins, so the network stream's `read` is replaced.
        """
        timeouts = self._response.request.extensions["timeout"]
        timeouts["read"] = seconds
        stream = self._response.extensions.get("network_stream")
        # Not for HTTP/2: other calls read from the same connection.
        if self._stream is None and stream is not None and self._response.http_version.startswith("HTTP/1"):
            read = stream.read
            stream.read = lambda max_bytes, timeout=None: read(max_bytes, timeouts["read"])
            self._stream = stream

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._stream is not None:  # the connection may serve other requests
            with contextlib.suppress(AttributeError):
                del self._stream.read
        if self._opening is None:
            self._response.close()
        else:
            self._opening.__exit__(None, None, None)


class _Trace:
    """Passes new connections to `watch`, from the HTTP library's trace. A reused connection is not in the trace."""

    def __init__(self, watch: Any) -> None:
        self._watch = watch

    def seen(self, name: str, info: Mapping[str, Any]) -> None:
        if name.endswith((".connect_tcp.complete", ".connect_unix_socket.complete", ".start_tls.complete")):
            self._watch(info["return_value"])


def _forget_request(error: Exception) -> None:
    """Remove the headers from the error's request: they contain the API key."""
    request = getattr(error, "_request", None)
    if request is not None:
        error.request = type(request)(request.method, request.url)  # type: ignore[attr-defined] # httpx's own errors
