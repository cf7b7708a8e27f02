"""How long to wait: our own backoff, and whatever the service names, read against the service's own clock."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tradesdk import RetryPolicy
from tradesdk._http.service_time import parse_http_date, reset_time, server_now, server_wait
from tradesdk.types import Failure, FailureCause

from .._rows import each_of
from .._texts import texts

POLICY = RetryPolicy()
NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT
TEN_YEARS = 10 * 365.25 * 86400


def http_date(seconds: float) -> str:
    return format_datetime(datetime.fromtimestamp(seconds, UTC), usegmt=True)


def always(draw: float) -> Callable[[], float]:
    return lambda: draw


def limited(headers: dict[str, str], status: int = 429) -> Failure:
    return Failure(FailureCause.STATUS, status, headers)


LOST = Failure(FailureCause.LOST)


@pytest.mark.rule("retry.backoff", "retry.jitter")
@each_of(("retry", "base"), [(1, 2), (2, 4), (3, 8), (4, 16), (5, 32)])
def test_the_backoff_doubles_and_the_jitter_only_adds(retry: int, base: float) -> None:
    assert POLICY.wait(retry, LOST, now=NOW, random=always(0.0)).seconds == base
    assert POLICY.wait(retry, LOST, now=NOW, random=always(0.5)).seconds == base * 1.125
    assert POLICY.wait(retry, LOST, now=NOW, random=always(1.0)).seconds == base * 1.25


@pytest.mark.rule("retry.cap")
def test_the_jitter_does_not_lift_a_wait_over_the_cap() -> None:
    policy = RetryPolicy(cap=33)
    assert policy.wait(5, LOST, now=NOW, random=always(0.0)).seconds == 32
    assert policy.wait(5, LOST, now=NOW, random=always(1.0)).seconds == 33


@each_of("policy", [RetryPolicy(base=0.01), RetryPolicy(base=0), RetryPolicy(jitter=0)])
def test_the_range_of_the_jitter_is_at_least_a_quarter_of_a_second(policy: RetryPolicy) -> None:
    low = policy.wait(1, LOST, now=NOW, random=always(0.0)).seconds
    high = policy.wait(1, LOST, now=NOW, random=always(1.0)).seconds
    assert high - low == pytest.approx(0.25)


RETRY_AFTER: dict[float | None, list[str]] = {
    0: ["0", http_date(NOW - 30), "Sun, 06 Nov 1994 08:49:37 GMT"],
    7: ["7", "007", " 7 "],
    7.25: ["7.25"],
    120: ["120"],
    86400: ["86400"],
    1e9: ["1000000000"],
    # in each form of a date
    30: [
        *(http_date(NOW + 30), "Tuesday, 14-Nov-23 22:13:50 GMT", "Tue Nov 14 22:13:50 2023"),
        "Tuesday, 14-Nov-23 22:13:50 GMT, 3",
    ],
    # a header that came twice: the longest counts
    9: ["3, 9", "9, 3", "9,3", "soon, 9"],
    40: [f"{http_date(NOW + 20)}, {http_date(NOW + 40)}", f"{http_date(NOW + 40)},{http_date(NOW + 20)}"],
    50: [f"50, {http_date(NOW + 40)}"],
    # not a time; among them Arabic and full-width digits, which int() would take
    None: [
        *("", " ", ",", "soon", "inf", "Infinity", "nan", "-1", "+1", "1e9", "0x10", "1_0", "1.", ".5", "1.2.3"),
        *("7 s", "7;8", "٣", "\N{FULLWIDTH DIGIT SEVEN}", "²", "2023-11-14T22:13:50Z", "7\x00"),
        *("Tue, 32 Nov 2023 22:13:50 GMT", "Tue, 14 Nov 2023 24:13:50 GMT"),
    ],
}


@pytest.mark.rule("retry.retry-after")
@each_of("expected", RETRY_AFTER)
def test_retry_after(expected: float | None) -> None:
    for text in RETRY_AFTER[expected]:
        headers = {"retry-after": text, "date": http_date(NOW)}
        assert server_wait(headers, NOW) == expected, text
        for status in (429, 503):
            wait = POLICY.wait(1, limited(headers, status), now=NOW, random=always(0.0))
            assert (wait.server, wait.seconds) == (expected or 0, max(2, expected or 0))


RESET: dict[int | None, list[str]] = {
    1_700_000_010: ["1700000010", " 1700000010 ", "1700000010, 1700000010"],
    1_700_000_020: ["1700000010, 1700000020"],
    999_999_999: ["999999999"],
    99_999_999_999: ["99999999999"],
    None: [
        *("99999999", "100000000000", "60", "0", "", "-1700000010", "+1700000010", "1700000010.5", "1.7e9", "inf"),
        *("1700000010000", "nan", "1700000010 s", "9" * 400, http_date(NOW + 30)),
        "١٧٠٠٠٠٠٠١٠",  # noqa: RUF001  # Arabic digits
    ],
}


@pytest.mark.rule("retry.reset")
@each_of("expected", RESET)
def test_reset(expected: int | None) -> None:
    for text in RESET[expected]:
        assert reset_time({"x-ratelimit-reset": text}) == expected, text
        headers = {"x-ratelimit-reset": text, "date": http_date(NOW)}
        assert server_wait(headers, NOW) == (None if expected is None else max(0, expected + 1 - NOW))


def test_no_header_is_no_wait() -> None:
    assert reset_time({}) is None
    assert server_wait({}, NOW) is None
    assert POLICY.wait(1, limited({}), now=NOW, random=always(0.0)).seconds == 2
    assert POLICY.wait(1, Failure(FailureCause.STATUS, 429), now=NOW, random=always(0.0)).seconds == 2


def test_the_latest_of_all_times_counts() -> None:
    both = {"date": http_date(NOW), "retry-after": "5", "x-ratelimit-reset": "1700000040"}
    assert server_wait(both, NOW) == 41
    assert server_wait({**both, "retry-after": "50"}, NOW) == 50
    assert server_wait({**both, "retry-after": "50", "x-ratelimit-reset": "1600000000"}, NOW) == 50
    assert POLICY.wait(5, limited(both), now=NOW, random=always(0.0)).seconds == 41
    assert POLICY.wait(5, limited({"retry-after": "33"}), now=NOW, random=always(1.0)).seconds == 40


@each_of(("seconds", "spread"), [("2.5", 0.25), ("4", 0.4), ("9.5", 0.95), ("10", 1), ("30", 1), ("60", 1), ("120", 1)])
def test_a_time_that_the_service_named_gets_jitter_upwards(seconds: str, spread: float) -> None:
    """The limit of 120 s is for what was named, without it."""
    for draw in (0.0, 0.5, 1.0):
        wait = POLICY.wait(1, limited({"retry-after": seconds}), now=NOW, random=always(draw))
        assert wait.server == float(seconds)
        assert wait.seconds == pytest.approx(float(seconds) + spread * draw)


@each_of("off", [-TEN_YEARS, -600, -1, 0, 1, 600, TEN_YEARS])
def test_a_wrong_local_clock_changes_nothing(off: float) -> None:
    date = http_date(NOW)
    assert server_wait({"date": date, "x-ratelimit-reset": "1700000040"}, NOW + off) == 41
    assert server_wait({"date": date, "retry-after": http_date(NOW + 30)}, NOW + off) == 30
    assert server_wait({"date": date, "retry-after": "30"}, NOW + off) == 30
    assert server_wait({"date": "Tuesday, 14-Nov-23 22:13:20 GMT", "x-ratelimit-reset": "1700000040"}, NOW + off) == 41


def test_an_answer_from_a_cache_has_aged() -> None:
    headers = {"date": http_date(NOW), "age": "15", "x-ratelimit-reset": "1700000040"}
    assert server_now(headers, 0) == NOW + 15
    assert server_wait(headers, 0) == 26


@each_of("age", ["", "-5", "1.5", "inf", "nan", "5, 5", "9" * 400, "٣", "soon"])  # an Arabic digit
def test_an_age_that_is_no_number_is_ignored(age: str) -> None:
    assert server_now({"date": http_date(NOW), "age": age}, 0) == NOW


@each_of("date", ["", "now", "1700000000", "2023-11-14T22:13:20Z", "Tue, 32 Nov 2023 22:13:20 GMT"])
def test_without_a_usable_date_the_local_clock_counts(date: str) -> None:
    headers = {"date": date, "age": "15", "x-ratelimit-reset": "1700000040"}
    assert server_now(headers, NOW + 2) == NOW + 2
    assert server_wait(headers, NOW + 2) == 39


def test_of_two_dates_the_earlier_one_counts() -> None:
    headers = {"date": f"{http_date(NOW + 9)}, {http_date(NOW)}", "x-ratelimit-reset": "1700000040"}
    assert server_wait(headers, 0) == 41


# Dates, as the standard library reads them

MOMENT = 784_111_777.0  # 1994-11-06 08:49:37 UTC, the standard's own example
GOOD = "Sun, 06 Nov 1994 08:49:37 GMT"


@each_of(
    "text",
    [
        *(GOOD, "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", f"  {GOOD}\t", "Sun, 6 Nov 94 08:49:37"),
        "Mon, 06 Nov 1994 08:49:37 GMT",  # a wrong weekday harms nobody
        "Sun, 06 Nov 1994 09:49:37 +0100",
    ],
)
def test_what_is_a_date(text: str) -> None:
    assert parse_http_date(text) == MOMENT


@each_of(
    "text",
    [
        *("", "0", "784111777", "now", "1994-11-06T08:49:37Z", "Wed, 29 Feb 2023 08:49:37 GMT", f"{GOOD[:-3]}+9999"),
        *(GOOD.replace("06", day) for day in ("00", "31", "-6")),
        *(GOOD.replace("08:49:37", time) for time in ("24:00:00", "08:60:37", "08:49:61", "08:49:99")),
    ],
)
def test_what_is_not_a_date(text: str) -> None:
    assert parse_http_date(text) is None


@given(texts(max_size=60))
@example(f"{GOOD[:-3]}+{'9' * 5_000}")
@example("9" * 5_000)
def test_no_text_makes_it_raise(text: str) -> None:
    parse_http_date(text)


@given(st.integers(int(datetime(1970, 1, 1, tzinfo=UTC).timestamp()), 253_402_300_799))
def test_both_forms_with_four_digits_round_trip(seconds: int) -> None:
    moment = datetime.fromtimestamp(seconds, UTC)
    assert parse_http_date(format_datetime(moment, usegmt=True)) == seconds
    assert parse_http_date(moment.strftime("%a %b %e %H:%M:%S %Y")) == seconds


# Properties

moments = st.integers(min_value=0, max_value=9_999_999_999)
clocks = st.floats(min_value=0, max_value=2**33)
draws = st.floats(min_value=0, max_value=1)
tries = st.integers(min_value=1, max_value=5)
policies = st.builds(
    RetryPolicy,
    base=st.floats(min_value=0, max_value=1e6),
    cap=st.floats(min_value=0, max_value=1e6),
    jitter=st.floats(min_value=0, max_value=1e300),
)


@pytest.mark.rule("retry.retry-after", "retry.reset")
@given(tries, draws, clocks, moments, st.integers(0, 200), st.integers(-100, 300), st.sampled_from([429, 503]))
def test_never_earlier_than_any_time_the_service_named(
    retry: int, draw: float, local: float, date: int, seconds: int, reset_in: int, status: int
) -> None:
    reset = max(date + reset_in, 100_000_000)
    later = http_date(date + 2 * seconds)
    for retry_after in (str(seconds), later, f"{seconds}, {later}"):
        headers = {"date": http_date(date), "retry-after": retry_after, "x-ratelimit-reset": str(reset)}
        wait = POLICY.wait(retry, limited(headers, status), now=local, random=always(draw)).seconds
        named = [2 * seconds if "GMT" in retry_after else seconds, reset + 1 - date, 2**retry]
        assert wait >= max(named)


@pytest.mark.rule("retry.cap")
@given(policies, tries, draws, clocks)
def test_never_above_the_cap_unless_the_service_asks(
    policy: RetryPolicy, retry: int, draw: float, local: float
) -> None:
    for failure in (LOST, limited({}), limited({"retry-after": "0"}), limited({"retry-after": "x"}, 503)):
        wait = policy.wait(retry, failure, now=local, random=always(draw))
        assert min(policy.cap, policy.base * 2**retry) <= wait.seconds <= policy.cap


junk = st.one_of(
    texts(max_size=40),
    st.text(alphabet="0123456789.,:- eE+TueGMTNovJan", max_size=40),
    st.from_regex(r"\d{1,30}(\.\d{1,5})?", fullmatch=True, alphabet=st.characters(exclude_categories=["Cs"])),
    moments.map(http_date),
    moments.map(str),
)


@given(st.dictionaries(st.sampled_from(["retry-after", "x-ratelimit-reset", "date", "age"]), junk), clocks, tries)
def test_no_header_raises_or_makes_a_wait_that_is_no_number(headers: dict[str, str], local: float, retry: int) -> None:
    named = server_wait(headers, local)
    assert named is None or 0 <= named < math.inf
    wait = POLICY.wait(retry, limited(headers), now=local)
    assert 2**retry <= wait.seconds < math.inf
    assert wait.server <= wait.seconds
