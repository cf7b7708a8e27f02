"""`trade trades`: trades of agents."""

from __future__ import annotations

from math import inf
from typing import Annotated, Any, Literal

import typer

from tradesdk_cli.cli.group import noun
from tradesdk_cli.cli.params import (
    SORT,
    AgentFilter,
    AnyChain,
    Direction,
    Since,
    Token,
    Until,
    Walk,
)
from tradesdk_cli.lookup import AGENTS, TRADES, id_of, reached
from tradesdk_cli.run import Run, run_of

app = noun("trades", "Trades that agents made: list, get.", run_of)
_SORTED_BY = {"pnl": "pnl_usd", "roi": "roi_pct"}


@app.verb(
    "list",
    "trade trades list --status closed --since 7d --sort -pnl",
    "trade trades list --agent-id AGENT_ID --limit 50 -o ndjson",
)
def list_trades(
    run: Run,
    *,
    agent_id: AgentFilter = None,
    status: Annotated[Literal["open", "closed"] | None, typer.Option(help="Only trades in this state.")] = None,
    direction: Direction = None,
    token: Token = None,
    chain: AnyChain = None,
    since: Since = None,
    until: Until = None,
    sort: Annotated[
        Literal["pnl", "roi", "-pnl", "-roi"] | None,
        typer.Option(metavar="COLUMN", help=f"Rank by pnl or roi, {SORT}."),
    ] = None,
    walk: Walk,
) -> None:
    """List trades; the first 20 by default.

    --since and --until select by opening time. The service has no filter by time, side, token or chain and does not
    sort, so with one of these all pages are read; --limit then cuts the list.
    """
    from tradesdk_cli.commands.lists import Source, keeping, ranked_by, show_list, with_names
    from tradesdk_cli.output import columns

    like = keeping(token, direction=direction, chain_id=chain)

    def keep(trade: Any) -> bool:
        in_time = (start or 0) <= trade.opened_at.timestamp() <= (inf if end is None else end)
        return in_time and (like is None or like(trade))

    start, end = run.period(since, until)
    agent_id = None if agent_id is None else id_of(run, AGENTS, agent_id)
    filters = {"agent_id": agent_id, "status": status}
    rank = None if sort is None else ranked_by(sort, _SORTED_BY)
    found = Source("trades", run.client.trades.list, filters, keep if since or until or like else None, rank)
    filtered = agent_id or status or since or until or like
    empty = "no trades" + (" like this" if filtered else "")
    show_list(run, with_names(run, columns.TRADES, filters), walk, found, empty=empty)


@app.verb("get", "trade trades get TRADE_ID", "trade trades get TRADE_ID -o json")
def get(
    run: Run,
    trade_id: Annotated[
        str, typer.Argument(metavar="TRADE_ID", help="The trade: its id, or the beginning of its id (newest 1,000).")
    ],
) -> None:
    """Show one trade with the hashes of its transactions."""
    run.show(reached(run, TRADES, trade_id, lambda found: run.client.trades.get(found)))
