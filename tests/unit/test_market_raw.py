"""Any body for an endpoint with a published price, before it is sent."""

from typing import Any

import pytest

from tradesdk import InvalidArgumentError
from tradesdk._market import raw

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
    with pytest.raises(InvalidArgumentError, match=told):
        raw(path, body)


@pytest.mark.parametrize("path", ["/v1/token-signals", "/v1/token-prices", "/v1/signal-history", "/v1/token-win-rate"])
def test_tokens_are_counted_where_the_price_is_per_token(path: str) -> None:
    assert raw(path, TOKENS).tokens == 2


@pytest.mark.parametrize("path", ["/v1/top-performers", "/v1/aggregate-metrics", "/v1/supported-tokens"])
def test_and_nowhere_else(path: str) -> None:
    assert raw(path, TOKENS).tokens is None
