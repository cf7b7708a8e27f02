"""`trade agents list --results`: agents with what they have won or lost, read agent by agent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tradesdk_cli.charts.sparks import closed_results, shows_ascii_only, spark
from tradesdk_cli.context import wire
from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.results.views import AGENT_RESULTS
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tradesdk_cli.context import Session
    from tradesdk_cli.lists.paging import Walk
    from tradesdk_cli.results.views import Column

_WORTH_SAYING = 20
_TRADES, _WIDTH = 100, 16


def _stat(name: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda agent: (agent.get("stats") or {}).get(name)


def _highest(name: str) -> Callable[[Mapping[str, Any]], Any]:
    stat = _stat(name)
    return lambda agent: -stat(agent) if isinstance(stat(agent), (int, float)) else float("inf")


SORTS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "pnl": _highest("total_pnl_usd"),
    "win-rate": _highest("win_rate_pct"),
    "trades": _highest("total_trades"),
    "name": lambda agent: str(agent["name"]).casefold(),
}
"""Numbers highest first, names from a to z."""


def show_results(run: Session, walk: Walk, *, status: str | None, losing: bool, sort: str | None) -> None:
    """Prints the agents of the walk with their results; `losing`: only those with a result below zero.

    A request for each agent, and for people one more: its latest closed trades, for the line of its results.
    """
    if walk.checkpoint is not None:
        raise UsageProblem("--checkpoint and --results exclude each other", "leave one of them out")
    from tradesdk import NotFoundError
    from tradesdk_cli.lists.progress import Progress

    summaries = _summaries(run, walk, status)
    drawn = run.out.format_for(many=True) in ("table", "md") and not run.settings.fields and not run.settings.query
    requests = len(summaries) * (2 if drawn else 1)
    if requests > _WORTH_SAYING:
        run.out.note(f"{requests} requests are needed for the results of {len(summaries)} agents", requests=requests)
    agents: list[dict[str, Any]] = []
    lines: dict[str, str] = {}
    with Progress(run.out, "agents", len(summaries)) as progress:
        for number, summary in enumerate(summaries, 1):
            try:
                agent = wire(run.client.agents.get(summary.id))
            except NotFoundError:
                run.out.note(f"{one_line(summary.name, 80)} ({one_line(summary.id, 80)}) was deleted meanwhile")
                continue
            if not losing or _is_losing(agent):
                agents.append(agent)
                if drawn:
                    lines[summary.id] = _line(run, summary.id)
            progress.step(number)
    if sort is not None:
        agents.sort(key=SORTS[sort])
    elif losing:
        agents.sort(key=_stat("total_pnl_usd"))  # the worst first
    of_them = f" among {len(summaries)}" if losing and summaries else ""
    empty = f"no agent{of_them} has lost money" if losing else "no agents"
    run.out.many(_columns(lines), [agents], empty=empty)
    if walk.next_cursor is not None:
        run.out.note(
            f"only {len(summaries)} agents were looked at; there are more: --all, --limit N, or --cursor",
            next_cursor=walk.next_cursor,
        )


def _summaries(run: Session, walk: Walk, status: str | None) -> list[Any]:
    found: list[Any] = []
    for page in run.client.agents.list(status=status, **walk.asked).pages():
        found += page.data
        walk.next_cursor = page.next_cursor
    return found


def _is_losing(agent: Mapping[str, Any]) -> bool:
    result = _stat("total_pnl_usd")(agent)
    return isinstance(result, (int, float)) and result < 0


def _line(run: Session, agent_id: str) -> str:
    """What the latest closed trades add up to, as a sparkline."""
    trades = run.client.trades.list(agent_id=agent_id, status="closed", limit=_TRADES, max_items=_TRADES)
    results = closed_results(wire(trade) for trade in trades)
    return spark(results, _WIDTH, ascii_only=shows_ascii_only(run.out))


def _columns(lines: Mapping[str, str]) -> tuple[Column, ...]:
    return tuple(
        replace(column, of=lambda agent: lines.get(agent["id"])) if column.key == "results" else column
        for column in AGENT_RESULTS
    )
