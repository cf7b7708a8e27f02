# Generated from src/tradesdk/_async/fleet/rate_limiter.py by scripts/unasync.py: change that file instead.
"""A rate limiter that the members of a fleet share. Its rules are in `_fleet/lua/rate.lua`."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

from ..._fleet.rate_window import (
    ALONE,
    Share,
    SharedWindow,
    answer_args,
    checked_prefix,
    has_numbers,
    spread_out,
    window_keys,
)
from ..._http import settings
from ..._http.log_events import log_fields
from ..._http.response import rate_limit
from ..._http.retry import with_jitter
from ..._system.clock import Clock, SystemClock
from ..._system.forks import bind
from ..._values.http import RateClaim, RateLimit
from ...errors import FleetError
from .connection import FleetConnection

logger = logging.getLogger("tradesdk")

_TRY_AGAIN = 5.0  # seconds between two tries while the server is away
_MOST_WINDOWS = 1000


class RedisRateLimiter:
    """The rate limit of an API key, shared by all programs that use it, on any number of machines.

    Before each request one place is taken, in one atomic step; each answer tells all members what is left. After a
    reset one member asks first. While the server is away, each member continues with its last known share.

    Pass it to clients as `rate_limiter=`, and close it after them. Threads may share it.

    Args:
        url: `redis://…` or `rediss://…`; by default TRADE_FLEET.
        prefix: what all keys on the server begin with.
        timeout: seconds to wait for the server, before this member continues alone.
        clock: Clock to use (tests pass their own; its time then also replaces the server's).

    Raises:
        ConfigError: an argument cannot be used, or redis-py is not installed.

    Example:
        ```python
        with RedisRateLimiter("redis://10.0.0.5") as limiter:
            with TradeClient(rate_limiter=limiter) as client:
                client.account.get()
        ```
    """

    def __init__(
        self, url: str | None = None, *, prefix: str = "tradesdk", timeout: float = 1.0, clock: Clock | None = None
    ) -> None:
        settings.instance("clock", clock, Clock, "a Clock with now, monotonic, sleep and sleep_async")
        self._prefix = checked_prefix(prefix)
        self._connection = FleetConnection(url, timeout=timeout)
        self._clock = clock or SystemClock()
        self._given_time = clock is not None
        self._shares: dict[str, Share] = {}
        self._latest: Mapping[str, str] | None = None
        self._try_again: float | None = None  # None: the server answers
        self.forked()
        bind(self)

    def forked(self) -> None:
        """Become another member in a forked process."""
        self._member = secrets.token_hex(4)
        self._numbers = count()

    @property
    def rate_limit(self) -> RateLimit | None:
        """The rate limit in the last answer that had one; None before that."""
        return None if self._latest is None else rate_limit(self._latest)

    def claim(self, window: str, /) -> RateClaim:
        """Ask for one request. Clients call this."""
        share = self._share(window)
        if self._is_alone():
            return self._claim_alone(share, window)
        try:
            unreported = share.to_report(self._clock.monotonic())
            if unreported is not None:
                self._run(window, "answer", "", unreported)
            claim = f"{self._member}-{next(self._numbers)}"
            may_be_sent, wait, members = self._run(window, "claim", claim)
        except FleetError as error:
            self._go_alone(error, share)
            return self._claim_alone(share, window)
        share.members = members
        self._go_together(members)
        share.together()
        if may_be_sent:
            return RateClaim(0.0, members, window, claim)
        return RateClaim(spread_out(wait / 1000), members, window)

    def answered(self, claim: RateClaim, status: int, headers: Mapping[str, str], /) -> None:
        """Tell the members what an answer says. Clients call this."""
        share = self._share(claim.window)
        numbers = has_numbers(headers)
        if numbers:
            self._latest = headers
            share.note(headers, self._clock.now(), self._clock.monotonic())
        elif not claim.id and status != 429:
            return
        if self._try_again is not None:
            share.answered()
            return
        try:
            self._run(claim.window, "answer", claim.id, answer_args(status, headers, now=self._clock.now()))
        except FleetError as error:
            self._go_alone(error, share)
            share.answered()

    def failed(self, claim: RateClaim, /, *, sent: bool) -> None:
        """Note that there is no answer. Clients call this."""
        if claim.id == ALONE:
            if not sent:
                self._share(claim.window).give_back()
        elif claim.id and self._try_again is None:
            try:
                self._run(claim.window, "lost" if sent else "return", claim.id)
            except FleetError as error:  # the claim is given up after a minute
                self._go_alone(error, self._share(claim.window))

    def look(self, api_key: str | Callable[[], str] | None = None) -> SharedWindow:
        """The window of an API key (by default TRADE_API_KEY), as the server has it. Claims nothing.

        Raises:
            FleetError: the server cannot be used.
        """
        window = settings.api_key(api_key).fingerprint("account")
        _, _, members, in_flight, left, limit, to_end = self._run(window, "look", "")
        return SharedWindow(
            members,
            in_flight,
            None if left < 0 else left,
            None if limit < 0 else limit,
            None if to_end < 0 else to_end / 1000,
        )

    def close(self) -> None:
        """Close the connections to the server. From then on this member is not counted."""
        with suppress(FleetError):  # then it is not counted after two minutes
            for window in self._shares if self._try_again is None else ():
                self._run(window, "leave", "")
        self._connection.close()

    def __enter__(self) -> RedisRateLimiter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._connection.address}>"

    def _run(self, window: str, action: str, claim: str, answer: list[str | int] | None = None) -> Any:
        now: str | int = int(self._clock.now() * 1000) if self._given_time else ""
        return self._connection.run(
            "rate", window_keys(self._prefix, window), [action, claim, self._member, now, *(answer or ())]
        )

    def _share(self, window: str) -> Share:
        share = self._shares.get(window)
        if share is None:
            if len(self._shares) >= _MOST_WINDOWS:  # a key that changes often leaves one behind each time
                self._shares.clear()
            share = self._shares.setdefault(window, Share())
        return share

    def _is_alone(self) -> bool:
        """Whether the server is away. From time to time one request is sent there, to see whether it is back."""
        if self._try_again is None:
            return False
        now = self._clock.monotonic()
        if now < self._try_again:
            return True
        self._try_again = now + _TRY_AGAIN
        return False

    def _claim_alone(self, share: Share, window: str) -> RateClaim:
        claim = share.claim(window, self._clock.monotonic())
        return RateClaim(with_jitter(claim.wait), claim.members, window) if claim.wait else claim

    def _go_alone(self, error: FleetError, share: Share) -> None:
        first = self._try_again is None
        self._try_again = self._clock.monotonic() + _TRY_AGAIN
        if first:
            members = share.members
            logger.warning(
                "%s; this member continues alone with %s of the rate limit",
                error.message,
                f"1/{members}" if members > 1 else "all",
                extra=log_fields("rate_limit_alone", error, members=members),
            )

    def _go_together(self, members: int) -> None:
        if self._try_again is not None:
            self._try_again = None
            logger.info(
                "the fleet's server is back: the rate limit is shared by %d",
                members,
                extra=log_fields("rate_limit_shared", members=members),
            )
