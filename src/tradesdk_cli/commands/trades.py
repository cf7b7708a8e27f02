"""`trade trades`: what agents bought and sold."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tradesdk_cli.context import session
from tradesdk_cli.framework.group import TradeCommand, examples, gathered, noun
from tradesdk_cli.framework.params import AgentFilter, pages

if TYPE_CHECKING:
    from tradesdk_cli.framework.params import Walk

app = noun("trades", "Trades that agents made: list, get.")


class Status(StrEnum):
    """Whether a trade is over."""

    open = "open"
    closed = "closed"


@app.command(
    "list",
    cls=TradeCommand,
    epilog=examples("trade trades list --status closed", "trade trades list --agent-id AGENT_ID --limit 50 -o ndjson"),
)
@gathered(walk=pages)
def list_trades(
    ctx: typer.Context,
    *,
    agent_id: AgentFilter = None,
    status: Annotated[Status | None, typer.Option("--status", help="Only trades in this state.")] = None,
    walk: Walk,
) -> None:
    """List trades; the first 20 by default."""
    from tradesdk_cli.lists.listing import show_list
    from tradesdk_cli.lists.paging import Source
    from tradesdk_cli.lookup import AGENTS, id_of
    from tradesdk_cli.output.columns import TRADES
    from tradesdk_cli.output.outfile import PARQUET

    with session(ctx, endings=(PARQUET,)) as run:
        agent_id = None if agent_id is None else id_of(run, AGENTS, agent_id)
        filters = {"agent_id": agent_id, "status": status.value if status else None}
        found = Source("trades", "Trade", "/v1/trades", run.client.trades.list, filters)
        show_list(run, TRADES, walk, found, empty="no trades" + (" like this" if agent_id or status else ""))


@app.command("get", cls=TradeCommand, epilog=examples("trade trades get TRADE_ID", "trade trades get TRADE_ID -o json"))
def get(
    ctx: typer.Context,
    trade_id: Annotated[
        str, typer.Argument(metavar="TRADE_ID", help="The trade: its id, or, of the newest 1,000, its beginning.")
    ],
) -> None:
    """Show one trade with the hashes of its transactions."""
    from tradesdk_cli.lookup import TRADES, reached

    with session(ctx) as run:
        run.show(reached(run, TRADES, trade_id, lambda found: run.client.trades.get(found)))
