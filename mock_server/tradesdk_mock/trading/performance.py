"""Performance of trading on Base, over all tenants, from the sums of their trades. USD is ether times its rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..market.price_model import DIGITS, significant
from ..market.tokens import find
from .ledger import outcome

if TYPE_CHECKING:
    from ..state.world import World

BASE = 8453
# Closed trades that a token needs for a win rate.
ENOUGH = 3


def in_ether(usd: float, rate: float) -> float:
    return significant(usd / rate, DIGITS)


def win_rate(world: World, address: str) -> float | None:
    """Percent of a token's closed trades with a profit, averaged over agents; None for too few trades."""
    rate, count = world.store.all(
        "SELECT avg(100.0 * won / closed), coalesce(sum(closed), 0) FROM books"
        " WHERE chain_id = ? AND token_address = ? AND closed > 0",
        (BASE, address),
    )[0]
    return round(rate, 2) if count >= ENOUGH else None


def average_prices(world: World, address: str) -> tuple[float | None, float | None]:
    """USD for one token when bought and when sold, weighted by amount; None without such trades."""
    bought, paid, sold, taken = world.store.all(
        "SELECT sum(bought), sum(bought_usd), sum(sold), sum(sold_usd) FROM books"
        " WHERE chain_id = ? AND token_address = ?",
        (BASE, address),
    )[0]
    return paid / bought if bought else None, taken / sold if sold else None


def top(world: World, sort_by: str, limit: int) -> list[tuple[str, dict[str, Any]]]:
    """Address and figures of the best tokens, best first: win rate and return on cost in percent, number of agents."""
    rows = world.store.all(
        # For an agent without closed trades the rate is NULL, and the average ignores it.
        "SELECT token_address, avg(100.0 * won / closed), 100.0 * sum(gain) / sum(cost), count(*) FROM books"
        " WHERE chain_id = ? GROUP BY token_address HAVING sum(closed) >= ?",
        (BASE, ENOUGH),
    )
    # Rounded in Python, like all other figures.
    found = [
        (address, {"winRate": round(rate, 2), "ROI": round(gain, 2) + 0.0, "agentCount": count})
        for address, rate, gain, count in rows
    ]
    found.sort(key=lambda each: (-each[1][sort_by], each[0]))
    return found[:limit]


def agents_by_token(world: World) -> dict[str, int]:
    """The number of agents that have traded a token, by address."""
    counted = "SELECT token_address, count(DISTINCT agent_id) FROM trades WHERE chain_id = ? GROUP BY token_address"
    return dict(world.store.all(counted, (BASE,)))


def totals(world: World, at: float) -> dict[str, float]:
    """Sums over all tokens. Closed trades are counted; ether is at the rate of `at`."""
    store = world.store
    rate = world.prices.rate(at)
    agents, active = store.all(
        "SELECT count(*), coalesce(sum(status = 'active'), 0) FROM agents WHERE chain_id = 8453"
    )[0]
    trades, won, realized, bought, sold = store.all(
        "SELECT count(closed_at), count(nullif(pnl_usd > 0, 0)), total(round(pnl_usd * 100)) / 100,"
        " total(entry_price_usd * amount), total(exit_price_usd * amount) FROM trades WHERE chain_id = 8453"
    )[0]
    found = {
        "totalAgents": agents,
        "activeAgents": active,
        "totalTrades": trades,
        "totalProfitableTrades": won,
    }
    for name, usd in (
        ("totalBuy", bought),
        ("totalSell", sold),
        ("realizedProfit", realized),
        ("unrealizedProfit", _unrealized(world, int(at))),
    ):
        # Enough digits that both agree to a cent, however large the sums are.
        found[f"{name}ETH"] = round(usd / rate, 8) + 0.0
        found[f"{name}USD"] = round(usd, 2) + 0.0
    return {**found, "winRate": round(100.0 * won / trades, 2) if trades else 0.0}


def _unrealized(world: World, second: int) -> float:
    """Profit of the open positions on Base, each in whole cents as its owner sees it."""
    current: dict[str, float | None] = {}
    cents = 0
    for address, entry, amount in world.store.all(
        "SELECT token_address, entry_price_usd, amount FROM positions WHERE chain_id = 8453"
    ):
        if address not in current:
            token = find(world.seed, BASE, address)
            current[address] = world.prices.usd(token, second) if token else None
        price = current[address]
        if price is not None:
            cents += round(outcome(entry, price, amount)[0] * 100)
    return cents / 100
