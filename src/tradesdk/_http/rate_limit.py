"""The rate limit in the client: how long to delay a request to avoid a 429. No I/O."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from .._values.http import RateLimit
from .service_time import reset_time, server_now

_WINDOW = 60.0  # limits are per minute
_FARTHEST = _WINDOW + 5  # a later reset is ignored: it, or a clock, is wrong


def rate_limit(headers: Mapping[str, str]) -> RateLimit | None:
    """The three `X-RateLimit-*` headers; None when all are missing."""
    limit = count(headers.get("x-ratelimit-limit"))
    remaining = count(headers.get("x-ratelimit-remaining"))
    reset = reset_time(headers)
    if limit is None and remaining is None and reset is None:
        return None
    return RateLimit(limit, remaining, None if reset is None else datetime.fromtimestamp(reset, UTC))


def count(text: str | None) -> int | None:
    """The number in a header; None if it is missing or not plausible."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 16 else None


class RateWindow:
    """Counts the requests left in the current window: the last number from the service, minus what was sent since.

    When none are left, requests wait for the reset. After it, the same limit is assumed until a response names
    another, so that many waiting tasks do not all start at once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._limit: str | None = None
        self._reset: str | None = None  # as in the header
        self._guessed = False  # that reset has passed, and the current window is assumed
        self._left: int | None = None
        self._ends = 0.0  # monotonic time of the reset
        self._latest: Mapping[str, str] | None = None

    @classmethod
    def restored(cls, limit: str | None, reset: str | None, guessed: bool, left: int | None, ends: float) -> RateWindow:
        """A window from its `state`, which other processes may have changed."""
        window = cls()
        window._limit, window._reset, window._guessed, window._left, window._ends = limit, reset, guessed, left, ends
        return window

    def state(self) -> tuple[str | None, str | None, bool, int | None, float]:
        """The limit and the reset as in the headers, whether the window is assumed, what is left, when it ends."""
        return self._limit, self._reset, self._guessed, self._left, self._ends

    @property
    def rate_limit(self) -> RateLimit | None:
        """The rate limit in the last response that had one; None before that."""
        return None if self._latest is None else rate_limit(self._latest)

    def claim(self, monotonic: float) -> float:
        """Take one request from the window. 0 when it may be sent now, else the seconds until the next `claim`."""
        if self._left is None:
            return 0.0
        taken = False
        try:
            with self._lock:
                over = monotonic >= self._ends
                if over and self._limit is None:
                    self._left = None
                elif over:
                    self._left = max(1, int(self._limit or 0))  # with 0, no request would ever get a response
                    self._guessed = True
                    self._ends += _WINDOW * (1 + (monotonic - self._ends) // _WINDOW)
                if self._left:
                    taken, self._left = True, self._left - 1
                return 0.0 if taken or self._left is None else self._ends - monotonic
        except BaseException:  # a signal handler may raise when the lock is released
            if taken:
                self.release()
            raise

    def release(self) -> None:
        """Return a claimed request that never reached the service."""
        with self._lock:
            if self._left is not None and (self._limit is None or self._left < int(self._limit)):
                self._left += 1

    def observe(self, headers: Mapping[str, str], *, now: Callable[[], float], monotonic: float) -> None:
        """Read the rate limit in a response. `now`: the local clock in Unix seconds."""
        reset, limit = headers.get("x-ratelimit-reset"), headers.get("x-ratelimit-limit")
        left = count(headers.get("x-ratelimit-remaining"))
        if left is None or reset is None:
            return
        self._latest = headers
        with self._lock:
            if reset == self._reset and limit == self._limit:
                if not self._guessed and (self._left is None or left < self._left):
                    self._left = left
                return
            moment = reset_time({"x-ratelimit-reset": reset})
            if moment is None:
                return
            away = moment - server_now(headers, now())
            if away > _FARTHEST:
                return
            ends = monotonic + max(0.0, away)
            guessed = self._guessed and limit == self._limit
            if limit == self._limit and self._reset is not None and not guessed and ends < self._ends - 1:
                return  # a late response of an older window
            self._left = min(self._left or 0, left) if guessed else left
            self._limit = None if count(limit) is None else limit
            self._reset, self._ends, self._guessed = reset, ends, False
