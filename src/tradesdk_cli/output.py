"""Where results, notes and errors go, and in which format.

Data goes to stdout, everything else to stderr. A list is collected before anything is printed, so that stdout stays
empty when a command fails; only NDJSON is printed page by page, and what was printed before a failure stays.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace

from tradesdk_cli.errors import ClosedPipe, Unwritable
from tradesdk_cli.text import one_line, to_json, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, TextIO

    from rich.console import Console

    from tradesdk_cli.config import Settings
    from tradesdk_cli.problems import Problem
    from tradesdk_cli.views import Column

_SPOOL = 8 * 1024 * 1024
_WORTH_COUNTING = 200
_ANSI = {"red": "31", "yellow": "33", "dim": "2"}


class Output:
    """The streams and the format of one run."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self.stdout: TextIO = sys.stdout
        self.stderr: TextIO = sys.stderr
        self.settings = settings
        self.environ = environ
        self._counting = False

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any], environ: Mapping[str, str]) -> Output:
        """For errors: whatever of the settings is usable counts, the rest is left out."""
        from tradesdk_cli.config import Settings, resolve
        from tradesdk_cli.errors import CliError

        try:
            settings = resolve(flags, environ)
        except CliError:
            settings = Settings(output=flags.get("output") or "auto", color="never")
        return cls(settings, environ)

    def readable(self) -> Output:
        """The same for what is a text in a pipe as well, unless a format was asked for."""
        output = self.settings.output
        return Output(replace(self.settings, output="table" if output == "auto" else output), self.environ)

    @property
    def on_terminal(self) -> bool:
        """True when a person looks at stdout."""
        return self.stdout.isatty()

    @property
    def width(self) -> int | None:
        """The terminal's width in cells; None where there is no terminal and nothing needs to fit."""
        return shutil.get_terminal_size().columns if self.on_terminal else None

    def format_for(self, *, many: bool) -> str:
        """`table`, `json` or `ndjson`, with `auto` decided."""
        asked = self.settings.output
        if asked != "auto":
            return asked
        if self.on_terminal:
            return "table"
        return "ndjson" if many else "json"

    @property
    def machine_notes(self) -> bool:
        """True when what goes to stderr is read by a program: JSON was asked for, or nobody is at either end."""
        if self.settings.output == "auto":
            return not self.on_terminal and not self.stderr.isatty()
        return self.settings.output != "table"

    # Results

    def one(self, item: Mapping[str, Any]) -> None:
        """Prints one object."""
        form = self.format_for(many=False)
        if form == "table":
            from tradesdk_cli.table import render_one

            self.draw(lambda console: render_one(console, item))
        else:
            self._write(self._json(item, indent=2 if form == "json" else None) + "\n")

    def many(self, columns: Sequence[Column], pages: Iterable[list[dict[str, Any]]], *, empty: str) -> int:
        """Prints a list that comes in pages. Returns how many there were; `empty` is said when there are none."""
        form = self.format_for(many=True)
        if form == "ndjson":
            count = self._ndjson(pages)
        elif form == "json":
            count = self._array(pages)
        else:
            count = self._table(columns, pages)
        if count == 0:
            self.note(empty)
        return count

    def _ndjson(self, pages: Iterable[list[dict[str, Any]]]) -> int:
        count = 0
        for page in pages:
            if page:
                self._write("".join(self._json(item) + "\n" for item in page))
            count += len(page)
        return count

    def _array(self, pages: Iterable[list[dict[str, Any]]]) -> int:
        # Kept in a file when it is large: a million trades need not fit into memory.
        count = 0
        import tempfile  # completion and help never need it

        with tempfile.SpooledTemporaryFile(_SPOOL, "w+", encoding="utf-8", newline="") as spool:
            for page in pages:
                self._progress(count + len(page))
                for item in page:
                    spool.write(",\n  " if count else "[\n  ")
                    spool.write(self._json(item, indent=2).replace("\n", "\n  "))
                    count += 1
            self._progress(None)
            spool.write("\n]\n" if count else "[]\n")
            spool.seek(0)
            while chunk := spool.read(65536):
                self._write(chunk)
        return count

    def line(self, item: Mapping[str, Any]) -> None:
        """Prints one object on a line of its own, at once."""
        self._write(self._json(item) + "\n")

    def _table(self, columns: Sequence[Column], pages: Iterable[list[dict[str, Any]]]) -> int:
        from tradesdk_cli.table import render_list

        rows = []
        for page in pages:
            rows += page
            self._progress(len(rows))
        self._progress(None)
        if rows:
            hidden = self.draw(lambda console: render_list(console, columns, rows, self.width))
            if hidden:
                self.note(f"not shown at this width: {hidden} (-o json has everything)")
        return len(rows)

    # Everything else

    def note(self, text: str, **fields: Any) -> None:
        """Says something on stderr that is not an error. `fields` are what a program would want of it."""
        if self.machine_notes:
            self._say(to_json({"note": one_line(text), **fields}))
        else:
            self._say(self._paint("dim", one_line(text)))
            for key, value in fields.items():
                self._say(self._paint("dim", f"{key.replace('_', ' ')}: ") + visible(str(value)))

    def event(self, kind: str, text: str, **fields: Any) -> None:
        """Says on stderr that something happened: a line for people; for programs its kind and `fields` as well."""
        if self.machine_notes:
            self._say(to_json({"type": kind, "note": one_line(text), **fields}))
        else:
            self._say(self._paint("dim", self._wrapped(one_line(text))))

    def _wrapped(self, text: str) -> str:
        """Broken between words where it is longer than a line of the terminal."""
        columns = shutil.get_terminal_size().columns
        if not self.stderr.isatty() or len(text) <= columns:
            return text
        import textwrap

        return textwrap.fill(text, columns, break_long_words=False, break_on_hyphens=False)

    def after_ctrl_c(self) -> None:
        """On a terminal the line already holds ^C; what is said next begins on its own."""
        if self.stderr.isatty():
            self._say("")

    def report(self, item: Mapping[str, Any]) -> None:
        """Prints something on stderr that is for programs in every format."""
        self._say(to_json(item))

    def problem(self, problem: Problem) -> None:
        """Prints an error: one line and a hint, or one JSON object."""
        self._progress(None)
        if self.machine_notes:
            self._say(to_json(problem.as_dict()))
            return
        self._say(f"{self._paint('red', 'error:')} {problem.headline}")
        if problem.hint:
            self._say(f"{self._paint('yellow', 'hint:')} {one_line(problem.hint)}")

    def _progress(self, count: int | None) -> None:
        """How many so far, on a line that is overwritten; None wipes it."""
        if count is None:
            if self._counting:
                print("\r\x1b[K", end="", file=self.stderr, flush=True)
            self._counting = False
        elif count >= _WORTH_COUNTING and self.stderr.isatty() and not self.machine_notes:
            print(f"\r{count} so far …", end="", file=self.stderr, flush=True)
            self._counting = True

    def _json(self, value: Any, indent: int | None = None) -> str:
        return to_json(value, indent=indent, ascii_only=not _is_utf8(self.stdout))

    def _write(self, text: str) -> None:
        try:
            self.stdout.write(text)
            self.stdout.flush()
        except BrokenPipeError:
            raise ClosedPipe from None
        except OSError as error:
            raise Unwritable(f"standard output cannot be written: {error.strerror}", "print it elsewhere") from None

    def _say(self, line: str) -> None:
        encoding = self.stderr.encoding or "utf-8"
        print(line.encode(encoding, "backslashreplace").decode(encoding), file=self.stderr, flush=True)

    def color(self, stream: TextIO) -> bool:
        """True when colours are wanted on this stream."""
        if self.settings.color != "auto":
            return self.settings.color == "always"
        return stream.isatty() and self.environ.get("TERM") != "dumb"

    def _paint(self, style: str, text: str) -> str:
        return f"\x1b[{_ANSI[style]}m{text}\x1b[0m" if self.color(self.stderr) else text

    def draw(self, draw: Any) -> Any:
        """Lets `draw` print on a console and then prints what came of it, in one piece."""
        console = self.console()
        with console.capture() as capture:
            result = draw(console)
        text = capture.get()
        if not _is_utf8(self.stdout):
            encoding = self.stdout.encoding or "ascii"
            text = text.encode(encoding, "backslashreplace").decode(encoding)
        self._write(text)
        return result

    def console(self) -> Console:
        """A console on stdout that interprets nothing."""
        from rich.console import Console

        color = self.color(self.stdout)
        return Console(
            file=self.stdout,
            force_terminal=True if color else None,
            color_system=("auto" if self.on_terminal else "standard") if color else None,
            no_color=not color,
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
        )


def _is_utf8(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().replace("-", "").replace("_", "") in ("utf8", "utf8sig")
