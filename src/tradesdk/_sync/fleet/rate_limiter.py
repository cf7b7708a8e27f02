# Generated from src/tradesdk/_async/fleet/rate_limiter.py by scripts/unasync.py: change that file instead.
"""One rate limit for all machines with the same API key, on Redis or Valkey."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping
from random import random as _random

from ..._fleet.local_share import LocalShare
from ..._http import settings
from ..._http.log_events import log_fields, logger
from ..._http.rate_limit import FARTHEST
from ..._http.response import rate_limit
from ..._http.retry import server_now, server_wait, with_jitter
from ..._stream.checkpoint import fingerprint
from ..._system.clock import Clock
from ..._values.http import RateLimit
from ...errors import FleetError, InvalidArgumentError
from ..rate_limiting import Claim
from .connection import FleetConnection

_PROBE = 5_000
"""Milliseconds to wait for the answer of the request that asks what a new window has left."""
_AGAIN = 5.0
"""Seconds until the server is tried again after it failed."""
_LONGEST_NAME = 100


class RedisRateLimiter:
    """Shares the rate limit of an API key among all clients that use the same server and key.

    What answers say about the limit is known to all; each request is claimed on the server before it is sent. After a
    reset one request asks what the new window has, and the others follow. While the server is away each member goes on
    with its share, and a warning says so. A request whose answer never came counts until `lease` is over.

    Args:
        url: `redis://…` or `rediss://…`; by default TRADE_FLEET.
        api_key: the key whose limit is shared, or a function that returns it; by default TRADE_API_KEY.
        window: a name to share a limit by, in the place of a key: for market data, which takes none.
        prefix: begins all keys on the server.
        lease: seconds, at least as long as one request may take.
        timeout: seconds to wait for the server.

    Raises:
        ConfigError: the URL or the key cannot be used, or redis-py is not installed.
        FleetError: the first claim: the server refuses the user, or cannot be used for another reason.

    Example:
        ```python
        with RedisRateLimiter("redis://10.0.0.5") as limiter:
            client = TradeClient(rate_limiter=limiter)
        ```
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | Callable[[], str] | None = None,
        window: str | None = None,
        prefix: str = "tradesdk",
        lease: float = 120.0,
        timeout: float = 1.0,
    ) -> None:
        if not (isinstance(lease, int | float) and 1 <= lease <= 3600):
            raise InvalidArgumentError("lease must be seconds from 1 to 3600")
        for name, text in (("window", window), ("prefix", prefix)):
            if text is not None and not (
                isinstance(text, str) and 0 < len(text) <= _LONGEST_NAME and text.isprintable()
            ):
                raise InvalidArgumentError(f"{name} must be 1 to {_LONGEST_NAME} printable characters")
        if api_key is not None and window is not None:
            raise InvalidArgumentError("api_key and window exclude each other: each names whose limit is shared")
        self._key = None if window is not None else settings.api_key(api_key)
        self._window, self._prefix = window, prefix
        self._connection = FleetConnection(url, timeout=timeout)
        self._lease = math.ceil(lease * 1000)
        self._member = secrets.token_hex(8)
        self._alone = LocalShare()
        self._worked = self._away = False
        self._again = -math.inf  # monotonic time of the next attempt after the server failed
        self._draw: Callable[[], float] = _random
        self._time: Callable[[], float] | None = None  # tests have a time of their own; else the server's counts

    @property
    def rate_limit(self) -> RateLimit | None:
        """The rate limit in the last answer to this client that had one; None before that."""
        return self._alone.rate_limit

    @property
    def members(self) -> int:
        """How many clients shared the limit at the last claim."""
        return self._alone.members

    def claim(self, clock: Clock) -> Claim:
        """Claim one request, or say how long to wait."""
        name = secrets.token_hex(8)
        reply = self._run("rate_claim", 3, [name, self._member, self._lease, _PROBE], clock)
        if reply is None:
            wait = self._alone.claim(clock.monotonic())
            return Claim(wait, with_jitter(wait) if wait else 0.0, members=self._alone.members)
        wait, spread, members, _ = reply
        self._alone.members = members
        seconds = wait / 1000
        return Claim(seconds, seconds + self._draw() * spread / 1000, "" if wait else name, members)

    def not_sent(self, claim: Claim, clock: Clock) -> None:
        """The claimed request never reached the service."""
        if claim.id:
            self._run("rate_answer", 2, [claim.id, "unsent", 0, 0, "", 0, 0], clock)
        else:
            self._alone.give_back()

    def answered(self, claim: Claim | None, status: int, headers: Mapping[str, str], clock: Clock) -> None:
        """An answer came."""
        now = clock.now()
        self._alone.observe(headers, now=now, monotonic=clock.monotonic())
        known, closed = rate_limit(headers), 0
        if status == 429:
            closed = math.ceil(1000 * min(server_wait(headers, now) or 1.0, 3600.0))
        said: list[str | bytes | int | float] = ["nothing", 0, 0, "", 0]
        if known is not None and known.remaining is not None and known.reset is not None:
            reset = int(known.reset.timestamp())
            away = reset - server_now(headers, now)
            said = ["odd" if away > FARTHEST else "limit", reset, known.remaining, str(known.limit or "")]
            said.append(max(0, math.ceil(1000 * away)))
        self._run("rate_answer", 2, ["" if claim is None else claim.id, *said, closed], clock)

    def close(self) -> None:
        """Close the connection to the server."""
        self._connection.close()

    def __enter__(self) -> RedisRateLimiter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _run(
        self, script: str, keys: int, arguments: list[str | bytes | int | float], clock: Clock
    ) -> list[int] | None:
        """The reply of a script; None while the server is away."""
        if self._away and clock.monotonic() < self._again:
            return None
        now = "" if self._time is None else math.ceil(self._time() * 1000)
        try:
            reply: list[int] = self._connection.run(script, self._keys()[:keys], [now, *arguments])
        except FleetError as error:
            if not self._worked and error.code != "server_unreachable":
                raise
            self._again = clock.monotonic() + _AGAIN
            if not self._away:
                self._away = True
                members = self._alone.members
                logger.warning(
                    "%s; the rate limit is not shared until it is back: this client uses a share of 1 in %d",
                    error.message,
                    members,
                    extra=log_fields("fleet_away", error, members=members),
                )
            return None
        self._worked = True
        if self._away:
            self._away = False
            logger.warning(
                "the fleet's server is back: the rate limit is shared again",
                extra=log_fields("fleet_back", members=self._alone.members),
            )
        return reply

    def _keys(self) -> list[str]:
        whose = self._window
        if self._key is not None:
            whose = fingerprint(self._key.header().decode("ascii").removeprefix("Bearer "))
        return [f"{self._prefix}:{{rate:{whose}}}:{part}" for part in ("window", "claims", "members")]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._connection.address}>"
