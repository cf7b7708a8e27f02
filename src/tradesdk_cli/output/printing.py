"""Results in the format that was asked for: one thing, a list that comes in pages, or a stream item by item.

This is the one place that renders. What is selected (`--query`, `--fields`) is selected here, for every command.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any

from tradesdk_cli.output.formats import ROWS, Rows, as_rows, is_number, to_yaml, yaml_item
from tradesdk_cli.output.outhead import columns_there
from tradesdk_cli.text import one_line, to_json, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import IO

    from tradesdk_cli.output.columns import Column, Kind
    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.output.table import GrowingTable

    Item = Mapping[str, Any]
    Page = list[dict[str, Any]]

_SPOOL = 8 * 1024 * 1024
_CHUNK = 64 * 1024
_NAMED = 12


def print_one(out: Output, item: Item, *, whole: bool = False) -> None:
    """Prints one object; `whole`: nothing is selected from it."""
    if whole or not out.selection.active:
        with out.result():
            _object(out, out.format_for(many=False), item)
        return
    _found(out, out.selection.search(item))


def print_many(
    out: Output, columns: Sequence[Column], pages: Iterable[Page], *, empty: str, header: Sequence[str] | None = None
) -> int:
    """Prints a list and says `empty` when there is nothing in it. Returns how many there were.

    A page is written before the next one is taken, where the format lets it: in NDJSON, and in rows that go on in a
    file or have a `header` given.
    """
    if out.selection.asks:
        items = [item for page in pages for item in page]
        found = out.selection.search(items)
        count = len(items)
        (_found if items else _value)(out, found)
    else:
        with out.result() as told:
            count = told.items = _list(out, out.format_for(many=True), columns, pages, header)
    if count == 0:
        out.note(empty)
    return count


# A value, as a query leaves it


def _found(out: Output, value: Any) -> None:
    _value(out, value)
    if out.selection.asks and out.on_terminal and value in (None, [], {}):
        out.event("nothing_selected", "the query selected nothing")


def _value(out: Output, value: Any) -> None:
    many = isinstance(value, list)
    form = out.format_for(many=many)
    out.selection.look_at(value if isinstance(value, list) else [value])
    with out.result() as told:
        if not isinstance(value, list):
            _object(out, form, value, picked=True)
            return
        told.items = len(value)
        if value and all(isinstance(inner, dict) for inner in value):
            _list(out, form, (), [value], None)
        elif form in (*ROWS, "table"):
            _list(out, form, (), [as_rows(value)], None, picked=False)
        else:
            _list(out, form, (), [value], None)


def _object(out: Output, form: str, value: Any, *, picked: bool = False) -> None:
    """One object, or whatever else a query found, as a document."""
    selection = out.selection if picked else None
    if form in ROWS:
        flat = selection.flat(value) if selection and isinstance(value, dict) else as_rows([value])[0]
        if form == "md" and isinstance(value, dict):
            rows = Rows("md", ("field", "value"))
            body = "".join(rows.row({"field": name, "value": inner}) for name, inner in flat.items())
            out.write(rows.header() + body)
        else:
            rows = Rows(form, list(flat))
            out.write(rows.header() + rows.row(flat))
        return
    if selection is not None:
        value = selection.pick(value)
    if form == "table":
        _object_for_people(out, value)
    elif form == "yaml":
        out.write(to_yaml(value, ascii_only=out.ascii_only))
    else:
        out.write(out.json(value, indent=2 if form == "json" else None) + "\n")


def _object_for_people(out: Output, value: Any) -> None:
    if isinstance(value, dict):
        from tradesdk_cli.output.table import render_one

        out.put(lambda console: render_one(console, value, out.width, out.clock()))
    else:
        out.write(_said(value) + "\n")


def _said(value: Any) -> str:
    return visible(value) if isinstance(value, str) else to_json(value)


# A list


def _list(
    out: Output,
    form: str,
    columns: Sequence[Column],
    pages: Iterable[list[Any]],
    header: Sequence[str] | None,
    *,
    picked: bool = True,
) -> int:
    if picked:
        pages = _looked_at(out, columns, pages)
    if form == "table":
        return _table(out, columns, pages, picked=picked)
    if form in ROWS:
        flat = ([out.selection.flat(item) if picked else item for item in page] for page in pages)
        names = out.selection.fields if picked and out.selection.fields else None
        if form != "md" and (header is not None or out.in_place):
            return _rows_by_page(out, form, flat, names or header)
        return _rows(out, form, flat)
    if form == "ndjson":
        return _ndjson(out, pages)
    return _array(out, form, pages)


def _looked_at(out: Output, columns: Sequence[Column], pages: Iterable[list[Any]]) -> Iterator[list[Any]]:
    for page in pages:
        out.selection.look_at(page, [column.key for column in columns if column.of is None])
        yield page


def _ndjson(out: Output, pages: Iterable[list[Any]]) -> int:
    count = 0
    for page in pages:
        if page:
            out.write("".join(out.json(out.selection.pick(item)) + "\n" for item in page))
        count += len(page)
    return count


def _spool() -> IO[str]:
    # In a file when it is large: a million trades need not fit into memory.
    import tempfile  # completion and help never need it

    return tempfile.SpooledTemporaryFile(_SPOOL, "w+", encoding="utf-8", newline="")


def _array(out: Output, form: str, pages: Iterable[list[Any]]) -> int:
    count = 0
    with _spool() as spool:
        for item in chain.from_iterable(pages):
            value = out.selection.pick(item)
            if form == "yaml":
                spool.write(yaml_item(value, ascii_only=out.ascii_only))
            else:
                spool.write(",\n  " if count else "[\n  ")
                spool.write(out.json(value, indent=2).replace("\n", "\n  "))
            count += 1
        spool.write("[]\n" if not count else "\n]\n" if form == "json" else "")
        spool.seek(0)
        while chunk := spool.read(_CHUNK):
            out.write(chunk)
    return count


def _rows(out: Output, form: str, pages: Iterable[Page]) -> int:
    """The columns are those of all items, so they are known only when all of them have come."""
    names: dict[str, bool] = {}
    count = 0
    with _spool() as spool:
        for flat in chain.from_iterable(pages):
            for name, value in flat.items():
                names[name] = names.get(name, True) and (value is None or is_number(value))
            spool.write(to_json(flat, ascii_only=True) + "\n")
            count += 1
        if names or out.selection.fields:
            rows = Rows(form, list(names or out.selection.fields), [name for name, right in names.items() if right])
            out.write(rows.header())
            spool.seek(0)
            while lines := spool.readlines(_CHUNK):
                out.write("".join(rows.row(json.loads(line)) for line in lines))
    return count


def _rows_by_page(out: Output, form: str, pages: Iterable[Page], header: Sequence[str] | None) -> int:
    """The columns are those of the file that goes on, else those given, else those of the first page."""
    count = 0
    growing: GrowingRows | None = None
    for page in pages:
        for flat in page:
            if growing is None:
                growing = GrowingRows(out, form, header or list(dict.fromkeys(chain.from_iterable(page))))
            growing.put(flat)
        count += len(page)
    return count


class GrowingRows:
    """Rows whose columns are decided before most of them are known."""

    def __init__(self, out: Output, form: str, names: Sequence[str]) -> None:
        """`names` are the columns, unless the file that they go to has some already.

        Raises:
            UsageProblem: it has others.
        """
        self._out, self._told = out, False
        there = columns_there(out, form, out.first_line(), names)
        self._rows = Rows(form, there or names)
        if there is None:
            out.write(self._rows.header())

    def put(self, flat: Item) -> None:
        """Writes a row. Fields without a column are named once, on stderr."""
        more = [name for name in flat if name not in self._rows.names]
        if more and not self._told:
            self._told = True
            shown = ", ".join(visible(name, 60) for name in more[:_NAMED])
            self._out.event("left_out", f"left out, because there is no column for it: {one_line(shown)}", fields=more)
        self._out.write(self._rows.row(flat))


def _table(out: Output, columns: Sequence[Column], pages: Iterable[Page], *, picked: bool) -> int:
    from tradesdk_cli.output.table import render_list

    rows = list(chain.from_iterable(pages))
    if not rows:
        return 0
    if not all(isinstance(row, dict) for row in rows):
        rows = as_rows(rows)
        picked = False
    shown = rows
    if not columns or not picked or out.selection.fields:
        shown = [out.selection.flat(row) for row in rows] if picked else rows
        columns = columns_of(shown, columns)
    hidden = out.put(lambda console: render_list(console, columns, shown, out.width, now=out.clock()))
    if hidden:
        out.event("not_shown", f"not shown at this width: {hidden} (-o json has everything)")
    return len(rows)


def columns_of(rows: Iterable[Item], known: Sequence[Column] = ()) -> list[Column]:
    """Columns for rows of whatever fields, shown as `known` ones of the same name are."""
    from tradesdk_cli.output.cells import kind_of
    from tradesdk_cli.output.columns import Column

    kinds: dict[str, Kind] = {column.key: column.kind for column in known if column.of is None}
    names = dict.fromkeys(name for row in rows for name in row)
    return [
        Column(name, kinds.get(name) or kind_of(name.rpartition(".")[2]), title=visible(name, 60)) for name in names
    ]


# A stream


class Lines:
    """Items that are printed as they come. The first one decides which columns and fields there are."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._rows: GrowingRows | None = None
        self._table: GrowingTable | None = None
        self._columns: Sequence[Column] = ()

    def put(self, item: Item, columns: Sequence[Column] = (), shown: Item | None = None) -> bool:
        """Prints one item at once. False when the query did not want it.

        Tables have `columns`, and `shown` instead of the item.
        """
        out, selection = self._out, self._out.selection
        value: Any = selection.search(item)
        if value is None or value is False:
            return False
        if value is True:
            value = item  # the query was a condition
        selection.look_at([value])
        form = out.format_for(many=True)
        if form == "table":
            self._draw(value, columns, shown if value is item else None)
        elif form in ROWS:
            flat = selection.flat(value) if isinstance(value, dict) else as_rows([value])[0]
            if self._rows is None:
                self._rows = GrowingRows(out, form, list(flat))
            self._rows.put(flat)
        elif form == "yaml":
            out.write(yaml_item(selection.pick(value), ascii_only=out.ascii_only))
        else:
            out.write(out.json(selection.pick(value)) + "\n")
        return True

    def _draw(self, value: Any, columns: Sequence[Column], shown: Item | None) -> None:
        from tradesdk_cli.output.table import GrowingTable, print_line

        out = self._out
        if not isinstance(value, dict):
            out.write(_said(value) + "\n")
            return
        row = shown or value
        if out.selection.fields or shown is None or not columns:
            row = out.selection.flat(value)
            columns = self._columns = self._columns or columns_of([row], columns)
        first = self._table is None
        if self._table is None:
            self._table = GrowingTable(columns, row, out.width)
            if self._table.left_out:
                out.event("not_shown", f"not shown at this width: {self._table.left_out} (-o ndjson has everything)")
        line = self._table.row(row)
        if first and "\n" not in line.plain:  # else the headings stand above it already
            headings = self._table.header()
            out.put(lambda console: print_line(console, headings))
        out.put(lambda console: print_line(console, line))
