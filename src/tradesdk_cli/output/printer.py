"""Where results go and how they look in each format.

Data goes to stdout, or into the file of `--out`; everything else goes to stderr.
"""

from __future__ import annotations

import json
import shutil
import time
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

from tradesdk_cli.errors import ClosedPipe, Unwritable, UsageProblem
from tradesdk_cli.output.formats import ROWS, Rows, as_rows, flatten
from tradesdk_cli.output.stderr import Notes
from tradesdk_cli.text import counted, is_unicode, one_line, to_json, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import IO

    from rich.console import Console

    from tradesdk_cli.config.settings import Settings
    from tradesdk_cli.output.columns import Column, Kind
    from tradesdk_cli.output.outfile import OutFile
    from tradesdk_cli.output.select import Selection
    from tradesdk_cli.output.table import GrowingTable

    Item = Mapping[str, Any]
    Page = list[dict[str, Any]]

_SPOOL = 8 * 1024 * 1024
_CHUNK = 64 * 1024
_NAMED = 12
_LONGEST_LINE = 10**9


# A value, as a query leaves it


def _found(out: Output, selection: Selection, value: Any) -> None:
    _value(out, selection, value)
    if selection.asks and out.on_terminal and value in (None, [], {}):
        out.event("nothing_selected", "the query selected nothing")


def _value(out: Output, selection: Selection, value: Any) -> None:
    many = isinstance(value, list)
    form = out.format_for(many=many)
    selection.look_at(value if isinstance(value, list) else [value])
    with out.result() as told:
        if not isinstance(value, list):
            _object(out, form, value, picked=True)
            return
        told.items = len(value)
        if value and all(isinstance(inner, dict) for inner in value):
            _list(out, form, (), [value])
        elif form in (*ROWS, "table"):
            _list(out, form, (), [as_rows(value)], picked=False)
        else:
            _list(out, form, (), [value])


def _object(out: Output, form: str, value: Any, *, picked: bool = False) -> None:
    """One object, or whatever else a query found, as a document."""
    selection = out.selection if picked else None
    if form in ROWS:
        flat = selection.flat(value) if selection and isinstance(value, dict) else as_rows([value])[0]
        rows = Rows(form, list(flat))
        out.write(rows.header() + rows.row(flat))
        return
    if selection is not None:
        value = selection.pick(value)
    if form == "table":
        _object_for_people(out, value)
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
    *,
    picked: bool = True,
) -> int:
    if picked and out.selection is not None:
        pages = _looked_at(out.selection, columns, pages)
    if form == "table":
        return _table(out, columns, pages, picked=picked)
    if form in ROWS:
        return _rows(out, form, ([_flat(out, item) if picked else item for item in page] for page in pages))
    if form == "ndjson":
        return _ndjson(out, pages)
    return _array(out, pages)


def _looked_at(selection: Selection, columns: Sequence[Column], pages: Iterable[list[Any]]) -> Iterator[list[Any]]:
    for page in pages:
        selection.look_at(page, [column.key for column in columns if column.of is None])
        yield page


def _picked(out: Output, items: list[Any]) -> list[Any]:
    """The items with the fields that were asked for."""
    return items if out.selection is None else out.selection.pick_all(items)


def _flat(out: Output, item: Item) -> dict[str, Any]:
    """The same of one item, as a row."""
    return flatten(item) if out.selection is None else out.selection.flat(item)


def _ndjson(out: Output, pages: Iterable[list[Any]]) -> int:
    count = 0
    for page in pages:
        if page:
            out.write("\n".join(out.jsons(_picked(out, page))) + "\n")
        count += len(page)
    return count


def _spool() -> IO[str]:
    # In a file when it is large: a million trades need not fit into memory.
    import tempfile  # completion and help never need it

    return tempfile.SpooledTemporaryFile(_SPOOL, "w+", encoding="utf-8", newline="")


def _array(out: Output, pages: Iterable[list[Any]]) -> int:
    count = 0
    with _spool() as spool:
        for page in pages:
            for number, text in enumerate(out.jsons(_picked(out, page), indent=2), count):
                spool.write((",\n  " if number else "[\n  ") + text.replace("\n", "\n  "))
            count += len(page)
        spool.write("\n]\n" if count else "[]\n")
        spool.seek(0)
        while chunk := spool.read(_CHUNK):
            out.write(chunk)
    return count


def _rows(out: Output, form: str, pages: Iterable[Page]) -> int:
    """The columns are those of all items, so they are known only when all of them have come."""
    names: dict[str, None] = {}
    count = 0
    with _spool() as spool:
        for flat in chain.from_iterable(pages):
            names.update(dict.fromkeys(flat))
            spool.write(to_json(flat, ascii_only=True) + "\n")
            count += 1
        if names or out.fields:
            rows = Rows(form, list(names or out.fields))
            out.write(rows.header())
            spool.seek(0)
            while lines := spool.readlines(_CHUNK):
                out.write("".join(rows.row(json.loads(line)) for line in lines))
    return count


