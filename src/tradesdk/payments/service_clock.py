"""What time it is for the service, which judges how long an authorization is valid. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from .._http.retry import server_date

MAX_DIFFERENCE = 900.0
"""Seconds by which the two clocks may differ before the service's word on the time counts as an attack."""
TOLERANCE = 5.0
"""Seconds by which two clocks may differ without anybody minding: a `Date` has no fractions, and a network is slow."""


class ServiceClock:
    """The service's clock as its answers tell it.

    Three clocks know something: the local one, the `Date` of the last answer carried on by the monotonic clock, and the
    local one corrected by the difference that was seen then. None of them is to be trusted alone: the local clock may
    be put back or forward, and a hostile service may send any date. So whether an authorization may still be handed
    over is judged by the latest of them, and whether its money is free again by the earliest. Until an answer has told
    the time, the local clock may be ahead by as much as is accepted at all.
    """

    def __init__(self) -> None:
        self._seen: tuple[float, float] | None = None
        self.difference = 0.0

    def observe(self, headers: Mapping[str, str], *, now: float, monotonic: float) -> None:
        """Take the time from an answer's headers. `now` is the local clock in Unix seconds."""
        date = server_date(headers, now)
        if date is None:  # one that cannot be read tells nothing
            return
        self._seen = (date, monotonic)
        self.difference = date - now if abs(date - now) > TOLERANCE else 0.0

    @property
    def is_known(self) -> bool:
        """Whether an answer has told it."""
        return self._seen is not None

    def now(self, now: float) -> float:
        """The service's time as well as it is known: the local clock, corrected when it differs by more than 5 s."""
        return now + self.difference

    def latest(self, now: float, monotonic: float) -> float:
        """The latest that it may be."""
        return max((self.now(now), *self._carried_on(monotonic)))

    def earliest(self, now: float, monotonic: float) -> float:
        """The earliest that it may be."""
        if self._seen is None:
            return now - MAX_DIFFERENCE
        return min((now, self.now(now), *self._carried_on(monotonic)))

    def _carried_on(self, monotonic: float) -> tuple[float, ...]:
        if self._seen is None:
            return ()
        date, then = self._seen
        return (date + (monotonic - then),)
