"""JSON typed by hand from the specification against the mock's OpenAPI description: every file, exactly its keys."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from .._openapi import header_problems, problems, resolved, response
from .._rows import each_of
from ._golden import GOLDEN, LISTS, RECORDS, load

# File, and the answer that it is.
ANSWERS: dict[str, Sequence[Any]] = {
    **{name: answer for name, (_, *answer) in (RECORDS | LISTS).items()},
    "errors/400_invalid_request.json": ("GET", "/v1/agents", 400),
    "errors/400_invalid_signature.json": ("POST", "/v1/wallets", 400),
    "errors/401_unauthorized.json": ("GET", "/v1/account", 401),
    "errors/403_forbidden.json": ("POST", "/v1/agents", 403),
    "errors/404_not_found.json": ("GET", "/v1/agents/{agent_id}", 404),
    "errors/409_conflict.json": ("DELETE", "/v1/agents/{agent_id}", 409),
    "errors/422_validation_error.json": ("PATCH", "/v1/agents/{agent_id}", 422),
    "errors/429_rate_limited.json": ("GET", "/v1/trades", 429),
    "errors/500_internal_error.json": ("GET", "/v1/trades", 500),
    "errors/503_service_unavailable.json": ("GET", "/v1/trades", 503),
    "market/token_signals.json": ("POST", "/v1/token-signals", 200),
    "market/signal_history.json": ("POST", "/v1/signal-history", 200),
    "market/token_prices.json": ("POST", "/v1/token-prices", 200),
    "market/token_win_rate.json": ("POST", "/v1/token-win-rate", 200),
    "market/token_avg_prices.json": ("POST", "/v1/token-avg-prices", 200),
    "market/top_performers.json": ("POST", "/v1/top-performers", 200),
    "market/aggregate_metrics.json": ("POST", "/v1/aggregate-metrics", 200),
    "market/supported_tokens.json": ("POST", "/v1/supported-tokens", 200),
    "market/error_400.json": ("POST", "/v1/token-prices", 400),
    "market/error_404.json": ("POST", "/v1/token-prices", 404),
    "market/error_502.json": ("POST", "/v1/token-prices", 502),
}
# What isn't the body of an answer, and the schema that it has.
OTHERS = {
    "stream/signal.json": "StreamEvent",
    "stream/heartbeat.json": "StreamEvent",
    "market/payment_required.json": "PaymentRequired",
    "market/payment_signature.json": "PaymentSignature",
    "market/payment_response.json": "PaymentResponse",
}
HEADERS = {
    "headers.json": ("GET", "/v1/account", 200),
    "errors/429_rate_limited.headers.json": ("GET", "/v1/account", 429),
}
# The description is about what happens without gap options and faults.
NOT_BY_DEFAULT = {"market/payment_identifier.json", "market/payment_response_failed.json"}
# What clients send may have more fields than the service looks at.
SENT = {"market/payment_signature.json"}
# Fields that may be missing.
OPTIONAL = {
    "next_cursor",
    "position_size_pct",
    "stop_loss_pct",
    "trailing_stop_pct",
    "take_profit_pct",
    "resource",
}


def schema_of(name: str) -> Any:
    if name in OTHERS:
        return OTHERS[name]
    (content,) = response(*ANSWERS[name])["content"].values()
    return content["schema"]


def test_every_file_has_its_place() -> None:
    files = {str(file.relative_to(GOLDEN)) for file in GOLDEN.rglob("*.json")}
    assert files == {*ANSWERS, *OTHERS, *HEADERS, *NOT_BY_DEFAULT}


@each_of("name", [*ANSWERS, *OTHERS])
def test_golden_is_as_described(name: str) -> None:
    assert problems(schema_of(name), load(name)) == []


@pytest.mark.rule("error.429.headers", "limit.headers")
@each_of("name", HEADERS)
def test_golden_headers_are_as_described(name: str) -> None:
    said, headers = response(*HEADERS[name]), load(name)
    assert header_problems(said, headers) == []
    for header in said["headers"]:
        without = {key: value for key, value in headers.items() if key != header}
        assert header_problems(said, without) == [f"{header} is missing"]
        assert header_problems(said, {**headers, header: "-1" if header != "X-RateLimit-Reset" else str(10**18)}) != []


@pytest.mark.rule(
    "agent.fields agent.fields.created agent.fields.updated agent.fields.summary agent.stats.fields",
    "risk.fields wallet.fields wallet.balance.fields wallet.balance.tokens trade.fields trade.fields.single",
    "position.fields signal.fields signals.latest.no-cursor account.fields usage.fields usage.quota.fields",
    "page.fields page.last error.body error.body.inner market.wrapper market.payment.header payment.header",
    "payment.payload payment.authorization payment.accepted payment.receipt market.signals.result",
    "market.signals.record market.prices.record market.win-rate.record market.avg-prices.record",
    "market.top.record market.aggregate.record market.supported.data market.supported.record",
    "stream.signal.fields stream.heartbeat.fields",
)
@each_of("name", [*ANSWERS, *OTHERS])
def test_no_other_keys_are_described(name: str) -> None:
    """A key more anywhere, or one less, and it is no longer what the description says."""
    golden, schema = load(name), schema_of(name)
    for place in [*objects(golden)]:
        for key in [key for key in place if key not in OPTIONAL]:
            value = place.pop(key)
            assert problems(schema, golden), f"without {key}"
            place[key] = value
        if name not in SENT:
            place["introduced_later"] = 1
            assert problems(schema, golden), f"more in {json.dumps(place)[:80]}"
            del place["introduced_later"]


@each_of("name", [name for name in ANSWERS if name.startswith("market/") and "payment" not in name])
def test_answers_of_market_data_have_one_wrapper(name: str) -> None:
    golden = load(name)
    assert problems("Wrapper", golden) == []
    both = {"success": golden["success"], "data": golden["data"] or {}, "error": golden["error"] or "No."}
    neither = {"success": golden["success"], "data": None, "error": None}
    for spoiled in (both, neither, {**golden, "success": not golden["success"]}):
        assert problems("Wrapper", spoiled) != []


def test_an_open_trade_is_described_apart_from_a_closed_one() -> None:
    for name in ("trade_open.json", "trade_closed.json"):
        golden, other = load(name), load("trade_closed.json" if "open" in name else "trade_open.json")
        for field in ("exit_price_usd", "pnl_usd", "roi_pct", "closed_at"):
            assert problems("TradeDetail", {**golden, field: other[field]}) != [], (name, field)


def test_what_can_be_null_says_so() -> None:
    nullable = ("TokenAveragePrices", "averageBuyPriceETH"), ("TokenWinRate", "winRate"), ("Trade", "pnl_usd")
    for schema, field in nullable:
        said = resolved({"$ref": f"#/components/schemas/{schema}"})["properties"][field]
        assert said["type"] == ["number", "null"]


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a value, itself included."""
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(each)
