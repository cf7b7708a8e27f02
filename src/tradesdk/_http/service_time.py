"""The service's time: what the headers of an answer say about it, and an estimate of it between answers. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_RESET = re.compile(r"[0-9]{9,11}")
_AGE = re.compile(r"[0-9]{1,9}")
_COMMA = re.compile(r",(?! ?[0-9]{2}[ -][A-Z])")  # between values, not the one inside a date
_LONGEST = 1e12  # seconds, beyond the calendar: a number of any length stays finite

_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_LONG_DAY = "(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = f"(?P<month>{'|'.join(_MONTHS)})"
_TIME = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_DATE_FORMS = (
    re.compile(rf"{_DAY}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT"),
    re.compile(rf"{_LONG_DAY}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT"),
    re.compile(rf"{_DAY} {_MONTH} (?P<day>[0-9 ][0-9]) {_TIME} (?P<year>[0-9]{{4}})"),
)

MAX_DIFFERENCE = 900.0
"""Seconds by which the service may be behind. It may be ahead only as far as a payment may be valid."""
REPORTED = 15.0
"""Seconds of difference that are logged as a warning when a payment is signed."""
TOLERANCE = 5.0
"""Seconds of difference that are ignored: a `Date` has no fractions, and networks are slow."""


def server_now(headers: Mapping[str, str], local_now: float) -> float:
    """The service's time when it answered: `Date` plus `Age`; the local clock when there is no usable `Date`."""
    date = server_date(headers, local_now)
    return local_now if date is None else date


def server_date(headers: Mapping[str, str], local_now: float) -> float | None:
    """`Date` plus `Age`; None when there is no usable `Date`."""
    dates = [parse_http_date(value, now=local_now) for value in _values(headers, "date")]
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
        elif (date := parse_http_date(value, now=now)) is not None:
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


def parse_http_date(text: str, *, now: float) -> float | None:
    """Unix seconds of a date in one of the three HTTP forms, else None. `now` decides the century of two-digit years.

    Stricter than the standard library, which accepts "1 Jan 27 0:0" and "+0500".
    """
    text = text.strip()
    for form in _DATE_FORMS:
        match = form.fullmatch(text)
        if match is None:
            continue
        second = int(match["second"])
        if second > 60:
            return None
        try:
            year = int(match["year"])
            if len(match["year"]) == 2:  # at most 50 years ahead
                this_year = datetime.fromtimestamp(now, UTC).year
                year = this_year + (year - this_year + 49) % 100 - 49
            moment = datetime(
                year,
                _MONTHS.index(match["month"]) + 1,
                int(match["day"]),
                int(match["hour"]),
                int(match["minute"]),
                min(second, 59),
                tzinfo=UTC,
            )
        except (ValueError, OverflowError, OSError):
            return None
        return moment.timestamp() + (second == 60)  # a leap second counts as the first second of the next minute
    return None


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
