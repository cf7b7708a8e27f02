"""How somebody looks at the board: which part has the keys, how far it is scrolled, how it is sorted. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
