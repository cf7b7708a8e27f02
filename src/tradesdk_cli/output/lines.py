"""A stream of items, each printed at once. The first one decides the columns; a file is appended to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.output.formats import ROWS, Rows
from tradesdk_cli.output.printer import columns_of, in_words
from tradesdk_cli.text import plural, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tradesdk_cli.output.columns import Column
    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.output.table import GrowingTable

    Item = Mapping[str, Any]

_NAMED = 12


class Lines:
    """The lines of a stream, in the requested format, on stdout or appended to the file of `--out`."""

    def __init__(self, out: Output, columns: Sequence[Column], names: Iterable[str]) -> None:
        """`columns` are those of a table, `names` the items' fields. Prints nothing yet."""
        self._out, self._columns, self._file = out, columns, out.file
        self.form = out.format_for(many=True)
        """The format."""
        self._rows: Rows | None = None
        self._table: GrowingTable | None = None
        self._left_out_noted = self._is_checked = False
        self._count: int | None = None
        if self.form == "json":
            what = "-o json" if out.settings.output == "json" else out.destination
            raise UsageProblem(f"{what} is one array, and a stream has no end", "use -o ndjson")
        if not out.selection.asks:
            self._columns_there(dict.fromkeys(out.selection.fields or names))

    def begin(self, *, resumed: bool) -> None:
        """Begins. `resumed`: it continues an earlier run; see `OutFile.follow_on`."""
        if self._file is not None:
            self._file.follow_on(resumed=self.form if resumed else None)
            self._count = 0

    def put(self, item: Item, shown: Item) -> None:
        """Prints an item that the query selects; tables show `shown` instead."""
        selection = self._out.selection
        value = selection.search(item)
        if value is None or value is False:
            if not self._is_checked and (unknown := selection.unknown(item)):
                self._out.event("nothing_selected", f"the query selects nothing: {unknown}")
            self._is_checked = True
            return
        value = item if value is True else value  # the query is a filter
        selection.look_at([value])
        if self.form == "table":
            self._write(self._of_table(shown if value is item and not selection.fields else value))
        elif self.form in ROWS:
            self._write(self._of_rows(*self._out.flat([value])))
        else:
            self._write(self._out.json(selection.pick(value)) + "\n")
        if self._count is not None:
            self._count += 1

    def _write(self, text: str) -> None:
        (self._out if self._file is None else self._file).write(text)

    def close(self) -> None:
        """Closes the file and notes how many items were added."""
        if self._file is not None:
            self._file.close()
        if self._count is not None:
            text = f"{plural(self._count, 'items')} added to {self._out.destination}"
            self._out.event("written", text, file=self._out.destination, items=self._count)
            self._count = None

    def _columns_there(self, row: Item) -> list[str] | None:
        """The columns of the file; None without any."""
        if self._file is None:
            return None
        return self._file.columns(self.form, list(row), chosen=bool(self._out.selection.fields))

    def _of_rows(self, row: Item) -> str:
        begin = ""
        if self._rows is None:
            there = self._columns_there(row)
            self._rows = Rows(self.form, there or list(row), self._out.settings.times)
            begin = self._rows.header() if there is None else ""
        more = [name for name in row if name not in self._rows.names]
        if more and not self._left_out_noted:
            self._left_out_noted = True
            shown = ", ".join(visible(name, 60) for name in more[:_NAMED])
            self._out.event("left_out", f"left out, because there is no column for it: {shown}", fields=more)
        return begin + self._rows.row(row)

    def _of_table(self, item: Any) -> str:
        from tradesdk_cli.output.table import GrowingTable

        out, begin = self._out, ""
        if not isinstance(item, dict):
            return in_words(item) + "\n"
        if not out.selection.is_all:
            [item] = out.flat([item])
        if self._table is None:
            columns = columns_of([item], self._columns) if out.selection.fields else self._columns
            self._table = table = GrowingTable(columns, item, out.width, unix=out.settings.times == "unix")
            if table.left_out:
                out.note(f"not shown: {table.left_out} (-o ndjson has all)")
            begin = out.drawn(lambda console: console.print(table.header()))
        row = self._table.row(item)
        return begin + out.drawn(lambda console: console.print(row))
