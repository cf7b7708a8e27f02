"""What is to be changed about an agent, beside what it is now. Reading is all that is sent here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tradesdk_cli.choices import CHAIN_NAMES
from tradesdk_cli.confirm import Change
from tradesdk_cli.errors import CONFLICT, CliError, ConfigProblem, UsageProblem
from tradesdk_cli.output.formats import flatten
from tradesdk_cli.session import wire
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from tradesdk import Agent, TradeClient
    from tradesdk_cli.session import Session

_PAGE = 100


class StillActive(CliError):
    """It would be refused: it is running."""

    exit_code = CONFLICT
    code = "conflict"


class NotInTheApi(UsageProblem):
    """The service has no endpoint for it."""

    code = "unsupported"


def creation(run: Session, body: dict[str, Any], *, dry_run: bool) -> Change:
    """An agent that is made; for people with the wallet's label, and a warning where wallet and chain do not match."""
    about: dict[str, Any] = {}
    warnings: tuple[str, ...] = ()
    if not run.out.machine_notes:
        wallet_id = body["wallet_id"]
        wallets = _looked_up(run, lambda client: list(client.wallets.list()), dry_run=dry_run)
        found = next((wallet for wallet in wallets or () if wallet.id == wallet_id), None)
        if found is not None:
            about["wallet"] = found.label
            if found.chain_id != body["chain_id"]:
                warnings = (
                    f"the wallet is connected on {_chain(found.chain_id)}, and the agent is to trade on "
                    f"{_chain(body['chain_id'])}",
                )
        elif wallets is not None:
            warnings = (f"no connected wallet has the id {wallet_id}: {run.settings.program} wallets list",)
    what = f"create the agent {one_line(body['name'], 60)}"
    return Change(what, "POST", "/v1/agents", body, about=about, warnings=warnings)


def modification(
    run: Session, agent_id: str, body: dict[str, Any], *, dry_run: bool
) -> tuple[Change, str, Agent | None]:
    """New settings, beside those that the agent has; its id; and the agent as it is, if there was a service to ask."""
    agent = _looked_up(run, lambda client: client.agents.get(agent_id), dry_run=dry_run)
    path = f"/v1/agents/{agent_id}"
    if agent is None:
        return Change(f"change the agent {agent_id}", "PATCH", path, body), agent_id, None
    about: dict[str, Any] = {"agent": agent.name, "status": agent.status}
    if "risk" in body and not run.out.machine_notes:
        known = "they keep the rules they have" if run.settings.mock else "whether they follow is not documented"
        about |= _open_positions(run, agent_id, known)
    what = f"change the agent {one_line(agent.name, 60)} ({agent_id})"
    return Change(what, "PATCH", path, body, flatten(wire(agent)), about), agent_id, agent


def deletion(run: Session, agent_id: str, *, yes: bool, dry_run: bool) -> tuple[Change, str]:
    """An agent that is deleted, with what it is; and its id.

    Raises:
        StillActive: it has to be stopped first. With `yes` the service itself is left to say so.
    """
    path = f"/v1/agents/{agent_id}"
    agent = _looked_up(run, lambda client: client.agents.get(agent_id), dry_run=dry_run)
    if agent is None:
        return Change(f"delete the agent {agent_id} for good", "DELETE", path), agent_id
    named = f"the agent {one_line(agent.name, 60)} ({agent_id})"
    warnings: tuple[str, ...] = ()
    if agent.status == "active":
        told = f"{named} is active: it must be stopped before it can be deleted"
        if not yes and not dry_run:
            raise StillActive(told, how_to(run, "stop", agent_id))
        warnings = (told,)
    about: dict[str, Any] = {"agent": agent.name, "status": agent.status, "chain_id": agent.chain_id}
    if agent.stats is not None:
        about |= wire(agent.stats)
    if not run.out.machine_notes:
        about |= _open_positions(run, agent_id, "what becomes of them is not documented")
    return Change(f"delete {named} for good", "DELETE", path, about=about, warnings=warnings), agent_id


def unsupported(run: Session, verb: str, agent_id: str) -> NotInTheApi:
    """Why an agent is not started, stopped or paused, and what can be done instead."""
    done = {"pause": "paused", "resume": "resumed", "start": "started", "stop": "stopped"}[verb]
    message = f"an agent cannot be {done} through the API, which has no endpoint for it; nothing was sent"
    return NotInTheApi(message, how_to(run, verb, agent_id))


def how_to(run: Session, verb: str, agent_id: str) -> str:
    """How an agent is brought to another state: on a mock by a command, elsewhere in the dashboard."""
    program, name = run.settings.program, one_line(agent_id, 80)
    move = {"pause": "paused", "resume": "start"}.get(verb, verb)
    fewer = f"{program} agents update {name} --max-positions 1 --min-confidence 1"
    if run.settings.mock or run.target().fields.get("mode") == "local":
        here = f"on a mock: {program} mock agent {name} {move}; with the real service it is done in the dashboard"
        return here if verb in ("resume", "start") else f"{here}, and until then it opens less with {fewer}"
    if verb in ("resume", "start"):
        return f"it is done in the dashboard; see its state: {program} agents get {name}"
    return f"it is done in the dashboard; until then it opens less with {fewer}"


def _open_positions(run: Session, agent_id: str, known: str) -> dict[str, Any]:
    count = len(list(run.client.positions.list(agent_id=agent_id, max_items=_PAGE)))
    if not count:
        return {}
    return {"open positions": f"{count} or more; {known}" if count == _PAGE else f"{count}; {known}"}


def _looked_up(run: Session, read: Callable[[TradeClient], Any], *, dry_run: bool) -> Any:
    """What `read` gives; None in a dry run that has no service to ask, for which it needs none."""
    from tradesdk import APIConnectionError, ConfigError

    try:
        # It would be printed all the same, so nobody shall wait long for it.
        return read(run.client.with_options(max_retries=0) if dry_run else run.client)
    except (ConfigProblem, ConfigError, APIConnectionError) as error:
        if not dry_run:
            raise
        run.out.note(f"not compared with what is there now: {error.message}")
        return None


def _chain(number: int) -> str:
    return CHAIN_NAMES.get(number, str(number))
