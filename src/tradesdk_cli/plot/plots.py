"""The charts of `trade plot`, and their data."""

from __future__ import annotations

import shutil
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from tradesdk_cli.choices import CHAIN_NAMES, CHAINS
from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.lookup import AGENTS, NotThere, reached
from tradesdk_cli.output.cells import moment, price
from tradesdk_cli.output.columns import SIGNALS, columns
from tradesdk_cli.output.table import print_line
from tradesdk_cli.plot.chart import Chart, Mark, draw, shows_ascii_only
from tradesdk_cli.redact import safe
from tradesdk_cli.run import wire_all
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tradesdk_cli.output.columns import Column
    from tradesdk_cli.plot import Wanted
    from tradesdk_cli.run import Run

_RESULTS = columns("timestamp total_pnl_usd pnl_usd status token_symbol? trade_id?")
_PIPE_WIDTH, _HEIGHT, _TALLEST = 80, 20, 30
_LOOK_BACK = 500
_PAGE = 100


def plot_token(run: Run, symbol: str, chain: int | None, wanted: Wanted) -> None:
    """Draws a token's price at its signals."""
    chains = [chain] if chain is not None else list(CHAINS.values())
    named = " or ".join(CHAIN_NAMES[number] for number in chains)
    start, end = run.period(wanted.since, wanted.until)
    known = False
    for number in chains:
        address = _address(run, symbol, number)
        of_token: dict[str, Any] = {"chain": number, "token_address": address, "since": start, "until": end}
        pager = run.client.signals.history(**of_token, limit=min(_PAGE, wanted.limit), max_items=wanted.limit)
        rows = [] if address is None else sorted(wire_all(pager), key=lambda row: row["timestamp"])
        if rows:
            break
        known = known or address is not None
    else:
        where = CHAIN_NAMES[chains[0]]
        text = f"no signals of {one_line(safe(symbol), 80)}"
        see = f"{run.settings.program} signals latest --chain {where}"
        if not known or start is end is None:
            among = "" if known or _is_address(symbol) else f" among the latest {_LOOK_BACK}"
            raise NotThere(f"{text}{among} on {named}", f"see the latest signals: {see}")
        run.out.note(f"{text} on {named} in that time; see the latest signals: {see}")
        return
    newest = rows[-1]
    name = CHAIN_NAMES.get(number, str(number))
    points = [(float(row["timestamp"]), float(row["price_usd"])) for row in rows]
    marks = [
        Mark(row["direction"], at, value)
        for row, (at, value) in zip(rows, points, strict=True)
        if row["direction"] in ("BUY", "SELL")
    ]
    sums = {side: sum(mark.kind == side for mark in marks) for side in ("BUY", "SELL")}
    notes = [
        f"{len(rows)} signals ({sums['BUY']} BUY, {sums['SELL']} SELL), {_period(points)}; address {address}"
        + (f"; older ones: --limit {wanted.limit * 2}" if len(rows) == wanted.limit else "")
    ]
    title = f"{one_line(newest['token_symbol'], 40)} on {name}: {price(newest['price_usd'])} USD at the last signal"
    chart = Chart(title, points, "price in USD at the moments of signals", marks, notes=notes)
    _show(run, chart, SIGNALS, rows, wanted)


