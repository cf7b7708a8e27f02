"""`trade agents`: list, get, create, update and delete trading agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tradesdk_cli.cli.group import noun
from tradesdk_cli.cli.params import SORT, AgentId, AnyChain, Chain, Confidence, DryRun, Walk, Yes, number, pages, whole
from tradesdk_cli.errors import CONFLICT, CliError, UsageProblem
from tradesdk_cli.run import run_of, wire
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from tradesdk import Agent
    from tradesdk_cli.run import Run

_PAGE = 100
"""Open positions to count before an agent is deleted: one page."""

app = noun("agents", "Trading agents: list, get, create, update, delete.")


Status = Literal["active", "idle", "paused", "error"]
"""States of an agent."""


ResultSort = Literal["total_pnl", "win_rate", "trades", "-total_pnl", "-win_rate", "-trades"]
"""Columns to sort agents by; with `-`, worst first."""


_SORTED_BY = {
    "total_pnl": "stats.total_pnl_usd",
    "win_rate": "stats.win_rate_pct",
    "trades": "stats.total_trades",
}


def _percent(name: str, help: str) -> Any:
    return typer.Option(name, parser=number(), metavar="PCT", help=help)


MaxPositions = Annotated[
    int | None,
    typer.Option("--max-positions", parser=whole(), metavar="N", help="Maximum number of open positions."),
]
PositionSize = Annotated[
    float | None, _percent("--position-size-pct", "Size of a position, in percent of the balance.")
]
StopLoss = Annotated[float | None, _percent("--stop-loss-pct", "Stop loss, in percent below the entry price.")]
TrailingStop = Annotated[
    float | None, _percent("--trailing-stop-pct", "Trailing stop, in percent below the highest price.")
]
TakeProfit = Annotated[float | None, _percent("--take-profit-pct", "Take profit, in percent above the entry price.")]


def trading_rules(
    position_size_pct: PositionSize = None,
    stop_loss_pct: StopLoss = None,
    trailing_stop_pct: TrailingStop = None,
    take_profit_pct: TakeProfit = None,
    min_confidence: Confidence = None,
    max_positions: MaxPositions = None,
) -> dict[str, Any]:
    """The risk rules: the part of the body that create and update share."""
    risk = _given(
        position_size_pct=position_size_pct,
        stop_loss_pct=stop_loss_pct,
        trailing_stop_pct=trailing_stop_pct,
        take_profit_pct=take_profit_pct,
    )
    return _given(risk=risk or None, min_confidence=min_confidence, max_positions=max_positions)


@app.verb("list", "trade agents list", "trade agents list --losing --limit 3", walk=pages)
def list_agents(
    ctx: typer.Context,
    *,
    status: Annotated[Status | None, typer.Option(help="Only agents in this state.")] = None,
    chain: AnyChain = None,
    results: Annotated[
        bool, typer.Option("--results", help="Add each agent's results; one request per agent.")
    ] = False,
    losing: Annotated[
        bool, typer.Option("--losing", help="Only agents that lost money, worst first; implies --results.")
    ] = False,
    sort: Annotated[
        ResultSort | None,
        typer.Option(metavar="COLUMN", help=f"Rank by total_pnl, win_rate, trades, {SORT}; adds results."),
    ] = None,
    walk: Walk,
) -> None:
    """List agents; the first 20 by default.

    --losing and --sort rank all agents, then --limit cuts the list. trade plot agent draws a result over time.
    """
    from tradesdk_cli.commands.lists import Source, keeping, ranked_by, show_list
    from tradesdk_cli.output.columns import AGENT_RESULTS, AGENTS

    def lost(agent: Agent) -> float | None:
        pnl = 0.0 if agent.stats is None else agent.stats.total_pnl_usd
        return pnl if pnl < 0 else None

    by = None if sort is None else ranked_by(sort, _SORTED_BY)
    rank: Callable[[Agent], float | None] | None = by
    if losing:
        rank = lost if by is None else lambda agent: None if lost(agent) is None else by(agent)
    with run_of(ctx) as run:
        read = run.client.agents.get if results or rank is not None else None
        filters = {"status": status}
        found = Source("agents", run.client.agents.list, filters, keeping(chain_id=chain), rank, read)
        like = f" with the status {status}" if status else ""
        empty = f"no agent{like} has lost money" if losing else f"no agents{like}"
        show_list(run, AGENTS if read is None else AGENT_RESULTS, walk, found, empty=empty)


@app.verb("get", "trade agents get AGENT_ID", "trade agents get AGENT_ID -o json")
def get(ctx: typer.Context, agent_id: AgentId) -> None:
    """Show one agent with its risk rules and its results so far."""
    from tradesdk_cli.lookup import AGENTS, reached

    with run_of(ctx) as run:
        run.show(reached(run, AGENTS, agent_id, lambda found: run.client.agents.get(found)))


@app.verb(
    "create",
    "trade agents create --name momentum --wallet-id WALLET_ID --chain base",
    "trade agents create --name careful --wallet-id WALLET_ID --chain base --stop-loss-pct 5 --dry-run",
    rules=trading_rules,
)
def create(
    ctx: typer.Context,
    *,
    name: Annotated[str, typer.Option(metavar="TEXT", help="A name for the agent.")],
    wallet_id: Annotated[str, typer.Option(metavar="ID", help="A connected wallet: its id, label or address.")],
    chain: Chain,
    rules: dict[str, Any],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Create an agent. It is idle at first: it is started in the dashboard, as the service has no endpoint for it."""
    from tradesdk import Agent
    from tradesdk_cli.confirm import Change, approve, check
    from tradesdk_cli.lookup import WALLETS, id_of

    with run_of(ctx) as run:
        if not dry_run:
            run.out.selection.expect(Agent)
        check(f"create the agent {name}", yes=yes, dry_run=dry_run)
        wallet_id = id_of(run, WALLETS, wallet_id)
        body = {"name": name, "wallet_id": wallet_id, "chain_id": chain, **rules}
        change = Change(f"create the agent {one_line(name, 60)}", "POST", "/v1/agents", body)
        if approve(run, change, yes=yes, dry_run=dry_run):
            run.show(run.client.agents.create(**_arguments(body)))


