"""`trade trades`: what agents bought and sold."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tradesdk_cli.context import session
from tradesdk_cli.options import All, Cursor, Limit, PageSize
from tradesdk_cli.plumbing import TradeCommand, examples, noun

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
def list_trades(
    ctx: typer.Context,
    agent_id: Annotated[str | None, typer.Option("--agent-id", metavar="ID", help="Only trades of this agent.")] = None,
    status: Annotated[Status | None, typer.Option("--status", help="Only trades in this state.")] = None,
    limit: Limit = None,
    everything: All = False,
    cursor: Cursor = None,
    page_size: PageSize = None,
) -> None:
    """List trades; the first 20 when nothing else is said."""
    from tradesdk_cli.paging import plan
    from tradesdk_cli.views import TRADES

    walk = plan(limit, everything, cursor, page_size)
    with session(ctx) as run:
        state = status.value if status else None
        run.show_list(
            TRADES,
            walk,
            run.client.trades.list(agent_id=agent_id, status=state, **walk.asked),
            empty="no trades" + (" like this" if agent_id or status else ""),
        )


@app.command("get", cls=TradeCommand, epilog=examples("trade trades get TRADE_ID", "trade trades get TRADE_ID -o json"))
def get(ctx: typer.Context, trade_id: Annotated[str, typer.Argument(metavar="TRADE_ID")]) -> None:
    """Show one trade with the hashes of its transactions."""
    with session(ctx) as run:
        run.show(run.client.trades.get(trade_id))
