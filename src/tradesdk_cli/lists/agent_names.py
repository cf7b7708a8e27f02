"""The names of agents beside their trades and positions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tradesdk_cli.output.columns import Column
    from tradesdk_cli.session import Session

_AT_MOST = 1000
"""Agents that are asked for; the others are shown by their ids."""
_SECONDS = 5.0


def with_names(run: Session, columns: Sequence[Column], filters: Mapping[str, object]) -> Sequence[Column]:
    """`columns`, with the agent's name as `agent` in a table on a terminal, and without the fields of `filters`.

    The first row reads the list of agents once; scripts make no request more. Without a name the id is shown. What a
    filter has chosen is the same in each row.
    """
    if not (run.out.on_terminal and run.out.draws(many=True)):
        return columns
    columns = [column for column in columns if filters.get(column.key) is None]
    names: dict[str, str] = {}
    asked = False

    def name_of(row: Mapping[str, Any]) -> Any:
        nonlocal asked
        if not asked:
            asked = True
            names.update(_names(run))
        return names.get(row.get("agent_id", ""), row.get("agent_id"))

    return [
        replace(column, key="agent", kind="text", of=name_of) if column.key == "agent_id" else column
        for column in columns
    ]


def _names(run: Session) -> dict[str, str]:
    from tradesdk import TradeError

    quick = run.client.with_options(max_retries=0, deadline=_SECONDS)  # the rows are waiting
    try:
        return {agent.id: agent.name for agent in quick.agents.list(max_items=_AT_MOST)}
    except TradeError:
        return {}  # the list itself has come: its ids will do
