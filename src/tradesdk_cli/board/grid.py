"""Rows in columns for the board: what does not fit is left out or cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text

from tradesdk_cli.output.cells import cell
from tradesdk_cli.output.columns import RIGHT

if TYPE_CHECKING:
    from tradesdk_cli.output.columns import Kind

GAP = 2
LUXURY = 5


@dataclass(frozen=True)
class Col:
    """One column of the board.

    Attributes:
        title: stands above it.
        key: the field of the row.
        kind: how its values are shown.
        drop: where room is short, the column with the highest number goes first, from `LUXURY` on before any text is
            cut; 0 stays.
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

    @property
    def right(self) -> bool:
        """True when it is aligned to the right."""
        return self.kind in RIGHT

    def text(self, row: Mapping[str, Any]) -> Text:
        """The cells of this row."""
        value = row.get(self.key)
        if value is None and self.waits and not row.get(self.waits):
            return Text("…", style="dim")
        return self.shows(value) if self.shows is not None else cell(self.kind, value)


def lines(columns: Sequence[Col], rows: Sequence[Mapping[str, Any]], width: int, visible: slice) -> list[Text]:
    """The heading and the `visible` rows. Widths follow from all rows, so that scrolling moves nothing."""
    table = [[column.text(row) for column in columns] for row in rows[:500]]
    needed = [
        max([cell_len(column.title), *(cell_len(line[i].plain) for line in table)]) for i, column in enumerate(columns)
    ]
    needed = [min(need, 32) if column.least else need for need, column in zip(needed, columns, strict=True)]
    shown = _fitting(columns, needed, width)
    heading = [Text(column.title, style="dim") for column in columns]
    return [_line(columns, needed, shown, cells, width) for cells in (heading, *table[visible])]


def _fitting(columns: Sequence[Col], needed: list[int], width: int) -> list[int]:
    """Which columns are shown; narrows `needed` where text may be cut."""
    shown = list(range(len(columns)))
    while True:
        excess = sum(needed[i] for i in shown) + GAP * (len(shown) - 1) - width
        spare = {i: needed[i] - columns[i].least for i in shown if columns[i].least and needed[i] > columns[i].least}
        last = max(shown, key=lambda i: columns[i].drop)
        if excess <= 0 or (excess <= sum(spare.values()) and columns[last].drop < LUXURY):
            while excess > 0:
                widest = max(spare, key=lambda i: spare[i])
                needed[widest] -= 1
                spare[widest] -= 1
                excess -= 1
            return shown
        if columns[last].drop == 0:
            return shown
        shown.remove(last)


def _line(
    columns: Sequence[Col], needed: Sequence[int], shown: Sequence[int], cells: Sequence[Text], width: int
) -> Text:
    line = Text()
    for i in shown:
        content = cells[i].copy()
        if cell_len(content.plain) > needed[i]:
            content.truncate(needed[i], overflow="ellipsis")
        padding = " " * (needed[i] - cell_len(content.plain))
        if i != shown[0]:
            line.append(" " * GAP)
        line.append(padding if columns[i].right else "")
        line.append_text(content)
        line.append("" if columns[i].right else padding)
    line.rstrip()
    line.truncate(width)
    return line
