"""Who may send when. A client has a limiter of its own; a fleet shares one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from .._http.rate_limit import RateLimitWindow
from .._http.retry import with_jitter
from .._system.clock import Clock
from .._values.http import RateLimit


class Claim(NamedTuple):
    """The answer to a claim.

    Attributes:
        wait: seconds until the next claim; 0: the request may be sent.
        pause: the same with jitter: how long to sleep.
        id: names the claim; empty where claims have no names.
        members: how many clients share the limit.
    """

    wait: float = 0.0
    pause: float = 0.0
    id: str = ""
    members: int = 1


_GRANTED = Claim()


@runtime_checkable
class AsyncRateLimiter(Protocol):
    """Holds requests back instead of collecting a 429. `rate_limiter=` of a client takes one.

    A request is claimed before it is sent. Then either `answered` or `not_sent` ends its claim; if it was sent and no
    answer came, neither does.
    """

    @property
    def rate_limit(self) -> RateLimit | None:
        """The rate limit in the last answer that had one; None before that."""
        ...

    async def claim(self, clock: Clock) -> Claim:
        """Claim one request, or say how long to wait."""
        ...

    async def not_sent(self, claim: Claim, clock: Clock) -> None:
        """The claimed request never reached the service."""
        ...

    async def answered(self, claim: Claim | None, status: int, headers: Mapping[str, str], clock: Clock) -> None:
        """An answer came. `claim` is None for a request that was not claimed."""
        ...

    async def aclose(self) -> None:
        """Close connections. The client that was given a limiter does not do that."""
        ...


class AsyncLocalRateLimiter:
    """The limiter of one client, without I/O."""

    def __init__(self) -> None:
        self._window = RateLimitWindow()

    @property
    def rate_limit(self) -> RateLimit | None:
        return self._window.rate_limit

    async def claim(self, clock: Clock) -> Claim:
        wait = self._window.claim(clock.monotonic())
        return Claim(wait, with_jitter(wait)) if wait else _GRANTED

    async def not_sent(self, claim: Claim, clock: Clock) -> None:
        self._window.give_back()

    async def answered(self, claim: Claim | None, status: int, headers: Mapping[str, str], clock: Clock) -> None:
        self._window.observe(headers, now=clock.now(), monotonic=clock.monotonic())

    async def aclose(self) -> None:
        pass
