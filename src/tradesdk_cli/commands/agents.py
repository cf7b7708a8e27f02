"""`trade agents`: list, get, create, update and delete trading agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tradesdk_cli.cli.group import noun
from tradesdk_cli.cli.params import (
    SORT,
    AgentId,
    AnyChain,
    Chain,
    Confidence,
    Consent,
    Walk,
    number,
    whole,
)
from tradesdk_cli.errors import CONFLICT, CliError, UsageProblem
from tradesdk_cli.lookup import AGENTS, WALLETS, id_of, reached
from tradesdk_cli.run import Run, run_of, wire
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from tradesdk import Agent

_PAGE = 100
"""Open positions to count before an agent is deleted: one page."""

app = noun("agents", "Trading agents: list, get, create, update, delete.", run_of)


_SORTED_BY = {
    "total_pnl": "stats.total_pnl_usd",
    "win_rate": "stats.win_rate_pct",
    "trades": "stats.total_trades",
}


def _percent(help: str) -> Any:
    return typer.Option(parser=number(), metavar="PCT", help=help)


@dataclass
class Rules:
    """The options about risk: the part of the body that create and update share."""

    position_size_pct: Annotated[float | None, _percent("Size of a position, in percent of the balance.")] = None
    stop_loss_pct: Annotated[float | None, _percent("Stop loss, in percent below the entry price.")] = None
    trailing_stop_pct: Annotated[float | None, _percent("Trailing stop, in percent below the highest price.")] = None
    take_profit_pct: Annotated[float | None, _percent("Take profit, in percent above the entry price.")] = None
    min_confidence: Confidence = None
    max_positions: Annotated[
        int | None, typer.Option(parser=whole(), metavar="N", help="Maximum number of open positions.")
    ] = None

    @property
    def body(self) -> dict[str, Any]:
        given = _given(**vars(self))
        risk = {name: given.pop(name) for name in list(given) if name.endswith("_pct")}
        return ({"risk": risk} if risk else {}) | given


@app.verb("list", "trade agents list", "trade agents list --losing --limit 3")
def list_agents(
    run: Run,
    *,
    status: Annotated[
        Literal["active", "idle", "paused", "error"] | None,
        typer.Option(metavar="STATUS", help="Only agents in this state: active, idle, paused or error."),
    ] = None,
    chain: AnyChain = None,
    results: Annotated[
        bool, typer.Option("--results", help="Add each agent's results; one request per agent.")
    ] = False,
    losing: Annotated[
        bool, typer.Option("--losing", help="Only agents that lost money, worst first; implies --results.")
    ] = False,
    sort: Annotated[
        Literal["total_pnl", "win_rate", "trades", "-total_pnl", "-win_rate", "-trades"] | None,
        typer.Option(metavar="COLUMN", help=f"Rank by total_pnl, win_rate, trades, {SORT}; adds results."),
    ] = None,
    walk: Walk,
) -> None:
    """List agents; the first 20 by default.

    --losing and --sort rank all agents, then --limit cuts the list. trade plot agent draws a result over time.
    """
    from tradesdk_cli.commands.lists import Source, keeping, ranked_by, show_list
    from tradesdk_cli.output import columns

    by = ranked_by(sort or "-total_pnl", _SORTED_BY)

    def rank(agent: Agent) -> float | None:
        has_lost = agent.stats is not None and agent.stats.total_pnl_usd < 0
        return by(agent) if has_lost or not losing else None

    is_ranked = losing or sort is not None
    read = run.client.agents.get if results or is_ranked else None
    keep = keeping(chain_id=chain)
    found = Source("agents", run.client.agents.list, {"status": status}, keep, rank if is_ranked else None, read)
    like = f" with the status {status}" if status else ""
    empty = f"no agent{like} has lost money" if losing else f"no agents{like}"
    show_list(run, columns.AGENTS if read is None else columns.AGENT_RESULTS, walk, found, empty=empty)


@app.verb("get", "trade agents get AGENT_ID", "trade agents get AGENT_ID -o json")
def get(run: Run, agent_id: AgentId) -> None:
    """Show one agent with its risk rules and its results so far."""
    run.show(reached(run, AGENTS, agent_id, lambda found: run.client.agents.get(found)))


@app.verb(
    "create",
    "trade agents create --name momentum --wallet-id WALLET_ID --chain base",
    "trade agents create --name careful --wallet-id WALLET_ID --chain base --stop-loss-pct 5 --dry-run",
)
def create(
    run: Run,
    *,
    name: Annotated[str, typer.Option(metavar="TEXT", help="A name for the agent.")],
    wallet_id: Annotated[str, typer.Option(metavar="ID", help="A connected wallet: its id, label or address.")],
    chain: Chain,
    rules: Rules,
    consent: Consent,
) -> None:
    """Create an agent. It is idle at first: it is started in the dashboard, as the service has no endpoint for it."""
    from tradesdk import Agent
    from tradesdk_cli.confirm import Change, approve, check

    if not consent.dry_run:
        run.out.selection.expect(Agent)
    if not name.strip():
        raise UsageProblem("--name must not be blank", "give it a name, such as --name momentum")
    check(f"create the agent {name}", **vars(consent))
    wallet_id = id_of(run, WALLETS, wallet_id)
    body = {"name": name, "wallet_id": wallet_id, "chain_id": chain, **rules.body}
    change = Change(f"create the agent {one_line(name, 60)}", "POST", "/v1/agents", body)
    if approve(run, change, **vars(consent)):
        run.show(run.client.agents.create(**body))


@app.verb(
    "update",
    "trade agents update AGENT_ID --name calmer",
    "trade agents update AGENT_ID --stop-loss-pct 4 --max-positions 3 --dry-run",
)
def update(
    run: Run,
    agent_id: AgentId,
    *,
    name: Annotated[str | None, typer.Option(metavar="TEXT", help="A new name.")] = None,
    wallet_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Another connected wallet: its id, label or address.")
    ] = None,
    rules: Rules,
    consent: Consent,
) -> None:
    """Change an agent. What you leave out stays as it is; the agent may be active.

    Shows each change beside the current value, then asks. Sends nothing if nothing would change.
    """
    body = _given(name=name, wallet_id=wallet_id) | rules.body
    if not body:
        raise UsageProblem(
            "trade agents update needs at least one option that says what to change",
            "for example: {trade} agents update AGENT_ID --name calmer",
        )
    from tradesdk import Agent
    from tradesdk_cli.confirm import Change, approve, check
    from tradesdk_cli.output.formats import flatten

    if not consent.dry_run:
        run.out.selection.expect(Agent)
    check(f"change the agent {agent_id}", **vars(consent))
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
    elif approve(run, change, **vars(consent)):
        run.show(run.client.agents.update(agent_id, **body))


@app.verb("delete", "trade agents delete AGENT_ID --dry-run", "trade agents delete AGENT_ID")
def delete(run: Run, agent_id: AgentId, consent: Consent) -> None:
    """Delete an agent for good. An active one must be stopped first."""
    from tradesdk import ConflictError
    from tradesdk_cli.confirm import Change, approve, check

    check(f"delete the agent {agent_id} for good", **vars(consent))
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
    if approve(run, change, **vars(consent)):
        try:
            run.client.agents.delete(agent_id)
        except ConflictError as error:
            if not active:
                raise
            # A command on a mock; else the dashboard, as the API has no endpoint for it.
            program, name = run.settings.program, one_line(agent_id, 80)
            stop = "it is done in the dashboard"
            if run.target().fields["mode"] != "live":
                stop = f"on a mock: {program} mock agent stop {name}; with the real service {stop}"
            fewer = f"{program} agents update {name} --max-positions 1 --min-confidence 1"
            hint = f"{stop}; to open fewer positions until then: {fewer}"
            raise CliError(error.message, hint, code="conflict", exit_code=CONFLICT, status=error.status) from None
        run.out.one({"id": agent_id, "deleted": True})


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
