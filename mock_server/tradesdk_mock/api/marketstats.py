"""POST /v1/token-win-rate, /v1/token-avg-prices, /v1/top-performers, /v1/aggregate-metrics"""

from __future__ import annotations

from ..market.price_model import DIGITS
from ..market.tokens import NETWORKS, find, significant
from ..trading import performance
from ..trading.performance import in_ether
from . import market_requests
from .marketside import MarketCall, MarketEndpoint, Record

BASE = 8453


def token_win_rate(call: MarketCall) -> Record:
    return {
        "results": [
            call.shown(
                {
                    "tokenAddress": token.address,
                    "tokenSymbol": token.symbol,
                    "winRate": performance.win_rate(call.world, token.address),
                }
            )
            for _, token in call.tokens()
        ]
    }


def token_avg_prices(call: MarketCall) -> Record:
    rate = call.world.prices.rate(call.now)
    results = []
    for _, token in call.tokens():
        prices = performance.average_prices(call.world, token.address)
        buy, sell = prices["BUY"], prices["SELL"]
        results.append(
            call.shown(
                {
                    "tokenAddress": token.address,
                    "tokenSymbol": token.symbol,
                    "averageBuyPriceETH": None if buy is None else in_ether(buy, rate),
                    "averageBuyPriceUSD": None if buy is None else significant(buy, DIGITS),
                    "averageSellPriceETH": None if sell is None else in_ether(sell, rate),
                    "averageSellPriceUSD": None if sell is None else significant(sell, DIGITS),
                }
            )
        )
    return {"results": results}


def top_performers(call: MarketCall) -> Record:
    seed = call.world.seed
    rows = performance.top(call.world, call.asked.sort_by, call.asked.limit)
    return {
        "tokens": [
            call.shown(
                {
                    "tokenAddress": token.address,
                    "symbol": token.symbol,
                    "name": token.name,
                    "network": NETWORKS[BASE],
                    "winRate": row["winRate"],
                    "ROI": row["ROI"],
                    "agentCount": row["agentCount"],
                }
            )
            for row in rows
            if (token := find(seed, BASE, row["address"]))
        ]
    }


def aggregate_metrics(call: MarketCall) -> Record:
    return dict(performance.totals(call.world, call.now))


STATISTICS: list[tuple[str, MarketEndpoint]] = [
    (
        "/v1/token-win-rate",
        MarketEndpoint(
            market_requests.only_tokens, token_win_rate, "Win rates of tokens", 30_000, each=True, trading=True
        ),
    ),
    (
        "/v1/token-avg-prices",
        MarketEndpoint(
            market_requests.only_tokens, token_avg_prices, "Average prices of tokens", 20_000, each=True, trading=True
        ),
    ),
    (
        "/v1/top-performers",
        MarketEndpoint(
            market_requests.sorted_tokens, top_performers, "The tokens that are traded best", 60_000, trading=True
        ),
    ),
    (
        "/v1/aggregate-metrics",
        MarketEndpoint(
            market_requests.nothing, aggregate_metrics, "Everything that was traded, added up", 60_000, trading=True
        ),
    ),
]
