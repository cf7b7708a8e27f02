"""How somebody looks at the board: which part has the keys, how far it is scrolled, how it is sorted. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text

from tradesdk_cli.board.reader import Source, quiet
from tradesdk_cli.board.screen import Screen
from tradesdk_cli.board.state import Board, agent_rows, position_rows
from tradesdk_cli.charts.chart import shows_ascii_only, spark
from tradesdk_cli.errors import Interrupted
from tradesdk_cli.interrupts import exit_code_of, told_to_stop
from tradesdk_cli.output.cells import ago, cell, cells
from tradesdk_cli.output.columns import RIGHT
from tradesdk_cli.output.table import LUXURY, fit, side_by_side
from tradesdk_cli.text import counted, visible

if TYPE_CHECKING:
    from tradesdk_cli.board.state import Board
    from tradesdk_cli.output.columns import Kind
    from tradesdk_cli.session import Session


_OLD = 60.0
_SPARK = 12
_PLAIN = str.maketrans({"…": "~", "·": "-", "→": ">", "←": "<", "↑": "^", "↓": "v"})
_ROOMY = 30
_KEYS = "q quit · p pause · tab next part · ↑↓ scroll · s sort · ? help"
_HELP = (
    ("q, Ctrl-C", "quit"),
    ("p, space", "pause or go on"),
    ("tab, ← →", "go to the next part or the one before"),
    ("↑ ↓, k j", "scroll the part; also page up, page down, home, end"),
    ("s, S", "sort the part another way; backwards through the ways"),
    ("Ctrl-Z", "leave it for the shell; fg comes back"),
    ("?", "this help; any key leaves it"),
)
_MEANING = (
    "open: positions; unrealized: what they would bring now; realized: what closed trades brought; trend: that, added "
    "up over the latest closed trades. to_stop and to_profit: how far the price may go until it is sold; passed: the "
    "price is beyond, and nothing was sold. …: not read yet.",
    "It reads at most a third of what your plan allows in a minute; on a small plan data is older; its age is shown.",
)


@dataclass(frozen=True)
class Moment:
    """Now: `mono` as the board's news count it, `wall` in Unix seconds."""

    mono: float
    wall: float


@dataclass(frozen=True)
class Frame:
    """What is drawn, and what follows from it for the keys."""

    lines: list[Text]
    view: View
    page: int


def draw(board: Board, view: View, width: int, height: int, now: Moment, *, ascii_only: bool = False) -> Frame:
    """The board in at most `height` lines of at most `width` cells."""
    width = max(20, width)
    head = header(board, width, now, paused=view.paused, ascii_only=ascii_only)
    foot = _foot(board, view, width, now, ascii_only=ascii_only)
    if view.help:
        return Frame(_fit([*head, Text(), *_help(width), *foot], width, height, ascii_only=ascii_only), view, 5)
    rows = {
        "agents": in_order(view, "agents", agent_rows(board)),
        "positions": in_order(view, "positions", position_rows(board)),
        "signals": in_order(view, "signals", board.signals),
    }
    counts = {part: len(found) for part, found in rows.items()}
    roomy = height >= _ROOMY
    focus = PARTS[view.focus]
    parts, room = _room(height - len(head) - len(foot), counts, focus, roomy=roomy)
    if counts[focus] and not room[focus]:  # the place and the keys are enough then
        head, foot = head[:1], foot[-1:]
        parts, room = _room(height - 2, counts, focus, roomy=roomy)
    view = settled(view, counts, room)
    found = list(head)
    for part in parts:
        offset = view.offsets[PARTS.index(part)]
        found.append(_title(board, view, part, counts[part], offset, room[part], now, width, ascii_only=ascii_only))
        visible_rows = slice(offset, offset + room[part])
        found += _in_columns(_columns(part, now, ascii_only=ascii_only), rows[part], width, visible_rows)
        if roomy and part != parts[-1]:
            found.append(Text())
    if len(found) + len(foot) < height:
        found += [Text()] * (height - len(found) - len(foot))
    fitting = _fit([*found, *foot], width, height, ascii_only=ascii_only)
    return Frame(fitting, view, max(1, room[focus]))


