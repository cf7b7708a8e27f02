"""Where results go and how they look in each format.

Data goes to stdout, or into the file of `--out`; everything else goes to stderr.
"""

from __future__ import annotations

import shutil
import time
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

from tradesdk_cli.errors import ClosedPipe, Unwritable, UsageProblem
from tradesdk_cli.output.formats import ROWS, Rows, as_rows
from tradesdk_cli.output.select import Selection
from tradesdk_cli.output.stderr import Notes
from tradesdk_cli.text import counted, is_unicode, one_line, to_json, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Protocol

    from rich.console import Console

    from tradesdk_cli.config.settings import Settings
    from tradesdk_cli.output.columns import Column, Kind
    from tradesdk_cli.output.outfile import OutFile
    from tradesdk_cli.output.table import GrowingTable

    Item = Mapping[str, Any]
    Page = list[dict[str, Any]]

    class Writer(Protocol):
        """One list or stream in one format. `put` gets what is selected, a page at a time; at its end comes `end`."""

        def put(self, items: list[Any]) -> None: ...

        def end(self) -> None: ...


_NAMED = 12
_LONGEST_LINE = 10**9


class _Ndjson:
    def __init__(self, out: Output) -> None:
        self._out = out

    def put(self, items: list[Any]) -> None:
        if items:
            self._out.write("".join(f"{self._out.json(item)}\n" for item in map(self._out.selection.pick, items)))

    def end(self) -> None:
        """Nothing is left to be written."""


class _Array:
    def __init__(self, out: Output) -> None:
        self._out, self._begun = out, False

    def put(self, items: list[Any]) -> None:
        texts = [self._out.json(item, indent=2).replace("\n", "\n  ") for item in map(self._out.selection.pick, items)]
        if texts:
            self._out.write((",\n  " if self._begun else "[\n  ") + ",\n  ".join(texts))
            self._begun = True

    def end(self) -> None:
        self._out.write("\n]\n" if self._begun else "[]\n")


class _Cells:
    """CSV and TSV. The columns of a list are those of all items, so it waits for them; a stream's first one decides."""

    def __init__(self, out: Output, form: str, *, grows: bool) -> None:
        self._out, self._form, self._grows = out, form, grows
        self._waiting: Page = []
        self._rows: Rows | None = None
        self._told = False

    def put(self, items: list[Any]) -> None:
        flat = self._out.flat(items)
        if not self._grows:
            self._waiting += flat
            return
        for row in flat:
            self._grow(row)

    def _grow(self, row: Item) -> None:
        if self._rows is None:
            there = self._out.columns_there(row)
            self._rows = Rows(self._form, there or list(row))
            if there is None:
                self._out.write(self._rows.header())
        more = [name for name in row if name not in self._rows.names]
        if more and not self._told:
            self._told = True
            shown = ", ".join(visible(name, 60) for name in more[:_NAMED])
            self._out.event("left_out", f"left out, because there is no column for it: {one_line(shown)}", fields=more)
        self._out.write(self._rows.row(row))

    def end(self) -> None:
        names = dict.fromkeys(name for row in self._waiting for name in row) or dict.fromkeys(
            self._out.selection.fields
        )
        if names and not self._grows:
            rows = Rows(self._form, list(names))
            self._out.write(rows.header() + "".join(map(rows.row, self._waiting)))


