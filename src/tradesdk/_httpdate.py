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
        year = int(match["year"])
        if len(match["year"]) == 2:
            this_year = datetime.fromtimestamp(now, UTC).year
            year += this_year // 100 * 100
            if year > this_year + 50:
                year -= 100
        try:
            moment = datetime(
                year,
                _MONTHS.index(match["month"]) + 1,
                int(match["day"]),
                int(match["hour"]),
                int(match["minute"]),
                min(int(match["second"]), 59),  # a leap second
                tzinfo=UTC,
            )
        except ValueError:
            return None
        return moment.timestamp()
    return None