def _room(height: int, counts: dict[str, int], focus: str, *, roomy: bool) -> tuple[list[str], dict[str, int]]:
    """The parts that are shown in `height` lines, and the rows of each: no part has a heading and none of its rows."""
    parts: list[str] = list(PARTS)
    while True:
        used = 2 * len(parts) + (len(parts) - 1 if roomy else 0)
        room = divide(height - used, {part: counts[part] for part in parts}, focus)
        if len(parts) == 1 or all(room[part] or not counts[part] for part in parts):
            return parts, dict.fromkeys(PARTS, 0) | room
        parts.remove([part for part in parts if part != focus][-1])


def header(board: Board, width: int, now: Moment, *, paused: bool = False, ascii_only: bool = False) -> list[Text]:
    """Where this is, the time, the plan; the rate limit, the requests of the period, and the money."""
    dot = " - " if ascii_only else " · "
    first = [Text(visible(board.target, 60), style="bold"), Text(_clock(now.wall))]
    if board.account is not None:
        first.append(Text(f"plan {visible(str(board.account.get('plan')), 20)}"))
    if board.chain is not None:
        first.append(Text("chain ") + cell("chain", board.chain))
    if paused:
        first.insert(0, Text(" paused ", style="reverse yellow"))
    return [_joined(first, dot, width), *_budgets(board, now, width, dot, ascii_only=ascii_only)]


def _budgets(board: Board, now: Moment, width: int, dot: str, *, ascii_only: bool) -> list[Text]:
    parts = []
    limit = board.limit
    if limit.limit and limit.remaining is not None:
        # A window that is over left nothing behind: until the next answer, all of it is there again.
        left = limit.remaining if limit.reset is None or limit.reset > now.wall else limit.limit
        parts.append(
            Text.assemble("left ", _bar(left, limit.limit, 8, ascii_only=ascii_only), f" {left}/{limit.limit} a minute")
        )
    quota = (board.usage or {}).get("requests") or {}
    if quota.get("limit"):
        resets = (board.usage or {}).get("reset_at")
        until = f", resets {ago(resets, now.wall)}" if isinstance(resets, (int, float)) else ""
        used = f"used {quota.get('used'):,}/{quota['limit']:,} requests"
        parts.append(Text(used + (until if width >= 80 else "")))
    money = board.money
    if money is not None and "problem" in money:
        parts.append(Text("market data: what was spent cannot be read (trade doctor)", style="red"))
    elif money is not None:
        left_today = money.get("left_today_usd")
        left_text = f", ${left_today} left" if left_today is not None else ", no daily budget"
        held = money.get("held_today_usd") or "0.00"
        held_text = f", ${held} held" if held != "0.00" else ""
        parts.append(Text(f"market data today ${money.get('spent_today_usd')} spent{held_text}{left_text}"))
    one = _joined(parts, dot, 10**6)
    if cell_len(one.plain) <= width or not parts:
        return [one]
    return [_joined(parts[:-1], dot, width), _joined(parts[-1:], dot, width)] if len(parts) > 1 else [one]


def _bar(left: int, whole: int, cells: int, *, ascii_only: bool) -> Text:
    full = min(cells, max(0, round(left / whole * cells)))
    style = "green" if left * 4 >= whole else "yellow" if left * 10 >= whole else "red"
    on, off = ("#", "-") if ascii_only else ("█", "░")
    return Text.assemble((on * full, style), (off * (cells - full), "dim"))


def _title(
    board: Board,
    view: View,
    part: str,
    count: int,
    offset: int,
    room: int,
    now: Moment,
    width: int,
    *,
    ascii_only: bool,
) -> Text:
    focused = PARTS[view.focus] == part
    text = Text.assemble((f" {part} ", "bold reverse" if focused else "bold"))
    age = board.age(part, now.mono)
    if part == "signals":
        text.append(" ")
        states = [f"{name}: {visible(state, 60)}" for name, state in board.streams.items()]
        calm = all(state == "live" for state in board.streams.values())
        text.append(", ".join(states), style="green" if calm else "yellow")
    elif age is None:
        text.append(" reading …", style="dim")
    else:
        text.append(f" {counted(count, 'agents' if part == 'agents' else 'open positions')}, ")
        text.append(f"{age:.0f} s ago" if age >= 1 else "now", style="yellow" if age > _OLD else "dim")
    if sort_name(view, part):
        text.append(
            f", {sort_name(view, part)} first" if part != "signals" else f" by {sort_name(view, part)}", style="dim"
        )
    if count > room > 0:
        text.append(f"  {offset + 1}-{offset + room} of {count}", style="dim")
    text.truncate(width, overflow="ellipsis")
    return text


