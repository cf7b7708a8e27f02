"""GET /v1/positions"""

from __future__ import annotations

from typing import Any

from ..core.messages import Response
from ..market.price_model import level
from ..market.tokens import find
from ..trading.exits import trailing_peak
from ..trading.ledger import outcome
from ..trading.positions import GUARDED
from .context import Context, Endpoint, Routes
from .pagination import agent_filter, page

_COMPUTED = ("current_price_usd", "unrealized_pnl_usd", "trailing_stop_price")
_FIELDS = (
    "id", "agent_id", "token_address", "token_symbol", "chain_id", "entry_price_usd", "current_price_usd",
    "unrealized_pnl_usd", "stop_loss_price", "take_profit_price", "trailing_stop_price", "opened_at",
)  # fmt: skip
# The columns for current prices and profits.
_KEPT = ("amount", "trailing_pct", "peak", "peak_at")
_COLUMNS = tuple(name for name in (*_FIELDS, *_KEPT) if name not in _COMPUTED)


def listing(call: Context) -> Response:
    query = call.query()
    filters = {"tenant": call.tenant, "agent_id": agent_filter(call, query)}
    response = page(call, query, table="positions", columns=_COLUMNS, time="opened_at", filters=filters)
    _add_current(call, response.data["data"])
    return response


def _add_current(call: Context, rows: list[dict[str, Any]]) -> None:
    """Add current prices and what depends on them. The trailing stop of an agent that isn't running doesn't move."""
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
    for row in rows:
        amount, trailing, peak, peak_at = (row.pop(name) for name in _KEPT)
        address, entry = row["token_address"], row["entry_price_usd"]
        token = find(world.seed, row["chain_id"], address)
        if address not in current:
            current[address] = prices.usd(token, now) if token else entry
        price = current[address]
        if token and states.get(row["agent_id"]) in GUARDED:
            twin = (address, peak, peak_at)
            if twin not in peaks:
                peaks[twin] = trailing_peak(prices, token, peak, peak_at, now)
            peak = peaks[twin]
        values = (price, outcome(entry, price, amount)[0], level(peak, -trailing / 100))
        found = {**row, **dict(zip(_COMPUTED, values, strict=True))}
        row.clear()
        row |= {name: found.pop(name) for name in _FIELDS} | found  # fields added by a gap option come last


ROUTES: Routes = {
    "/v1/positions": {"GET": Endpoint(listing, needs="account", trading=True)},
}
