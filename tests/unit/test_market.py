"""Market data: what is refused before anything is sent or paid, what is sent and costs, and how answers are read."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from enum import IntEnum, StrEnum
from operator import methodcaller
from typing import Any

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tradesdk import (
    APIResponseError,
    InvalidArgumentError,
    Ledger,
    MarketClient,
    NotFoundError,
    TokenPrice,
    TokenQuery,
)

from .._answers import BASE, Service, failed
from .._rows import each_of
from .._texts import texts

TOKEN_CALLS = ["token_signals", "token_prices", "signal_history", "token_win_rate", "token_avg_prices"]
DIGITS = 10**5000  # more than Python turns into text


def market_of(service: Service) -> MarketClient:
    http = httpx.Client(transport=httpx.MockTransport(service))
    return MarketClient(base_url=BASE, http_client=http, ledger=Ledger.memory(), check_tokens=False, max_retries=0)


def body(call: Callable[[Any], object]) -> Any:
    """What a dry run sends, which does without a wallet."""
    service = Service(failed(404))
    with pytest.raises(NotFoundError):
        call(market_of(service).dry_run)
    return json.loads(service.requests[0].content)


def refused(call: Callable[[Any], object]) -> str:
    with MarketClient(base_url=BASE, ledger=Ledger.memory()) as market:
        return refusal(lambda: call(market.quote))


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        call()
    text = str(caught.value)
    assert text.isprintable()
    assert len(text) < 300
    assert caught.value.__cause__ is None
    return f"{text}; {caught.value.hint}"


REFUSED_TOKENS: list[tuple[Any, str]] = [
    ("ETH", "write ['ETH']"),
    (b"ETH", "not bytes"),
    ({"ETH": 5}, "not dict"),
    (None, "not NoneType"),
    (5, "not int"),
    (TokenQuery("ETH"), "not TokenQuery"),
    ([], "it is empty"),
    ((), "it is empty"),
    (iter(()), "it is empty"),
    (list("abcdef"), "1 to 5 tokens, not 6; pass 5 at a time, or use client.batches"),
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
    (["eth,brett"], 'tokens[0] has a comma: eth,brett; write tokens=["ETH", "BRETT"]'),
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
]


@pytest.mark.rule("market.identifier.twice", "market.batch")
@each_of("call", TOKEN_CALLS)
def test_tokens_that_are_refused(call: str) -> None:
    for tokens, said in REFUSED_TOKENS:
        assert said in refused(methodcaller(call, tokens))


@pytest.mark.rule("market.identifier.required")
@each_of(
    ("call", "tokens"),
    [
        *((call, ["ETH"]) for call in TOKEN_CALLS),
        ("token_prices", ("a", "b")),
        ("token_signals", ["1", "2", "3", "4", "5"]),
        ("token_prices", ["x" * 256, "é", "😀", "a b", "$ETH"]),
        ("signal_history", [" ETH "]),
    ],
)
def test_tokens_that_are_sent(call: str, tokens: list[str]) -> None:
    with MarketClient(base_url=BASE, ledger=Ledger.memory()) as market:
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
        assert said == "tokens[1] has a limit, which only token_signals takes; leave the limit out"


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
@each_of(("call", "most", "sent"), LIMITS, ids=["signals", "query", "top", "supported"])
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
@each_of(
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
    same = body(lambda market: market.signal_history(["a"], since=moment, until=moment))
    assert (same["startDate"], same["endDate"]) == (text, text)


def test_a_beginning_or_an_end_alone() -> None:
    first = body(lambda market: market.signal_history(["a"], since=0))
    last = body(lambda market: market.signal_history(["a"], until=0))
    assert (first["startDate"], last["endDate"]) == ("1970-01-01T00:00:00Z",) * 2
    assert "endDate" not in first
    assert "startDate" not in last


@each_of(
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
    assert refused(lambda market: market.signal_history(["a"], since=bad)).startswith("since ")
    assert refused(lambda market: market.signal_history(["a"], until=bad)).startswith("until ")


@pytest.mark.rule("market.history.dates")
def test_dates_are_in_order() -> None:
    for start, end in ((1, 0), (WHEN, 0), (WHEN + timedelta(microseconds=1), WHEN), (1.5, 1)):
        said = refused(lambda market, span=(start, end): market.signal_history(["a"], since=span[0], until=span[1]))  # type: ignore[misc]
        assert said == "since is later than until; set since to the earlier time, and until to the later"


@given(st.lists(st.sampled_from(["a", "A", " b", "B ", "c", "ß", "SS", "\u03a3", "\u03c2", "\u03c3"]), max_size=8))
def test_one_batch_takes_what_is_distinct_and_no_more_than_five(tokens: list[str]) -> None:
    kept = in_batches(tokens)
    assert [one.casefold() for one in kept] == list(dict.fromkeys(one.strip().casefold() for one in tokens))
    assert set(kept) <= {one.strip() for one in tokens}
    if len(kept) == len(tokens) and 1 <= len(tokens) <= 5:
        assert body(lambda market: market.token_prices(tokens))["tokens"] == [{"identifier": one} for one in kept]
    else:
        refused(lambda market: market.token_prices(tokens))


def in_batches(tokens: Any, call: str = "token_prices") -> list[str]:
    with MarketClient(base_url=BASE, ledger=Ledger.memory()) as market:
        return list(getattr(market.batches, call)(tokens).tokens)


def test_a_list_for_batches() -> None:
    assert in_batches([]) == []
    assert in_batches(("ETH", " brett", "eth", "BRETT")) == ["ETH", "brett"]
    thousand = [str(number) for number in range(1000)]
    assert in_batches(iter(thousand)) == thousand
    wanted: list[Any] = [TokenQuery("a", 5), "b", TokenQuery("A", 5), "B"]
    assert in_batches(wanted, "token_signals") == ["a", "b"]
    other = [TokenQuery("a", 5), "A"]
    assert "twice, with different limits" in refusal(lambda: in_batches(other, "token_signals"))
    assert "write ['ETH']" in refusal(lambda: in_batches("ETH"))
    assert "tokens[1]" in refusal(lambda: in_batches(["a", "\n"]))
    assert "only token_signals" in refusal(lambda: in_batches([TokenQuery("a", 5)]))


# Any body for an endpoint with a published price

TOKENS = {"tokens": [{"identifier": "ETH"}, {"identifier": "BRETT"}]}


@each_of(
    ("path", "body", "told"),
    [
        ("/v1/agents", {}, "'/v1/agents' has no published price"),
        ("/v1/token-prices?x=1", TOKENS, "has no published price"),
        ("token-prices", TOKENS, "has no published price"),
        (None, TOKENS, "has no published price"),
        ("/v1/token-prices", None, "1 to 5 tokens; it is empty"),
        ("/v1/token-prices", [TOKENS], "json must be an object"),
        ("/v1/token-prices", {"tokens": "ETH"}, "must be a list"),
        ("/v1/token-prices", {"tokens": 3}, "must be a list"),
        ("/v1/token-prices", {"tokens": ["ETH"]}, "list of objects"),
        ("/v1/token-prices", {"tokens": [{"id": "ETH"}]}, r"tokens\[0\] must be a string"),
        ("/v1/token-prices", {"tokens": [{"identifier": "ETH"}, {"identifier": "eth"}]}, "same token twice"),
        ("/v1/token-prices", {"tokens": [{"identifier": c} for c in "abcdef"]}, "1 to 5 tokens, not 6"),
    ],
)
def test_what_cannot_be_priced_is_no_request(path: Any, body: Any, told: str) -> None:
    with MarketClient(base_url=BASE, ledger=Ledger.memory()) as market, pytest.raises(InvalidArgumentError, match=told):
        market.quote.request(path, json=body)


@each_of(
    ("path", "each", "fixed"),
    [
        *(("/v1/token-signals", 50_000, 0), ("/v1/signal-history", 50_000, 0), ("/v1/token-prices", 30_000, 0)),
        *(("/v1/token-win-rate", 30_000, 0), ("/v1/token-avg-prices", 20_000, 0)),
        *(("/v1/top-performers", 0, 60_000), ("/v1/aggregate-metrics", 0, 60_000), ("/v1/supported-tokens", 0, 0)),
    ],
)
def test_prices_are_per_token_or_per_request(path: str, each: int, fixed: int) -> None:
    with MarketClient(base_url=BASE, ledger=Ledger.memory()) as market:
        for tokens in (1, 2, 5):
            quote = market.quote.request(path, json={"tokens": [{"identifier": str(n)} for n in range(tokens)]})
            assert quote.tokens == (tokens if each else None)
            assert (quote.amount, type(quote.amount)) == (each * tokens + fixed, int)


# Out of the wrapper: data, or an error that keeps the bytes

PRICE = {"tokenAddress": "0xab", "symbol": "ABC", "currentPriceEth": 0.5, "currentPriceUsd": 1500.25}
DATA = {"results": [PRICE]}


def wrapped(**changes: Any) -> bytes:
    return json.dumps({"success": True, "data": DATA, "error": None} | changes).encode()


def prices(content: bytes, status: int = 200) -> Any:
    """From a service that gives them for nothing."""
    return market_of(Service(httpx.Response(status, content=content))).token_prices(["ABC"]).data


def unreadable(content: bytes) -> str:
    with pytest.raises(APIResponseError) as caught:
        prices(content)
    error = caught.value
    assert (error.method, error.url) == ("POST", f"{BASE}/v1/token-prices")
    assert error.response is not None
    assert error.response.content == content
    assert error.__context__ is None
    text = str(error)
    assert text.isprintable()
    assert len(text) < 1300
    return f"{text}; {caught.value.hint}"


def test_data() -> None:
    """A key more is no reason to lose what was paid."""
    assert prices(wrapped()).results == [TokenPrice.model_validate(PRICE)]
    assert prices(wrapped(), status=201).results[0].symbol == "ABC"
    assert prices(wrapped(data={"results": []})).results == []
    assert prices(wrapped(requestId="r1", data=DATA | {"asOf": 1})).model_extra == {"asOf": 1}


HOSTILE = "\x1b]52;c;x\x07\n\u202e" + "x" * 9999


@pytest.mark.rule("market.wrapper.failure")
@each_of(
    ("changes", "said"),
    [
        ({"success": False, "data": None, "error": "no price"}, "the response (200) is a failure: no price"),
        ({"success": False, "data": None, "error": HOSTILE}, r"\x1b]52;c;x\x07\n\u202e"),
        ({"success": False, "data": None}, "neither data nor an error"),
        ({"data": None}, "neither data nor an error"),
        ({"error": "also this"}, "has data and error, and success is true: also this"),
        ({"success": False, "error": "x"}, "has data and error"),
        ({"success": False}, "has data, and success is false"),
        ({"data": None, "error": "x"}, "has error, and success is true: x"),
        *(({"success": wrong}, "success") for wrong in ("true", 1, None)),
        ({"error": {"code": "x", "message": "y"}}, "error"),
        ({"error": ""}, "has data and error"),
        ({"data": []}, "data"),
        ({"data": {}}, "data.results"),
        ({"data": {"results": [PRICE, {}]}}, "data.results.1.tokenAddress"),
        ({"data": {"results": [PRICE] * 6}}, "data.results"),
    ],
)
def test_a_wrapper_that_contradicts_itself_is_no_answer(changes: dict[str, Any], said: str) -> None:
    text = unreadable(wrapped(**changes))
    assert "expected TokenResults[TokenPrice], but" in text
    assert said in text


def test_names_of_python_mean_nothing_on_the_wire() -> None:
    ours = {"token_address": "0xab", "symbol": "ABC", "current_price_eth": 1, "current_price_usd": 1}
    assert "data.results.0.tokenAddress" in unreadable(wrapped(data={"results": [ours]}))
    assert TokenPrice.model_validate(ours).token_address == "0xab"
    both = prices(wrapped(data={"results": [PRICE | {"token_address": "0xother"}]})).results[0]
    assert both.token_address == "0xab"
    assert both.model_extra == {"token_address": "0xother"}


@each_of(
    "content",
    [
        *(b"", b" ", b"null", b"[]", b"{}", b"0", b'"x"', b"{", b"<html>", b"\xff\xfe", b'{"success":true'),
        *(b"[" * 100_000, wrapped().replace(b"1500.25", b"NaN"), wrapped().replace(b"0xab", b"\xff")),
    ],
    ids=lambda content: repr(content[:12]),
)
def test_what_is_no_wrapper_is_refused_with_its_bytes(content: bytes) -> None:
    unreadable(content)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(max_size=5), inner, max_size=3),
)


@pytest.mark.rule("market.wrapper.success")
@given(json_values, json_values, json_values)
@example(True, DATA, None)
@example(True, DATA, "x")
@example(1, DATA, None)
@example(False, DATA, None)
@example(True, None, None)
def test_only_one_kind_of_wrapper_gives_data(success: Any, data: Any, error: Any) -> None:
    content = wrapped(success=success, data=data, error=error)
    if success is True and error is None and data == DATA:
        assert prices(content).model_dump(mode="json") == data
    else:
        unreadable(content)


# Batches


@each_of(
    ("name", "said", "values"),
    [
        ("size", "size must be a whole number from 1 to 5", [0, 6, -1, True, 2.0, "5", None]),
        ("max_price", "max_price", [0.1, 30_000, "1e3", "-1", "NaN", "0.0000001", "", True, b"1"]),
        ("max_total", "max_total", [0.1, 30_000, "1e3", "-1", "NaN", "0.0000001", "", True, b"1"]),
        ("job", "job", ["", 5, b"job", "\ud800"]),
    ],
)
def test_how_batches_may_be_asked_for(name: str, said: str, values: list[Any]) -> None:
    for bad in values:
        with MarketClient(base_url=BASE, ledger=Ledger.memory()) as market:
            assert said in refusal(lambda: market.batches.token_prices(["ETH"], **{name: bad}))  # noqa: B023  # called at once
