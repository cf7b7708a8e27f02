"""The service's time: read from response headers, and estimated between responses. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import NamedTuple

from .._system.clock import Clock

_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_RESET = re.compile(r"[0-9]{9,11}")
_AGE = re.compile(r"[0-9]{1,9}")
_COMMA = re.compile(r",(?! ?[0-9]{2}[ -][A-Z])")  # a comma between values, not inside a date
_LONGEST = 1e12  # seconds, beyond the calendar: a number of any length stays finite

AHEAD = 60.0
"""Seconds that an event may be ahead of a clock that is known from responses."""
A_DAY = 86_400.0
MAX_DIFFERENCE = 900.0
"""Seconds that the service may be behind. It may be ahead only as far as a payment may be valid."""
REPORTED = 15.0
"""Seconds. A larger difference is logged as a warning when a payment is signed, and shows that a clock was changed."""
TOLERANCE = 5.0
"""Seconds. A smaller difference is ignored: a `Date` has no fractions, and networks are slow."""


def server_now(headers: Mapping[str, str], local_now: float) -> float:
    """The service's time when it responded: `Date` plus `Age`; the local clock if there is no usable `Date`."""
    date = server_date(headers)
    return local_now if date is None else date


def server_date(headers: Mapping[str, str]) -> float | None:
    """`Date` plus `Age`; None when there is no usable `Date`."""
    dates = [parse_http_date(value) for value in _values(headers, "date")]
    known = [date for date in dates if date is not None]
    if not known:
        return None
    age = headers.get("age", "").strip()
    return min(known) + (int(age) if _AGE.fullmatch(age) else 0)


def server_wait(headers: Mapping[str, str], local_now: float) -> float | None:
    """Seconds to wait that the service named, the longest of several; None when it named none."""
    now = server_now(headers, local_now)
    named: list[float] = []
    for value in _values(headers, "retry-after"):
        if _SECONDS.fullmatch(value):
            named.append(float(value))
        elif (date := parse_http_date(value)) is not None:
            named.append(date - now)
    reset = reset_time(headers)
    if reset is not None:
        named.append(reset + 1 - now)
    return min(max(0.0, *named), _LONGEST) if named else None


def reset_time(headers: Mapping[str, str]) -> int | None:
    """`X-RateLimit-Reset` in Unix seconds; None when it is missing or not a plausible time."""
    return max((int(value) for value in _values(headers, "x-ratelimit-reset") if _RESET.fullmatch(value)), default=None)


def _values(headers: Mapping[str, str], name: str) -> list[str]:
    """The values of a header: repeated headers are joined by commas."""
    text = headers.get(name)
    return [value.strip() for value in _COMMA.split(text)] if text else []


@lru_cache(maxsize=8)  # responses of the same second have the same date
def parse_http_date(text: str) -> float | None:
    """Unix seconds of a date in the format of mail and HTTP, or None. Without a zone it is UTC."""
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


class Moment(NamedTuple):
    """A moment by all clocks, in Unix seconds except for `monotonic`."""

    local: float
    monotonic: float
    service: float  # the best estimate of the service's time
    latest: float  # the latest possible estimate
    is_known: bool  # whether a response had a usable `Date`


class ServiceClock:
    """The service's time, estimated from its responses, and for a stream from its events.

    There are three estimates: the local clock, the `Date` of the last response plus the monotonic time since, and the
    local clock plus the difference at that response. None is reliable alone: the local clock may be changed, and a
    hostile service may send any date. So the latest estimate decides whether an authorization may still be sent, and
    the earliest whether it has expired. Before the first response, the local clock may be fast by the largest accepted
    difference. A stream uses the local clock until there is a `Date`.
    """

    def __init__(self, *, now: float = 0.0, monotonic: float = 0.0) -> None:
        self._offset = now - monotonic  # from the monotonic clock to the service's
        self._had_event = False
        self.is_known = False
        """Whether a response had a usable `Date`."""
        self.difference = 0.0

    def observe(self, headers: Mapping[str, str], *, now: float, monotonic: float) -> None:
        """Read the time from response headers. `now` is the local clock in Unix seconds."""
        date = server_date(headers)
        if date is None:  # no usable `Date`
            return
        self.is_known = True
        self._offset = date - monotonic
        self.difference = date - now if abs(date - now) > TOLERANCE else 0.0

    def moment(self, clock: Clock, headers: Mapping[str, str] | None = None) -> Moment:
        """The current moment. `headers`: of a response that has just arrived; the time is read from them first."""
        now, monotonic = clock.now(), clock.monotonic()
        if headers is not None:
            self.observe(headers, now=now, monotonic=monotonic)
        return Moment(now, monotonic, self.now(now), self.latest(now, monotonic), self.is_known)

    def agrees(self, at: Moment) -> bool:
        """Whether the service's time is known, and the local clock agrees with it and was not changed since."""
        has_parted = abs(self.now(at.local) - self.at(at.monotonic)) > REPORTED
        return self.is_known and not self.difference and not has_parted

    def observe_event(self, when: float, monotonic: float) -> None:
        """Read the time from an event that is ahead; without a `Date`, also from the first event."""
        ahead = when - self.at(monotonic)
        first, self._had_event = not self._had_event, True
        if 0 < ahead < self.tolerance or (first and not self.is_known and abs(ahead) < A_DAY):
            self._offset += ahead

    @property
    def tolerance(self) -> float:
        """Seconds that an event may be ahead and still be believed."""
        return AHEAD if self.is_known else A_DAY

    def at(self, monotonic: float) -> float:
        """The service's time at a monotonic time, by the last date or event."""
        return monotonic + self._offset

    def now(self, now: float) -> float:
        """The best estimate: the local clock, corrected if it differs by more than 5 s."""
        return now + self.difference

    def latest(self, now: float, monotonic: float) -> float:
        return max(self.now(now), self.at(monotonic)) if self.is_known else self.now(now)

    def earliest(self, now: float, monotonic: float) -> float:
        return min(now, self.now(now), self.at(monotonic)) if self.is_known else now - MAX_DIFFERENCE
