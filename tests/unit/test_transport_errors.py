"""The errors of three HTTP libraries, told apart: was it sent, can another try help, and what a person reads."""

import errno
import socket
import ssl
from types import ModuleType

import httpcore
import httpx
import httpx2

from tradesdk import APIConnectionError, APITimeoutError
from tradesdk._http.response import failure_of
from tradesdk._http.transport_errors import UnsendableError, connection_error, transport_error
from tradesdk.types import FailureCause

from .._rows import each_of
from .._texts import WEAPONS


def caused(error: Exception, *causes: BaseException) -> Exception:
    """`error`, with causes one below the other."""
    current: BaseException = error
    for cause in causes:
        current.__cause__ = cause
        current = cause
    return error


def unknown_host(code: int) -> Exception:
    return caused(httpx.ConnectError("x"), OSError("y"), socket.gaierror(code, "Name or service not known"))


TABLE: dict[str, tuple[Exception, FailureCause, str]] = {
    "refused": (
        caused(httpx.ConnectError("x"), ConnectionRefusedError(111, "refused")),
        FailureCause.NOT_SENT,
        "could not",
    ),
    "no connection in time": (httpx.ConnectTimeout("x"), FailureCause.NOT_SENT, "no connection in time"),
    "no free connection": (httpx.PoolTimeout("x"), FailureCause.NOT_SENT, "became free"),
    "too many files": (
        caused(httpx.ConnectError("x"), OSError(errno.EMFILE, "Too many open files")),
        FailureCause.NOT_SENT,
        "could not connect: [Errno 24] Too many open files",
    ),
    "its certificates cannot be read": (
        OSError(errno.ENFILE, "Too many open files in system", "cacert.pem"),
        FailureCause.NOT_SENT,
        "could not connect: [Errno 23] Too many open files in system",
    ),
    "names fail for now": (unknown_host(socket.EAI_AGAIN), FailureCause.NOT_SENT, "could not be resolved for now"),
    "proxy is down": (httpx.ProxyError("503 Service Unavailable"), FailureCause.NOT_SENT, "the proxy refused"),
    "proxy wants a password": (httpx.ProxyError("407 Required"), FailureCause.HOPELESS, "the proxy refused"),
    "unknown host": (unknown_host(socket.EAI_NONAME), FailureCause.HOPELESS, "unknown host"),
    "certificate": (
        caused(httpx.ConnectError("x"), ssl.SSLCertVerificationError("self-signed certificate")),
        FailureCause.HOPELESS,
        "certificate was refused: ",
    ),
    "scheme": (httpx.UnsupportedProtocol("x"), FailureCause.HOPELESS, "cannot be sent"),
    "header": (httpx.LocalProtocolError("x"), FailureCause.HOPELESS, "cannot be sent"),
    "url": (UnsendableError("x"), FailureCause.HOPELESS, "cannot be sent"),
    "redirect to no URL": (httpx.InvalidURL("x"), FailureCause.LOST, "the response cannot be read"),
    "no answer in time": (httpx.ReadTimeout("x"), FailureCause.LOST, "no answer in time"),
    "sending took too long": (httpx.WriteTimeout("x"), FailureCause.LOST, "sending took too long"),
    "reset while reading": (
        caused(httpx.ReadError("x"), ConnectionResetError(104, "reset")),
        FailureCause.LOST,
        "lost",
    ),
    "reset while writing": (httpx.WriteError("x"), FailureCause.LOST, "lost"),
    "cut short": (httpx.RemoteProtocolError("peer closed connection"), FailureCause.LOST, "closed early: peer closed"),
    "pipe": (BrokenPipeError(32, "Broken pipe"), FailureCause.LOST, "lost"),
    "anything else": (httpx.TransportError("x"), FailureCause.LOST, "lost"),
}

CODES = {"refused": "connection_refused", "unknown host": "unknown_host", "certificate": "certificate_refused",
         "too many files": "too_many_files", "its certificates cannot be read": "too_many_files",
         "proxy is down": "proxy_failed", "proxy wants a password": "proxy_failed"}  # fmt: skip
"""Of those that are told apart from others of their class."""


def of(library: ModuleType, error: Exception) -> Exception | None:
    """The same error of another library; None where it has none."""
    if type(error).__module__ != "httpx":
        return error
    kind = getattr(library, type(error).__name__, None)
    return None if kind is None else caused(kind(*error.args), *([error.__cause__] if error.__cause__ else []))


