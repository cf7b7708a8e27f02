"""Prints results in each format. Data goes to stdout, or into the file of `--out`; everything else goes to stderr."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Any

from tradesdk_cli.errors import ClosedPipe, Unwritable
from tradesdk_cli.output.formats import ROWS, Rows, as_rows, with_times
from tradesdk_cli.output.select import Selection, is_nothing
from tradesdk_cli.output.stderr import Notes
from tradesdk_cli.text import is_unicode, plural, to_json, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rich.console import Console

    from tradesdk_cli.config.settings import Settings
    from tradesdk_cli.output.cells import Clock
    from tradesdk_cli.output.columns import Column, Kind
    from tradesdk_cli.output.outfile import OutFile

    Item = Mapping[str, Any]
    Page = list[dict[str, Any]]


_LONGEST_LINE = 10**9


def columns_of(rows: Iterable[Item], known: Sequence[Column] = ()) -> list[Column]:
    """Columns for rows with these fields; kinds as in `known` by name."""
    from tradesdk_cli.output.columns import Column, kind_of

    kinds: dict[str, Kind] = {column.heading: column.kind for column in known}
    kinds |= {column.key: column.kind for column in known if column.of is None}
    names = dict.fromkeys(name for row in rows for name in row)
    return [
        Column(name, kinds.get(name) or kind_of(name.rpartition(".")[2]), title=visible(name, 60)) for name in names
    ]


def in_words(value: Any) -> str:
    """A value that is not an object, for people."""
    return visible(value) if isinstance(value, str) else to_json(value)


class Output(Notes):
    """The output of one run."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        """Opens nothing yet, but refuses an invalid `--query`, and an `--out` that cannot be written."""
        super().__init__(settings, environ)
        self.now: Callable[[], float] = time.time
        """Unix seconds by the clock of the service, for relative times."""
        self.file: OutFile | None = None
        """The file of `--out`; None: results go to standard output."""
        if settings.out is not None and str(settings.out) != "-":
            from tradesdk_cli.output.outfile import OutFile

            self.file = OutFile(settings.out, by_ending=settings.output == "auto")
        self.usual: str | None = None
        """This command's default format; None: the usual one."""
        self.partly = False
        """True when the result is incomplete, so it does not replace the file."""
        self.selection = Selection(settings.query, settings.fields)
        """The selection of `--query` and `--fields`."""

    # The format

    @property
    def on_terminal(self) -> bool:
        """True when results go to a terminal."""
        return self.file is None and self.stdout.isatty()

    @property
    def width(self) -> int | None:
        """The terminal's width in cells; None without a terminal."""
        return shutil.get_terminal_size().columns if self.on_terminal else None

    @property
    def _clock(self) -> Clock | None:
        """The reference of relative times: only on a terminal, and without --times."""
        if self.settings.times == "unix":
            return lambda: "unix"
        return self.now if self.on_terminal and self.settings.times is None else None

    def format_for(self, *, many: bool) -> str:
        """The format of a result, with `auto` resolved. `many`: it is a list."""
        if self.settings.output != "auto":
            return self.settings.output
        if self.file is not None and self.file.form is not None:
            return self.file.form
        if self.usual is not None:
            return self.usual
        if self.on_terminal:
            return "table"
        return "ndjson" if many else "json"

    def draws(self, *, many: bool) -> bool:
        """True when a command may draw its own table: nothing is selected from the result."""
        return self.format_for(many=many) == "table" and self.selection.is_all

    @property
    def pictures(self) -> bool:
        """True when a chart may be drawn: the command line requests no data, whatever the profile says."""
        typed = self.settings.sources.get("output", "flag").startswith("flag")
        data = self.settings.output not in ("auto", "table") and (typed or not self.on_terminal)
        return self.file is None and self.selection.is_all and not data

    @property
    def in_rows(self) -> bool:
        """True when lists become rows, without a query."""
        return self.format_for(many=True) in (*ROWS, "table") and not self.selection.asks

    @property
    def destination(self) -> str:
        """The destination of results, for messages."""
        return "standard output" if self.file is None else self.file.shown

    # Results

    def one(self, item: Any) -> None:
        """Prints one object, or what the query selects from it; notes on stderr that it selects nothing."""
        value = self.selection.search(item)
        self._value(value)
        if self.selection.asks and item and is_nothing(value):
            unknown = self.selection.unknown(item)
            if unknown or (self.on_terminal and not value):
                self.event("nothing_selected", f"the query selected nothing{f': {unknown}' if unknown else ''}")

    def many(
        self,
        columns: Sequence[Column],
        pages: Iterable[Page],
        *,
        empty: str,
        foot: Callable[[], tuple[Sequence[str], Mapping[str, Any]]] = lambda: ((), {}),
    ) -> None:
        """Prints a list from pages. `empty`: the note for no items; `foot`: returns the notes below the list.

        In JSON and NDJSON, a page is written before the next one is fetched.
        """
        hidden: list[str] = []
        if self.selection.asks:
            items = [item for page in pages for item in page]
            count = len(items)
            self.one(items)
        else:
            count = self._list(columns, pages, hidden)
        if count == 0:
            self.note(empty)
        parts, fields = foot()
        if hidden:
            parts = [*parts, f"not shown: {', '.join(hidden)} (-o json has all)"]
        if parts:
            self.note(*parts, **fields)

    def flat(self, items: list[Any]) -> Page:
        """The items as rows, with the requested fields."""
        if not all(isinstance(item, dict) for item in items):
            return as_rows(items)
        return [self.selection.flat(item) for item in items]

    def _value(self, value: Any) -> None:
        """Prints an object, or the result of the query."""
        form = self.format_for(many=False)
        if isinstance(value, list):
            self._list((), [value], [])
        else:
            self.selection.look_at([value])
            picked = self.selection.pick(value)
            if form in ROWS:
                self._result(self._texts(form, (), [[value]], []))
            elif form != "table":
                self.write(self.json(picked, 2 if form == "json" else None) + "\n")
            elif isinstance(value, dict):
                from tradesdk_cli.output.table import render_one

                self.draw(lambda console: render_one(console, picked, self.width, self._clock))
            else:
                self.write(in_words(value) + "\n")

    def _list(self, columns: Sequence[Column], pages: Iterable[list[Any]], hidden: list[str]) -> int:
        """Prints a list. Returns the number of items. `hidden` receives the headings of columns that did not fit."""
        count = 0

        def looked_at() -> Iterator[list[Any]]:
            nonlocal count
            for page in pages:
                self.selection.look_at(page, [column.key for column in columns if column.of is None])
                count += len(page)
                yield page

        self._result(self._texts(self.format_for(many=True), columns, looked_at(), hidden), lambda: count)
        return count

    def _texts(
        self, form: str, columns: Sequence[Column], pages: Iterable[list[Any]], hidden: list[str]
    ) -> Iterator[str]:
        """A list in a format, in pieces."""
        if form in ("json", "ndjson"):
            begin = "["
            for page in filter(None, pages):
                picked = list(map(self.selection.pick, page)) if self.selection.fields else page
                if form == "ndjson":
                    yield "".join(f"{self.json(item)}\n" for item in picked)
                else:
                    yield begin + self.json(picked, indent=2)[1:-2]  # without brackets and the last line break
                    begin = ","
            if form == "json":
                yield "\n]\n" if begin == "," else "[]\n"
            return
        items = [item for page in pages for item in page]
        if form in ROWS:
            items = self.flat(items)
            if names := dict.fromkeys(name for row in items for name in row) or self.selection.fields:
                rows = Rows(form, list(names), self.settings.times)
                yield rows.header() + "".join(map(rows.row, items))
        elif items:
            from tradesdk_cli.output.table import render_list

            if not columns or self.selection.fields:
                items = self.flat(items)
                columns = columns_of(items, columns)
            yield self.drawn(
                lambda console: hidden.extend(render_list(console, columns, items, self.width, now=self._clock))
            )

    def _result(self, texts: Iterable[str], items: Callable[[], int] | None = None) -> None:
        """Writes one result, in a file whole or not at all. `items`: the number of items in it."""
        if self.file is None:
            for text in texts:
                self.write(text)
            return
        place = self.file.replace(texts, lambda: self.partly)
        found = {} if items is None else {"items": items()}
        what = "" if items is None else f"{plural(found['items'], 'items')} "
        kept = f"; {self.destination} is as it was" if self.partly else ""
        self.event("written", f"{what}written to {place}{kept}", file=place, **found)

    # Writing

    def json(self, value: Any, indent: int | None = None) -> str:
        """JSON for the destination of results."""
        ascii_only = self.file is None and not is_unicode(self.stdout.encoding)
        if self.settings.times is not None:
            value = with_times(value, self.settings.times)
        return to_json(value, indent=indent, ascii_only=ascii_only)

    def write(self, text: str) -> None:
        """Prints text: a result or a part of one."""
        if self.file is not None:
            self._result([text])
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

            forget(self.stdout)  # the reader may be stuck: exit would wait for the rest, too
            raise

    def draw(self, draw: Callable[[Console], object]) -> None:
        """Prints the output of `draw` in one piece."""
        self.write(self.drawn(draw))

    def drawn(self, draw: Callable[[Console], object]) -> str:
        """The output of `draw` as text."""
        console = self.console()
        with console.capture() as capture:
            draw(console)
        return "\n".join(line.rstrip(" ") for line in capture.get().split("\n"))

    def console(self, width: int | None = _LONGEST_LINE) -> Console:
        """A console on stdout without markup. The terminal wraps long lines, so copied lines are whole."""
        from rich.console import Console

        color = self.file is None and self.color(self.stdout)
        return Console(
            file=self.stdout,
            width=width,
            height=None if width is None else 1,  # without it, rich assumes 80 columns for a dumb terminal
            force_terminal=True if color else None,
            color_system=("auto" if self.on_terminal else "standard") if color else None,
            no_color=not color,
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
        )
