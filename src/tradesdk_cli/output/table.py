"""Results for people: tables that fit the terminal, and one thing as a list of fields.

When a table does not fit, columns that are empty are left out, then ids end with `…` after as much as tells them apart
(commands take that, with or without the `…`), then other optional columns are left out. What was left out is named on
stderr. When the needed columns do not fit either, every item becomes a block of lines. Addresses and hashes are never
cut, and in a pipe everything is whole.
"""

from __future__ import annotations

import re

from rich.cells import cell_len
from rich.text import Text

from tradesdk_cli.output.cells import ago, cell, kind_of, moment, price, seconds_of
from tradesdk_cli.output.columns import NESTED, Column
from tradesdk_cli.text import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from rich.console import Console

    from tradesdk_cli.output.columns import Kind

__all__ = (
    "GAP",
    "LUXURY",
    "GrowingTable",
    "cell",
    "fit",
    "kind_of",
    "moment",
    "price",
    "print_line",
    "render_list",
    "render_one",
    "side_by_side",
)

GAP = 2
LUXURY = 100
"""A column with this rank or a higher one is left out before any text is cut."""
_TEXT_WIDTH = 32
_TEXT_FLOOR = 10
_ID_WIDTH = 200
_VALUE_WIDTH = 2000
_NAME_WIDTH = 40
_VALUE_FLOOR = 12
_BAR = 20
_WIDE_PRICE = 13
_TEXTS: tuple[Kind, ...] = ("text", "state")
_LONG_ID = re.compile(r"([a-z]{2,8}_)([0-9A-Za-z]{16,})")
_LEAST_OF_AN_ID, _IN_A_STREAM = 8, 12
_USUAL_WIDTHS: dict[Kind, int] = {"text": 12, "state": 4, "share": 5, "number": 5, "price": 10, "time": 20}


def render_list(
    console: Console,
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Any]],
    width: int | None,
    indent: int = 0,
    now: Callable[[], float] | None = None,
) -> str:
    """Prints `rows` within `width` cells (None: no limit). Returns the headings that were left out, comma separated.

    With `now`, which gives Unix seconds, times are told from there.
    """
    seconds = now() if now is not None and any(column.kind == "time" for column in columns) else None
    grid = [[cell(column.kind, column.value(row), seconds) for column in columns] for row in rows]
    if width is not None:
        for line in grid:
            for column, content in zip(columns, line, strict=True):
                _cut(content, _widest(column))
    room = None if width is None else width - indent
    needed, shown = _laid_out(columns, grid, room)
    if room is not None and (shown is None or len(shown) < len(columns)):
        shortened = _with_short_ids(columns, grid)
        short_needed, short_shown = _laid_out(columns, shortened, room)
        if short_shown is not None and (
            shown is None or _told_by(shortened, short_shown, short_needed) > _told_by(grid, shown, needed)
        ):
            grid, needed, shown = shortened, short_needed, short_shown
    if shown is None:
        _render_blocks(console, columns, grid, room, indent)
        return ""
    headings = [Text(column.heading, style="bold") for column in columns]
    right = [column.right for column in columns]
    for line in (headings, *grid):
        print_line(console, Text(" " * indent) + side_by_side(line, right, needed, shown))
    return ", ".join(column.heading for i, column in enumerate(columns) if i not in shown)


