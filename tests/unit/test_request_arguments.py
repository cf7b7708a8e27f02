"""What callers hand over: what is refused here, before anything is sent."""

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import InvalidArgumentError, Risk
from tradesdk._http.request import (
    chain,
    confidence,
    endpoint,
    identifier,
    integer,
    moment,
    optional_identifier,
    optional_text,
    page_size,
    period,
    required_text,
    settings,
    total,
)

DIGITS = 10**5000  # more than Python turns into text
HUGE = pytest.param(DIGITS, id="5000 digits")
MINUS_HUGE = pytest.param(-DIGITS, id="minus 5000 digits")

BAD_IDS: list[Any] = [
    *("", ".", ".."),
    *("a/b", "/", "../x", "a\\b", "\\"),
    *("a\nb", "a\r", "\t", "\x00", "\x1b[2J", "\x7f", "a\x85", "\u2028", "\u202e", "\u200b", "\ufeff", "\ud800"),
    *("x" * 257, "x" * 10_240),
    *(None, 5, 5.0, b"agent", ["a"], True),
]


@pytest.mark.parametrize("bad", BAD_IDS, ids=lambda value: ascii(value)[:20])
def test_an_id_that_cannot_be_a_path_segment_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="agent_id") as caught:
        identifier("agent_id", bad)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "good",
    ["agt_1", "...", ".a", "a.", "%2e%2e", "%2F", "a b", "a?b", "a#b", "a;b", "a:b@c", "é", "😀", "x" * 256, "~"],
)
def test_any_other_id_is_taken_as_it_is(good: str) -> None:
    assert identifier("agent_id", good) == good
    path = endpoint("agents", good)
    assert unquote(path.removeprefix("/v1/agents/")) == good


def test_an_optional_id_may_be_missing_but_not_empty() -> None:
    assert optional_identifier("agent_id", None) is None
    with pytest.raises(InvalidArgumentError):
        optional_identifier("agent_id", "")


@given(st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=4))
def test_a_path_never_has_more_segments_than_were_asked_for(texts: list[str]) -> None:
    ids = []
    for text in texts:
        try:
            ids.append(identifier("id", text))
        except InvalidArgumentError:
            continue
    path = endpoint("agents", *ids)
    assert path.isascii()
    assert path.isprintable()
    assert [unquote(part) for part in path.split("/")] == ["", "v1", "agents", *ids]
    # … and the HTTP library sends it like that: no folding, no query, no fragment
    url = httpx.URL("https://api.example.com" + path)
    assert url.raw_path == path.encode()
    assert url.host == "api.example.com"
    assert url.fragment == ""


@pytest.mark.parametrize("bad", ["", "\ud800", "a\udfff", None, 5, b"x", True])
def test_text_that_cannot_be_sent_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="name"):
        required_text("name", bad)
    if bad is not None:
        with pytest.raises(InvalidArgumentError, match="name"):
            optional_text("name", bad)


def test_text_may_be_anything_else() -> None:
    for text in (" ", "\n", "😀", "x" * 10_000, "a/b"):
        assert required_text("name", text) == text
    assert optional_text("cursor", None) is None


@pytest.mark.rule("chain.others")
@pytest.mark.parametrize("bad", [1, 0, -1, 8452, 57, "8453", "56", True, None, 56.5, math.nan, math.inf, [], HUGE])
def test_other_chains_are_refused(bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="chain must be 8453"):
        chain("chain", bad)


def test_both_chains_are_taken() -> None:
    assert (chain("chain", 8453), chain("chain", 56)) == (8453, 56)


@pytest.mark.rule("limit.page.max")
@pytest.mark.parametrize("bad", [0, 101, -1, 1.0, 50.5, "20", True, False, math.nan, HUGE, MINUS_HUGE, [20]])
def test_a_limit_is_1_to_100(bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="limit must be 1 to 100"):
        page_size(bad)


@pytest.mark.rule("limit.page.max")
def test_limits_at_their_bounds() -> None:
    assert [page_size(value) for value in (None, 1, 20, 100)] == [None, 1, 20, 100]


@pytest.mark.parametrize("bad", [-1, 1.0, "5", True, math.nan, MINUS_HUGE])
def test_a_total_is_a_whole_number(bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="max_items"):
        total(bad)


def test_totals_have_no_upper_bound() -> None:
    assert [total(value) for value in (None, 0, 1, 10**9)] == [None, 0, 1, 10**9]


@pytest.mark.rule("agent.min_confidence.range", "signals.latest.min_confidence.range")
@pytest.mark.parametrize(
    "bad", [-0.1, 1.1, 2, -1, math.nan, math.inf, -math.inf, 1 + 1e-12, -1e-12, "0.5", True, HUGE, MINUS_HUGE, [0.5]]
)
def test_confidence_is_0_to_1(bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="min_confidence must be"):
        confidence(bad)


@pytest.mark.rule("agent.min_confidence.range")
def test_confidence_at_its_bounds() -> None:
    assert [confidence(value) for value in (None, 0, 1, 0.0, 0.75, 1.0)] == [None, 0, 1, 0, 0.75, 1]
    assert isinstance(confidence(1), float)


