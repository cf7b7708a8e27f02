"""The service's time, which decides how long an authorization is valid. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from .._http.retry import server_date

MAX_DIFFERENCE = 900.0
"""Seconds by which the service may be behind. It may be ahead only as far as a payment may be valid."""
REPORTED = 15.0
"""Seconds of difference that are logged as a warning when a payment is signed."""
TOLERANCE = 5.0
"""Seconds of difference that are ignored: a `Date` has no fractions, and networks are slow."""


class ServiceClock:
    """The service's time, estimated from its answers.

    There are three estimates: the local clock, the `Date` of the last answer plus the monotonic time since, and the
    local clock plus the difference seen then. None is reliable alone: the local clock may be changed, and a hostile
    service may send any date. So the latest estimate decides whether an authorization may still be sent, and the
    earliest whether it has expired. Before the first answer, the local clock may be fast by the largest difference that
    is accepted.
    """

    def __init__(self) -> None:
        self._seen: tuple[float, float] | None = None
        self.difference = 0.0

    def observe(self, headers: Mapping[str, str], *, now: float, monotonic: float) -> None:
        """Take the time from an answer's headers. `now` is the local clock in Unix seconds."""
        date = server_date(headers, now)
        if date is None:  # not readable
            return
        self._seen = (date, monotonic)
        self.difference = date - now if abs(date - now) > TOLERANCE else 0.0

    @property
    def is_known(self) -> bool:
        """Whether an answer had a usable `Date`."""
        return self._seen is not None

    def now(self, now: float) -> float:
        """The best estimate: the local clock, corrected if it differs by more than 5 s."""
        return now + self.difference

    def latest(self, now: float, monotonic: float) -> float:
        """The latest estimate."""
        return max((self.now(now), *self._from_last_date(monotonic)))

    def earliest(self, now: float, monotonic: float) -> float:
        """The earliest estimate."""
        if self._seen is None:
            return now - MAX_DIFFERENCE
        return min((now, self.now(now), *self._from_last_date(monotonic)))

    def _from_last_date(self, monotonic: float) -> tuple[float, ...]:
        if self._seen is None:
            return ()
        date, then = self._seen
        return (date + (monotonic - then),)
