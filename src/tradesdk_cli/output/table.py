"""Results for people: tables that fit the terminal, and one item as a list of fields.

When a table does not fit, columns that are empty are left out, then ids end with `…` after as much as tells them apart
(commands take that, with or without the `…`), then other optional columns are left out, the last ones first. Columns
that were left out and have a value are named below the table. If the required columns do not fit either, all
ids, addresses and hashes are shortened; if that is not enough, every item becomes a block of lines. A pipe gets
everything in full.
"""

from __future__ import annotations

import re
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

from rich.cells import cell_len
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tradesdk_cli.output.cells import ago, cell
from tradesdk_cli.output.columns import NESTED, RIGHT, Column, kind_of
from tradesdk_cli.output.formats import flatten, seconds_of
from tradesdk_cli.text import visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from tradesdk_cli.output.cells import Clock
    from tradesdk_cli.output.columns import Kind

    Grid = Sequence[Sequence[Text]]

_GAP = 2
_TEXT_WIDTH, _TEXT_FLOOR = 32, 16
_LONGEST, _VALUE_WIDTH = 200, 2000
_NAME_WIDTH = 40
_VALUE_FLOOR = 12
_TEXTS: tuple[Kind, ...] = ("text", "state")
_LONG_ID = re.compile(r"([a-z]{2,8}_)([0-9A-Za-z]{16,})")
_ADDRESS = re.compile(r"(0x)([0-9a-fA-F]{40,64})")
_LEAST_OF_AN_ID, _IN_A_STREAM, _OF_THE_DAY = 8, 12, len("12:34:56Z")
_USUAL_WIDTHS: dict[Kind, int] = {"text": 12, "state": 4, "share": 5, "number": 5, "price": 13, "time": 20}


def render_list(
    console: Console,
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Any]],
    width: int | None,
    indent: int = 0,
    now: Clock | None = None,
) -> list[str]:
    """Prints `rows` within `width` cells (None: no limit). Returns the headings that were left out.

    With `now`, times are relative.
    """
    seconds = now() if now is not None and any(column.kind == "time" for column in columns) else None
    grid = [[cell(column.kind, column.value(row), seconds) for column in columns] for row in rows]
    for i, column in enumerate(columns):
        if width is not None and not column.whole:
            for line in grid:
                line[i].truncate(_LONGEST, overflow="ellipsis")
    table, hidden = fitted(columns, grid, None if width is None else width - indent)
    if table is None:
        _render_blocks(console, columns, grid, width)
    else:
        console.print(Padding(table, (0, 0, 0, indent), expand=False))
    return hidden


def fitted(columns: Sequence[Column], grid: Grid, width: int | None) -> tuple[Table | None, list[str]]:
    """The table of the columns that fit within `width`, None if the required ones do not; and the left-out columns."""
    shown, widths = _fit(columns, grid, width)
    for of_each in (False, True):
        if len(shown) < len(columns) and not (of_each and shown):
            shortened = _with_short_ids(columns, grid, of_each=of_each)
            if len((found := _fit(columns, shortened, width))[0]) > len(shown):
                grid, (shown, widths) = shortened, found
    if not shown:
        return None, []
    hidden = [c.heading for i, c in enumerate(columns) if i not in shown and not _is_empty(grid, i)]
    return _table(columns, grid, shown, widths), hidden


