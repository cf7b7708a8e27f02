"""The eight paths of the market-data API and their data."""

from __future__ import annotations

from collections.abc import Callable

from ..market.price_model import DIGITS, significant
from ..market.tokens import NETWORKS, Token, find, tokens
from ..trading import performance
from ..trading.performance import agents_by_token, in_ether
from . import market_requests
from .context import MarketCall, MarketEndpoint, MarketRoutes, Record
from .market_requests import BASE
from .market_signals import STRATEGY, records


def token_signals(call: MarketCall) -> Record:
    """token-signals: the newest signals of each token. signal-history: of one kind, between two dates."""

    def row_of(token: Token, limit: int) -> Record:
        found = [call.with_unknown(record) for record in records(call.world, token, limit, call.query)]
        return {"tokenSymbol": token.symbol, "strategy": STRATEGY, "signalCount": len(found), "signals": found}

    return _of_each_token(call, row_of)


def token_prices(call: MarketCall) -> Record:
    prices = call.world.prices
    return _of_each_token(
        call,
        lambda token, _: {
            "symbol": token.symbol,
            "currentPriceEth": prices.eth(token, call.now),
            "currentPriceUsd": prices.usd(token, call.now),
        },
    )


def supported_tokens(call: MarketCall) -> Record:
    """The largest tokens first; `total` counts all of them."""
    every = sorted(tokens(call.world.seed, BASE), key=lambda token: token.market_cap_rank)
    agents = agents_by_token(call.world)
    return {
        "total": len(every),
        "tokens": [
            call.with_unknown(
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
            for token in every[: call.query.limit]
        ],
    }


def token_win_rate(call: MarketCall) -> Record:
    return _of_each_token(
        call,
        lambda token, _: {"tokenSymbol": token.symbol, "winRate": performance.win_rate(call.world, token.address)},
    )


def token_avg_prices(call: MarketCall) -> Record:
    rate = call.world.prices.rate(call.now)

    def row_of(token: Token, _: int) -> Record:
        buy, sell = performance.average_prices(call.world, token.address)
        return {
            "tokenSymbol": token.symbol,
            "averageBuyPriceETH": None if buy is None else in_ether(buy, rate),
            "averageBuyPriceUSD": None if buy is None else significant(buy, DIGITS),
            "averageSellPriceETH": None if sell is None else in_ether(sell, rate),
            "averageSellPriceUSD": None if sell is None else significant(sell, DIGITS),
        }

    return _of_each_token(call, row_of)


def _of_each_token(call: MarketCall, row_of: Callable[[Token, int], Record]) -> Record:
    """A record for each token of the request, from the token and its limit."""
    rows = ({"tokenAddress": token.address, **row_of(token, limit)} for token, limit in call.tokens())
    return {"results": [call.with_unknown(row) for row in rows]}


def top_performers(call: MarketCall) -> Record:
    seed = call.world.seed
    best = performance.top(call.world, call.query.sort_by, call.query.limit)
    return {
        "tokens": [
            call.with_unknown(
                {
                    "tokenAddress": token.address,
                    "symbol": token.symbol,
                    "name": token.name,
                    "network": NETWORKS[BASE],
                    **figures,
                }
            )
            for address, figures in best
            if (token := find(seed, BASE, address))
        ]
    }


def aggregate_metrics(call: MarketCall) -> Record:
    return dict(performance.totals(call.world, call.now))


ROUTES: MarketRoutes = {
    "/v1/token-signals": MarketEndpoint(
        market_requests.tokens_with_limits, token_signals, "Signals of tokens", 50_000, each=True, signals=True
    ),
    "/v1/signal-history": MarketEndpoint(
        market_requests.tokens_in_a_span, token_signals, "Signal history of tokens", 50_000, each=True, signals=True
    ),
    "/v1/token-prices": MarketEndpoint(
        market_requests.only_tokens, token_prices, "Prices of tokens", 30_000, each=True
    ),
    "/v1/token-win-rate": MarketEndpoint(
        market_requests.only_tokens, token_win_rate, "Win rates of tokens", 30_000, each=True, trading=True
    ),
    "/v1/token-avg-prices": MarketEndpoint(
        market_requests.only_tokens, token_avg_prices, "Average prices of tokens", 20_000, each=True, trading=True
    ),
    "/v1/top-performers": MarketEndpoint(
        market_requests.sorted_tokens, top_performers, "Tokens with the best performance", 60_000, trading=True
    ),
    "/v1/aggregate-metrics": MarketEndpoint(
        market_requests.nothing, aggregate_metrics, "Totals over all agents and trades", 60_000, trading=True
    ),
    "/v1/supported-tokens": MarketEndpoint(
        market_requests.number_of_tokens, supported_tokens, "Supported tokens", trading=True
    ),
}
