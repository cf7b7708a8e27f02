"""`trade agents list --results`: agents with what they have won or lost, read agent by agent."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from tradesdk import NotFoundError
from tradesdk_cli import idcache
from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.output.columns import AGENT_RESULTS
from tradesdk_cli.output.stderr import Progress
from tradesdk_cli.session import wire, wire_all
from tradesdk_cli.text import counted, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tradesdk_cli.cli.params import Walk
    from tradesdk_cli.session import Session

_WORTH_SAYING = 20


def _stat(agent: Mapping[str, Any], name: str) -> float | None:
    found = (agent.get("stats") or {}).get(name)
    return found if isinstance(found, (int, float)) else None


def _highest(name: str) -> Callable[[Mapping[str, Any]], float]:
    return lambda agent: inf if (found := _stat(agent, name)) is None else -found


SORTS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "total_pnl": _highest("total_pnl_usd"),
    "win_rate": _highest("win_rate_pct"),
    "trades": _highest("total_trades"),
    "name": lambda agent: str(agent["name"]).casefold(),
}
"""Numbers highest first, names from a to z."""


def show_results(
    run: Session,
    walk: Walk,
    *,
    status: str | None,
    losing: bool,
    sort: str | None,
    keep: Callable[[Any], bool] | None = None,
) -> None:
    """Prints agents with their results; `losing`: only those with a result below zero, the worst first.

    With `losing`, `sort` or `keep` all agents are read and ranked, and then cut to as many as are wanted.
    """
    ranked = losing or sort is not None or keep is not None
    if ranked and walk.cursor is not None:
        name = "--losing" if losing else "--sort" if sort else "--chain"
        raise UsageProblem(
            f"--cursor and {name} exclude each other: {name} looks at all agents", "leave one of them out"
        )
    summaries = [one for one in _summaries(run, walk, status, ranked=ranked) if keep is None or keep(one)]
    there = len(summaries)
    if not losing and sort in (None, "name"):  # what is shown is known, so only that has to be read
        summaries = sorted(summaries, key=lambda one: one.name.casefold()) if sort else summaries
        summaries = summaries[: walk.total]
    agents = _read(run, summaries)
    if losing:
        agents = [agent for agent in agents if (_stat(agent, "total_pnl_usd") or 0) < 0]
        agents.sort(key=lambda agent: _stat(agent, "total_pnl_usd") or 0)
    if sort is not None:
        agents.sort(key=SORTS[sort])
    kind = f" with the status {status}" if status else ""
    empty = f"no agent{kind} has lost money ({there} checked)" if losing and there else f"no agents{kind}"
    run.out.many(AGENT_RESULTS, [agents[: walk.total]], empty=empty)
    if not ranked:
        if walk.next_cursor is not None:
            shown = f"the first {there}; there is more: --all, --limit N, or --cursor"
            run.out.note(shown, next_cursor=walk.next_cursor)
    elif walk.total is not None and walk.total < (total := len(agents) if losing else there):
        run.out.note(f"the first {walk.total} of {total}; there is more: --all, or --limit N")


def _summaries(run: Session, walk: Walk, status: str | None, *, ranked: bool) -> list[Any]:
    """The agents of the walk, or all of them where they are to be `ranked`."""
    found: list[Any] = []
    asked: dict[str, Any] = {"status": status, "limit": walk.page_size}
    if not ranked:
        asked |= {"cursor": walk.cursor, "max_items": walk.total}
    with Progress(run.out, "agents") as progress:
        for page in run.client.agents.list(**asked).pages():
            found += page.data
            walk.next_cursor = page.next_cursor
            progress.step(len(found))
    if status is None and walk.cursor is None and walk.next_cursor is None:
        wire_all(found)
        idcache.all_seen("agents")
    return found


def _read(run: Session, summaries: Sequence[Any]) -> list[dict[str, Any]]:
    """The agents with their results: a request for each."""
    if len(summaries) > _WORTH_SAYING:
        text = f"{len(summaries)} requests are needed for the results of {counted(len(summaries), 'agents')}"
        run.out.note(text, requests=len(summaries))
    agents: list[dict[str, Any]] = []
    with Progress(run.out, "agents", len(summaries)) as progress:
        for number, summary in enumerate(summaries, 1):
            try:
                agents.append(wire(run.client.agents.get(summary.id)))
            except NotFoundError:
                idcache.forget("agents", summary.id)
                run.out.note(f"{one_line(summary.name, 80)} ({one_line(summary.id, 80)}) was deleted meanwhile")
            progress.step(number)
    return agents