class _Table:
    """The same for people. A stream's rows are as wide as its first one lets expect."""

    def __init__(self, out: Output, columns: Sequence[Column], *, grows: bool) -> None:
        self._out, self._columns, self._grows = out, columns, grows
        self._waiting: Page = []
        self._table: GrowingTable | None = None

    def put(self, items: list[Any]) -> None:
        if not self._grows:
            self._waiting += items
            return
        for item in items:
            if isinstance(item, dict):
                self._grow(item)
            else:
                self._out.write(_said(item) + "\n")

    def _grow(self, item: Item) -> None:
        from tradesdk_cli.output.table import GrowingTable

        out = self._out
        if not out.selection.is_all or not self._columns:
            [item] = out.flat([item])
        if self._table is None:
            if out.selection.fields or not self._columns:
                self._columns = columns_of([item], self._columns)
            self._table = growing = GrowingTable(self._columns, item, out.width)
            if growing.left_out:
                out.event("not_shown", f"not shown at this width: {growing.left_out} (-o ndjson has everything)")
            out.draw(lambda console: console.print(growing.header()))
        line = self._table.row(item)
        out.draw(lambda console: console.print(line))

    def end(self) -> None:
        from tradesdk_cli.output.table import render_list

        out, rows, columns = self._out, self._waiting, self._columns
        if self._grows or not rows:
            return
        if not columns or out.selection.fields:
            rows = out.flat(rows)
            columns = columns_of(rows, columns)
        hidden = out.draw(lambda console: render_list(console, columns, rows, out.width, now=out.clock()))
        if hidden:
            out.event("not_shown", f"not shown at this width: {hidden} (-o json has everything)")


def columns_of(rows: Iterable[Item], known: Sequence[Column] = ()) -> list[Column]:
    """Columns for rows of whatever fields, shown as `known` ones of the same name are."""
    from tradesdk_cli.output.cells import kind_of
    from tradesdk_cli.output.columns import Column

    kinds: dict[str, Kind] = {column.heading: column.kind for column in known}
    kinds |= {column.key: column.kind for column in known if column.of is None}
    names = dict.fromkeys(name for row in rows for name in row)
    return [
        Column(name, kinds.get(name) or kind_of(name.rpartition(".")[2]), title=visible(name, 60)) for name in names
    ]


def _said(value: Any) -> str:
    return visible(value) if isinstance(value, str) else to_json(value)


