"""The service's time, as its answers and events tell it. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from .._http.retry import server_date

AHEAD = 60.0
"""Seconds that an event may be ahead of a clock that answers have told, and still be believed."""
A_DAY = 86_400.0


class ServerClock:
    """Follows the dates of answers; where there are none the first event, and events that are ahead of it."""

    def __init__(self, *, mono: float, local: float) -> None:
        self._offset = local - mono  # from a monotonic clock to the service's
        self._had_event = False
        self.told = False
        """Whether an answer has told the time."""

    @property
    def tolerance(self) -> float:
        """Seconds that something may be ahead and still be believed."""
        return AHEAD if self.told else A_DAY

    def now(self, mono: float) -> float:
        """The service's time in Unix seconds, at this time of the monotonic clock."""
        return mono + self._offset

    def answered(self, headers: Mapping[str, str], mono: float, local: float) -> None:
        """An answer has come; `local` is the local time."""
        date = server_date(headers, local)
        if date is not None:
            self._offset = date - mono
            self.told = True

    def event(self, when: float, mono: float) -> None:
        """An event of this time has come: the service's clock may be faster than ours, or somebody has set it."""
        ahead = when - self.now(mono)
        first, self._had_event = not self._had_event, True
        if 0 < ahead < self.tolerance or (first and not self.told and abs(ahead) < A_DAY):
            self._offset = when - mono
