"""Results for people: tables that fit the terminal, and one thing as a list of fields.

An id, an address or a hash is never cut: when a table does not fit, optional columns are left out (and named on
stderr); when the needed ones do not fit either, every item becomes a block of lines.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from rich.cells import cell_len
from rich.text import Text

from tradesdk_cli.options import CHAINS
from tradesdk_cli.text import to_json, visible
from tradesdk_cli.views import Column

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rich.console import Console

    from tradesdk_cli.views import Kind

_GAP = 2
_TEXT_WIDTH = 32
_TEXT_FLOOR = 10
_USUAL_WIDTHS: dict[Kind, int] = {"text": 12, "state": 4, "number": 5, "price": 10, "time": 20}
_CHAIN_NAMES = {number: name for name, number in CHAINS.items()}
_STATES = {
    "active": "green",
    "idle": "cyan",
    "paused": "yellow",
    "error": "red",
    "BUY": "green",
    "SELL": "red",
    "open": "cyan",
    "closed": "dim",
    "WAITING FOR SIGNAL": "dim",
    "delivered": "green",
    "pending": "yellow",
    "presented": "yellow",
    "unknown": "yellow",
    "rejected_live": "yellow",
    "paid_undelivered": "red",
    "expired_unknown": "red",
    "live": "dim",
    "replayed": "cyan",
    "late": "yellow",
}


def cell(kind: Kind, value: Any) -> Text:
    """A value as it is shown. What does not have the expected type is shown as it is."""
    if value is None:
        return Text("-", style="dim")
    if kind == "time" and isinstance(value, str):
        return Text(_moment_of(value))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        text = visible(value if isinstance(value, str) else to_json(value))
        return Text(text, style=_STATES.get(text, "")) if kind == "state" else Text(text)
    if kind == "time":
        return Text(moment(value))
    if kind == "chain":
        return Text(_CHAIN_NAMES.get(int(value), str(value)))
    if kind == "pnl":
        return Text(f"{value:+,.2f}", style="green" if value > 0 else "red" if value < 0 else "")
    if kind == "usd":
        return Text(f"{value:,.2f}")
    if kind == "percent":
        return Text(f"{value:,.2f}%")
    if kind == "price":
        return Text(price(value))
    return Text(str(value))


def moment(seconds: float) -> str:
    """Unix seconds as UTC, to the second; out of the calendar's range, the number itself."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return str(seconds)


