"""Draws the board, on a terminal until q, or once."""

from __future__ import annotations

import os
import select
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Group
from rich.live import Live
from rich.text import Text

from tradesdk import TradeError
from tradesdk_cli.errors import ClosedPipe, Interrupted
from tradesdk_cli.explain import problem_of
from tradesdk_cli.interrupts import deferring
from tradesdk_cli.output.cells import ago, cell, moment
from tradesdk_cli.output.columns import TO_PROFIT, TO_STOP, Column, columns
from tradesdk_cli.output.table import fitted
from tradesdk_cli.plot.chart import cut, shows_ascii_only
from tradesdk_cli.text import one_line, plural, visible
from tradesdk_cli.top.reader import Board, HeldOutput, Item, Source, chains_of, read, skipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from tradesdk_cli.run import Run

_OLD = 60.0
_BREATH = 0.5
_WIDTH = 120
_SIGNALS = 10
_LONGEST = 300


_AGENTS = columns(
    "name status",
    Column("open", "number"),
    "total_pnl_usd unrealized_pnl_usd? win_rate_pct? total_trades? chain_id? id?",
)
_POSITIONS = columns(
    "token_symbol unrealized_pnl_usd",
    replace(TO_STOP, optional=False),
    TO_PROFIT,
    "current_price_usd?",
    Column("agent", optional=True),
    "opened_at? entry_price_usd? id?",
)
_LATEST = columns("timestamp direction token_symbol confidence price_usd chain_id? token_address?")


def draw(board: Board, width: int, height: int, *, ascii_only: bool = False, keys: bool = True) -> Group:
    """The board in at most `height` lines of at most `width` cells, if that is enough for its headings."""
    now = board.now()
    head, foot = header(board, width, now, ascii_only=ascii_only), _foot(board, now, width, keys=keys)
    agents = sorted(board.agent_rows(), key=lambda one: one["status"] != "active")  # cut agents are idle
    names = {agent["id"]: agent["name"] for agent in agents}
    unknown = (lambda agent_id: agent_id) if "agents" in board.read_at else lambda _: ""
    positions = [
        {**one, "agent": names.get(one.get("agent_id")) or unknown(one.get("agent_id"))} for one in board.positions
    ]
    parts: dict[str, tuple[Sequence[Column], Sequence[Item]]] = {
        "agents": (_AGENTS, agents),
        "positions": (_POSITIONS, positions),
        "signals": (_LATEST, board.signals),
    }
    free = height - len(head) - len(foot) - 2 * len(parts)
    room = divide(free, {part: len(rows) for part, (_, rows) in parts.items()})
    lines: list[RenderableType] = [*head]
    for part, (shown, rows) in parts.items():
        lines.append(_title(board, part, len(rows), room[part], now, width))
        grid = [[cell(column.kind, column.value(row), now) for column in shown] for row in rows[: room[part]]]
        if grid:
            lines.append(fitted(shown, grid, width)[0] or Text("the terminal is too narrow", style="dim"))
    return Group(*lines, *foot)


