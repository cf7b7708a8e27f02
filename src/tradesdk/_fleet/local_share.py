"""The part of a shared rate limit that a member uses alone while the fleet's server is away. No I/O."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from .._http.rate_limit import RateLimitWindow
from .._values.http import RateLimit

_WINDOW = 61.0  # seconds; limits are per minute, and the service's minute may begin a second later


class LocalShare:
    """The limit divided by the number of members, as they were last known.

    Attributes:
        members: how many members share the limit.
    """

    def __init__(self) -> None:
        self.members = 1
        self._lock = threading.Lock()
        self._window = RateLimitWindow()
        self._used, self._ends = 0, 0.0

    @property
    def rate_limit(self) -> RateLimit | None:
        """The rate limit in the last answer that had one; None before that."""
        return self._window.rate_limit

    def claim(self, monotonic: float) -> float:
        """Take one request of the share. 0 when it may be sent now, else the seconds until the next `claim`."""
        with self._lock:
            if monotonic >= self._ends:
                self._used, self._ends = 0, monotonic + _WINDOW
            known = self._window.rate_limit
            if known is not None and known.limit and self._used >= max(1, known.limit // self.members):
                return self._ends - monotonic
            wait = self._window.claim(monotonic)
            if not wait:
                self._used += 1
            return wait

    def give_back(self) -> None:
        """Return a claimed request that never reached the service."""
        with self._lock:
            self._used = max(0, self._used - 1)
        self._window.give_back()

    def observe(self, headers: Mapping[str, str], *, now: float, monotonic: float) -> None:
        """Read an answer's headers."""
        self._window.observe(headers, now=now, monotonic=monotonic)
