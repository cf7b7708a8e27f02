"""The three date forms of HTTP, and nothing looser."""

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk._http.retry import parse_http_date

MOMENT = 784_111_777.0  # 1994-11-06 08:49:37 UTC, the standard's own example
NOW = 1_700_000_000.0
EARLY, LATE = datetime(1, 1, 1, tzinfo=UTC).timestamp(), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


def year(number: int) -> float:
    return datetime(number, 6, 1, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "text",
    [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "Sun Nov 06 08:49:37 1994",
        "  Sun, 06 Nov 1994 08:49:37 GMT\t",
        "Mon, 06 Nov 1994 08:49:37 GMT",  # a wrong weekday harms nobody
    ],
)
def test_the_three_forms(text: str) -> None:
    assert parse_http_date(text, now=NOW) == MOMENT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "784111777",
        "now",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Sun, 06 Nov 1994 08:49:37 gmt",
        "sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun,06 Nov 1994 08:49:37 GMT",
        "06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06-Nov-1994 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov  6 08:49:37 1994 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT\nX: y",
        "Sun, 06 Nov 1994 08:49:37 GMT;",
        "1994-11-06T08:49:37Z",
        # no such moment
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Wed, 29 Feb 2023 08:49:37 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov 1994 08:49:99 GMT",
        "Sun, -6 Nov 1994 08:49:37 GMT",
        # digits that int() would take
        "Sun, ٠٦ Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov \N{FULLWIDTH DIGIT ONE}994 08:49:37 GMT",
    ],
)
def test_what_is_not_one_of_them_is_not_a_date(text: str) -> None:
    assert parse_http_date(text, now=NOW) is None


def test_a_leap_second_is_the_first_second_of_the_next_minute() -> None:
    midnight = datetime(2017, 1, 1, tzinfo=UTC).timestamp()
    assert parse_http_date("Sat, 31 Dec 2016 23:59:60 GMT", now=NOW) == midnight
    assert parse_http_date("Sat, 31 Dec 2016 23:59:59 GMT", now=NOW) == midnight - 1


@pytest.mark.parametrize(
    ("short", "now", "expected"),
    [
        (94, 2023, 1994),
        (23, 2023, 2023),
        (73, 2023, 2073),
        (74, 2023, 1974),
        (0, 2023, 2000),
        (99, 2023, 1999),
        (5, 1999, 2005),  # the next century is nearer
        (0, 2099, 2100),
        (99, 2100, 2099),
    ],
)
def test_two_digits_mean_the_year_that_is_at_most_50_years_ahead(short: int, now: int, expected: int) -> None:
    text = f"Sunday, 06-Nov-{short:02} 08:49:37 GMT"
    assert parse_http_date(text, now=year(now)) == datetime(expected, 11, 6, 8, 49, 37, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("now", [1e13, -1e13, 1e300, EARLY, LATE])
def test_no_local_clock_makes_it_raise(now: float) -> None:
    assert parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT", now=now) == MOMENT
    parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT", now=now)


@given(st.integers(int(year(1000)), int(LATE)), st.floats(0, 2**33))
def test_both_four_digit_forms_round_trip(seconds: int, now: float) -> None:
    moment = datetime.fromtimestamp(seconds, UTC)
    assert parse_http_date(format_datetime(moment, usegmt=True), now=now) == seconds
    assert parse_http_date(moment.strftime("%a %b %e %H:%M:%S %Y"), now=now) == seconds


@given(st.integers(0, 2**32), st.integers(-49, 49))
def test_the_two_digit_form_round_trips_within_49_years(now: int, years: int) -> None:
    here = datetime.fromtimestamp(now, UTC)
    moment = here.replace(year=here.year + years, day=min(here.day, 28))
    assert parse_http_date(moment.strftime("%A, %d-%b-%y %H:%M:%S GMT"), now=now) == moment.timestamp()


@given(st.text(alphabet="SunMoTeWdhFriatNvJ 0123456789,:-GMT", max_size=40) | st.text(max_size=40), st.floats(0, 1e12))
def test_no_text_makes_it_raise(text: str, now: float) -> None:
    parse_http_date(text, now=now)