def _fit(columns: Sequence[Column], grid: Grid, width: int | None) -> tuple[list[int], list[int]]:
    """The shown columns, empty if the required ones do not fit; and the width of each column."""
    shown = list(range(len(columns)))
    widths = [max(cell_len(c.heading), *(cell_len(line[i].plain) for line in grid)) for i, c in enumerate(columns)]
    if width is None:
        return shown, widths
    whole = list(widths)
    least = list(whole)
    for i, column in enumerate(columns):
        if column.kind in _TEXTS and not column.whole:
            least[i] = widths[i] = min(whole[i], _TEXT_WIDTH)
        if column.kind == "text" and not column.whole:
            least[i] = min(widths[i], max(_TEXT_FLOOR, len(column.heading)))
    empty = [_is_empty(grid, i) for i in shown]

    def excess(needed: list[int]) -> int:
        return sum(needed[i] + _GAP for i in shown) - _GAP - width

    for i in sorted((i for i in shown if columns[i].optional), key=lambda i: (empty[i], i), reverse=True):
        if excess(widths if empty[i] else least) > 0:
            shown.remove(i)
    if excess(least) > 0:
        return [], widths
    while excess(widths) > 0:
        widths[max(shown, key=lambda i: widths[i] - least[i])] -= 1
    for i in shown:  # remaining room goes to long texts
        widths[i] += min(whole[i] - widths[i], -excess(widths))
    return shown, widths


def _is_empty(grid: Grid, i: int) -> bool:
    return bool(grid) and all(line[i].plain == "-" for line in grid)


def _with_short_ids(columns: Sequence[Column], grid: Grid, *, of_each: bool) -> Grid:
    """The rows with ids cut to distinct beginnings; `of_each`: also ids that commands do not accept shortened."""
    shortened = [list(line) for line in grid]
    for i, column in enumerate(columns):
        if column.short or (of_each and column.kind == "id"):
            whole = {line[i].plain for line in grid}
            for digits in range(_LEAST_OF_AN_ID, 16):
                if len({_short(line[i], digits).plain for line in grid}) == len(whole):
                    for line in shortened:
                        line[i] = _short(line[i], digits)
                    break
    return shortened


def _short(content: Text, digits: int) -> Text:
    found = _LONG_ID.fullmatch(content.plain) or _ADDRESS.fullmatch(content.plain)
    return content if found is None else Text(f"{found[1]}{found[2][:digits]}…", style=content.style)


def _table(
    columns: Sequence[Column], grid: Grid, shown: Sequence[int], widths: Sequence[int], head: bool = True
) -> Table:
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, show_header=head, header_style="bold")
    for i in shown:
        # A given width is not measured. A value that is not text may be wider in a single row.
        width = widths[i] if head or columns[i].kind in _TEXTS else None
        justify: Literal["right", "left"] = "right" if columns[i].kind in RIGHT else "left"
        table.add_column(Text(columns[i].heading), justify=justify, width=width, min_width=widths[i], no_wrap=True)
    for line in grid:
        table.add_row(*(line[i] for i in shown))
    return table


class GrowingTable:
    """A table of a stream: its columns are chosen before most rows are known."""

    def __init__(
        self, columns: Sequence[Column], sample: Mapping[str, Any], width: int | None, *, unix: bool = False
    ) -> None:
        """`sample` has the lengths of ids; `width` is in cells, None without a limit; `unix`: times in Unix seconds."""
        self._columns = columns
        self._now: Literal["unix"] | None = "unix" if unix else None
        for self._short, self._brief in ((False, False), (True, False), (True, True)):
            self._shown, self._widths = _fit(columns, [self._usual(sample)], width)
            hidden = [column.kind for i, column in enumerate(columns) if i not in self._shown]
            if not hidden or (self._short and "price" not in hidden):  # else the time of day, and the price
                break
        self._shown = self._shown or [i for i, c in enumerate(columns) if not c.optional]  # the terminal wraps lines

    @property
    def left_out(self) -> str:
        """The headings that do not fit, comma separated."""
        return ", ".join(column.heading for i, column in enumerate(self._columns) if i not in self._shown)

    def header(self) -> Table:
        """The line above the rows."""
        return _table(self._columns, [], self._shown, self._widths)

    def row(self, item: Mapping[str, Any]) -> Table:
        """One row, with absolute times, as it stays on the screen."""
        return _table(self._columns, [self._cells(item)], self._shown, self._widths, head=False)

    def _cells(self, item: Mapping[str, Any]) -> list[Text]:
        found = [cell(column.kind, column.value(item), self._now) for column in self._columns]
        for i, column in enumerate(self._columns):
            if column.short and self._short:
                found[i] = _short(found[i], _IN_A_STREAM)
            elif column.kind == "time" and self._brief and self._now is None:
                found[i] = found[i][-_OF_THE_DAY:]
        return found

    def _usual(self, sample: Mapping[str, Any]) -> list[Text]:
        """A sample of cells with typical widths."""
        found = zip(self._cells(sample), self._columns, strict=True)
        usual = _USUAL_WIDTHS | {"time": _OF_THE_DAY if self._brief else _USUAL_WIDTHS["time"]}
        return [Text("x" * max(cell_len(c.plain), usual.get(column.kind, 0))) for c, column in found]