@each_of("library", [httpcore, httpx, httpx2])
@each_of("row", TABLE)
def test_what_happened(row: str, library: ModuleType) -> None:
    one, cause, text = TABLE[row]
    error = of(library, one)
    if error is None:
        assert library is httpcore
        assert row in ("redirect to no URL", "anything else")
        return
    assert transport_error(error)
    told = connection_error(error, "POST", "https://api.example.com/v1/agents")
    assert failure_of(told).cause is cause
    assert told.sent is (cause is FailureCause.LOST)
    assert text in told.message
    timeout = isinstance(one, httpx.TimeoutException)
    assert type(told) is (APITimeoutError if timeout else APIConnectionError)
    assert (told.method, told.url) == ("POST", "https://api.example.com/v1/agents")
    assert told.code == CODES.get(row, "timeout" if timeout else "connection_failed")


@each_of(
    ("error", "cause", "message"),
    [
        (TABLE["refused"][0], FailureCause.NOT_SENT, "could not connect to the proxy of HTTPS_PROXY: "),
        (unknown_host(socket.EAI_AGAIN), FailureCause.NOT_SENT, "could not connect to the proxy of HTTPS_PROXY: "),
        (unknown_host(socket.EAI_NONAME), FailureCause.HOPELESS, "could not connect to the proxy of HTTPS_PROXY: "),
        (httpx.ProxyError("407 Required"), FailureCause.HOPELESS, "the proxy of HTTPS_PROXY refused: 407 Required"),
        (TABLE["certificate"][0], FailureCause.HOPELESS, "the certificate was refused: "),  # the service's
        (caused(httpx.ConnectError("x"), ssl.SSLError("x")), FailureCause.NOT_SENT, "could not connect: "),
        (httpx.ConnectTimeout("x"), FailureCause.NOT_SENT, "no connection in time through the proxy of HTTPS_PROXY"),
    ],
)
def test_through_a_proxy(error: Exception, cause: FailureCause, message: str) -> None:
    told = connection_error(error, "GET", "u", proxy="HTTPS_PROXY")
    assert failure_of(told).cause is cause
    assert told.message.startswith(message)
    assert (told.code == "proxy_failed") == ("proxy of HTTPS_PROXY" in message and type(told) is APIConnectionError)


REFUSED = ssl.SSLCertVerificationError("self-signed certificate")


def implicitly(error: Exception, *contexts: BaseException) -> Exception:
    """`error`, raised without `from` while others were handled."""
    current: BaseException = error
    for context in contexts:
        current.__context__ = context
        current = context
    return error


@each_of(
    "error",
    [
        REFUSED,
        caused(httpx.ProtocolError("x"), OSError("y"), REFUSED),
        caused(httpx.ReadError("x"), REFUSED),
        caused(httpx2.NetworkError("x"), REFUSED),
        implicitly(httpx.ConnectError("x"), REFUSED),
        implicitly(httpx.TransportError("x"), ValueError("y"), REFUSED),
        caused(httpx.ConnectError("x"), implicitly(ValueError("y"), REFUSED)),
        caused(httpx.ConnectError("x"), ExceptionGroup("all attempts failed", [REFUSED, OSError("y")])),
    ],
)
def test_a_refused_certificate_however_it_is_reported(error: Exception) -> None:
    told = connection_error(error, "GET", "u", handled=OSError("of the program"))
    assert (told.code, told.sent, told.temporary) == ("certificate_refused", False, False)
    assert told.message == f"the certificate was refused: {REFUSED}"
    assert told.__cause__ is REFUSED
    assert failure_of(told).cause is FailureCause.HOPELESS


def test_a_certificate_that_the_program_has_refused_before_is_another_matter() -> None:
    before = caused(OSError("of another call"), REFUSED)
    told = connection_error(implicitly(httpx.ReadError("x"), ValueError("y"), before), "GET", "u", handled=before)
    assert (told.code, told.sent, told.temporary) == ("connection_failed", True, True)


@each_of("text", [*WEAPONS.values(), "x" * 100_000, ""])
def test_hostile_reasons_are_printable(text: str) -> None:
    for kind in (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError, httpx.ProxyError):
        message = connection_error(kind(text), "GET", "u").message
        assert message.isprintable()
        assert len(message) < 300
        assert not message.endswith(": ")


def test_causes_that_go_round_in_a_circle_end() -> None:
    first, second = httpx.ConnectError("first"), OSError("second")
    first.__cause__, second.__cause__ = second, first
    assert connection_error(first, "GET", "u").message == "could not connect: second"


def test_other_errors_are_not_taken_for_theirs() -> None:
    for error in (ValueError("x"), KeyError("x"), RuntimeError("x")):
        assert not transport_error(error)