class GrowingTable:
    """A table whose rows come one by one, so its widths are chosen before most of them are known."""

    def __init__(self, columns: Sequence[Column], sample: Mapping[str, Any], width: int | None) -> None:
        """`sample` shows how long ids are; `width` is in cells, None without a limit."""
        self._columns = columns
        self._right = [column.right for column in columns]
        self._width = width
        self._short = False
        self._needed = [_usual_width(column, sample) for column in columns]
        shortened = [_usual_width(column, sample, short=True) for column in columns]
        if len(self._fitting(list(shortened))) > len(self._fitting(list(self._needed))):
            self._short, self._needed = True, shortened
        roomy = [max(w, _WIDE_PRICE) if c.kind == "price" else w for w, c in zip(self._needed, columns, strict=True)]
        self._shown = self._fitting(self._needed)
        if width is None or _fit(columns, roomy, width) == list(range(len(columns))):
            self._needed = roomy

    @property
    def left_out(self) -> str:
        """The headings that do not fit, comma separated."""
        return ", ".join(column.heading for i, column in enumerate(self._columns) if i not in self._shown)

    def header(self) -> Text:
        """The line above the rows."""
        return self._line([Text(column.heading, style="bold") for column in self._columns])

    def row(self, item: Mapping[str, Any]) -> Text:
        """One row. A value that is longer than its column takes room that its neighbours do not need.

        Where they have too little, the columns grow and the headings are repeated above it.
        """
        cells = [cell(column.kind, column.value(item)) for column in self._columns]
        if self._short:
            cells = [
                _short(c, _IN_A_STREAM) if column.short else c for c, column in zip(cells, self._columns, strict=True)
            ]
        if self._width is not None:
            for i, column in enumerate(self._columns):
                # Times are not told from now: the row stays on the screen while they grow old.
                _cut(cells[i], self._needed[i] if column.kind == "text" else _widest(column))
        long = [cell_len(content.plain) for content in cells]
        lent = self._lent(long)
        if lent is not None:
            return self._line(cells, lent)
        self._needed = [max(width, size) for width, size in zip(self._needed, long, strict=True)]
        self._shown = self._fitting(self._needed)  # what no longer fits is left out from here on
        return Text("\n").join((self.header(), self._line(cells)))

    def _lent(self, long: Sequence[int]) -> list[int] | None:
        """The widths for one row, with cells so `long`: the nearest padding gives way, that on the left first.

        None when that is not enough.
        """
        widths = list(self._needed)
        for i in self._shown:
            lack = long[i] - widths[i]
            if lack <= 0:
                continue
            widths[i] = long[i]
            place = self._shown.index(i)
            for j in (*reversed(self._shown[:place]), *self._shown[place + 1 :]):
                given = min(max(0, widths[j] - long[j]), lack)
                widths[j] -= given
                lack -= given
            if lack:
                return None
        return widths

    def _fitting(self, needed: list[int]) -> list[int]:
        fitting = _fit(self._columns, needed, self._width)
        # Too narrow even for what is always shown: the terminal breaks the lines.
        return [i for i, c in enumerate(self._columns) if not c.optional] if fitting is None else fitting

    def _line(self, cells: list[Text], widths: list[int] | None = None) -> Text:
        line = side_by_side(cells, self._right, widths or self._needed, self._shown)
        line.rstrip()
        return line


def _usual_width(column: Column, sample: Mapping[str, Any], *, short: bool = False) -> int:
    least = _USUAL_WIDTHS.get(column.kind, 0) if column.key != "source" else len("replayed")
    value = cell(column.kind, column.value(sample))
    value = _short(value, _IN_A_STREAM) if short and column.short else value
    shown = min(cell_len(value.plain), _ID_WIDTH) if column.kind == "id" else 0
    return max(least, shown, cell_len(column.heading))


def _columns_of(columns: Sequence[Column], grid: list[list[Text]]) -> Iterator[list[str]]:
    for index, column in enumerate(columns):
        yield [column.heading, *(line[index].plain for line in grid)]


def _widest(column: Column) -> int:
    return _TEXT_WIDTH if column.kind in _TEXTS else _ID_WIDTH


def _cut(content: Text, width: int) -> None:
    content.truncate(width, overflow="ellipsis")


def _laid_out(
    columns: Sequence[Column], grid: list[list[Text]], width: int | None
) -> tuple[list[int], list[int] | None]:
    """How wide each column is, and which ones are shown."""
    needed = [max(cell_len(text) for text in texts) for texts in _columns_of(columns, grid)]
    empty = [i for i in range(len(columns)) if all(line[i].plain == "-" for line in grid)]
    return needed, _fit(columns, needed, width, empty)


