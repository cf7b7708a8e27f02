"""The three date forms of HTTP, and nothing looser: what is not one of them is not a date."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_LONG_DAY = "(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = f"(?P<month>{'|'.join(_MONTHS)})"
_TIME = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_FORMS = (
    re.compile(rf"{_DAY}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT"),
    re.compile(rf"{_LONG_DAY}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT"),
    re.compile(rf"{_DAY} {_MONTH} (?P<day>[0-9 ][0-9]) {_TIME} (?P<year>[0-9]{{4}})"),
)


def parse_http_date(text: str, *, now: float) -> float | None:
    """Unix seconds of an HTTP date, or None. `now` settles the century of the two-digit form."""
    text = text.strip()
    for form in _FORMS:
        match = form.fullmatch(text)
        if match is None:
            continue
        second = int(match["second"])
        if second > 60:
            return None
        try:
            year = int(match["year"])
            if len(match["year"]) == 2:  # never more than 50 years ahead
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
        return moment.timestamp() + (second == 60)  # a leap second is the first one of the next minute
    return None