class GrowingRows:
    """Rows whose columns are decided before most of them are known."""

    def __init__(self, out: Output, form: str, names: Sequence[str]) -> None:
        """`names` are the columns, unless the file that they go to has some already.

        Raises:
            UsageProblem: it has others.
        """
        self._out, self._told = out, False
        first, there = out.first_line, None
        if first is not None:
            from tradesdk_cli.output.outfile import columns_there

            there = columns_there(form, first, names, place=out.place, chosen=bool(out.fields))
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
    if not columns or not picked or out.fields:
        shown = [_flat(out, row) for row in rows] if picked else rows
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
        value: Any = item
        if selection is not None:
            value = selection.search(item)
            if value is None or value is False:
                return False
            if value is True:
                value = item  # the query was a condition
            selection.look_at([value])
        form = out.format_for(many=True)
        if form == "table":
            self._draw(value, columns, shown if value is item else None)
        elif form in ROWS:
            flat = _flat(out, value) if isinstance(value, dict) else as_rows([value])[0]
            if self._rows is None:
                self._rows = GrowingRows(out, form, list(flat))
            self._rows.put(flat)
        else:
            [picked] = _picked(out, [value])
            out.write(out.json(picked) + "\n")
        return True

    def _draw(self, value: Any, columns: Sequence[Column], shown: Item | None) -> None:
        from tradesdk_cli.output.table import GrowingTable

        out = self._out
        if not isinstance(value, dict):
            out.write(_said(value) + "\n")
            return
        row = shown or value
        if out.fields or shown is None or not columns:
            row = _flat(out, value)
            columns = self._columns = self._columns or columns_of([row], columns)
        if self._table is None:
            self._table = growing = GrowingTable(columns, row, out.width)
            if growing.left_out:
                out.event("not_shown", f"not shown at this width: {growing.left_out} (-o ndjson has everything)")
            out.put(lambda console: console.print(growing.header()))
        line = self._table.row(row)
        out.put(lambda console: console.print(line))


@dataclass
class Printed:
    """One result that is being printed: how many items it has, where it is a list."""

    items: int | None = None


