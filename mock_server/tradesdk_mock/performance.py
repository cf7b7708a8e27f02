"""How trading went on Base, over all tenants of a world, computed from their trades. USD is ether times its rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import house, market
from .tokens import significant

if TYPE_CHECKING:
    from .world import World

BASE = 8453
# With fewer closed trades of a token nothing is said about its win rate.
ENOUGH = 3

# An entry and, once it is closed, an exit: one of them is a purchase and the other a sale.
_SIDES = """(
    SELECT token_address, direction AS side, entry_price_usd AS price, amount FROM trades WHERE chain_id = 8453
    UNION ALL
    SELECT token_address, CASE direction WHEN 'BUY' THEN 'SELL' ELSE 'BUY' END, exit_price_usd, amount FROM trades
    WHERE chain_id = 8453 AND status = 'closed'
)"""


def in_ether(usd: float, rate: float) -> float:
    return significant(usd / rate, market.DIGITS)


def win_rate(world: World, address: str) -> float | None:
    """Percent of a token's closed trades that made money, averaged over the agents; None for too few trades."""
    house.ensure(world)
    rate, count = world.store.all(
        "SELECT avg(rate), coalesce(sum(n), 0) FROM ("
        " SELECT 100.0 * sum(pnl_usd > 0) / count(*) AS rate, count(*) AS n FROM trades"
        " WHERE chain_id = ? AND token_address = ? AND status = 'closed' GROUP BY agent_id)",
        (BASE, address),
    )[0]
    return round(rate, 2) if count >= ENOUGH else None


def average_prices(world: World, address: str) -> dict[str, float | None]:
    """USD for one token, weighted by amount, by side (`BUY`, `SELL`); None for a side that no trade has."""
    house.ensure(world)
    found: dict[str, float] = dict(
        world.store.all(
            f"SELECT side, sum(price * amount) / sum(amount) FROM {_SIDES} WHERE token_address = ? GROUP BY side",  # noqa: S608 - our own text
            (address,),
        )
    )
    return {side: found.get(side) for side in ("BUY", "SELL")}


def top(world: World, sort_by: str, limit: int) -> list[dict[str, Any]]:
    """Address, win rate, return on what was paid (both in percent) and agents of the best tokens, best first."""
    house.ensure(world)
    columns = ("address", "winRate", "ROI", "agentCount")
    rows = world.store.all(
        "SELECT token_address, round(avg(100.0 * won / n), 2), round(100.0 * sum(gain) / sum(cost), 2), count(*) FROM ("  # noqa: S608 - our own names
        " SELECT token_address, sum(pnl_usd > 0) AS won, count(*) AS n, sum(pnl_usd) AS gain,"
        " sum(entry_price_usd * amount) AS cost FROM trades"
        " WHERE chain_id = ? AND status = 'closed' GROUP BY token_address, agent_id)"
        " GROUP BY token_address HAVING sum(n) >= ?"
        f" ORDER BY {columns.index(sort_by) + 1} DESC, token_address LIMIT ?",
        (BASE, ENOUGH, limit),
    )
    return [dict(zip(columns, row, strict=True)) for row in rows]


def agents_by_token(world: World) -> dict[str, int]:
    """How many agents have traded a token, by address."""
    house.ensure(world)
    return dict(
        world.store.all(
            "SELECT token_address, count(DISTINCT agent_id) FROM trades WHERE chain_id = ? GROUP BY token_address",
            (BASE,),
        )
    )


def totals(world: World, at: float) -> dict[str, float]:
    """Everything added up. Trades are counted when they are closed; amounts are in ether of the rate at `at`."""
    house.ensure(world)
    store = world.store
    rate = market.eth_usd(world.seed, at)
    agents, active = store.all(
        "SELECT count(*), coalesce(sum(status = 'active'), 0) FROM agents WHERE chain_id = 8453"
    )[0]
    trades, won, realized = store.all(
        "SELECT count(*), coalesce(sum(pnl_usd > 0), 0), coalesce(sum(pnl_usd), 0.0) FROM trades"
        " WHERE chain_id = 8453 AND status = 'closed'"
    )[0]
    sides: dict[str, float] = dict(store.all(f"SELECT side, sum(price * amount) FROM {_SIDES} GROUP BY side"))  # noqa: S608 - our own text
    unrealized = store.value("SELECT coalesce(sum(unrealized_pnl_usd), 0.0) FROM positions WHERE chain_id = 8453")
    found = {
        "totalAgents": agents,
        "activeAgents": active,
        "totalTrades": trades,
        "totalProfitableTrades": won,
    }
    for name, usd in (
        ("totalBuy", sides.get("BUY", 0.0)),
        ("totalSell", sides.get("SELL", 0.0)),
        ("realizedProfit", realized),
        ("unrealizedProfit", unrealized),
    ):
        found[f"{name}ETH"] = in_ether(usd, rate)
        found[f"{name}USD"] = round(usd, 2)
    return {**found, "winRate": round(100.0 * won / trades, 2) if trades else 0.0}
