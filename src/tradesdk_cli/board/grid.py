"""Rows in columns for the board: what does not fit is left out or cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text

from tradesdk_cli.output.cells import cell
from tradesdk_cli.output.columns import RIGHT
from tradesdk_cli.output.table import fit, side_by_side

if TYPE_CHECKING:
    from tradesdk_cli.output.columns import Kind


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
    rank, least = [column.drop for column in columns], [column.least for column in columns]
    shown = fit(needed, width, rank, least)
    if shown is None:
        shown = [i for i, column in enumerate(columns) if not column.drop]
    heading = [Text(column.title, style="dim") for column in columns]
    found = [side_by_side(cells, columns, needed, shown) for cells in (heading, *table[visible])]
    for line in found:
        line.rstrip()
        line.truncate(width)
    return found