def _told_by(grid: list[list[Text]], shown: list[int], widths: list[int]) -> tuple[int, int]:
    """How many of the columns that are shown say something, and how many of their cells are whole."""
    told = sum(any(line[i].plain != "-" for line in grid) for i in shown)
    return told, sum(cell_len(line[i].plain) <= widths[i] for line in grid for i in shown)


def _with_short_ids(columns: Sequence[Column], grid: list[list[Text]]) -> list[list[Text]]:
    """The same rows with ids as short as can be told apart."""
    shortened = [list(line) for line in grid]
    for i, column in enumerate(columns):
        if column.short:
            whole = {line[i].plain for line in grid}
            for digits in range(_LEAST_OF_AN_ID, 16):
                if len({_short(line[i], digits).plain for line in grid}) == len(whole):
                    for line in shortened:
                        line[i] = _short(line[i], digits)
                    break
    return shortened


def _short(content: Text, digits: int) -> Text:
    found = _LONG_ID.fullmatch(content.plain)
    return content if found is None else Text(f"{found[1]}{found[2][:digits]}…", style=content.style)


def _fit(
    columns: Sequence[Column], needed: list[int], width: int | None, empty: Sequence[int] = ()
) -> list[int] | None:
    """The columns to show, with `needed` narrowed where text can be cut; None when they do not fit side by side.

    Of the optional ones, those that are `empty` are left out first, then the last ones.
    """
    if width is None:
        return list(range(len(columns)))
    rank = [(i + 1 + LUXURY * (i in empty)) * column.optional for i, column in enumerate(columns)]
    least = [max(_TEXT_FLOOR, len(column.heading)) if column.kind == "text" else 0 for column in columns]
    return fit(needed, width, rank, least)


def fit(needed: list[int], width: int, rank: Sequence[int], least: Sequence[int]) -> list[int] | None:
    """Which columns are shown within `width`; None when even those that must be are too wide together.

    Args:
        needed: their widths; narrowed where text is cut.
        width: cells of the terminal.
        rank: the highest is left out first, from `LUXURY` on before any text is cut; 0 stays.
        least: cells to which a column's text may be cut; 0: it may not.
    """
    shown = list(range(len(needed)))
    while True:
        excess = sum(needed[i] for i in shown) + GAP * (len(shown) - 1) - width
        if excess <= 0:
            return shown
        spare = {i: needed[i] - least[i] for i in shown if least[i] and needed[i] > least[i]}
        last = max(shown, key=lambda i: rank[i])
        if excess <= sum(spare.values()) and rank[last] < LUXURY:
            for _ in range(excess):
                widest = max(spare, key=lambda i: spare[i])
                needed[widest] -= 1
                spare[widest] -= 1
            return shown
        if rank[last] == 0:
            return None
        shown.remove(last)


def side_by_side(cells: Sequence[Text], right: Sequence[bool], needed: Sequence[int], shown: Sequence[int]) -> Text:
    """One line of a table: the cells that are shown, each as wide as its column; `right`: aligned to the right."""
    line = Text()
    for i in shown:
        content = cells[i]
        if cell_len(content.plain) > needed[i]:
            content = content.copy()
            _cut(content, needed[i])
        padding = " " * (needed[i] - cell_len(content.plain))
        line.append(padding if right[i] else "")
        line.append_text(content)
        if i != shown[-1]:
            line.append(" " * GAP if right[i] else padding + " " * GAP)
    return line


def _render_blocks(
    console: Console, columns: Sequence[Column], grid: list[list[Text]], width: int | None, indent: int
) -> None:
    room = max(cell_len(column.heading) for column in columns)
    for number, line in enumerate(grid):
        if number:
            print_line(console, Text())
        for column, content in zip(columns, line, strict=True):
            for part in _named(column.heading, content, room, width):
                print_line(console, Text(" " * indent) + part)


