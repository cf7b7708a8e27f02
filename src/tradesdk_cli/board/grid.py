"""Rows in columns for the board: what does not fit is left out or cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text

from tradesdk_cli.output.cells import cells
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

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> list[Text]:
        """Its cells in these rows."""
        values = [row.get(self.key) for row in rows]
        shown = [self.shows(value) for value in values] if self.shows is not None else cells(self.kind, values)
        if not self.waits:
            return shown
        missing = [value is None and not row.get(self.waits) for value, row in zip(values, rows, strict=True)]
        return [Text("…", style="dim") if gap else text for gap, text in zip(missing, shown, strict=True)]


def lines(columns: Sequence[Col], rows: Sequence[Mapping[str, Any]], width: int, visible: slice) -> list[Text]:
    """The heading and the `visible` rows. Widths follow from all rows, so that scrolling moves nothing."""
    table = [[Text(column.title, style="dim"), *column.texts(rows[:500])] for column in columns]
    needed = [max(cell_len(text.plain) for text in texts) for texts in table]
    needed = [min(need, 32) if column.least else need for need, column in zip(needed, columns, strict=True)]
    rank, least = [column.drop for column in columns], [column.least for column in columns]
    shown = fit(needed, width, rank, least)
    if shown is None:
        shown = [i for i, column in enumerate(columns) if not column.drop]
    heading, *body = zip(*table, strict=True)
    right = [column.kind in RIGHT for column in columns]
    found = [side_by_side(line, right, needed, shown) for line in (heading, *body[visible])]
    for line in found:
        line.rstrip()
        line.truncate(width)
    return found
