"""`trade positions`: what is open now."""

from __future__ import annotations

from typing import Annotated

import typer

from tradesdk_cli.context import session
from tradesdk_cli.options import All, Cursor, Limit, PageSize
from tradesdk_cli.plumbing import TradeCommand, examples, noun

app = noun("positions", "Open positions: list.")


@app.command(
    "list",
    cls=TradeCommand,
    epilog=examples("trade positions list", "trade positions list --agent-id AGENT_ID --all -o json"),
)
def list_positions(
    ctx: typer.Context,
    agent_id: Annotated[
        str | None, typer.Option("--agent-id", metavar="ID", help="Only positions of this agent.")
    ] = None,
    limit: Limit = None,
    everything: All = False,
    cursor: Cursor = None,
    page_size: PageSize = None,
) -> None:
    """List open positions; the first 20 when nothing else is said."""
    from tradesdk_cli.paging import plan
    from tradesdk_cli.views import POSITIONS

    walk = plan(limit, everything, cursor, page_size)
    with session(ctx) as run:
        run.show_list(
            POSITIONS,
            walk,
            run.client.positions.list(agent_id=agent_id, **walk.asked),
            empty="no open positions" + (" of this agent" if agent_id else ""),
        )
