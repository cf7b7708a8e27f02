"""Any body for an endpoint with a published price, before it is sent."""

from typing import Any

import pytest

from tradesdk import InvalidArgumentError, MarketClient

from .._answers import BASE

TOKENS = {"tokens": [{"identifier": "ETH"}, {"identifier": "BRETT"}]}


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/v1/agents", {}, "'/v1/agents' has no published price"),
        ("/v1/token-prices?x=1", TOKENS, "has no published price"),
        ("token-prices", TOKENS, "has no published price"),
        (None, TOKENS, "has no published price"),
        ("/v1/token-prices", None, "1 to 5 tokens, not none"),
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
    with MarketClient(base_url=BASE) as market, pytest.raises(InvalidArgumentError, match=told):
        market.quote.request(path, json=body)


@pytest.mark.parametrize(
    ("path", "price"),
    [
        *(("/v1/token-signals", 50_000), ("/v1/signal-history", 50_000), ("/v1/token-prices", 30_000)),
        *(("/v1/token-win-rate", 30_000), ("/v1/token-avg-prices", 20_000)),
    ],
)
def test_tokens_are_counted_where_the_price_is_per_token(path: str, price: int) -> None:
    with MarketClient(base_url=BASE) as market:
        quote = market.quote.request(path, json=TOKENS)
    assert (quote.tokens, quote.amount) == (2, 2 * price)


@pytest.mark.parametrize(
    ("path", "price"),
    [("/v1/top-performers", 60_000), ("/v1/aggregate-metrics", 60_000), ("/v1/supported-tokens", 0)],
)
def test_and_nowhere_else(path: str, price: int) -> None:
    with MarketClient(base_url=BASE) as market:
        quote = market.quote.request(path, json=TOKENS)
    assert (quote.tokens, quote.amount) == (None, price)
