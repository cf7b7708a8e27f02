"""`--forward-to`: every signal as a POST to a receiver of the user's own, tried again by the SDK's waits.

No key of the service goes there, redirects are not followed, and of the URL only the origin is ever printed: the rest
of a webhook's address is often its password.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import re
import socket
import ssl
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.parse import quote, unquote, urlsplit

from tradesdk import SystemClock
from tradesdk_cli.config.settings import is_loopback
from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.text import one_line, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from threading import Event

    from tradesdk import Clock, Failure, RetryPolicy

_HINT = "https, or http on this machine: --forward-to http://127.0.0.1:8000/signals"
_PLAIN = re.compile(r"[!-~]+")
_IN_A_HEADER = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '%",;')
_LONGEST_KEY = 255


class BreakableClock(SystemClock):
    """The computer's clock, whose waits end as soon as `over` is set."""

    def __init__(self, over: Event) -> None:
        self._over = over

    def sleep(self, seconds: float) -> None:
        self._over.wait(seconds)


class Receiver:
    """Where signals are sent."""

    def __init__(
        self,
        url: str,
        *,
        policy: RetryPolicy,
        clock: Clock,
        timeout: float,
        note: Callable[[str, float], None],
        over: Callable[[], bool] = lambda: False,
    ) -> None:
        """`timeout` is in seconds, for each step of one try; `note` is told why it is tried again, and in how long.

        Once `over` says so there is no other try; the clock's waits should end then too.

        Raises:
            UsageProblem: the URL cannot be used.
        """
        parts = _checked(url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
        place = f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")
        self.shown = place + ("/…" if parts.path.strip("/") or parts.query else "")
        self._url = place + (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._headers = {"Content-Type": "application/json", "User-Agent": "trade"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode("ascii")
        self._policy, self._clock, self._timeout, self._note, self._over = policy, clock, timeout, note, over
        # Without the handlers that follow redirects and raise for statuses; no proxy stands between us and ourselves.
        loopback = is_loopback(parts.hostname or "")
        self._opener = urllib.request.OpenerDirector()
        self._opener.add_handler(urllib.request.ProxyHandler({} if loopback else None))
        self._opener.add_handler(urllib.request.HTTPHandler())
        if not loopback or parts.scheme == "https":  # reading the certificates takes 20 ms
            self._opener.add_handler(urllib.request.HTTPSHandler(context=ssl.create_default_context()))

    def send(self, event: Mapping[str, Any]) -> str | None:
        """Sends one signal. Returns None once it was taken (2xx), else why it was finally not."""
        key = quote(str(event.get("id", "")), safe=_IN_A_HEADER, errors="surrogatepass")
        if len(key) > _LONGEST_KEY:
            key = hashlib.sha256(key.encode()).hexdigest()
        body = to_json(event).encode()
        retries = 0
        while True:
            problem, failure = self._try(body, key)
            if problem is None:
                return None
            if failure is None or retries >= self._policy.max_retries:
                return problem if retries == 0 else f"{problem}, tried {retries + 1} times"
            retries += 1
            wait = self._policy.wait(retries, failure, now=self._clock.now())
            if wait.server > self._policy.max_server_wait:
                return f"{problem} and wants {wait.server:.0f} s of rest"
            if not self._over():
                self._note(problem, wait.seconds)
                self._clock.sleep(wait.seconds)
            if self._over():
                return f"{problem}; ended before another try"

    def _try(self, body: bytes, key: str) -> tuple[str | None, Failure | None]:
        """What went wrong, and the failure if another try may help."""
        from tradesdk import Failure, FailureCause

        request = urllib.request.Request(  # noqa: S310  # its scheme was checked
            self._url, body, {**self._headers, "Idempotency-Key": key}, method="POST"
        )
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                status: int = answer.status
                headers = {name.lower(): value for name, value in answer.headers.items()}
        except (OSError, http.client.HTTPException, ValueError) as error:
            cause = error.reason if isinstance(error, URLError) else error
            again = not _hopeless(cause)
            return _said(cause), Failure(FailureCause.LOST) if again else None
        if 200 <= status < 300:
            return None, None
        again = status == 429 or status >= 500
        return f"the receiver answered {status}", Failure(FailureCause.STATUS, status, headers) if again else None


def _checked(url: str) -> Any:
    try:
        parts = urlsplit(url)
        host, scheme = parts.hostname or "", parts.scheme
        parts.port  # noqa: B018  # raises when it is none
    except ValueError:
        raise UsageProblem("--forward-to is not a URL", _HINT) from None
    if scheme not in ("http", "https") or not host:
        raise UsageProblem("--forward-to takes a URL that begins with https:// or http://", _HINT)
    if not _PLAIN.fullmatch(url):
        raise UsageProblem("--forward-to holds a space or another character that a URL cannot hold", _HINT)
    if scheme == "http" and not is_loopback(host):
        raise UsageProblem(
            f"--forward-to is not https: signals would be sent to {one_line(host, 120)} unencrypted", _HINT
        )
    return parts


def _hopeless(cause: object) -> bool:
    """Whether another try is of no use: no such host, a wrong certificate, something that is not HTTP at all."""
    if isinstance(cause, socket.gaierror):
        return cause.errno != socket.EAI_AGAIN
    return isinstance(cause, ssl.SSLCertVerificationError | ValueError)


def _said(cause: object) -> str:
    if isinstance(cause, TimeoutError):
        return "the receiver did not answer in time"
    if isinstance(cause, http.client.HTTPException) and not isinstance(cause, OSError):
        return f"the receiver's answer is not HTTP ({type(cause).__name__})"
    if isinstance(cause, ssl.SSLError):
        return one_line(f"TLS: {cause}", 200)
    if isinstance(cause, OSError) and cause.strerror:
        return one_line(f"the receiver cannot be reached: {cause.strerror}", 200)
    return one_line(f"the receiver cannot be reached: {cause}", 200)