def _render_blocks(console: Console, columns: Sequence[Column], grid: Grid, width: int | None) -> None:
    room = max(cell_len(column.heading) for column in columns)
    for number, line in enumerate(grid):
        if number:
            print_line(console, Text())
        for column, content in zip(columns, line, strict=True):
            _print_field(console, column.heading, content, room, width, wraps=column.whole)


def _print_field(
    console: Console, name: str, content: Text, room: int, width: int | None, *, wraps: bool = False
) -> None:
    """A field's name, and its value `room` cells from the left; a longer name moves only its own value.

    A value that `wraps` takes as many lines as it needs; none begins at the left edge, where names are.
    """
    at = room + _GAP
    if width is not None and width < at + _VALUE_FLOOR:
        print_line(console, Text(name, style="bold"))
        print_line(console, Text(" " * _GAP) + content)
        return
    lines = [content]
    if wraps and width is not None:
        lines = [Text(part) for part in wrap(content.plain, width - at, break_on_hyphens=False)]
    print_line(console, Text.assemble((name, "bold"), " " * max(_GAP, at - cell_len(name)), lines[0]))
    for rest in lines[1:]:
        print_line(console, Text(" " * at) + rest)


def print_line(console: Console, line: Text) -> None:
    """Prints one line without wrapping."""
    # soft_wrap: only the terminal wraps a long line, so a copied line is whole.
    console.print(line, soft_wrap=True, markup=False, highlight=False, emoji=False)


def render_one(
    console: Console,
    item: Mapping[str, Any],
    width: int | None = None,
    now: Clock | None = None,
) -> None:
    """Prints one item, one field per line; nested fields have dotted names, lists of objects become tables below.

    `width` is the terminal's, None without one. With `now`, the relative time is beside each time.
    """
    fields = [(visible(name), name.rpartition(".")[2], value) for name, value in flatten(item).items()]
    scalars = [(name, key, value) for name, key, value in fields if not _is_rows(value)]
    room = min(_NAME_WIDTH, max((cell_len(name) for name, _, _ in scalars), default=0))
    for name, key, value in scalars:
        content = _field_text(key, value, now)
        if width is not None and (size := len(content.plain)) > _VALUE_WIDTH:
            content.truncate(_VALUE_WIDTH, overflow="ellipsis")
            content.append(f" ({size:,} characters; -o json has them all)", style="dim")
        _print_field(console, name, content, room, width)
    for name, key, value in fields:
        if _is_rows(value):
            print_line(console, Text())
            print_line(console, Text(name, style="bold"))
            keys = dict.fromkeys((*NESTED.get(key, ()), *(key for row in value for key in row)))
            columns = [Column(key, kind_of(key), title=visible(key, _NAME_WIDTH)) for key in keys]
            render_list(console, columns, value, width, now=now)


def _field_text(key: str, value: Any, clock: Clock | None) -> Text:
    """A value of a single item, which has more room than a table."""
    kind = kind_of(key)
    now = clock() if clock is not None and kind in ("time", "moment") else None
    content = cell(kind, value, now if now == "unix" else None)
    if kind == "chain" and content.plain != str(value):
        content.append(f" ({value})")
    seconds = seconds_of(value) if kind == "time" else None
    if seconds is not None and isinstance(now, (int, float)) and content.plain.endswith("Z"):
        content.append(f" ({ago(seconds, now)})", style="dim")
    return content


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)
