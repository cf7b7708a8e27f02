"""Requests per minute, counted per API key."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .errors import ApiError, Header
from .gap_options import GapOptions

WINDOW = 60
_PER_MINUTE = {"free": 60, "pro": 300}


def per_minute(plan: str, gaps: GapOptions) -> int:
    return _PER_MINUTE.get(plan) or gaps.enterprise_limit


@dataclass(slots=True)
class Verdict:
    """The rate limit of a key after a request. `allowed` is False for a request beyond the limit."""

    limit: int
    remaining: int
    reset: int
    allowed: bool = True


class RateLimiter:
    """A window of a minute starts with a key's first request and ends at a whole second; then the count is zero again.

    Kept in memory: each server process counts for itself.
    """

    def __init__(self) -> None:
        self._windows: dict[str, tuple[int, int]] = {}

    def hit(self, key_id: str, limit: int, now: float) -> Verdict:
        """Count one request. A refused one isn't counted, so that waiting until `reset` is always enough."""
        start, used = self._window(key_id, now)
        allowed = used < limit
        if allowed:
            used += 1
            self._windows[key_id] = (start, used)
        return Verdict(limit, max(0, limit - used), start + WINDOW, allowed)

    def current(self, key_id: str, limit: int, now: float) -> Verdict:
        """The rate limit of the key, without counting a request."""
        start, used = self._window(key_id, now)
        return Verdict(limit, max(0, limit - used), start + WINDOW)

    def _window(self, key_id: str, now: float) -> tuple[int, int]:
        """When the key's window began, and the requests counted in it; a new one if it has ended."""
        start, used = self._windows.get(key_id, (0, 0))
        return (start, used) if start <= now < start + WINDOW else (int(now), 0)

    def clear(self) -> None:
        self._windows.clear()


def anonymous(gaps: GapOptions, now: float) -> Verdict:
    """The rate limit of a caller without a valid key: an unused window with the free plan's limit."""
    limit = per_minute("free", gaps)
    return Verdict(limit, limit, int(now) + WINDOW)


def exceeded(until: float, now: float, message: str) -> ApiError:
    """429 with a Retry-After that is never too short."""
    wait = max(1, math.ceil(until - now))
    return ApiError(429, "rate_limited", message, [(b"retry-after", str(wait).encode("ascii"))])


def rate_headers(verdict: Verdict) -> list[Header]:
    return [
        (b"x-ratelimit-limit", b"%d" % verdict.limit),
        (b"x-ratelimit-remaining", b"%d" % verdict.remaining),
        (b"x-ratelimit-reset", b"%d" % verdict.reset),
    ]