# Rows in columns: what does not fit is left out or cut


@dataclass(frozen=True)
class Col:
    """One column of the board.

    Attributes:
        title: stands above it.
        key: the field of the row.
        kind: how its values are shown.
        drop: where room is short, the column with the highest number goes first; 0 stays (`rank` of `fit`).
        least: cells to which its text may be cut; 0: it is not cut.
        shows: makes the text, where `kind` does not.
        waits: the field of the row that says whether this one has been read already.
    """

    title: str
    key: str
    kind: Kind = "text"
    drop: int = 0
    least: int = 0
    shows: Callable[[Any], Text] | None = None
    waits: str = ""

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> list[Text]:
        """Its cells in these rows."""
        values = [row.get(self.key) for row in rows]
        shown = [self.shows(value) for value in values] if self.shows is not None else cells(self.kind, values)
        if not self.waits:
            return shown
        missing = [value is None and not row.get(self.waits) for value, row in zip(values, rows, strict=True)]
        return [Text("…", style="dim") if gap else text for gap, text in zip(missing, shown, strict=True)]


def _in_columns(columns: Sequence[Col], rows: Sequence[Row], width: int, part: slice) -> list[Text]:
    """The heading and that part of the rows. Widths follow from all rows, so that scrolling moves nothing."""
    table = [[Text(column.title, style="dim"), *column.texts(rows[:500])] for column in columns]
    needed = [max(cell_len(text.plain) for text in texts) for texts in table]
    needed = [min(need, 32) if column.least else need for need, column in zip(needed, columns, strict=True)]
    rank, least = [column.drop for column in columns], [column.least for column in columns]
    shown = fit(needed, width, rank, least)
    if shown is None:
        shown = [i for i, column in enumerate(columns) if not column.drop]
    heading, *body = zip(*table, strict=True)
    right = [column.kind in RIGHT for column in columns]
    found = [side_by_side(line, right, needed, shown) for line in (heading, *body[part])]
    for line in found:
        line.rstrip()
        line.truncate(width)
    return found


def _columns(part: str, now: Moment, *, ascii_only: bool) -> tuple[Col, ...]:
    def trend(results: Any) -> Text:
        style = "" if not results else "green" if results[-1] > 0 else "red"
        return Text(spark(results or [], _SPARK, ascii_only=ascii_only), style=style)

    def age(at: Any) -> Text:
        return Text(ago(at, now.wall), style="dim") if isinstance(at, (int, float)) else cell("text", at)

    if part == "agents":
        return (
            Col("name", "name", least=8),
            Col("status", "status", "state", least=6),
            Col("open", "open", "number"),
            Col("unrealized", "unrealized_pnl_usd", "pnl", drop=1),
            Col("realized", "total_pnl_usd", "pnl", waits="read"),
            Col("trades", "total_trades", "number", drop=LUXURY, waits="read"),
            Col("won", "win_rate_pct", "percent", drop=2, waits="read"),
            Col("trend", "results", drop=3, shows=trend),
            Col("chain", "chain_id", "chain", drop=LUXURY + 1),
            Col("id", "id", "id", drop=LUXURY + 2),
        )
    if part == "positions":
        return (
            Col("token", "token_symbol", least=5),
            Col("agent", "agent", least=8, drop=3),
            Col("unrealized", "unrealized_pnl_usd", "pnl"),
            Col("price", "current_price_usd", "price", drop=2),
            Col("entry", "entry_price_usd", "price", drop=LUXURY),
            Col("to_stop", "to_stop_pct", "to_stop"),
            Col("to_profit", "to_profit_pct", "to_profit", drop=1),
            Col("opened", "opened_at", drop=4, shows=age),
            Col("id", "id", "id", drop=LUXURY + 2),
        )
    return (
        Col("side", "direction", "state", least=4),
        Col("token", "token_symbol", least=5),
        Col("price", "price_usd", "price"),
        Col("confidence", "confidence", "share"),
        Col("time", "timestamp", shows=age),
        Col("chain", "chain_id", "chain", drop=1),
        Col("token_address", "token_address", "id", drop=2),
    )


