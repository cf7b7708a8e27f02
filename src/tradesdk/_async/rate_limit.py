"""What a rate limiter does, and the one that a client has alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from .._http.rate_limit import RateWindow
from .._http.retry import with_jitter
from .._system.clock import Clock
from .._values.http import RateClaim, RateLimit

NO_CLAIM = RateClaim()
_GRANTED = RateClaim(id="granted")


@runtime_checkable
class AsyncRateLimiter(Protocol):
    """Says when requests may be sent. Pass one to clients as `rate_limiter=`; several may share it."""

    @property
    def rate_limit(self) -> RateLimit | None:
        """The rate limit in the last answer that had one; None before that."""
        ...

    async def claim(self, window: str, /) -> RateClaim:
        """Ask for one request, just before it is sent. A claim that has to wait asks again after `wait` seconds.

        Args:
            window: a fingerprint of the API key that the request is sent with.
        """
        ...

    async def answered(self, claim: RateClaim, status: int, headers: Mapping[str, str], /) -> None:
        """Called with every answer. `claim.id` is empty if the request was sent without asking."""
        ...

    async def failed(self, claim: RateClaim, /, *, sent: bool) -> None:
        """Called when there is no answer. `sent`: the service may have counted the request."""
        ...


class AsyncLocalRateLimiter:
    """The rate limiter of one client and its copies."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._window = RateWindow()

    @property
    def rate_limit(self) -> RateLimit | None:
        return self._window.rate_limit

    async def claim(self, window: str, /) -> RateClaim:
        wait = self._window.claim(self._clock.monotonic())
        return RateClaim(with_jitter(wait)) if wait else _GRANTED

    async def answered(self, claim: RateClaim, status: int, headers: Mapping[str, str], /) -> None:
        self._window.observe(headers, now=self._clock.now(), monotonic=self._clock.monotonic())

    async def failed(self, claim: RateClaim, /, *, sent: bool) -> None:
        if claim.id and not sent:
            self._window.give_back()
