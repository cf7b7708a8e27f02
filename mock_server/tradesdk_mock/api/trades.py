"""GET /v1/trades, GET /v1/trades/{trade_id}"""

from __future__ import annotations

from ..core.messages import Response
from .context import Context, Endpoint, Routes
from .pagination import agent_filter, page

COLUMNS = (
    "id",
    "agent_id",
    "token_address",
    "token_symbol",
    "chain_id",
    "direction",
    "entry_price_usd",
    "exit_price_usd",
    "pnl_usd",
    "roi_pct",
    "status",
    "opened_at",
    "closed_at",
)
DETAIL = (*COLUMNS, "entry_tx_hash", "exit_tx_hash")


def listing(call: Context) -> Response:
    query = call.query()
    filters = {
        "tenant": call.tenant,
        "agent_id": agent_filter(call, query),
        "status": query.one_of("status", ("open", "closed")),
    }
    return page(call, query, table="trades", columns=COLUMNS, time="opened_at", filters=filters)


def read(call: Context) -> Response:
    return Response(200, call.with_unknown(call.owned("trade", DETAIL)))


ROUTES: Routes = {
    "/v1/trades": {"GET": Endpoint(listing, trading=True)},
    "/v1/trades/{trade_id}": {"GET": Endpoint(read, trading=True)},
}