def plot_agent(run: Run, agent_id: str, wanted: Wanted) -> None:
    """Draws the sum of an agent's closed trades, and the unrealized result of its open positions."""
    start, end = run.period(wanted.since, wanted.until)
    agent_id, agent = reached(run, AGENTS, agent_id, lambda found: (found, run.client.agents.get(found)))
    found = run.client.trades.list(agent_id=agent_id, status="closed", limit=_PAGE, max_items=wanted.limit)
    read = wire_all(found)
    closed = sorted(
        (trade for trade in read if (start or 0) <= (trade.get("closed_at") or -1) <= (inf if end is None else end)),
        key=lambda trade: trade["closed_at"],
    )
    rows, total = [], 0.0
    for trade in closed:
        total += trade.get("pnl_usd") or 0.0
        rows.append(_point(trade["closed_at"], total, trade.get("pnl_usd"), trade, "closed"))
    begins = min((trade["opened_at"] for trade in closed), default=0)
    now = run.now()
    positions = [] if end is not None and end < now else list(run.client.positions.list(agent_id=agent_id))
    unrealized = sum(position.unrealized_pnl_usd for position in positions)
    if positions:
        rows.append(_point(int(now), total + unrealized, unrealized, {}, "open"))
    if not rows:
        period = "" if start is end is None else " in that time"
        run.out.note(
            f"{one_line(agent.name, 80)} has no closed trades{period} and nothing open: there is nothing to draw"
        )
        return
    first = start if start is not None else begins or rows[0]["timestamp"] - 1
    points = [(float(first), 0.0), *((float(row["timestamp"]), float(row["total_pnl_usd"])) for row in rows)]
    marks = [Mark("now", *points[-1])] if positions else []
    open_now = f", {unrealized:+,.2f} open in {len(positions)}" if positions else ""
    title = f"{one_line(agent.name, 40)}: {total:+,.2f} USD from {len(closed)} closed trades{open_now}"
    notes = [_period(points)]
    if len(read) == wanted.limit:
        notes.append(f"only {wanted.limit} trades were read, the line begins at zero there; --limit reads more")
    elif start is not None:
        notes.append("the line begins at zero where --since says")
    chart = Chart(title, points, "result in USD, added up", marks, 0.0, notes)
    _show(run, chart, _RESULTS, rows, wanted)


def _point(at: float, total: float, pnl: float | None, trade: dict[str, Any], status: str) -> dict[str, Any]:
    return {
        "timestamp": at,
        "total_pnl_usd": round(total, 6),
        "pnl_usd": None if pnl is None else round(pnl, 6),
        "status": status,
        "token_symbol": trade.get("token_symbol"),
        "trade_id": trade.get("id"),
    }


def _period(points: Sequence[tuple[float, float]]) -> str:
    first, last = (moment(at) for at in (points[0][0], points[-1][0]))
    return f"at {first}" if first == last else f"{first} to {last}"


def _is_address(symbol: str) -> bool:
    return symbol[:2].lower() == "0x"


def _address(run: Run, symbol: str, chain: int) -> str | None:
    """The address in signals of this symbol; None without such signals."""
    if _is_address(symbol):
        return symbol
    signals, folded = run.client.signals, symbol.strip().casefold()

    def named(found: Any) -> list[str]:
        return list(dict.fromkeys(one.token_address for one in found if one.token_symbol.casefold() == folded))

    addresses = named(signals.latest(chain=chain, limit=_PAGE)) or named(
        signals.history(chain=chain, limit=_PAGE, max_items=_LOOK_BACK)
    )
    if len(addresses) > 1:
        raise UsageProblem(
            f"{len(addresses)} tokens call themselves {one_line(symbol, 80)}: {', '.join(addresses)[:400]}",
            f"name its address: {run.settings.program} plot token {one_line(addresses[0], 80)}",
        )
    return addresses[0] if addresses else None


def _show(run: Run, chart: Chart, table: Sequence[Column], rows: list[dict[str, Any]], wanted: Wanted) -> None:
    if not run.out.pictures:
        run.out.many(table, [rows], empty="")
        return
    size = shutil.get_terminal_size()
    width = size.columns if run.out.on_terminal else _PIPE_WIDTH
    # Leave room for the command line and the next prompt.
    height = wanted.height or (min(_TALLEST, size.lines - 2) if run.out.on_terminal else _HEIGHT)
    for line in draw(chart, width, height, ascii_only=shows_ascii_only(run.out)):
        run.out.draw(partial(print_line, line=line))