@app.verb(
    "update",
    "trade agents update AGENT_ID --name calmer",
    "trade agents update AGENT_ID --stop-loss-pct 4 --max-positions 3 --dry-run",
    rules=trading_rules,
)
def update(
    ctx: typer.Context,
    agent_id: AgentId,
    *,
    name: Annotated[str | None, typer.Option(metavar="TEXT", help="A new name.")] = None,
    wallet_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Another connected wallet: its id, label or address.")
    ] = None,
    rules: dict[str, Any],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Change an agent. What you leave out stays as it is; the agent may be active.

    Shows each change beside the current value, then asks. Sends nothing if nothing would change.
    """
    body = _given(name=name, wallet_id=wallet_id) | rules
    if not body:
        raise UsageProblem(
            "trade agents update needs at least one option that says what to change",
            "for example: {trade} agents update AGENT_ID --name calmer",
        )
    from tradesdk import Agent
    from tradesdk_cli.confirm import Change, approve, check
    from tradesdk_cli.lookup import AGENTS, WALLETS, id_of, reached
    from tradesdk_cli.output.formats import flatten

    with run_of(ctx) as run:
        if not dry_run:
            run.out.selection.expect(Agent)
        check(f"change the agent {agent_id}", yes=yes, dry_run=dry_run)
        if wallet_id is not None:
            body["wallet_id"] = id_of(run, WALLETS, wallet_id)
        agent_id, agent = reached(run, AGENTS, agent_id, lambda found: (found, run.client.agents.get(found)))
        named = f"{one_line(agent.name, 60)} ({agent_id})"
        about: dict[str, Any] = {"agent": agent.name, "status": agent.status}
        path = f"/v1/agents/{agent_id}"
        change = Change(f"change the agent {named}", "PATCH", path, body, flatten(wire(agent)), about)
        if not change.differences():
            run.out.note(f"{named} already has these values: nothing to change")
            run.show(agent)
        elif approve(run, change, yes=yes, dry_run=dry_run):
            run.show(run.client.agents.update(agent_id, **_arguments(body)))


@app.verb("delete", "trade agents delete AGENT_ID --dry-run", "trade agents delete AGENT_ID")
def delete(ctx: typer.Context, agent_id: AgentId, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Delete an agent for good. An active one must be stopped first."""
    from tradesdk import ConflictError
    from tradesdk_cli.confirm import Change, approve, check
    from tradesdk_cli.lookup import AGENTS, reached

    with run_of(ctx) as run:
        check(f"delete the agent {agent_id} for good", yes=yes, dry_run=dry_run)
        agent_id, agent = reached(run, AGENTS, agent_id, lambda found: (found, run.client.agents.get(found)))
        named = f"the agent {one_line(agent.name, 60)} ({agent_id})"
        active = agent.status == "active"
        warnings = (f"{named} is active: it must be stopped before it can be deleted",) * active
        about: dict[str, Any] = {"agent": agent.name, "status": agent.status, "chain_id": agent.chain_id}
        about |= {} if agent.stats is None else wire(agent.stats)
        if not run.out.machine_notes:
            count = len(list(run.client.positions.list(agent_id=agent_id, max_items=_PAGE)))
            many = f"{count}{' or more' * (count == _PAGE)}; what happens to them is not documented"
            about |= {"open positions": many} if count else {}
        path = f"/v1/agents/{agent_id}"
        change = Change(f"delete {named} for good", "DELETE", path, about=about, warnings=warnings)
        if approve(run, change, yes=yes, dry_run=dry_run):
            try:
                run.client.agents.delete(agent_id)
            except ConflictError as error:
                if not active:
                    raise
                hint = _how_to_stop(run, agent_id)
                raise CliError(error.message, hint, code="conflict", exit_code=CONFLICT, status=error.status) from None
            run.out.one({"id": agent_id, "deleted": True})


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _arguments(body: dict[str, Any]) -> dict[str, Any]:
    """`body` as arguments of the SDK."""
    if "risk" not in body:
        return body
    from tradesdk import Risk

    return {**body, "risk": Risk(**body["risk"])}


def _how_to_stop(run: Run, agent_id: str) -> str:
    """The hint for stopping an agent: a command on a mock, else the dashboard, as the API has no endpoint."""
    program, name = run.settings.program, one_line(agent_id, 80)
    fewer = f"to open fewer positions until then: {program} agents update {name} --max-positions 1 --min-confidence 1"
    if run.settings.mock or run.target().fields.get("mode") == "local":
        return (
            f"on a mock: {program} mock agent stop {name}; with the real service it is done in the dashboard; {fewer}"
        )
    return f"it is done in the dashboard; {fewer}"