def _named(name: str, content: Text, room: int, width: int | None) -> Iterator[Text]:
    """A field's name and its value, `room` cells from the left; a longer name moves its own value only."""
    if width is not None and width < room + GAP + _VALUE_FLOOR:
        yield Text(name, style="bold")
        yield Text(" " * GAP) + content
    else:
        yield Text.assemble((name, "bold"), " " * max(0, room - cell_len(name)), " " * GAP, content)


def print_line(console: Console, line: Text) -> None:
    """Prints one line as it is, however long it is."""
    # soft_wrap: the terminal may break a long line, we do not, so that what is copied is whole.
    console.print(line, soft_wrap=True, markup=False, highlight=False, emoji=False)


def render_one(
    console: Console,
    item: Mapping[str, Any],
    width: int | None = None,
    now: Callable[[], float] | None = None,
) -> None:
    """Prints one thing, a field a line; nested fields have dotted names, lists of objects become tables below.

    `width` is the terminal's, None where nothing needs to fit. With `now` (Unix seconds), beside a time stands how far
    from there it is.
    """
    fields = [(visible(name), key, value) for name, key, value in _flatten("", item)]
    scalars = [(name, key, value) for name, key, value in fields if not _is_rows(value)]
    room = min(_NAME_WIDTH, max((cell_len(name) for name, _, _ in scalars), default=0))
    for name, key, value in scalars:
        content = _meter(value, width) if _is_meter(value) else _told(key, value, now)
        if width is not None:
            _cut_value(content)
        for line in _named(name, content, room, width):
            print_line(console, line)
    for name, key, value in fields:
        if _is_rows(value):
            print_line(console, Text())
            print_line(console, Text(name, style="bold"))
            known = {column.key: column for column in NESTED.get(key, ())}
            keys = dict.fromkeys((*known, *(key for row in value for key in row)))
            columns = [known.get(key) or Column(key, kind_of(key), title=visible(key, _NAME_WIDTH)) for key in keys]
            render_list(console, columns, value, width, now=now)


def _told(key: str, value: Any, now: Callable[[], float] | None) -> Text:
    """A value of one thing, where there is room for more than in a table."""
    kind = kind_of(key)
    content = cell(kind, value)
    if kind == "chain" and content.plain != str(value):
        content.append(f" ({value})")
    seconds = seconds_of(value) if kind == "time" and now is not None else None
    if seconds is not None and now is not None and content.plain.endswith("Z"):
        content.append(f" ({ago(seconds, now())})", style="dim")
    return content


def _cut_value(content: Text) -> None:
    size = len(content.plain)
    if size > _VALUE_WIDTH:
        _cut(content, _VALUE_WIDTH)
        content.append(f" ({size:,} characters; -o json has them all)", style="dim")


def _is_meter(value: Any) -> bool:
    """Whether it says how much of something is used."""
    return isinstance(value, dict) and all(type(value.get(name)) in (int, float) for name in ("used", "limit"))


def _meter(value: Mapping[str, Any], width: int | None) -> Text:
    """`1,204 of 10,000 (12%)`, on a terminal with a bar in front."""
    used, limit = value["used"], value["limit"]
    text = f"{cell('number', used)} of {cell('number', limit)}"
    if limit <= 0 or used < 0:
        return Text(text)
    share = used / limit
    text += f" ({'<1' if 0 < share < 0.01 else f'{min(share, 99):.0%}'.rstrip('%')}%)"
    if width is None or width < 60:
        return Text(text)
    filled = max(round(min(share, 1) * _BAR), int(share > 0))
    color = "green" if share < 0.75 else "yellow" if share < 0.9 else "red"
    return Text.assemble(("█" * filled, color), ("░" * (_BAR - filled), "dim"), "  ", text)


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _flatten(prefix: str, item: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for key, value in item.items():
        if _is_meter(value):
            yield f"{prefix}{key}", key, {name: value[name] for name in ("used", "limit")}
            yield from _flatten(f"{prefix}{key}.", {k: v for k, v in value.items() if k not in ("used", "limit")})
        elif isinstance(value, dict) and value:
            yield from _flatten(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", key, value
