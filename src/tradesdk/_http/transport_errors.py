"""Errors of httpcore, httpx and httpx2 as ours. The three name their classes alike, so names are compared."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING

from .._values.text import printable
from ..errors import APIConnectionError, APITimeoutError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

_LIBRARIES = frozenset({"httpcore", "httpcore2", "httpx", "httpx2"})


def transport_error(error: Exception) -> bool:
    """Whether an HTTP library, or a layer below it, raised it for a request."""
    return isinstance(error, OSError | UnicodeError) or next(_names(error), None) is not None


def before_sending(error: Exception) -> bool:
    """Whether its class shows that nothing was sent."""
    names = set(_names(error))
    return not names.isdisjoint({"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError"})


def connection_error(error: Exception, method: str, url: str) -> APIConnectionError:
    """The SDK's error for an attempt without a complete answer."""
    sent, temporary, message = _explain(error)
    late = isinstance(error, TimeoutError) or "TimeoutException" in _names(error)
    kind = APITimeoutError if late else APIConnectionError
    return kind(message, method=method, url=url, sent=sent, temporary=temporary, code=_code(error))


def _names(error: Exception) -> Iterator[str]:
    """The names of its class and base classes that an HTTP library defines."""
    for one in type(error).__mro__:
        if one.__module__.partition(".")[0] in _LIBRARIES:
            yield one.__name__


def _explain(error: Exception) -> tuple[bool, bool, str]:
    """Whether it may have been sent, whether another attempt could help, and the message."""
    causes = list(_causes(error))
    reason = printable(str(causes[-1]) or str(error) or type(error).__name__, 200)
    for name in _names(error):
        match name:
            case "ConnectTimeout":
                return False, True, "no connection in time"
            case "PoolTimeout":
                return False, True, "no connection became free in time: there are more requests than connections"
            case "ReadTimeout":
                return True, True, "no answer in time"
            case "WriteTimeout":
                return True, True, "sending took too long"
            case "TimeoutException":
                return True, True, "time ran out"
            case "ProxyError":
                return False, not str(error).startswith("4"), f"the proxy refused: {reason}"
            case "ConnectError":
                return _unconnected(causes, reason)
            case "UnsupportedProtocol" | "LocalProtocolError" | "InvalidURL":
                return False, False, f"the request cannot be sent: {reason}"
            case "RemoteProtocolError":
                return True, True, f"the connection was closed early: {reason}"
    if isinstance(error, UnicodeError):
        return False, False, f"the request cannot be sent: {reason}"
    if isinstance(error, TimeoutError):
        return True, True, "no answer in time"
    return True, True, f"the connection was lost: {reason}"


def _unconnected(causes: list[BaseException], reason: str) -> tuple[bool, bool, str]:
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return False, False, f"the certificate was refused: {reason}"
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            if cause.errno == socket.EAI_AGAIN:
                return False, True, "the host name could not be resolved for now"
            return False, False, "unknown host: check the base URL"
    if "WRONG_VERSION_NUMBER" in reason:
        reason += " (is the base URL a plain http server?)"
    elif any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        reason = "connection refused; check that the base URL is right and the service is running"
    return False, True, f"could not connect: {reason}"


def _code(error: Exception) -> ErrorCode | None:
    """The code for a failed connection; None for the code of the class."""
    if "ConnectError" not in _names(error):
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
    """The first cause, such as the refused connection; the layers between only repeat it."""
    return list(_causes(error))[-1]


def _causes(error: BaseException) -> Iterator[BaseException]:
    # Not `__context__`: that may be an unrelated error that the caller was handling. But httpcore's pool raises its
    # errors again `from None`, which leaves the cause of a failed connection only there.
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        if isinstance(current, BaseExceptionGroup):
            current = current.exceptions[0]
        elif current.__cause__ is None and current.__suppress_context__ and type(current).__name__ == "ConnectError":
            current = current.__context__
        else:
            current = current.__cause__
