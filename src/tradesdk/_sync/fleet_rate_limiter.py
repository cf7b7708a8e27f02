# Generated from src/tradesdk/_async/fleet_rate_limiter.py by scripts/unasync.py: change that file instead.
"""The rate limiter of a fleet."""

from __future__ import annotations

from collections.abc import Mapping

from .._http import settings
from .._http.arguments import flags, wrong_setting
from .._http.retry import with_jitter
from .._postgres.server import SCHEMA, server
from .._system.clock import Clock, SystemClock
from .._values.frames import hides_locals
from .._values.http import RateClaim, RateLimit
from .base_client import Connected


class FleetRateLimiter(Connected):
    """An `RateLimiter` for all machines with the same API key, in PostgreSQL. `create_tables` makes its tables.

    If the server does not respond, each member continues alone with its share of the last known limit, after one
    warning.

    Args:
        url: `postgresql://USER@HOST/DATABASE`; by default `TRADE_FLEET`.
        schema: the schema that holds the tables.
        clock: the clock of the clients.
        alone: whether to continue alone while the server does not respond; False: calls then raise `FleetError`,
            unsent.

    Raises:
        ConfigError: the URL or the schema cannot be used, or psycopg is not installed.
    """

    @hides_locals
    def __init__(
        self, url: str | None = None, *, schema: str = SCHEMA, clock: Clock | None = None, alone: bool = True
    ) -> None:
        flags(wrong_setting, alone=alone)
        settings.instance("clock", clock, Clock, "a Clock with now, monotonic, sleep and sleep_async")
        database = server(url, schema)
        from .._fleet.rate import SharedWindow  # needs psycopg, an extra

        self._window = SharedWindow(database, clock or SystemClock(), alone=alone)

    @property
    def rate_limit(self) -> RateLimit | None:
        """The rate limit in the last response to this member; None before that."""
        return self._window.rate_limit

    def claim(self, name: str, /) -> RateClaim:
        """Take one request from the window of an API key."""
        claims: list[RateClaim] = []

        def claim_one() -> None:
            claims.append(self._window.claim(name))

        try:
            claim_one()
        except BaseException:  # canceled meanwhile
            for claim in claims:
                self._window.failed(claim, sent=False)
            raise
        (claim,) = claims
        return RateClaim(with_jitter(claim.wait), name, "") if claim.wait else claim

    def answered(self, claim: RateClaim, status: int, headers: Mapping[str, str], /) -> None:
        """Read the rate limit in a response."""
        self._window.answered(claim, headers)

    def failed(self, claim: RateClaim, /, *, sent: bool) -> None:
        """Return a claim if its request was not sent."""
        self._window.failed(claim, sent=sent)

    def close(self) -> None:
        """Close the connection. The next use opens another one."""
        self._window.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"