class Output(Notes):
    """The streams and the format of one run."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], *, results: bool = True) -> None:
        """Without `results`, only errors are to be printed.

        Raises:
            UsageProblem: `--query` cannot be read, or `--out` cannot be written. Nothing has been sent by then.
        """
        super().__init__(settings, environ)
        self.now: Callable[[], float] = time.time
        """Unix seconds by the clock of whoever answers, for how long ago something was."""
        self._file = _out_file(settings) if results else None
        self.on_stdout = self._file is None
        """True when results go to standard output."""
        self._partly = False
        self._lines: Lines | None = None
        self._added: int | None = None
        self.first_line: str | None = None
        """The first line of a file that a stream continues in; None where there is nothing yet."""
        self._places: set[str] = set()
        self.asks = results and settings.query is not None
        """True when there is a `--query`."""
        self.fields = settings.fields if results else ()
        """What `--fields` names."""
        self.selection: Selection | None = None
        """What both ask for; None when everything is printed as it is."""
        if self.asks or self.fields:
            from tradesdk_cli.output.select import Selection

            self.selection = Selection(settings.query, settings.fields)

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any], environ: Mapping[str, str]) -> Output:
        """For errors: whatever of the settings is usable counts, the rest is left out."""
        from tradesdk_cli.config.settings import Settings, resolve
        from tradesdk_cli.errors import CliError

        try:
            settings = flags.get("resolved") or resolve(flags, environ)
        except CliError:
            settings = Settings(output=flags.get("output") or "auto")
        return cls(settings, environ, results=False)

    def readable(self) -> Output:
        """The same for what is a text in a pipe as well, unless a format was asked for."""
        return self.usually("table")

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
        asked = self._asked
        if asked != "auto":
            return asked
        if self.on_terminal:
            return "table"
        return "ndjson" if many else "json"

    def draws(self, *, many: bool) -> bool:
        """True when a command may draw a table of its own: nothing is selected from what is in it."""
        return self.format_for(many=many) == "table" and self.selection is None

    @property
    def pictures(self) -> bool:
        """True where a picture may be drawn: the command line asks for no data, whatever a profile says."""
        typed = self.settings.sources.get("output", "flag").startswith("flag")
        data = self.settings.output not in ("auto", "table") and (typed or not self.on_terminal)
        return self.on_stdout and self.selection is None and not data

    # Results

    def one(self, item: Item, *, whole: bool = False) -> None:
        """Prints one object; `whole`: `--query` and `--fields` are not about it."""
        if whole or self.selection is None:
            with self.result():
                _object(self, self.format_for(many=False), item)
        else:
            _found(self, self.selection, self.selection.search(item))

    def many(self, columns: Sequence[Column], pages: Iterable[Page], *, empty: str) -> int:
        """Prints a list that comes in pages. Returns how many there were; `empty` is said when there are none.

        A page is written before the next one is taken, where the format lets it: in NDJSON.
        """
        selection = self.selection
        if selection is not None and selection.asks:
            items = [item for page in pages for item in page]
            count = len(items)
            (_found if items else _value)(self, selection, selection.search(items))
        else:
            with self.result() as told:
                count = told.items = _list(self, self.format_for(many=True), columns, pages)
        if count == 0:
            self.note(empty)
        return count

    def expect(self, *models: Any) -> None:
        """For commands that pay or change something: what they will print is known before.

        Raises:
            UsageProblem: `--fields` names what no result of these types has.
        """
        if self.selection is not None:
            from tradesdk_cli.output.select import names_of_model

            self.selection.expect(name for model in models for name in names_of_model(model))

    def expect_fields(self, names: Iterable[str]) -> None:
        """The same by the names of the fields.

        Raises:
            UsageProblem: `--fields` names another one.
        """
        if self.selection is not None:
            self.selection.expect(names)

    @property
    def in_rows(self) -> bool:
        """True where lists become rows, and nothing is asked of them as they are."""
        return self.format_for(many=True) in (*ROWS, "table") and not self.asks

    def refuse_an_end(self) -> None:
        """For streams. Raises UsageProblem when the format has an end, which a stream has not."""
        if self.format_for(many=True) == "json":
            what = "-o json" if self.settings.output == "json" else self.place
            raise UsageProblem(f"{what} is one array, and a stream has no end", "use -o ndjson")

    @property
    def mixes(self) -> bool:
        """True where items of a stream need not have the same fields."""
        return self.format_for(many=True) == "ndjson" and not self.fields

    def begin_lines(self, *, resumed: bool = False) -> None:
        """What comes now is a stream: `line` prints it. In a file it is appended.

        `resumed`: after an earlier run; see `OutFile.follow_on`.

        Raises:
            UsageProblem: the format has an end, and a stream has none.
        """
        self.refuse_an_end()
        if self._lines is None:
            if self._file is not None:
                form = self.format_for(many=True) if resumed else None
                self.first_line, self._added = self._file.follow_on(resumed=form), 0
            self._lines = Lines(self)

    def line(self, item: Item, columns: Sequence[Column] = (), shown: Item | None = None) -> None:
        """Prints one item of a stream at once. Tables have `columns`, and `shown` in the place of the item."""
        if self._lines is None:
            self.begin_lines()
        if self._lines is not None and self._lines.put(item, columns, shown) and self._added is not None:
            self._added += 1

    def draw(self, draw: Any) -> Any:
        """Lets `draw` print on a console and then prints what came of it, in one piece."""
        with self.result():
            return self.put(draw)

    # The file

    @contextmanager
    def result(self) -> Iterator[Printed]:
        """What is written meanwhile is one result: in a file it is there as a whole, or not at all."""
        told = Printed()
        if self._file is None or self._lines is not None:
            yield told
            return
        self._file.begin()
        try:
            yield told
            place = self._file.commit(partly=self._partly)
        except BaseException:
            self._file.forget()
            raise
        self._tell_written(place, told.items)

    def _tell_written(self, place: str, items: int | None) -> None:
        if items is None and place in self._places:
            return  # said already
        self._places.add(place)
        much = "" if items is None else f"{counted(items, 'items')} "
        done = "added to" if self._added is not None else "written to"
        fields: dict[str, Any] = {"file": place} if items is None else {"file": place, "items": items}
        kept = f"; {self.place} is as it was" if self._file is not None and place != self.place else ""
        self.event("written", f"{much}{done} {place}{kept}", **fields)

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
            self._file.close()
            if self._added is not None:
                self._tell_written(self.place, self._added)
                self._added = None

    # Writing

    @cached_property
    def ascii_only(self) -> bool:
        """True where the result goes to something that takes no other characters."""
        return self._file is None and not is_unicode(self.stdout.encoding)

    def json(self, value: Any, indent: int | None = None) -> str:
        """JSON for where results go."""
        return to_json(value, indent=indent, ascii_only=self.ascii_only)

    def jsons(self, values: Iterable[Any], indent: int | None = None) -> list[str]:
        """The same for each of several values."""
        ascii_only = self.ascii_only
        return [to_json(value, indent=indent, ascii_only=ascii_only) for value in values]

    def write(self, text: str) -> None:
        """Writes a part of a result."""
        if self._file is not None:
            (self._file.write if self._lines is None else self._file.line)(text)
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

    def put(self, draw: Any) -> Any:
        """Writes what `draw` prints on a console, as a part of a result."""
        console = self.console()
        with console.capture() as capture:
            result = draw(console)
        self.write("\n".join(line.rstrip(" ") for line in capture.get().split("\n")))
        return result

    def clear(self) -> None:
        """Empties the terminal."""
        self.put(lambda console: console.clear())

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


def _out_file(settings: Settings) -> OutFile | None:
    if settings.out is None or str(settings.out) == "-":
        return None
    from contextlib import suppress

    from tradesdk_cli.errors import ConfigProblem
    from tradesdk_cli.files import refuse_own
    from tradesdk_cli.output.outfile import OutFile

    with suppress(ConfigProblem):  # without a home folder there are none
        refuse_own(settings.out, (settings.config_folder(), settings.data_folder()))
    return OutFile(settings.out, by_ending=settings.output == "auto")
