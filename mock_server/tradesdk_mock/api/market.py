"""POST /v1/token-signals, /v1/signal-history, /v1/token-prices, /v1/supported-tokens, and the list of all paths"""

from __future__ import annotations

from ..core.errors import ApiError
from ..market.tokens import NETWORKS, tokens
from ..trading import signal_feed
from ..trading.performance import agents_by_token
from . import market_requests
from .marketside import MarketCall, MarketEndpoint, Record
from .marketsignals import STRATEGY, Wanted, records
from .marketstats import STATISTICS

BASE = 8453


def token_signals(call: MarketCall) -> Record:
    """The newest signals of each token. Also signal-history: then of a kind and between two dates."""
    signal_feed.catch_up(call.world)
    asked = call.asked
    results = []
    for place, token in call.tokens():
        wanted = Wanted(asked.limits[place], asked.signal, asked.start, asked.end)
        found = [call.shown(record) for record in records(call.world, token, wanted)]
        results.append(
            call.shown(
                {
                    "tokenAddress": token.address,
                    "tokenSymbol": token.symbol,
                    "strategy": STRATEGY,
                    "signalCount": len(found),
                    "signals": found,
                }
            )
        )
    return {"results": results}


def token_prices(call: MarketCall) -> Record:
    found = [token for _, token in call.tokens()]
    for token in found:
        if call.world.price_fails(token):
            raise ApiError(502, "bad_gateway", f"The price of {token.symbol} can't be found at the moment.")
    return {
        "results": [
            call.shown(
                {
                    "tokenAddress": token.address,
                    "symbol": token.symbol,
                    "currentPriceEth": call.world.prices.eth(token, call.now),
                    "currentPriceUsd": call.world.prices.usd(token, call.now),
                }
            )
            for token in found
        ]
    }


def supported_tokens(call: MarketCall) -> Record:
    """The largest tokens first; `total` counts all of them."""
    every = sorted(tokens(call.world.seed, BASE), key=lambda token: token.market_cap_rank)
    agents = agents_by_token(call.world)
    return {
        "total": len(every),
        "tokens": [
            call.shown(
                {
                    "tokenAddress": token.address,
                    "symbol": token.symbol,
                    "name": token.name,
                    "network": NETWORKS[BASE],
                    "logo": token.logo,
                    "marketCap": token.market_cap,
                    "marketCapRank": token.market_cap_rank,
                    "poolAddress": token.pool_address,
                    "agentCount": agents.get(token.address, 0),
                }
            )
            for token in every[: call.asked.limit]
        ],
    }


MARKET_ROUTES: list[tuple[str, MarketEndpoint]] = [
    (
        "/v1/token-signals",
        MarketEndpoint(market_requests.tokens_with_limits, token_signals, "Signals of tokens", 50_000, each=True),
    ),
    (
        "/v1/signal-history",
        MarketEndpoint(market_requests.tokens_in_a_span, token_signals, "Signal history of tokens", 50_000, each=True),
    ),
    (
        "/v1/token-prices",
        MarketEndpoint(market_requests.only_tokens, token_prices, "Prices of tokens", 30_000, each=True),
    ),
    *STATISTICS,
    (
        "/v1/supported-tokens",
        MarketEndpoint(market_requests.number_of_tokens, supported_tokens, "The tokens there are", trading=True),
    ),
]
