"""`trade agents list --results`: agents with what they have won or lost, read agent by agent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tradesdk_cli import idcache
from tradesdk_cli.charts.chart import closed_results, shows_ascii_only, spark
from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.output.columns import AGENT_RESULTS
from tradesdk_cli.output.stderr import Progress
from tradesdk_cli.session import wire, wire_all
from tradesdk_cli.text import counted, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tradesdk_cli.framework.params import Walk
    from tradesdk_cli.output.columns import Column
    from tradesdk_cli.session import Session

_WORTH_SAYING = 20
_TRADES, _WIDTH = 100, 16


def _stat(name: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda agent: (agent.get("stats") or {}).get(name)


def _highest(name: str) -> Callable[[Mapping[str, Any]], Any]:
    stat = _stat(name)
    return lambda agent: -stat(agent) if isinstance(stat(agent), (int, float)) else float("inf")


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
    """Prints agents with their results; `losing`: only those with a result below zero.

    With `losing` or `sort` all agents are read and ranked, and then cut to as many as are wanted. A request for each
    agent that has to be read, and for people one more for each that is shown: its latest closed trades.
    """
    ranked = losing or sort is not None or keep is not None
    if ranked and walk.cursor is not None:
        name = "--losing" if losing else "--sort" if sort else "--chain"
        raise UsageProblem(
            f"--cursor and {name} exclude each other: {name} looks at all agents", "leave one of them out"
        )
    summaries = _summaries(run, walk, status, ranked=ranked)
    summaries = [one for one in summaries if keep is None or keep(one)]
    there = len(summaries)
    if sort is None and not losing:
        summaries = summaries[: walk.total]
    elif sort == "name" and not losing:  # the names are known, so only those that are shown have to be read
        summaries = sorted(summaries, key=lambda one: one.name.casefold())[: walk.total]
    agents, lines = _read(run, summaries, walk.total, losing=losing, sort=sort)
    kind = f" with the status {status}" if status else ""
    empty = f"no agent{kind} has lost money ({there} checked)" if losing and there else f"no agents{kind}"
    run.out.many(_columns(lines), [agents[: walk.total]], empty=empty)
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


def _read(
    run: Session, summaries: Sequence[Any], total: int | None, *, losing: bool, sort: str | None
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The agents with their results, ranked; and for people the lines of the first `total`, by id."""
    from tradesdk import NotFoundError

    drawn = run.out.format_for(many=True) == "table" and not run.settings.fields and not run.settings.query
    requests = len(summaries) + (len(summaries[:total]) if drawn else 0)
    if requests > _WORTH_SAYING:
        most = "up to " if losing and drawn else ""
        agents_ = counted(len(summaries), "agents")
        run.out.note(f"{most}{requests} requests are needed for the results of {agents_}", requests=requests)
    agents: list[dict[str, Any]] = []
    with Progress(run.out, "agents", len(summaries)) as progress:
        for number, summary in enumerate(summaries, 1):
            try:
                agent = wire(run.client.agents.get(summary.id))
            except NotFoundError:
                idcache.forget("agents", summary.id)
                run.out.note(f"{one_line(summary.name, 80)} ({one_line(summary.id, 80)}) was deleted meanwhile")
                continue
            if not losing or _is_losing(agent):
                agents.append(agent)
            progress.step(number)
    if sort is not None:
        agents.sort(key=SORTS[sort])
    elif losing:
        agents.sort(key=_stat("total_pnl_usd"))  # the worst first
    shown = agents[:total] if drawn else []
    with Progress(run.out, "lines", len(shown)) as progress:
        lines = {}
        for number, agent in enumerate(shown, 1):
            lines[agent["id"]] = _line(run, agent["id"])
            progress.step(number)
    return agents, lines


def _is_losing(agent: Mapping[str, Any]) -> bool:
    result = _stat("total_pnl_usd")(agent)
    return isinstance(result, (int, float)) and result < 0


def _line(run: Session, agent_id: str) -> str:
    """What the latest closed trades add up to, as a sparkline."""
    trades = run.client.trades.list(agent_id=agent_id, status="closed", limit=_TRADES, max_items=_TRADES)
    results = closed_results(wire_all(trades))
    return spark(results, _WIDTH, ascii_only=shows_ascii_only(run.out))


def _columns(lines: Mapping[str, str]) -> tuple[Column, ...]:
    return tuple(
        replace(column, of=lambda agent: lines.get(agent["id"])) if column.key == "results" else column
        for column in AGENT_RESULTS
    )
