"""`trade positions`: open positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tradesdk_cli.cli.group import noun
from tradesdk_cli.cli.params import AgentFilter, AnyChain, Token, Walk
from tradesdk_cli.run import Run, run_of
from tradesdk_cli.text import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tradesdk import Position

app = noun("positions", "Open positions: list.", run_of)


@app.verb("list", "trade positions list", "trade positions list --agent-id AGENT_ID --all -o json")
def list_positions(
    run: Run,
    *,
    agent_id: AgentFilter = None,
    chain: AnyChain = None,
    token: Token = None,
    walk: Walk,
) -> None:
    """List open positions; the first 20 by default.

    The service has no filter by chain and token, so with one all pages are read.
    """
    from tradesdk_cli.commands.lists import Source, keeping, show_list, with_names
    from tradesdk_cli.lookup import AGENTS, id_of
    from tradesdk_cli.output.columns import POSITIONS

    agent_id = None if agent_id is None else id_of(run, AGENTS, agent_id)
    filters = {"agent_id": agent_id}
    keep = keeping(token, chain_id=chain)
    found = Source("positions", run.client.positions.list, filters, keep)
    show_list(
        *(run, with_names(run, POSITIONS, filters), walk, found),
        empty="no open positions" + (" like this" if keep else " of this agent" if agent_id else ""),
        total=_total,
    )


def _total(positions: Sequence[Position]) -> str:
    from tradesdk_cli.output.cells import cell

    profit = cell("pnl", sum(position.unrealized_pnl_usd for position in positions)).plain
    return f"{plural(len(positions), 'positions')}, unrealized profit {profit}"