class Output(Notes):
    """The streams and the format of one run."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        """Opens nothing yet.

        Raises:
            UsageProblem: `--query` cannot be read, or `--out` cannot be written. Nothing has been sent by then.
        """
        super().__init__(settings, environ)
        self.now: Callable[[], float] = time.time
        """Unix seconds by the clock of whoever answers, for how long ago something was."""
        self._file: OutFile | None = None
        if settings.out is not None and str(settings.out) != "-":
            from tradesdk_cli.output.outfile import OutFile

            self._file = OutFile(settings.out, by_ending=settings.output == "auto")
        self.on_stdout = self._file is None
        """True when results go to standard output."""
        self._partly = False
        self._stream: Writer | None = None
        self._added: int | None = None
        self.selection = Selection(settings.query, settings.fields)
        """What `--query` and `--fields` ask for."""

    # The format

    def usually(self, form: str) -> Output:
        """The same, with this format unless another was asked for."""
        other = copy(self)
        if self._asked == "auto":
            other.settings = replace(self.settings, output=form)
        return other

    @property
    def on_terminal(self) -> bool:
        """True when a person looks at the result."""
        return self._file is None and self.stdout.isatty()

    @property
    def width(self) -> int | None:
        """The terminal's width in cells; None where there is no terminal and nothing needs to fit."""
        return shutil.get_terminal_size().columns if self.on_terminal else None

    def clock(self) -> Callable[[], float] | None:
        """The clock that times are told by: on a terminal only, so that what scripts read stays as it is."""
        return self.now if self.on_terminal else None

    @property
    def _asked(self) -> str:
        """The format that was asked for, also by the ending of `--out`."""
        asked = self.settings.output
        return (self._file.form or asked) if asked == "auto" and self._file is not None else asked

    def format_for(self, *, many: bool) -> str:
        """The format of a result, with `auto` decided. `many`: it is a list."""
        if self._asked != "auto":
            return self._asked
        if self.on_terminal:
            return "table"
        return "ndjson" if many else "json"

    def draws(self, *, many: bool) -> bool:
        """True when a command may draw a table of its own: nothing is selected from what is in it."""
        return self.format_for(many=many) == "table" and self.selection.is_all

    @property
    def pictures(self) -> bool:
        """True where a picture may be drawn: the command line asks for no data, whatever a profile says."""
        typed = self.settings.sources.get("output", "flag").startswith("flag")
        data = self.settings.output not in ("auto", "table") and (typed or not self.on_terminal)
        return self.on_stdout and self.selection.is_all and not data

    @property
    def in_rows(self) -> bool:
        """True where lists become rows, and nothing is asked of them as they are."""
        return self.format_for(many=True) in (*ROWS, "table") and not self.selection.asks

    # Results

    def one(self, item: Item) -> None:
        """Prints one object."""
        self._value(self.selection.search(item))

    def many(self, columns: Sequence[Column], pages: Iterable[Page], *, empty: str) -> int:
        """Prints a list that comes in pages. Returns how many there were; `empty` is said when there are none.

        A page is written before the next one is taken, where the format lets it: in JSON and NDJSON.
        """
        if self.selection.asks:
            items = [item for page in pages for item in page]
            count = len(items)
            self._value(self.selection.search(items), told=not items)
        else:
            count = self._list(columns, pages)
        if count == 0:
            self.note(empty)
        return count

    def _value(self, value: Any, *, told: bool = False) -> None:
        """An object, or whatever a query left; `told`: that there is nothing has been said."""
        form = self.format_for(many=isinstance(value, list))
        self.selection.look_at(value if isinstance(value, list) else [value])
        if isinstance(value, list):
            is_whole = form not in (*ROWS, "table") or all(isinstance(inner, dict) for inner in value)
            self._list((), [value if is_whole else as_rows(value)])
        elif form in ROWS:
            [row] = self.flat([value])
            rows = Rows(form, list(row))
            self.write(rows.header() + rows.row(row))
        elif form != "table":
            self.write(self.json(self.selection.pick(value), indent=2 if form == "json" else None) + "\n")
        elif isinstance(value, dict):
            from tradesdk_cli.output.table import render_one

            picked = self.selection.pick(value)
            self.draw(lambda console: render_one(console, picked, self.width, self.clock()))
        else:
            self.write(_said(value) + "\n")
        if self.selection.asks and self.on_terminal and not told and value in (None, [], {}):
            self.event("nothing_selected", "the query selected nothing")

    def _list(self, columns: Sequence[Column], pages: Iterable[list[Any]]) -> int:
        with self._result() as told:
            writer, told["items"] = self._writer(columns, grows=False), 0
            for page in pages:
                self.selection.look_at(page, [column.key for column in columns if column.of is None])
                writer.put(page)
                told["items"] += len(page)
            writer.end()
        return told["items"]

    def _writer(self, columns: Sequence[Column], *, grows: bool) -> Writer:
        form = self.format_for(many=True)
        if form == "table":
            return _Table(self, columns, grows=grows)
        if form in ROWS:
            return _Cells(self, form, grows=grows)
        return _Array(self) if form == "json" else _Ndjson(self)

    def flat(self, items: list[Any]) -> Page:
        """The items as rows, with the fields that were asked for."""
        if not all(isinstance(item, dict) for item in items):
            return as_rows(items)
        return [self.selection.flat(item) for item in items]

    # A stream

    def expect_lines(self, names: Iterable[str] = ()) -> None:
        """A stream will come, of items with these fields.

        Raises:
            UsageProblem: the format has an end, which a stream has not; or the file has other columns.
        """
        if self.format_for(many=True) == "json":
            what = "-o json" if self.settings.output == "json" else self.place
            raise UsageProblem(f"{what} is one array, and a stream has no end", "use -o ndjson")
        if names and not self.selection.asks:
            self.columns_there(dict.fromkeys(self.selection.fields or names))

    def columns_there(self, row: Item) -> list[str] | None:
        """The columns that the file of a stream has already; None: none.

        Raises:
            UsageProblem: rows like this do not fit below them.
        """
        if self._file is None:
            return None
        return self._file.columns(self.format_for(many=True), list(row), chosen=bool(self.selection.fields))

    def begin_lines(self, columns: Sequence[Column], *, resumed: bool = False) -> None:
        """What comes now is a stream: `line` prints it. In a file it is appended.

        `resumed`: after an earlier run; see `OutFile.follow_on`.
        """
        if self._file is not None:
            self._file.follow_on(resumed=self.format_for(many=True) if resumed else None)
            self._added = 0
        self._stream = self._writer(columns, grows=True)

    def line(self, item: Item, shown: Item) -> None:
        """Prints one item of a stream at once, unless the query does not want it; tables have `shown` in its place."""
        value = self.selection.search(item)
        if value is None or value is False:
            return
        value = item if value is True else value  # the query was a condition
        self.selection.look_at([value])
        if value is item and not self.selection.fields and self.format_for(many=True) == "table":
            value = shown
        assert self._stream is not None  # noqa: S101  # it has begun
        self._stream.put([value])
        if self._added is not None:
            self._added += 1

    # The file

    @contextmanager
    def _result(self) -> Iterator[dict[str, int]]:
        """What is written meanwhile is one result: in a file it is there as a whole, or not at all.

        What is said of it besides its place is to be put into the dictionary.
        """
        told: dict[str, int] = {}
        if self._file is None or self._file.is_open:
            yield told
            return
        self._file.begin()
        try:
            yield told
            place = self._file.commit(partly=self._partly)
        except BaseException:
            self._file.forget()
            raise
        self._tell_written("written to", place, told)

    def _tell_written(self, done: str, place: str, told: dict[str, int]) -> None:
        much = f"{counted(told['items'], 'items')} " if told else ""
        kept = f"; {self.place} is as it was" if self._partly else ""
        self.event("written", f"{much}{done} {place}{kept}", file=place, **told)

    def incomplete(self) -> None:
        """What is printed now is not all: something ended it on the way. In a file it does not replace what was."""
        self._partly = True

    @property
    def place(self) -> str:
        """The file of `--out`, to be named."""
        return "standard output" if self._file is None else self._file.shown

    def close(self) -> None:
        """Closes the file and says how much of a stream is in it."""
        if self._file is not None:
            self._file.forget()
            if self._added is not None:
                self._tell_written("added to", self.place, {"items": self._added})
                self._added = None

    # Writing

    @cached_property
    def _ascii_only(self) -> bool:
        return self._file is None and not is_unicode(self.stdout.encoding)

    def json(self, value: Any, indent: int | None = None) -> str:
        """JSON for where results go."""
        return to_json(value, indent=indent, ascii_only=self._ascii_only)

    def write(self, text: str) -> None:
        """Prints text: a part of a result, or one that is no record."""
        if self._file is not None:
            with self._result():
                self._file.write(text)
            return
        if self.progress is not None:
            self.progress.wipe()
        try:
            self.stdout.write(text)
            self.stdout.flush()
        except BrokenPipeError:
            raise ClosedPipe from None
        except OSError as error:
            raise Unwritable(f"standard output cannot be written: {error.strerror}", "print it elsewhere") from None
        except KeyboardInterrupt:
            from tradesdk_cli.files import forget

            forget(self.stdout)  # nobody may be reading: the rest would be waited for at the exit, too
            raise

    def draw(self, draw: Any) -> Any:
        """Lets `draw` print on a console and then prints what came of it, in one piece."""
        console = self.console()
        with console.capture() as capture:
            result = draw(console)
        self.write("\n".join(line.rstrip(" ") for line in capture.get().split("\n")))
        return result

    def console(self, width: int | None = _LONGEST_LINE) -> Console:
        """A console on stdout that interprets nothing. The terminal breaks long lines, so what is copied is whole."""
        from rich.console import Console

        color = self._file is None and self.color(self.stdout)
        return Console(
            file=self.stdout,
            width=width,
            height=None if width is None else 1,  # without one, rich takes a dumb terminal for 80 columns wide
            force_terminal=True if color else None,
            color_system=("auto" if self.on_terminal else "standard") if color else None,
            no_color=not color,
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
        )