def _foot(board: Board, view: View, width: int, now: Moment, *, ascii_only: bool) -> list[Text]:
    import textwrap

    found = []
    if board.problems:
        text, at = list(board.problems.values())[-1]
        begin = f"error, {max(0.0, now.mono - at):.0f} s ago: "
        lines = [Text(line) for line in textwrap.wrap(begin + visible(text), max(width, 20))]  # all of the reason
        lines[0].stylize("bold red", 0, len(begin))
        found += lines
    elif board.note:
        found.append(Text(visible(board.note), style="dim"))
    keys = "any key goes back" if view.help else _KEYS
    if cell_len(keys) > width:
        keys = "q quit · p pause · tab · ↑↓ · s sort · ? help"
    found.append(Text(keys, style="dim"))
    return found


def _help(width: int) -> list[Text]:
    import textwrap

    found = [Text.assemble((key.ljust(11), "bold"), text) for key, text in _HELP]
    for text in _MEANING:
        found += [Text(), *(Text(line) for line in textwrap.wrap(text, width))]
    return found


def _joined(parts: list[Text], dot: str, width: int) -> Text:
    line = Text()
    for part in parts:
        line.append(dot if line else "", style="dim")
        line.append_text(part)
    line.truncate(width, overflow="ellipsis")
    return line


def _clock(wall: float) -> str:
    try:
        return f"{datetime.fromtimestamp(wall, UTC):%H:%M:%S}Z"
    except (ValueError, OverflowError, OSError):
        return str(wall)


def _fit(found: list[Text], width: int, height: int, *, ascii_only: bool) -> list[Text]:
    for line in found:
        line.truncate(width, overflow="ellipsis")
        if ascii_only:
            line.plain = line.plain.translate(_PLAIN)
    # The keys are said last, and stay when the middle does not fit.
    return found if len(found) <= height else [*found[: max(0, height - 1)], found[-1]]


Row = Mapping[str, Any]
PARTS = ("agents", "positions", "signals")


def _number(key: str) -> Callable[[Row], Any]:
    """Highest first; what is not known is last."""
    return lambda row: -row[key] if isinstance(row.get(key), (int, float)) else float("inf")


def _text(key: str) -> Callable[[Row], Any]:
    return lambda row: str(row.get(key) or "").casefold()


def _loss(key: str) -> Callable[[Row], Any]:
    """Lowest first."""
    return lambda row: row[key] if isinstance(row.get(key), (int, float)) else float("inf")


SORTS: dict[str, tuple[tuple[str, Callable[[Row], Any] | None], ...]] = {
    "agents": (
        ("as listed", None),
        ("best result", _number("total_pnl_usd")),
        ("worst result", _loss("total_pnl_usd")),
        ("open positions", _number("open")),
        ("status", _text("status")),
        ("name", _text("name")),
    ),
    "positions": (
        ("as listed", None),
        ("best result", _number("unrealized_pnl_usd")),
        ("worst result", _loss("unrealized_pnl_usd")),
        ("nearest stop", _number("to_stop_pct")),
        ("agent", _text("agent")),
        ("token", _text("token_symbol")),
    ),
    "signals": (("newest", None), ("confidence", _number("confidence")), ("token", _text("token_symbol"))),
}


@dataclass(frozen=True)
class View:
    """What somebody chose. `focus` is the part that has the keys, `offsets` and `sorts` are by part."""

    focus: int = 0
    offsets: tuple[int, int, int] = (0, 0, 0)
    sorts: tuple[int, int, int] = (0, 0, 0)
    paused: bool = False
    help: bool = False
    over: bool = False


