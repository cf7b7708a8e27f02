"""What callers ask of market data: what is refused here, before anything is sent or paid."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from enum import IntEnum, StrEnum
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import InvalidArgumentError, MarketClient, NotFoundError, TokenQuery
from tradesdk._market import distinct

from .._answers import BASE, Service, failed

TOKEN_CALLS = ["token_signals", "token_prices", "signal_history", "token_win_rate", "token_avg_prices"]
DIGITS = 10**5000  # more than Python turns into text


def body(call: Callable[[Any], object]) -> Any:
    """What a dry run sends, which does without a wallet."""
    service = Service(failed(404))
    http = httpx.Client(transport=httpx.MockTransport(service))
    with MarketClient(base_url=BASE, http_client=http) as market, pytest.raises(NotFoundError):
        call(market.dry_run)
    return json.loads(service.requests[0].content)


def refused(call: Callable[[Any], object]) -> str:
    with MarketClient(base_url=BASE) as market:
        return refusal(lambda: call(market.quote))


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        call()
    text = str(caught.value)
    assert text.isprintable()
    assert len(text) < 300
    assert caught.value.__cause__ is None
    return text


@pytest.mark.rule("market.identifier.twice", "market.batch")
@pytest.mark.parametrize("call", TOKEN_CALLS)
@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ("ETH", "write ['ETH']"),
        (b"ETH", "not bytes"),
        ({"ETH": 5}, "not dict"),
        (None, "not NoneType"),
        (5, "not int"),
        (TokenQuery("ETH"), "not TokenQuery"),
        ([], "not none"),
        ((), "not none"),
        (iter(()), "not none"),
        (list("abcdef"), "1 to 5 tokens, not 6; client.batches"),
        (["ETH"] * 1000, "not 1000"),
        ((str(number) for number in range(10**9)), "not more than 5"),
        (["ETH", "eth"], "twice: 'ETH' and 'eth'"),
        (["0xAB", "BRETT", " 0xab\n"], "twice: '0xAB' and '0xab'"),
        (["ETH", TokenQuery("Eth")], "twice: 'ETH' and 'Eth'"),
        (["STRASSE", "straße"], "twice"),
        (["ETH", ""], "tokens[1] must not be empty"),
        ([" \t\n"], "tokens[0] must not be empty"),
        (["a\x00b"], "tokens[0] must not contain control characters: a\\x00b"),
        (["\x1b[2J"], "control characters"),
        (["eth,brett"], "tokens[0] has a comma: pass several tokens as a list, not eth,brett"),
        (["a\u202eb"], "control characters"),
        (["a\u200bb"], "control characters"),
        (["\ud800"], "control characters"),
        (["x" * 257], "257 characters"),
        ([None], "tokens[0] must be a string, not NoneType"),
        (["ETH", 5], "tokens[1] must be a string, not int"),
        ([b"ETH"], "not bytes"),
        ([["ETH"]], "not list"),
        ([{"identifier": "ETH"}], "not dict"),
        ([TokenQuery(None)], "not NoneType"),  # type: ignore[arg-type]  # what a checker would have refused
        ([TokenQuery("")], "must not be empty"),
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_tokens_that_are_refused(call: str, tokens: Any, said: str) -> None:
    assert said in refused(lambda market: getattr(market, call)(tokens))


@pytest.mark.rule("market.identifier.required")
@pytest.mark.parametrize("call", TOKEN_CALLS)
@pytest.mark.parametrize(
    "tokens", [["ETH"], ("a", "b"), ["1", "2", "3", "4", "5"], ["x" * 256, "é", "😀", "a b", "$ETH"], [" ETH "]]
)
def test_tokens_that_are_sent(call: str, tokens: list[str]) -> None:
    with MarketClient(base_url=BASE) as market:
        assert getattr(market.quote, call)(tokens).tokens == len(tokens)
    for given_as in (tokens, iter(tokens), [TokenQuery(one) for one in tokens]):
        found = body(lambda market, given_as=given_as: getattr(market, call)(given_as))  # type: ignore[misc]
        assert found["tokens"] == [{"identifier": one.strip()} for one in tokens]


def test_what_was_handed_in_is_left_alone() -> None:
    tokens = ["BRETT", "ETH"]
    first, second = (body(lambda market: market.token_prices(tokens)) for _ in range(2))
    assert tokens == ["BRETT", "ETH"]
    assert first == second == {"tokens": [{"identifier": "BRETT"}, {"identifier": "ETH"}]}


@pytest.mark.rule("market.signals.limit")
def test_limits_of_signals() -> None:
    tokens: list[Any] = ["a", TokenQuery("b", 7), TokenQuery("c")]
    assert body(lambda market: market.token_signals(tokens))["tokens"] == [
        {"identifier": "a"},
        {"identifier": "b", "limit": 7},
        {"identifier": "c"},
    ]
    assert [one["limit"] for one in body(lambda market: market.token_signals(tokens, limit=100))["tokens"]] == [
        100,
        7,
        100,
    ]
    for call in TOKEN_CALLS[1:]:
        said = refused(lambda market, call=call: getattr(market, call)(tokens))  # type: ignore[misc]
        assert said == "tokens[1] has a limit, which only token_signals takes"


class Few(IntEnum):
    FOUR = 4


LIMITS: list[tuple[Callable[[Any, Any], object], int, Callable[[Any], Any]]] = [
    (lambda market, limit: market.token_signals(["a"], limit=limit), 100, lambda sent: sent["tokens"][0]["limit"]),
    (
        lambda market, limit: market.token_signals([TokenQuery("a", limit)]),
        100,
        lambda sent: sent["tokens"][0]["limit"],
    ),
    (lambda market, limit: market.top_performers("ROI", limit=limit), 300, lambda sent: sent["limit"]),
    (lambda market, limit: market.supported_tokens(limit=limit), 500, lambda sent: sent["limit"]),
]


@pytest.mark.rule("market.signals.limit", "market.top.limit", "market.supported.limit")
@pytest.mark.parametrize(("call", "most", "sent"), LIMITS, ids=["signals", "query", "top", "supported"])
def test_limits(call: Callable[[Any, Any], object], most: int, sent: Callable[[Any], Any]) -> None:
    for good in (1, 2, most, Few.FOUR):
        found = sent(body(lambda market, good=good: call(market, good)))  # type: ignore[misc]
        assert found == good
        assert type(found) is int
    wrong: list[Any] = [0, -1, most + 1, True, False, 5.0, "5", b"5", [], float("nan"), DIGITS, -DIGITS]
    for bad in wrong:
        said = refused(lambda market, bad=bad: call(market, bad))  # type: ignore[misc]
        assert f"limit must be a whole number from 1 to {most}, not" in said


class Sort(StrEnum):
    ROI = "ROI"


@pytest.mark.rule("market.top.sort")
def test_what_top_performers_are_sorted_by() -> None:
    assert body(lambda market: market.top_performers("winRate")) == {"sortBy": "winRate"}
    assert body(lambda market: market.top_performers(Sort.ROI)) == {"sortBy": "ROI"}
    for bad in ("roi", "WINRATE", "win_rate", "", None, 1, ["ROI"], "\x1b"):
        assert "sort_by must be one of winRate, ROI, not" in refused(lambda market, bad=bad: market.top_performers(bad))  # type: ignore[misc]


@pytest.mark.rule("market.signals.kinds", "market.history.type")
def test_what_kind_of_signals() -> None:
    for kind in ("BUY", "SELL", "WAITING FOR SIGNAL", "ALL"):
        found = body(lambda market, kind=kind: market.signal_history(["a"], signal_type=kind))  # type: ignore[misc]
        assert found["signalType"] == kind
    assert body(lambda market: market.signal_history(["a"])) == {"tokens": [{"identifier": "a"}]}
    for bad in ("buy", "WAITING", "", 0, False, ["BUY"]):
        said = refused(lambda market, bad=bad: market.signal_history(["a"], signal_type=bad))  # type: ignore[misc]
        assert "signal_type must be one of BUY, SELL, WAITING FOR SIGNAL, ALL, not" in said


WHEN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.rule("market.times", "market.history.start", "market.history.end")
@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (WHEN, "2026-01-01T00:00:00Z"),
        (WHEN.astimezone(timezone(timedelta(hours=5, minutes=45))), "2026-01-01T00:00:00Z"),
        (WHEN + timedelta(microseconds=1), "2026-01-01T00:00:00.000001Z"),
        (1767225600, "2026-01-01T00:00:00Z"),
        (1767225600.25, "2026-01-01T00:00:00.250Z"),
        (0, "1970-01-01T00:00:00Z"),
        (0.000001, "1970-01-01T00:00:00.000001Z"),
        (253402300799, "9999-12-31T23:59:59Z"),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00Z"),
    ],
)
def test_moments_are_sent_as_iso_8601(moment: Any, text: str) -> None:
    assert body(lambda market: market.signal_history(["a"], start=moment))["startDate"] == text
    assert body(lambda market: market.signal_history(["a"], end=moment))["endDate"] == text
    same = body(lambda market: market.signal_history(["a"], start=moment, end=moment))
    assert (same["startDate"], same["endDate"]) == (text, text)


@pytest.mark.parametrize(
    "bad",
    [
        *(datetime(2026, 1, 1), date(2026, 1, 1), "2026-01-01T00:00:00Z", b"", True),
        *(-1, -0.1, 253402300800, 1767225600000, float("nan"), float("inf"), timedelta(0), [], DIGITS, -DIGITS),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
    ],
    ids=lambda bad: type(bad).__name__,
)
def test_what_is_no_moment_is_refused(bad: Any) -> None:
    assert refused(lambda market: market.signal_history(["a"], start=bad)).startswith("start ")
    assert refused(lambda market: market.signal_history(["a"], end=bad)).startswith("end ")


@pytest.mark.rule("market.history.dates")
def test_dates_are_in_order() -> None:
    for start, end in ((1, 0), (WHEN, 0), (WHEN + timedelta(microseconds=1), WHEN), (1.5, 1)):
        said = refused(lambda market, span=(start, end): market.signal_history(["a"], start=span[0], end=span[1]))  # type: ignore[misc]
        assert said == "start is later than end"


@given(st.lists(st.sampled_from(["a", "A", " b", "B ", "c", "ß", "SS", "\u03a3", "\u03c2", "\u03c3"]), max_size=8))
def test_one_batch_takes_what_is_distinct_and_no_more_than_five(tokens: list[str]) -> None:
    kept = [one.identifier for one in distinct(tokens, limits=False)]
    assert [one.casefold() for one in kept] == list(dict.fromkeys(one.strip().casefold() for one in tokens))
    assert set(kept) <= {one.strip() for one in tokens}
    if len(kept) == len(tokens) and 1 <= len(tokens) <= 5:
        assert body(lambda market: market.token_prices(tokens))["tokens"] == [{"identifier": one} for one in kept]
    else:
        refused(lambda market: market.token_prices(tokens))


def test_a_list_for_batches() -> None:
    assert distinct([], limits=False) == []
    assert distinct(("ETH", " brett", "eth", "BRETT"), limits=False) == [TokenQuery("ETH"), TokenQuery("brett")]
    thousand = [str(number) for number in range(1000)]
    assert [one.identifier for one in distinct(iter(thousand), limits=False)] == thousand
    wanted: list[Any] = [TokenQuery("a", 5), "b", TokenQuery("A", 5), "B"]
    assert distinct(wanted, limits=True) == [TokenQuery("a", 5), TokenQuery("b")]
    assert "twice, with different limits" in refusal(lambda: distinct([TokenQuery("a", 5), "A"], limits=True))
    assert "write ['ETH']" in refusal(lambda: distinct("ETH", limits=False))
    assert "tokens[1]" in refusal(lambda: distinct(["a", "\n"], limits=False))
    assert "only token_signals" in refusal(lambda: distinct([TokenQuery("a", 5)], limits=False))
