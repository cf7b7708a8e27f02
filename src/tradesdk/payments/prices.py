"""The prices of market data in micro-dollars, as the service publishes them in the table of its paid endpoints."""

from __future__ import annotations

_PER_TOKEN = {
    "/v1/token-signals": 50_000,
    "/v1/token-prices": 30_000,
    "/v1/signal-history": 50_000,
    "/v1/token-win-rate": 30_000,
    "/v1/token-avg-prices": 20_000,
}
_PER_REQUEST = {
    "/v1/top-performers": 60_000,
    "/v1/aggregate-metrics": 60_000,
    "/v1/supported-tokens": 0,
}


def price(path: str, tokens: int) -> int:
    """What one request costs, in micro-dollars; 0 when it is free.

    Args:
        path: the endpoint, such as `/v1/token-prices`.
        tokens: how many tokens are asked for; where the price does not depend on it, any number.

    Raises:
        KeyError: no price is published for the path.
        ValueError: a price per token, and fewer than one token.
    """
    if path not in _PER_TOKEN:
        return _PER_REQUEST[path]
    if tokens < 1:
        raise ValueError(f"{path} is priced per token, and there are {tokens}")
    return _PER_TOKEN[path] * tokens
