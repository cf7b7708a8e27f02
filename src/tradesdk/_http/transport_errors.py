"""Errors of httpcore, httpx and httpx2 as ours. The three use the same class names, so names are compared."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING

from .._system.interrupts import raised_by_handler
from .._values.hints import too_many_files
from .._values.text import printable
from ..errors import APIConnectionError, APITimeoutError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LIBRARIES = frozenset({"httpcore", "httpcore2", "httpx", "httpx2"})


def transport_error(error: BaseException, handled: BaseException | None = None) -> bool:
    """Whether an HTTP library, or a layer below it, raised it for a request, not a signal handler."""
    if raised_by_handler(list(_causes(error, handled))[-1]):
        return False
    return isinstance(error, OSError | UnicodeError | UnsendableError) or next(_names(error), None) is not None


class UnsendableError(ValueError):
    """A request that the HTTP library could not build."""


def before_sending(error: BaseException) -> bool:
    """Whether its class shows that nothing was sent, whichever library raised it."""
    names = set(_names(error))
    return isinstance(error, UnsendableError) or bool(
        names & {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError"}
    )


def connection_error(
    error: BaseException, method: str, url: str, *, proxy: str = "", handled: BaseException | None = None
) -> APIConnectionError:
    """The SDK's error for an attempt without a complete response; any other error is raised unchanged.

    Its cause is the first one, such as the refused connection; the layers between only repeat it. `proxy`: the variable
    that names the proxy, if any. `handled`: the error that the caller was handling before the attempt.
    """
    causes: Sequence[BaseException] = list(_causes(error, handled))
    if not transport_error(error, handled):
        raise causes[-1] if raised_by_handler(causes[-1]) else error
    # Transports of given clients may report it as a lost connection, or raise their error without `from`.
    if refused := [
        one for one in _causes(error, handled, contexts=True) if isinstance(one, ssl.SSLCertVerificationError)
    ]:
        causes = refused
    sent, temporary, message, code = _explain(error, causes, f" of {proxy}" if proxy else "")
    late = isinstance(error, TimeoutError) or "TimeoutException" in _names(error)
    kind = APITimeoutError if late else APIConnectionError
    lost = kind(message, method=method, url=url, sent=sent, temporary=temporary, code=code)
    lost.__cause__ = causes[-1]
    return lost


def _names(error: BaseException) -> Iterator[str]:
    """The names of those of its classes that an HTTP library defines."""
    for one in type(error).__mro__:
        if one.__module__.partition(".")[0] in _LIBRARIES:
            yield one.__name__


def _explain(
    error: BaseException, causes: Sequence[BaseException], of_proxy: str
) -> tuple[bool, bool, str, ErrorCode | None]:
    """Whether it may have been sent, whether another attempt could help, the message, and the code.

    Without a code, the error class has its own.
    """
    reason = printable(str(causes[-1]) or str(error) or type(error).__name__, 200)
    if isinstance(causes[-1], ssl.SSLCertVerificationError):
        return False, False, f"the certificate was refused: {reason}", "certificate_refused"
    if any(map(too_many_files, causes)):  # a request that was sent had a connection
        return False, True, f"could not connect: {reason}", "too_many_files"
    for name in _names(error):
        match name:
            case "ConnectTimeout":
                return False, True, f"no connection in time{of_proxy and f' through the proxy{of_proxy}'}", None
            case "PoolTimeout":
                return False, True, "no connection became free in time: there are more requests than connections", None
            case "ReadTimeout":
                return True, True, "no answer in time", None
            case "WriteTimeout":
                return True, True, "sending took too long", None
            case "TimeoutException":
                return True, True, "time ran out", None
            case "ProxyError":
                temporary = not str(error).startswith("4")
                return False, temporary, f"the proxy{of_proxy} refused: {reason}", "proxy_failed"
            case "ConnectError":
                return False, *_unconnected(causes, reason, of_proxy)
            case "UnsupportedProtocol" | "LocalProtocolError":
                return False, False, f"the request cannot be sent: {reason}", None
            case "RemoteProtocolError":
                return True, True, f"the connection was closed early: {reason}", None
            case "InvalidURL":  # httpx reads the URL of a redirect
                return True, True, f"the response cannot be read: {reason}", None
    if isinstance(error, UnsendableError):
        return False, False, f"the request cannot be sent: {reason}", None
    if isinstance(error, TimeoutError):
        return True, True, "no answer in time", None
    return True, True, f"the connection was lost: {reason}", None


def _unconnected(causes: Sequence[BaseException], reason: str, of_proxy: str) -> tuple[bool, str, ErrorCode | None]:
    """The last three values of `_explain`. Through a proxy, TCP is with the proxy and only TLS with the service."""
    for cause in causes:
        match cause:
            case ssl.SSLError() if "WRONG_VERSION_NUMBER" in reason:
                return True, f"could not connect: {reason} (is the base URL a plain http server?)", None
            case ssl.SSLError():
                break
            case socket.gaierror(errno=socket.EAI_AGAIN) if not of_proxy:
                return True, "the host name could not be resolved for now", None
            case socket.gaierror() if not of_proxy:
                return False, "unknown host: check the base URL", "unknown_host"
            case OSError() if of_proxy and cause is causes[-1]:
                temporary = not isinstance(cause, socket.gaierror) or cause.errno == socket.EAI_AGAIN
                return temporary, f"could not connect to the proxy{of_proxy}: {reason}", "proxy_failed"
            case ConnectionRefusedError():
                check = "check that the base URL is right and the service is running"
                return True, f"could not connect: connection refused; {check}", "connection_refused"
            case _:
                pass
    return True, f"could not connect: {reason}", None


def _causes(
    error: BaseException, handled: BaseException | None = None, *, contexts: bool = False
) -> Iterator[BaseException]:
    # Without `contexts`, `__context__` is not used, as it may be unrelated. httpcore's pool raises its errors again
    # with `from None`, which leaves the cause only there.
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and current is not handled and id(current) not in seen:
        seen.add(id(current))
        yield current
        if isinstance(current, BaseExceptionGroup):
            current = current.exceptions[0]
        elif contexts or (current.__suppress_context__ and next(_names(current), None) is not None):
            current = current.__cause__ or current.__context__
        else:
            current = current.__cause__