def divide(height: int, wanted: Mapping[str, int]) -> dict[str, int]:
    """The rows of each part: equal shares of `height`, with unused rows given to others."""
    room, left = {}, max(0, height)
    for number, part in enumerate(sorted(wanted, key=lambda part: wanted[part])):
        room[part] = min(wanted[part], left // (len(wanted) - number))
        left -= room[part]
    return room


def header(board: Board, width: int, now: float, *, ascii_only: bool = False) -> list[Text]:
    """Target, time, plan; rate limit, requests of the period, and spending."""
    dot = " - " if ascii_only else " · "
    first = [Text(visible(board.target, 60), style="bold"), Text(moment(now)[11:])]
    if board.account is not None:
        first.append(Text(f"plan {visible(str(board.account.get('plan')), 20)}"))
    if board.chain is not None:
        first.append(Text("chain ") + cell("chain", board.chain))
    lines: list[Text] = []
    for parts in (first, _budgets(board, now)):
        lines += parts[:1]
        for part in parts[1:]:
            longer = Text.assemble(lines[-1], dot, part)
            if cell_len(longer.plain) > width:
                lines.append(part)
            else:
                lines[-1] = longer
    return [cut(line, width) for line in lines]


def _budgets(board: Board, now: float) -> list[Text]:
    parts = []
    limit = board.limit
    if limit is not None and limit.limit and limit.remaining is not None:
        # After the window has ended, the full limit applies until the next response.
        left = limit.remaining if limit.reset is None or limit.reset.timestamp() > now else limit.limit
        style = "green" if left * 4 >= limit.limit else "yellow" if left * 10 >= limit.limit else "red"
        parts.append(Text.assemble("left ", (f"{left}/{limit.limit}", style), " a minute"))
    quota = (board.usage or {}).get("requests") or {}
    if quota.get("limit"):
        resets = (board.usage or {}).get("reset_at")
        until = f", resets {ago(resets, now)}" if isinstance(resets, (int, float)) else ""
        parts.append(Text(f"used {quota.get('used'):,}/{quota['limit']:,} requests{until}"))
    money = board.money
    if money is not None and "problem" in money:
        parts.append(Text("market data: what was spent cannot be read (trade doctor)", style="red"))
    elif money is not None:
        left_today = money.get("left_today_usd")
        left_text = f", ${left_today} left" if left_today is not None else ", no daily budget"
        held = money.get("held_today_usd") or "0.00"
        held_text = f", ${held} held" if held != "0.00" else ""
        parts.append(Text(f"market data today ${money.get('spent_today_usd')} spent{held_text}{left_text}"))
    return parts


def _title(board: Board, part: str, count: int, room: int, now: float, width: int) -> Text:
    text = Text.assemble((part, "bold"), "  ")
    age = max(0.0, now - board.read_at[part]) if part in board.read_at else None
    if part == "signals":
        states = [f"{name}: {visible(state, 60)}" for name, state in board.streams.items()]
        calm = all(state == "live" for state in board.streams.values())
        text.append(", ".join(states), style="green" if calm else "yellow")
    elif age is None:
        text.append("reading …", style="dim")
    else:
        text.append(f"{plural(count, 'agents' if part == 'agents' else 'open positions')}, ")
        text.append(f"{age:.0f} s ago" if age >= 1 else "now", style="yellow" if age > _OLD else "dim")
        if count > room:
            text.append(f"; {count - room} do not fit")
    return cut(text, width)


def _foot(board: Board, now: float, width: int, *, keys: bool) -> list[Text]:
    message, style = visible(board.note, _LONGEST), "dim"
    if board.problem is not None:
        since = max(0.0, now - board.read_at["problem"])
        message, style = f"error, {since:.0f} s ago: {visible(board.problem, _LONGEST)}", "red"
    lines = [Text(line, style=style) for line in wrap(message, max(width, 20))]  # the whole reason
    return [*lines, *([Text("q quits", style="dim")] if keys else [])]


# Live


def show_board(run: Run, chain: int | None) -> None:
    """Shows the board until q."""
    out, board = run.out, Board(target=run.target().text, chain=chain, now=run.now)
    run.settings = replace(run.settings, retries=0)  # the reader tries again, and shows that
    run.out = HeldOutput(out, board)
    read(run, board, "account")  # a wrong key or address ends the command
    source = Source(run, board)
    console, ascii_only = out.console(width=None), shows_ascii_only(out)
    try:
        with deferring(), source, _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
            while not set(pressed(_BREATH)) & set("qQ\x04"):
                live.update(draw(board, *console.size, ascii_only=ascii_only), refresh=True)
    except KeyboardInterrupt as interrupt:
        raise Interrupted(interrupt) from None


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A function that waits some seconds for keys, without Enter. Ctrl-Z and Ctrl-\\ are disabled."""
    if os.name != "posix" or not sys.stdin.isatty():

        def no_keys(seconds: float) -> str:
            time.sleep(seconds)
            return ""

        yield no_keys
        return
    import termios
    import tty

    end = sys.stdin.fileno()
    before = termios.tcgetattr(end)

    def pressed(seconds: float) -> str:
        if not select.select([end], [], [], seconds)[0]:
            return ""
        data = os.read(end, 1024)
        if not data:  # the terminal was closed
            raise ClosedPipe
        return data.decode("utf-8", "replace")

    try:
        tty.setcbreak(end, termios.TCSANOW)
        modes = termios.tcgetattr(end)
        modes[6][termios.VSUSP] = modes[6][termios.VQUIT] = b"\0"
        termios.tcsetattr(end, termios.TCSANOW, modes)
        yield pressed
    finally:
        termios.tcsetattr(end, termios.TCSANOW, before)


# Once


def once(run: Run, chain: int | None) -> None:
    """Reads everything once and prints it."""
    out, board = run.out, Board(target=run.target().text, chain=chain, now=run.now)
    for job in ("account", "agents", "positions", "usage", *(f"signals {one}" for one in chains_of(board))):
        read(run, board, job)
    for agent in board.agents:
        job = f"details {agent['id']}"
        try:
            read(run, board, job)
        except TradeError as error:
            if not skipped(board, job, error):
                raise
            headline = problem_of(error).headline
            out.note(f"the results of {one_line(agent['name'], 60)} could not be read: {headline}")
    board.signals = board.signals[:_SIGNALS]
    rows = 40 + len(board.agents) + len(board.positions) + len(board.signals)
    drawn = draw(board, out.width or _WIDTH, 3 * rows, ascii_only=shows_ascii_only(out), keys=False)
    out.draw(lambda console: console.print(drawn))
