"""GET /v1/positions"""

from __future__ import annotations

from typing import Any

from ..core.messages import Answer
from ..market.price_model import level
from ..market.tokens import find
from ..trading.exits import trailing_peak
from ..trading.ledger import outcome
from ..trading.positions import GUARDED
from .context import Context, Endpoint, Routes
from .pagination import agent_filter, page

# Current prices and profits are computed from the last four.
_KEPT = (
    "id",
    "agent_id",
    "token_address",
    "token_symbol",
    "chain_id",
    "entry_price_usd",
    "stop_loss_price",
    "take_profit_price",
    "opened_at",
    "amount",
    "trailing_pct",
    "peak",
    "peak_at",
)


def listing(call: Context) -> Answer:
    query = call.query()
    filters = {"tenant": call.tenant, "agent_id": agent_filter(call, query)}
    answer = page(call, query, table="positions", columns=_KEPT, time="opened_at", filters=filters)
    rows: list[dict[str, Any]] = answer.data["data"]
    answer.data["data"] = _as_of_now(call, rows)
    return answer


def _as_of_now(call: Context, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The positions with current prices. The trailing stop of an agent that isn't running doesn't move."""
    world = call.world
    prices, now = world.prices, int(call.now)
    agents = list({row["agent_id"]: None for row in rows})
    marks = ", ".join("?" * len(agents))
    states: dict[str, str] = dict(
        world.store.all(f"SELECT id, status FROM agents WHERE id IN ({marks})", agents)  # noqa: S608 - marks only
    )
    current: dict[str, float] = {}
    # Agents that followed the same signal have equal positions.
    peaks: dict[tuple[str, float, int], float] = {}
    found = []
    for row in rows:
        address, entry = row["token_address"], row["entry_price_usd"]
        token = find(world.seed, row["chain_id"], address)
        if address not in current:
            current[address] = prices.usd(token, now) if token else entry
        price, peak = current[address], row["peak"]
        if token and states.get(row["agent_id"]) in GUARDED:
            twin = (address, peak, row["peak_at"])
            if twin not in peaks:
                peaks[twin] = trailing_peak(prices, token, *twin[1:], now)
            peak = peaks[twin]
        record = {
            "id": row["id"],
            "agent_id": row["agent_id"],
            "token_address": address,
            "token_symbol": row["token_symbol"],
            "chain_id": row["chain_id"],
            "entry_price_usd": entry,
            "current_price_usd": price,
            "unrealized_pnl_usd": outcome(entry, price, row["amount"])[0],
            "stop_loss_price": row["stop_loss_price"],
            "take_profit_price": row["take_profit_price"],
            "trailing_stop_price": level(peak, -row["trailing_pct"] / 100),
            "opened_at": row["opened_at"],
        }
        if len(row) > len(_KEPT):
            # Fields that a gap option has added come last.
            record |= {name: value for name, value in row.items() if name not in _KEPT}
        found.append(record)
    return found


ROUTES: Routes = {
    "/v1/positions": {"GET": Endpoint(listing, needs="account", trading=True)},
}