def _moment_of(text: str) -> str:
    """A time in the service's text, `2026-01-04T01:20:58.123Z`, as all others are shown; other text as it is."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return visible(text)
    return visible(text) if found.tzinfo is None else moment(found.timestamp())


def price(value: float) -> str:
    """A price with enough digits and never an exponent: 3,912.44, 0.00001234."""
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.2f}"
    if abs(value) >= 1:
        return f"{value:,.4f}"
    return f"{Decimal(f'{value:.4g}'):f}"


def render_list(
    console: Console,
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Any]],
    width: int | None,
    indent: int = 0,
) -> str:
    """Prints `rows` within `width` cells (None: no limit). Returns the headings that were left out, comma separated."""
    grid = [[cell(column.kind, row.get(column.key)) for column in columns] for row in rows]
    if width is not None:
        for line in grid:
            for column, content in zip(columns, line, strict=True):
                if column.kind != "id":
                    _cut(content, _TEXT_WIDTH)
    needed = [max(cell_len(text) for text in texts) for texts in _columns_of(columns, grid)]
    shown = _fit(columns, needed, None if width is None else width - indent)
    if shown is None:
        _render_blocks(console, columns, grid, indent)
        return ""
    headings = [Text(column.heading, style="bold") for column in columns]
    for line in (headings, *grid):
        print_line(console, Text(" " * indent) + _side_by_side(line, columns, needed, shown))
    return ", ".join(column.heading for i, column in enumerate(columns) if i not in shown)


class GrowingTable:
    """A table whose rows come one by one, so its widths are chosen before most of them are known."""

    def __init__(self, columns: Sequence[Column], sample: Mapping[str, Any], width: int | None) -> None:
        """`sample` shows how long ids are; `width` is in cells, None without a limit."""
        self._columns = columns
        self._cut = width is not None
        self._needed = [_usual_width(column, sample) for column in columns]
        fitting = _fit(columns, self._needed, width)
        # Too narrow even for what is always shown: the terminal breaks the lines.
        self._shown = [i for i, c in enumerate(columns) if not c.optional] if fitting is None else fitting

    @property
    def left_out(self) -> str:
        """The headings that do not fit, comma separated."""
        return ", ".join(column.heading for i, column in enumerate(self._columns) if i not in self._shown)

    def header(self) -> Text:
        """The line above the rows."""
        return self._line([Text(column.heading, style="bold") for column in self._columns])

    def row(self, item: Mapping[str, Any]) -> Text:
        """One row. A value that is longer than its column moves what follows; only text is cut."""
        return self._line([cell(column.kind, item.get(column.key)) for column in self._columns])

    def _line(self, cells: list[Text]) -> Text:
        line = _side_by_side(cells, self._columns, self._needed, self._shown, cut=self._cut)
        line.rstrip()
        return line


def _usual_width(column: Column, sample: Mapping[str, Any]) -> int:
    least = _USUAL_WIDTHS.get(column.kind, 0) if column.key != "came" else len("replayed")
    shown = cell_len(cell(column.kind, sample.get(column.key)).plain) if column.kind == "id" else 0
    return max(least, shown, cell_len(column.heading))


def _columns_of(columns: Sequence[Column], grid: list[list[Text]]) -> Iterator[list[str]]:
    for index, column in enumerate(columns):
        yield [column.heading, *(line[index].plain for line in grid)]


def _cut(content: Text, width: int) -> None:
    content.truncate(width, overflow="ellipsis")


def _fit(columns: Sequence[Column], needed: list[int], width: int | None) -> list[int] | None:
    """The columns to show, with `needed` narrowed where text can be cut; None when they cannot stand side by side."""
    shown = list(range(len(columns)))
    if width is None:
        return shown
    while True:
        excess = sum(needed[i] for i in shown) + _GAP * (len(shown) - 1) - width
        if excess <= 0:
            return shown
        spare = {i: needed[i] - max(_TEXT_FLOOR, len(columns[i].heading)) for i in shown if columns[i].kind == "text"}
        if sum(max(0, room) for room in spare.values()) >= excess:
            for i, room in sorted(spare.items(), key=lambda pair: -pair[1]):
                taken = min(max(0, room), excess)
                needed[i] -= taken
                excess -= taken
            return shown
        last = next((i for i in reversed(shown) if columns[i].optional), None)
        if last is None:
            return None
        shown.remove(last)


def _side_by_side(
    cells: list[Text], columns: Sequence[Column], needed: list[int], shown: list[int], *, cut: bool = True
) -> Text:
    line = Text()
    for i in shown:
        content, column = cells[i], columns[i]
        if column.kind == "text" and cut:
            _cut(content, needed[i])
        padding = " " * (needed[i] - cell_len(content.plain))
        line.append(padding if column.right else "")
        line.append_text(content)
        if i != shown[-1]:
            line.append(" " * _GAP if column.right else padding + " " * _GAP)
    return line


def _render_blocks(console: Console, columns: Sequence[Column], grid: list[list[Text]], indent: int) -> None:
    width = max(len(column.heading) for column in columns)
    for number, line in enumerate(grid):
        if number:
            print_line(console, Text())
        for column, content in zip(columns, line, strict=True):
            heading = " " * indent + column.heading.ljust(width + _GAP)
            print_line(console, Text.assemble((heading, "bold"), content))


def print_line(console: Console, line: Text) -> None:
    """Prints one line as it is, however long it is."""
    # soft_wrap: the terminal may break a long line, we do not, so that what is copied is whole.
    console.print(line, soft_wrap=True, markup=False, highlight=False, emoji=False)


def render_choices(console: Console, rows: Sequence[Mapping[str, Any]], width: int) -> None:
    """Prints named choices with what they mean: `name=default  (or: …)`, and below it the text, wrapped to `width`."""
    room = max(20, width - 4)
    for row in rows:
        others = f"  (or: {visible(row['others'])})"
        title = Text.assemble((visible(row["name"]), "bold"), f"={visible(row['default'])}", others)
        first, *more = title.wrap(console, room)
        text = Text(visible(row["text"])).wrap(console, room)
        for line in (first, *(Text("    ") + line for line in (*more, *text))):
            line.rstrip()
            print_line(console, line)


_KINDS: dict[str, Kind] = {
    "chain_id": "chain",
    "timestamp": "time",
    "status": "state",
    "direction": "state",
    "pnl_usd": "pnl",
    "unrealized_pnl_usd": "pnl",
    "total_pnl_usd": "pnl",
    "balance": "number",
    "winRate": "percent",
    "valid_before": "time",
    **dict.fromkeys(("totalBuyUSD", "totalSellUSD"), "usd"),
    **dict.fromkeys(("realizedProfitUSD", "unrealizedProfitUSD"), "pnl"),
    **dict.fromkeys(("signalPriceUsd", "currentPriceUsd", "averageBuyPriceUSD", "averageSellPriceUSD"), "price"),
}


def kind_of(key: str) -> Kind:
    """How a field of this name is shown when nothing else is said."""
    if key in _KINDS:
        return _KINDS[key]
    if key.endswith("_at"):
        return "time"
    if key.endswith("_pct"):
        return "percent"
    if key.endswith("balance_usd"):
        return "usd"
    if key.endswith(("_price_usd", "_price")) or key == "price_usd":
        return "price"
    return "id"


def render_one(console: Console, item: Mapping[str, Any]) -> None:
    """Prints one thing, a field a line; nested fields have dotted names, lists of objects become tables below."""
    fields = list(_flatten("", item))
    scalars = [(name, key, value) for name, key, value in fields if not _is_rows(value)]
    width = max((len(name) for name, _, _ in scalars), default=0)
    for name, key, value in scalars:
        content = cell(kind_of(key), value)
        if kind_of(key) == "chain" and content.plain != str(value):
            content.append(f" ({value})")
        print_line(console, Text.assemble((visible(name).ljust(width), "bold"), "  ", content))
    for name, _, value in fields:
        if _is_rows(value):
            keys = dict.fromkeys(key for row in value for key in row)
            print_line(console, Text())
            print_line(console, Text(visible(name), style="bold"))
            columns = [Column(key, kind_of(key), title=visible(key)) for key in keys]
            render_list(console, columns, value, console.width if console.is_terminal else None)


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _flatten(prefix: str, item: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for key, value in item.items():
        if isinstance(value, dict) and value:
            yield from _flatten(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", key, value
