"""`trade mock agent`: what can be done to an agent that the service itself has no endpoint for."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tradesdk_cli.commands.mock.control import ask, word
from tradesdk_cli.framework.group import single
from tradesdk_cli.framework.params import AgentId
from tradesdk_cli.session import session

app = single("Start or stop an agent, or put it into another state.")


class Move(StrEnum):
    """What becomes of the agent: it is started or stopped, or put into a state, whatever state it is in."""

    start = "start"
    stop = "stop"
    active = "active"
    idle = "idle"
    paused = "paused"
    error = "error"


@app.verb("agent", "trade --mock mock agent AGENT_ID start", "trade --mock mock agent AGENT_ID stop")
def agent(
    ctx: typer.Context,
    agent_id: AgentId,
    move: Annotated[Move, typer.Argument(metavar="start|stop|active|idle|paused|error", help="The new state.")],
) -> None:
    """Start or stop an agent, or put it into another state.

    start is refused for an active agent, stop for an idle one; active, idle, paused and error set that state from any
    other.
    """
    from tradesdk_cli.lookup import AGENTS, reached

    verb, body = (move.value, None) if move in (Move.start, Move.stop) else ("status", {"status": move.value})
    with session(ctx) as run:
        run.out.one(
            reached(run, AGENTS, agent_id, lambda found: ask(run, "POST", f"agents/{word(found)}/{verb}", body))
        )
