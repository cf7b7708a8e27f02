"""Output on stderr: notes, events and errors, for people as lines, for programs as JSON objects.

On a terminal, lines wrap at words, but never within a command, so that it can be pasted.
"""

from __future__ import annotations

import os
import shutil
import sys
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, TextIO

from tradesdk_cli.text import is_unicode, one_line, plural, to_json, visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tradesdk_cli.config.settings import Settings
    from tradesdk_cli.errors import Problem


APPEARS_AFTER = 0.5
"""Seconds of work before a progress line appears."""
_EVERY_LINE, _EVERY_NOTE = 0.1, 10.0
_WIPE = "\r\x1b[K"


class Progress:
    """A progress line on the stderr of `out` while it is entered.

    `what` is the plural of the counted items; `total` their number, None if unknown.
    """

    def __init__(self, out: Notes, what: str, total: int | None = None) -> None:
        self._out, self._what, self._total = out, what, total
        self._begin = monotonic()
        self.on_line = out.stderr.isatty() and out.environ.get("TERM") != "dumb"
        """True when the line is overwritten."""
        self._printed_at = self._begin - _EVERY_LINE if self.on_line else self._begin
        self._shown = False

    def __enter__(self) -> Progress:
        self._out.progress = self
        return self

    def __exit__(self, *_: object) -> None:
        self.wipe()
        self._out.progress = None

    def step(self, done: int) -> None:
        """Updates the number of finished items."""
        now = monotonic()
        if now - self._begin < APPEARS_AFTER or now - self._printed_at < (_EVERY_LINE if self.on_line else _EVERY_NOTE):
            return
        self._printed_at = now
        total = self._total
        text = plural(done, self._what) if total is None else f"{done} of {plural(total, self._what)}"
        if self.on_line:
            stderr = self._out.stderr
            print(f"{_WIPE}{text[: columns_of(stderr) - 1]}", end="", file=stderr, flush=True)
            self._shown = True
        else:
            self._out.event("progress", text, done=done, total=total)

    def wipe(self) -> None:
        """Clears the line for other output. The next step prints it again."""
        if self._shown:
            print(_WIPE, end="", file=self._out.stderr, flush=True)
            self._shown = False

    def clear(self) -> None:
        """Clears the line when the terminal has printed ^C in it."""
        self._shown = self.on_line
        self.wipe()
        if not self.on_line:
            self._out.after_ctrl_c()


_ENDS = {"trade": ",;:.)?", "export": ",", "curl": ""}
"""The characters that end a command after this word; empty: the end of the line."""


def broken(text: str, columns: int) -> list[str]:
    """`text` in lines of at most `width` characters; a command stays whole, so that it can be pasted."""
    pieces: list[str] = []
    is_command, ends = False, ""
    words = text.split()
    for word, after in zip(words, [*words[1:], ""], strict=False):
        begins = not is_command and word.lstrip("(") in _ENDS and (word != "export" or "=" in after)
        if begins:
            ends = _ENDS[word.lstrip("(")]
        if is_command or (begins and pieces and pieces[-1].startswith("TRADE_") and "=" in pieces[-1]):
            pieces[-1] += f" {word}"
        else:
            pieces.append(word)
        is_command = (is_command or begins) and word[-1] not in ends
    lines = pieces[:1]
    for piece in pieces[1:]:
        if len(lines[-1]) + 1 + len(piece) > columns:
            lines.append(piece)
        else:
            lines[-1] += f" {piece}"
    return lines


_ANSI = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}


def columns_of(stream: TextIO) -> int:
    """The width of the terminal of `stream`; stdout may be a file."""
    if not os.environ.get("COLUMNS"):
        try:
            return os.get_terminal_size(stream.fileno()).columns or 80
        except (OSError, ValueError):
            pass
    return shutil.get_terminal_size().columns


class Notes:
    """The streams of one run, and its messages beside results."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self.stdout: TextIO = sys.stdout
        self.stderr: TextIO = sys.stderr
        self.settings = settings
        self.environ = environ
        self.log: Literal["waits", "events", "none"] = "waits"
        """What is printed of the SDK's log without -v: longer waits of calls, or every record as an event."""
        self.progress: Progress | None = None
        """The progress of a long command; other output clears its line."""

    @property
    def machine_notes(self) -> bool:
        """True when a program reads stderr: JSON was requested, or neither stream is a terminal."""
        if self.settings.output == "auto":
            return not self.stdout.isatty() and not self.stderr.isatty()
        return self.settings.output != "table"

    def note(self, *parts: str, **fields: Any) -> None:
        """Prints notes on stderr: one line for people, one object each for programs; the last one has the `fields`."""
        if self.machine_notes:
            *before, last = ({"note": one_line(part)} for part in parts)
            for item in (*before, last | fields):
                self.print_object(item)
            return
        self._print_note(" · ".join(parts))
        for key, value in fields.items():
            self._say(self.paint("dim", f"{key.replace('_', ' ')}: ") + visible(str(value)))

    def event(self, kind: str, text: str, **fields: Any) -> None:
        """Prints an event on stderr: a line for people; for programs also its kind and `fields`."""
        if self.machine_notes:
            self.print_object({"type": kind, "note": one_line(text), **fields})
        else:
            self._print_note(text)

    def _print_note(self, text: str) -> None:
        for line in self._lines(one_line(text)):
            self._say(self.paint("dim", line))

    def _lines(self, text: str) -> list[str]:
        return broken(text, columns_of(self.stderr)) if self.stderr.isatty() else [text]

    def after_ctrl_c(self) -> None:
        """Begins a new line after the terminal's ^C."""
        if self.stderr.isatty():
            self._say("")

    def print_object(self, item: Mapping[str, Any]) -> None:
        """Prints an object for programs on stderr, in every format."""
        self._say(to_json(item, ascii_only=not is_unicode(self.stderr.encoding)))

    def problem(self, problem: Problem) -> None:
        """Prints an error: one line and a hint, or one JSON object."""
        if self.machine_notes:
            self.print_object(problem.as_dict())
            return
        if problem.code == "declined":  # a person's answer, not an error
            self.note(problem.headline)
        else:
            self._headed("red", "error:", problem.headline)
        if problem.hint:
            self._headed("yellow", "hint:", one_line(problem.hint))

    def _headed(self, style: str, head: str, text: str) -> None:
        for number, line in enumerate(self._lines(f"{head} {text}")):
            self._say(line if number else self.paint(style, head) + line.removeprefix(head))

    def _say(self, line: str) -> None:
        if self.progress is not None:
            self.progress.wipe()
        try:
            print(line, file=self.stderr, flush=True)
        except OSError:
            # stderr cannot be written. The command and its exit code do not depend on it.
            from tradesdk_cli.files import forget

            forget(self.stderr)

    def color(self, stream: TextIO) -> bool:
        """True when colors are wanted on this stream."""
        # https://no-color.org and https://force-color.org: any non-empty value counts.
        if self.environ.get("NO_COLOR"):
            return False
        if self.environ.get("FORCE_COLOR"):
            return True
        return stream.isatty() and self.environ.get("TERM") != "dumb"

    def paint(self, style: str, text: str) -> str:
        """`text` for stderr in one of our styles, where colors are wanted."""
        return f"\x1b[{_ANSI[style]}m{text}\x1b[0m" if self.color(self.stderr) else text
