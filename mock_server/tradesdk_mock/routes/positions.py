"""GET /v1/positions"""

from __future__ import annotations

from ..pages import agent_filter, page
from ..web import Answer, Call, Endpoint, Routes

COLUMNS = (
    "id",
    "agent_id",
    "token_address",
    "token_symbol",
    "chain_id",
    "entry_price_usd",
    "current_price_usd",
    "unrealized_pnl_usd",
    "stop_loss_price",
    "take_profit_price",
    "trailing_stop_price",
    "opened_at",
)


def listing(call: Call) -> Answer:
    query = call.query()
    filters = {"tenant": call.tenant, "agent_id": agent_filter(call, query)}
    return page(call, query, table="positions", columns=COLUMNS, time="opened_at", filters=filters)


ROUTES: Routes = [("/v1/positions", {"GET": Endpoint(listing, needs="account")})]