def pressed(view: View, key: str, page: int = 5) -> View:
    """The view after a key; `page` is how many rows a page has. Offsets may be too large: `shown` knows the rows."""
    if view.help and key not in ("q", "ctrl-c"):
        return replace(view, help=False)
    if key in ("q", "Q", "ctrl-c"):
        return replace(view, over=True)
    if key in ("?", "h"):
        return replace(view, help=True)
    if key in ("p", " "):
        return replace(view, paused=not view.paused)
    if key in ("tab", "right", "l"):
        return replace(view, focus=(view.focus + 1) % len(PARTS))
    if key in ("backtab", "left"):
        return replace(view, focus=(view.focus - 1) % len(PARTS))
    if key in ("s", "S"):
        step = 1 if key == "s" else -1
        sorts = (view.sorts[view.focus] + step) % len(SORTS[PARTS[view.focus]])
        return replace(view, sorts=_set(view.sorts, view.focus, sorts), offsets=_set(view.offsets, view.focus, 0))
    moves = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -page, "pagedown": page, "home": -(10**6), "end": 10**6}
    if key in moves:
        offset = min(10**6, max(0, view.offsets[view.focus] + moves[key]))
        return replace(view, offsets=_set(view.offsets, view.focus, offset))
    return view


def settled(view: View, rows: Mapping[str, int], room: Mapping[str, int]) -> View:
    """The view with every part scrolled no further than its last row."""
    first, second, third = (
        min(offset, max(0, rows[part] - room[part])) for offset, part in zip(view.offsets, PARTS, strict=True)
    )
    return replace(view, offsets=(first, second, third))


def in_order(view: View, part: str, rows: Sequence[Row]) -> list[Row]:
    """The rows of a part as they are to be sorted."""
    key = SORTS[part][view.sorts[PARTS.index(part)]][1]
    return list(rows) if key is None else sorted(rows, key=key)


def sort_name(view: View, part: str) -> str:
    """How a part is sorted; empty when it is not."""
    index = view.sorts[PARTS.index(part)]
    return SORTS[part][index][0] if index else ""


def divide(height: int, wanted: Mapping[str, int], focus: str) -> dict[str, int]:
    """Rows for each part out of `height`: each gets up to 3, the rest goes where more is wanted, first to `focus`."""
    room = {part: min(wanted[part], 3) for part in wanted}
    while sum(room.values()) > max(0, height):
        largest = max(room, key=lambda part: (room[part], part != focus))
        room[largest] -= 1
    while sum(room.values()) < height:
        short = [part for part in wanted if room[part] < wanted[part]]
        if not short:
            break
        room[min(short, key=lambda part: room[part] - (2 if part == focus else 0))] += 1
    return room


def _set(values: tuple[int, int, int], index: int, value: int) -> tuple[int, int, int]:
    changed = list(values)
    changed[index] = value
    return changed[0], changed[1], changed[2]


_BREATH = 0.1


def show_board(run: Session, chain: int | None, interval: float) -> None:
    """Shows the board until somebody quits.

    Raises:
        Interrupted: Ctrl-C, Ctrl-\\, SIGTERM or SIGHUP; the terminal is as it was.
    """
    source: Source
    out = run.out
    quiet(run, lambda text: source.put("note", text))
    source = Source(run, chain, interval)
    board = source.first()
    try:
        with told_to_stop(), Screen(out) as screen:
            source.wake = screen.wake
            with source:
                try:
                    _loop(run, source, screen, board)
                finally:
                    screen.give_back()  # first of all: what reads may take a moment to end
    except KeyboardInterrupt as interrupt:
        raise Interrupted(exit_code_of(interrupt)) from None


def _loop(run: Session, source: Source, screen: Screen, board: Board) -> None:
    view, page = View(), 5
    ascii_only = shows_ascii_only(run.out)
    while not view.over:
        if not view.paused:
            board = source.drain(board)
        now = Moment(time.monotonic(), run.now())
        columns, lines = screen.size()
        frame = draw(board, view, columns, lines, now, ascii_only=ascii_only)
        view, page = frame.view, frame.page
        screen.show(frame.lines)
        # News that come in a row are drawn together; a key is answered at once.
        keys = screen.wait(_BREATH, news=False) or screen.wait(1.0 - _BREATH)
        for key in keys:
            view = pressed(view, key, page)
        if view.paused:
            source.paused.set()
        else:
            source.paused.clear()
