"""The service's time, from its answers and events. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from .._http.service_time import server_date

AHEAD = 60.0
"""Seconds that an event may be ahead of a clock that is synced with answers."""
A_DAY = 86_400.0


class ServerClock:
    """Follows the dates of answers; without them, the first event and events that are ahead of it."""

    def __init__(self, *, mono: float, local: float) -> None:
        self._offset = local - mono  # from the monotonic clock to the service's
        self._had_event = False
        self.synced = False
        """Whether an answer had a date."""

    @property
    def tolerance(self) -> float:
        """Seconds that an event may be ahead and still be believed."""
        return AHEAD if self.synced else A_DAY

    def now(self, mono: float) -> float:
        """The service's time in Unix seconds at a monotonic time."""
        return mono + self._offset

    def answered(self, headers: Mapping[str, str], mono: float, local: float) -> None:
        """Set the clock by an answer; `local` is the local time."""
        date = server_date(headers, local)
        if date is not None:
            self._offset = date - mono
            self.synced = True

    def event(self, when: float, mono: float) -> None:
        """Set the clock by an event that is ahead: the service's clock may run faster, or may have been set."""
        ahead = when - self.now(mono)
        first, self._had_event = not self._had_event, True
        if 0 < ahead < self.tolerance or (first and not self.synced and abs(ahead) < A_DAY):
            self._offset = when - mono
