"""The published prices, typed by hand from the table of the paid endpoints."""

from decimal import Decimal

import pytest

from tradesdk._market import price
from tradesdk._values.money import usd

PER_TOKEN = {
    "/v1/token-signals": "0.05",
    "/v1/token-prices": "0.03",
    "/v1/signal-history": "0.05",
    "/v1/token-win-rate": "0.03",
    "/v1/token-avg-prices": "0.02",
}
FIXED = {"/v1/top-performers": "0.06", "/v1/aggregate-metrics": "0.06", "/v1/supported-tokens": "0"}


@pytest.mark.parametrize(("path", "dollars"), PER_TOKEN.items())
@pytest.mark.parametrize("tokens", [1, 2, 5, 1000])
def test_a_price_per_token(path: str, dollars: str, tokens: int) -> None:
    assert usd(price(path, tokens)) == Decimal(dollars) * tokens


@pytest.mark.parametrize(("path", "dollars"), FIXED.items())
@pytest.mark.parametrize("tokens", [0, 1, 300])
def test_a_price_per_request(path: str, dollars: str, tokens: int) -> None:
    assert usd(price(path, tokens)) == Decimal(dollars)


def test_prices_are_whole_micro_dollars() -> None:
    assert price("/v1/token-prices", 2) == 60_000
    assert {type(price(path, 1)) for path in (*PER_TOKEN, *FIXED)} == {int}


@pytest.mark.parametrize("path", ["", "/v1/token-price", "/v1/token-prices/", "v1/token-prices", "/v1/agents"])
def test_a_path_without_a_published_price(path: str) -> None:
    with pytest.raises(KeyError):
        price(path, 1)


@pytest.mark.parametrize("tokens", [0, -1])
@pytest.mark.parametrize("path", PER_TOKEN)
def test_no_tokens_are_not_free(path: str, tokens: int) -> None:
    with pytest.raises(ValueError, match="priced per token"):
        price(path, tokens)
