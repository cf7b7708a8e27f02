"""`trade positions`: what is open now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tradesdk_cli.options import AgentFilter, pages
from tradesdk_cli.plumbing import TradeCommand, examples, gathered, noun, session

if TYPE_CHECKING:
    from tradesdk_cli.lists.paging import Walk

app = noun("positions", "Open positions: list.")


@app.command(
    "list",
    cls=TradeCommand,
    epilog=examples("trade positions list", "trade positions list --agent-id AGENT_ID --all -o json"),
)
@gathered(walk=pages)
def list_positions(
    ctx: typer.Context,
    *,
    agent_id: AgentFilter = None,
    walk: Walk,
) -> None:
    """List open positions; the first 20 when nothing else is said."""
    from tradesdk_cli.lists.paging import Source
    from tradesdk_cli.lookup import AGENTS, id_of
    from tradesdk_cli.results.outfile import PARQUET
    from tradesdk_cli.results.views import POSITIONS

    with session(ctx, endings=(PARQUET,)) as run:
        agent_id = None if agent_id is None else id_of(run, AGENTS, agent_id)
        found = Source("positions", "Position", "/v1/positions", run.client.positions.list, {"agent_id": agent_id})
        run.show_list(POSITIONS, walk, found, empty="no open positions" + (" of this agent" if agent_id else ""))
