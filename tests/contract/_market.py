"""The golden files of market data, their models, and the calls that lead to them. Typed by hand, as in `_golden`."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from tradesdk._market import TokenQuery
from tradesdk.models.market import (
    AggregateMetrics,
    SignalRecord,
    SupportedToken,
    SupportedTokensData,
    TokenAvgPrices,
    TokenAvgPricesData,
    TokenPrice,
    TokenPricesData,
    TokenSignals,
    TokenSignalsData,
    TokenWinRate,
    TokenWinRatesData,
    TopPerformer,
    TopPerformersData,
)

from ._golden import Call, load

DATA: dict[str, Any] = {
    "market/token_signals.json": TokenSignalsData,
    "market/signal_history.json": TokenSignalsData,
    "market/token_prices.json": TokenPricesData,
    "market/token_win_rate.json": TokenWinRatesData,
    "market/token_avg_prices.json": TokenAvgPricesData,
    "market/top_performers.json": TopPerformersData,
    "market/aggregate_metrics.json": AggregateMetrics,
    "market/supported_tokens.json": SupportedTokensData,
}
ITEMS: dict[Any, Any] = {
    TokenSignalsData: TokenSignals,
    TokenSignals: SignalRecord,
    TokenPricesData: TokenPrice,
    TokenWinRatesData: TokenWinRate,
    TokenAvgPricesData: TokenAvgPrices,
    TopPerformersData: TopPerformer,
    SupportedTokensData: SupportedToken,
}
FAILURES = {
    "market/error_400.json": "InvalidRequestError",
    "market/error_404.json": "NotFoundError",
    "market/error_502.json": "BadGatewayError",
}
OFFERS = {2: "market/payment_required_header.json", 1: "market/payment_required.json"}
IDENTIFIER = "market/payment_identifier.json"
PAYMENTS = {2: "market/payment_signature.json", 1: "market/payment_x_payment.json"}
RECEIPTS = {
    "market/payment_response.json": "PAYMENT-RESPONSE",
    "market/payment_response_failed.json": "PAYMENT-RESPONSE",
    "market/payment_x_payment_response.json": "X-PAYMENT-RESPONSE",
}


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


def tokens(*identifiers: str) -> list[dict[str, Any]]:
    return [{"identifier": identifier} for identifier in identifiers]


ADDRESS = "0x532f27101965dd16442E59d40670FaF5eBB142E4"
MARKET_CALLS = [
    Call(
        "signals of tokens",
        lambda c: c.token_signals([ADDRESS]),
        "POST",
        "/v1/token-signals",
        body={"tokens": tokens(ADDRESS)},
        golden="market/token_signals.json",
    ),
    Call(
        "signals of tokens with everything",
        lambda c: c.token_signals(["BRETT", TokenQuery("aerodrome-finance", 100), TokenQuery("ETH")], limit=1),
        "POST",
        "/v1/token-signals",
        body={
            "tokens": [
                {"identifier": "BRETT", "limit": 1},
                {"identifier": "aerodrome-finance", "limit": 100},
                {"identifier": "ETH", "limit": 1},
            ]
        },
        golden="market/token_signals.json",
    ),
    Call(
        "signal history",
        lambda c: c.signal_history(["TOSHI", "ETH"]),
        "POST",
        "/v1/signal-history",
        body={"tokens": tokens("TOSHI", "ETH")},
        golden="market/signal_history.json",
    ),
    Call(
        "signal history with everything",
        lambda c: c.signal_history(
            ["TOSHI", "ETH"],
            start=datetime(2026, 1, 2, 1, tzinfo=timezone(timedelta(hours=2))),
            end=1767484800,
            signal_type="WAITING FOR SIGNAL",
        ),
        "POST",
        "/v1/signal-history",
        body={
            "tokens": tokens("TOSHI", "ETH"),
            "startDate": "2026-01-01T23:00:00Z",
            "endDate": "2026-01-04T00:00:00Z",
            "signalType": "WAITING FOR SIGNAL",
        },
        golden="market/signal_history.json",
    ),
    Call(
        "signal history of one moment",
        lambda c: c.signal_history(["ETH"], start=0, end=datetime(1970, 1, 1, tzinfo=UTC), signal_type="ALL"),
        "POST",
        "/v1/signal-history",
        body={
            "tokens": tokens("ETH"),
            "startDate": "1970-01-01T00:00:00Z",
            "endDate": "1970-01-01T00:00:00Z",
            "signalType": "ALL",
        },
        golden="market/signal_history.json",
    ),
    Call(
        "prices of tokens",
        lambda c: c.token_prices(["a", "b", "c", "d", "e"]),
        "POST",
        "/v1/token-prices",
        body={"tokens": tokens("a", "b", "c", "d", "e")},
        golden="market/token_prices.json",
    ),
    Call(
        "win rates of tokens",
        lambda c: c.token_win_rate(("BRETT", "TOSHI")),
        "POST",
        "/v1/token-win-rate",
        body={"tokens": tokens("BRETT", "TOSHI")},
        golden="market/token_win_rate.json",
    ),
    Call(
        "average prices of tokens",
        lambda c: c.token_avg_prices([" BRETT\n", "TOSHI", "HIGHER"]),
        "POST",
        "/v1/token-avg-prices",
        body={"tokens": tokens("BRETT", "TOSHI", "HIGHER")},
        golden="market/token_avg_prices.json",
    ),
    Call(
        "top performers",
        lambda c: c.top_performers("winRate"),
        "POST",
        "/v1/top-performers",
        body={"sortBy": "winRate"},
        golden="market/top_performers.json",
    ),
    Call(
        "top performers with everything",
        lambda c: c.top_performers(sort_by="ROI", limit=300),
        "POST",
        "/v1/top-performers",
        body={"sortBy": "ROI", "limit": 300},
        golden="market/top_performers.json",
    ),
    Call(
        "aggregate metrics",
        lambda c: c.aggregate_metrics(),
        "POST",
        "/v1/aggregate-metrics",
        body={},
        golden="market/aggregate_metrics.json",
    ),
    Call(
        "supported tokens",
        lambda c: c.supported_tokens(),
        "POST",
        "/v1/supported-tokens",
        body={},
        golden="market/supported_tokens.json",
    ),
    Call(
        "supported tokens with everything",
        lambda c: c.supported_tokens(limit=500),
        "POST",
        "/v1/supported-tokens",
        body={"limit": 500},
        golden="market/supported_tokens.json",
    ),
]
