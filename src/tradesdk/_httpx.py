"""What httpx reports, in our own words. Nothing here waits, so both flavours share it."""

from __future__ import annotations

import contextlib
import socket
import ssl
from functools import lru_cache
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING, Any

import httpx

from ._values.http import Headers
from ._values.text import printable
from .errors import APIConnectionError, APITimeoutError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Raised by the HTTP library for a request: its own errors, and what its layers below sometimes let through.
HTTP_ERRORS = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, UnicodeError)


class NoCookies(CookieJar):
    """Keeps none, and takes no lock for it: an interrupt in the library's own would leave that locked."""

    def extract_cookies(self, response: object, request: object) -> None: ...


class Place:
    """A place among the connections, in a queue, among the creates under way. It is free once this is gone.

    For calls that a signal's handler may interrupt anywhere, even where they clean up.
    """

    __slots__ = ("__weakref__",)


@lru_cache(maxsize=256)
def parsed_url(url: str) -> httpx.URL:
    """Parsing costs more than all else in making a request, and most requests go to the same few places."""
    return httpx.URL(url)


def headers_of(response: httpx.Response) -> Headers:
    return Headers((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw)


def cut_off(reading: object) -> None:
    """Let a read that another thread waits for come to its end. Closing the socket would not wake it."""
    stream = getattr(reading, "network_stream", reading)
    extra = getattr(stream, "get_extra_info", None)
    if extra is None:
        close = getattr(stream, "close", None)
        if close is not None:
            close()
        return
    sock = extra("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # TLS's own would take the session from under the reader


def obey(stream: Any, timeouts: Mapping[str, float | None]) -> None:
    """Have each read of a network stream wait as long as `timeouts` say by then.

    The HTTP library looks there when a body begins: what a live stream learns would not count until the next one.
    """
    read = stream.read
    stream.read = lambda max_bytes, timeout=None: read(max_bytes, timeouts["read"])


def disobey(stream: Any) -> None:
    """As it was: the connection may serve other requests."""
    with contextlib.suppress(AttributeError):
        del stream.read


def connection_error(error: Exception, method: str, url: str) -> APIConnectionError:
    """Our error for an attempt that got no complete answer."""
    sent, temporary, message = _explain(error)
    if isinstance(error, httpx.RequestError):
        error.request = httpx.Request(method, url)  # the one that was sent has the API key in its headers
    kind = APITimeoutError if isinstance(error, httpx.TimeoutException) else APIConnectionError
    return kind(message, method=method, url=url, sent=sent, temporary=temporary, code=_code(error))


def _explain(error: Exception) -> tuple[bool, bool, str]:
    """Whether it was (perhaps) sent, whether another try could help, and what to say."""
    causes = list(_causes(error))
    reason = printable(str(causes[-1]) or str(error) or type(error).__name__, 200)
    match error:
        case httpx.ConnectTimeout():
            return False, True, "no connection in time"
        case httpx.PoolTimeout():
            return False, True, "no connection became free in time: more requests at once than connections"
        case httpx.ReadTimeout():
            return True, True, "no answer in time"
        case httpx.WriteTimeout():
            return True, True, "sending took too long"
        case httpx.TimeoutException():
            return True, True, "time ran out"
        case httpx.ProxyError():
            return False, not str(error).startswith("4"), f"the proxy refused: {reason}"
        case httpx.ConnectError():
            if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
                return False, False, f"the certificate was refused: {reason}"
            for cause in causes:
                if isinstance(cause, socket.gaierror):
                    if cause.errno == socket.EAI_AGAIN:
                        return False, True, "the host name could not be resolved for now"
                    return False, False, "unknown host: check the base URL"
            if "WRONG_VERSION_NUMBER" in reason:
                reason += " (does it speak plain http?)"
            elif any(isinstance(cause, ConnectionRefusedError) for cause in causes):
                reason = "nothing listens there; is the base URL right, and the service running?"
            return False, True, f"could not connect: {reason}"
        case httpx.UnsupportedProtocol() | httpx.LocalProtocolError() | httpx.InvalidURL() | UnicodeError():
            return False, False, f"the request cannot be sent: {reason}"
        case httpx.RemoteProtocolError():
            return True, True, f"the connection broke off: {reason}"
    return True, True, f"the connection was lost: {reason}"


def _code(error: Exception) -> ErrorCode | None:
    """What tells apart why no connection was made; None: the code of the class."""
    if not isinstance(error, httpx.ConnectError):
        return None
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "certificate_refused"
        if isinstance(cause, socket.gaierror):
            return None if cause.errno == socket.EAI_AGAIN else "unknown_host"
        if isinstance(cause, ConnectionRefusedError):
            return "connection_refused"
    return None


def root_cause(error: BaseException) -> BaseException:
    """What lies at the bottom, such as the refused connection; the layers between say the same in more words."""
    return list(_causes(error))[-1]


def _causes(error: BaseException) -> Iterator[BaseException]:
    # Not `__context__`: that may be what the caller was busy with, which is no business of ours.
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.exceptions[0] if isinstance(current, BaseExceptionGroup) else current.__cause__