@pytest.mark.parametrize("bad", [1.0, "5", True, math.nan, [5]])
def test_a_whole_number_is_no_other_number(bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="max_positions must be a whole number"):
        integer("max_positions", bad)


def test_bounds_that_the_service_does_not_state_are_its_business() -> None:
    assert [integer("max_positions", value) for value in (None, 0, -5, 10**6)] == [None, 0, -5, 10**6]


# Moments


@pytest.mark.parametrize(
    "bad",
    [
        datetime(2024, 1, 1),
        datetime.min,
        *(math.nan, math.inf, -math.inf, -1, -0.5, 1.7e12, 10**400, HUGE, 1e300),
        *("2024-01-01", "1700000000", True, [1], timedelta(days=1)),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_what_is_no_clear_moment_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="start"):
        moment("start", bad)


def test_the_error_for_a_naive_datetime_shows_the_way() -> None:
    with pytest.raises(InvalidArgumentError, match=r"use datetime\.now\(UTC\), or start\.astimezone\(\)"):
        moment("start", datetime(2024, 1, 2, 3, 4))


def test_a_date_without_a_time_is_called_that() -> None:
    with pytest.raises(InvalidArgumentError, match="end is a date without a time"):
        moment("end", date(2024, 1, 1))  # type: ignore[arg-type] # what callers do all the same


def test_a_period_has_its_start_first() -> None:
    day = datetime(2024, 1, 2, tzinfo=UTC)
    assert period(None, None) == (None, None)
    assert period(1, None) == (1, None)
    assert period(day, day) == (1704153600, 1704153600)
    for start, end in ((day, 1704153599), (1, 0), (day, day - timedelta(seconds=1))):
        with pytest.raises(InvalidArgumentError, match="start is later than end"):
            period(start, end)


def test_a_zone_that_knows_no_offset_is_as_naive() -> None:
    class Nowhere(tzinfo):
        def utcoffset(self, dt: datetime | None, /) -> timedelta | None:
            return None

        def dst(self, dt: datetime | None, /) -> timedelta | None:
            return None

        def tzname(self, dt: datetime | None, /) -> str | None:
            return None

    with pytest.raises(InvalidArgumentError, match="has no time zone"):
        moment("start", datetime(2024, 1, 1, tzinfo=Nowhere()))


@pytest.mark.rule("transport.unix-seconds", "signals.history.from", "signals.history.to")
def test_moments() -> None:
    assert moment("start", None) is None
    assert moment("start", 0) == 0
    assert moment("start", 1700000000) == 1700000000
    assert moment("start", 1700000000.9) == 1700000000
    assert moment("start", datetime(2023, 11, 14, 22, 13, 20, 999_999, tzinfo=UTC)) == 1700000000
    tokyo = timezone(timedelta(hours=9))
    assert moment("start", datetime(2023, 11, 15, 7, 13, 20, tzinfo=tokyo)) == 1700000000
    assert moment("start", datetime.max.replace(tzinfo=UTC)) == 253402300799
    assert moment("start", 253402300799) == 253402300799


@given(st.datetimes(timezones=st.timezones()))
def test_every_aware_datetime_is_a_moment(value: datetime) -> None:
    seconds = moment("start", value)
    assert isinstance(seconds, int)
    start = datetime(1970, 1, 1, tzinfo=UTC)
    assert timedelta(0) <= value - start - timedelta(seconds=seconds) < timedelta(seconds=1)


# Risk


@pytest.mark.rule("agents.update.partial", "agents.update.risk")
def test_of_risk_only_what_is_set_is_sent() -> None:
    assert settings("risk", Risk, None) is None
    assert settings("risk", Risk, Risk()) == {}
    assert settings("risk", Risk, Risk(stop_loss_pct=5)) == {"stop_loss_pct": 5.0}
    assert settings("risk", Risk, Risk(stop_loss_pct=0)) == {"stop_loss_pct": 0.0}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Risk(stop_los_pct=5),  # type: ignore[call-arg]  # what a checker would have refused
        lambda: settings("risk", Risk, {"stop_los_pct": 5, "stop_loss_pct": 5}),
        lambda: settings("risk", Risk, Risk.model_validate({"stop_los_pct": 5})),  # as an answer may have it
    ],
)
def test_a_misspelt_risk_field_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"no field stop_los_pct; it has position_size_pct, stop_loss_pct"):
        make()


def test_risk_may_be_a_dict_which_is_checked_the_same() -> None:
    rules: dict[Any, Any]
    for rules in ({}, {"stop_loss_pct": 5}, {"stop_loss_pct": None, "take_profit_pct": Decimal("2.5")}):
        assert settings("risk", Risk, rules) == settings("risk", Risk, Risk(**rules))
    refused: list[tuple[dict[Any, Any], str]] = [
        ({"stop_loss_pct": "5%"}, "stop_loss_pct should be"),
        ({5: 5}, "no field 5"),
        ({"\n": 5}, r"field \\n;"),
    ]
    for rules, said in refused:
        with pytest.raises(InvalidArgumentError, match=said):
            settings("risk", Risk, rules)


@pytest.mark.parametrize("bad", [5, "risk", [], Risk])
def test_risk_is_a_risk(bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="risk must be a Risk or a dict, not"):
        settings("risk", Risk, bad)
