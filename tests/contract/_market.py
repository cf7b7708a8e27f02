"""The golden files of market data, their models, and the calls that lead to them. Typed by hand, as in `_golden`."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from tradesdk import (
    AggregateMetrics,
    SignalRecord,
    SupportedToken,
    SupportedTokens,
    TokenAvgPrices,
    TokenPrice,
    TokenQuery,
    TokenResults,
    TokenSignals,
    TokenWinRate,
    TopPerformer,
    TopPerformers,
)

from ._golden import Call, load

DATA: dict[str, Any] = {
    "market/token_signals.json": TokenResults[TokenSignals],
    "market/signal_history.json": TokenResults[TokenSignals],
    "market/token_prices.json": TokenResults[TokenPrice],
    "market/token_win_rate.json": TokenResults[TokenWinRate],
    "market/token_avg_prices.json": TokenResults[TokenAvgPrices],
    "market/top_performers.json": TopPerformers,
    "market/aggregate_metrics.json": AggregateMetrics,
    "market/supported_tokens.json": SupportedTokens,
}
ITEMS: dict[Any, Any] = {
    TokenResults[TokenSignals]: TokenSignals,
    TokenSignals: SignalRecord,
    TokenResults[TokenPrice]: TokenPrice,
    TokenResults[TokenWinRate]: TokenWinRate,
    TokenResults[TokenAvgPrices]: TokenAvgPrices,
    TopPerformers: TopPerformer,
    SupportedTokens: SupportedToken,
}
FAILURES = {
    "market/error_400.json": "InvalidRequestError",
    "market/error_404.json": "NotFoundError",
    "market/error_502.json": "BadGatewayError",
}
OFFER = "market/payment_required.json"
IDENTIFIER = "market/payment_identifier.json"
PAYMENT = "market/payment_signature.json"
RECEIPTS = ("market/payment_response.json", "market/payment_response_failed.json")


def parts(model: Any, record: Any, at: str) -> Iterator[tuple[Any, Any, str]]:
    """A record and every record inside it, with their models and where they stand."""
    yield model, record, at
    for name, value in record.items():
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from parts(ITEMS[model], item, f"{at}-{name}-{index}")


def market_records() -> list[tuple[Any, Any, str]]:
    """Every record of market data in the golden files."""
    return [part for name, model in DATA.items() for part in parts(model, load(name)["data"], name)]


def differences(answer: Any, golden: Any, at: str = "$") -> list[str]:
    """Where an answer has other keys or JSON types. An item of a list is like one of the golden items, whole."""
    if isinstance(golden, dict):
        if not isinstance(answer, dict) or sorted(answer) != sorted(golden):
            return [f"{at} has other keys"]
        return [text for key in golden for text in differences(answer[key], golden[key], f"{at}.{key}")]
    if isinstance(golden, list):
        if not isinstance(answer, list):
            return [f"{at} is not an array"]
        found = []
        for index, item in enumerate(answer):
            tried = [differences(item, one, f"{at}[{index}]") for one in golden] or [[f"{at} should be empty"]]
            # Of several golden items, the most alike.
            found += sorted(tried, key=lambda texts: len(texts))[0]
        return found
    if isinstance(golden, float) and type(answer) in (int, float):
        return []
    return [] if type(answer) is type(golden) else [f"{at} is {answer!r}, unlike {golden!r}"]


def items(*identifiers: str, **fields: Any) -> dict[str, Any]:
    """The body of a request about some tokens."""
    return {"tokens": [{"identifier": identifier} for identifier in identifiers], **fields}


def _call(name: str, run: Callable[[Any], Any], path: str, *identifiers: str, **body: Any) -> Call:
    if identifiers:
        body = items(*identifiers, **body)
    return Call(name, run, "POST", f"/v1/{path}", body=body, golden=f"market/{path.replace('-', '_')}.json")


ADDRESS = "0x532f27101965dd16442E59d40670FaF5eBB142E4"
MARKET_CALLS = [
    _call("signals of tokens", lambda c: c.token_signals([ADDRESS]), "token-signals", ADDRESS),
    _call(
        "signals of tokens with everything",
        lambda c: c.token_signals(["BRETT", TokenQuery("aerodrome-finance", 100), TokenQuery("ETH")], limit=1),
        "token-signals",
        tokens=[
            {"identifier": "BRETT", "limit": 1},
            {"identifier": "aerodrome-finance", "limit": 100},
            {"identifier": "ETH", "limit": 1},
        ],
    ),
    _call("signal history", lambda c: c.signal_history(["TOSHI", "ETH"]), "signal-history", "TOSHI", "ETH"),
    _call(
        "signal history with everything",
        lambda c: c.signal_history(
            ["TOSHI", "ETH"],
            since=datetime(2026, 1, 2, 1, tzinfo=timezone(timedelta(hours=2))),
            until=1767484800,
            signal_type="WAITING FOR SIGNAL",
        ),
        "signal-history",
        *("TOSHI", "ETH"),
        startDate="2026-01-01T23:00:00Z",
        endDate="2026-01-04T00:00:00Z",
        signalType="WAITING FOR SIGNAL",
    ),
    _call(
        "signal history of one moment",
        lambda c: c.signal_history(["ETH"], since=0, until=datetime(1970, 1, 1, tzinfo=UTC), signal_type="ALL"),
        "signal-history",
        "ETH",
        startDate="1970-01-01T00:00:00Z",
        endDate="1970-01-01T00:00:00Z",
        signalType="ALL",
    ),
    _call("prices", lambda c: c.token_prices(["a", "b", "c", "d", "e"]), "token-prices", *"abcde"),
    _call("win rates", lambda c: c.token_win_rate(("BRETT", "TOSHI")), "token-win-rate", "BRETT", "TOSHI"),
    _call("averages", lambda c: c.token_avg_prices([" BRETT\n", "TOSHI"]), "token-avg-prices", "BRETT", "TOSHI"),
    _call("top performers", lambda c: c.top_performers("winRate"), "top-performers", sortBy="winRate"),
    _call("top 300", lambda c: c.top_performers(sort_by="ROI", limit=300), "top-performers", sortBy="ROI", limit=300),
    _call("aggregate metrics", lambda c: c.aggregate_metrics(), "aggregate-metrics"),
    _call("supported tokens", lambda c: c.supported_tokens(), "supported-tokens"),
    _call("500 supported tokens", lambda c: c.supported_tokens(limit=500), "supported-tokens", limit=500),
]
