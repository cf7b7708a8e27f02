"""What goes to stderr: notes, events and errors, for people as lines, for programs as JSON objects."""

from __future__ import annotations

import os
import re
import shutil
import sys

from tradesdk_cli.text import one_line, to_json, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TextIO

    from tradesdk_cli.config.settings import Settings
    from tradesdk_cli.explain import Problem
    from tradesdk_cli.lists.progress import Progress

_ANSI = {"red": "31", "yellow": "33", "dim": "2"}
_PROGRAMS = "trade|export|unset|source|curl|pip|chmod|kill"
_PROSE = "and|or|says|shows|shown|gives|fills|lists|makes|goes|is|was|with|when|for|to|in|on|after|again|names|has"
_COMMAND = re.compile(
    rf"(?<![^\s(])(?:{_PROGRAMS})(?: (?!(?:{_PROSE})\b)"
    r"(?:'[^']*'|\"[^\"]*\"|\$\([^)]*\)|[^\s'\";:,)]|[;:,)](?=\S))+)+"
)
"""A command within a sentence: up to what ends it, or goes on in plain words."""
_HELD = "\ue000"  # as wide as a space


def columns_of(stream: TextIO) -> int:
    """How wide the terminal is that `stream` goes to: another one than stdout's, which may be a file."""
    if not os.environ.get("COLUMNS"):
        try:
            return os.get_terminal_size(stream.fileno()).columns or 80
        except (OSError, ValueError):
            pass
    return shutil.get_terminal_size().columns


def wrapped(text: str, room: int | None) -> list[str]:
    """Lines of so many cells, broken between words. A longer word, and a command, are left to the terminal, so that
    what is copied is whole."""
    if room is None:
        return [text]
    from rich.cells import cell_len

    lines = [""]
    for word in _COMMAND.sub(lambda found: found[0].replace(" ", _HELD), text).split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if not lines[-1] or cell_len(longer) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return [line.replace(_HELD, " ") for line in lines]


class Notes:
    """The streams of one run, and what is said beside its results."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self.stdout: TextIO = sys.stdout
        self.stderr: TextIO = sys.stderr
        self.settings = settings
        self.environ = environ
        self.progress: Progress | None = None
        """What says how far a long command is; its line gives way to whatever else is written."""

    @property
    def machine_notes(self) -> bool:
        """True when what goes to stderr is read by a program: JSON was asked for, or nobody is at either end."""
        if self.settings.output == "auto":
            return not self.stdout.isatty() and not self.stderr.isatty()
        return self.settings.output != "table"

    def note(self, text: str, **fields: Any) -> None:
        """Says something on stderr that is not an error. `fields` are what a program would want of it."""
        if self.machine_notes:
            self._say(to_json({"note": one_line(text), **fields}))
        else:
            self._say(self._paint("dim", self._wrapped(one_line(text))))
            for key, value in fields.items():
                self._say(self._paint("dim", f"{key.replace('_', ' ')}: ") + visible(str(value)))

    def event(self, kind: str, text: str, **fields: Any) -> None:
        """Says on stderr that something happened: a line for people; for programs its kind and `fields` as well."""
        if self.machine_notes:
            self._say(to_json({"type": kind, "note": one_line(text), **fields}))
        else:
            self._say(self._paint("dim", self._wrapped(one_line(text))))

    def _wrapped(self, text: str) -> str:
        """Broken between words where it is longer than a line of the terminal; a command stays in one piece."""
        columns = columns_of(self.stderr)
        if not self.stderr.isatty() or len(text) <= columns:
            return text
        return "\n".join(wrapped(text, columns))

    def after_ctrl_c(self) -> None:
        """On a terminal the line already holds ^C; what is said next begins on its own."""
        if self.stderr.isatty():
            self._say("")

    def report(self, item: Mapping[str, Any]) -> None:
        """Prints something on stderr that is for programs in every format."""
        self._say(to_json(item))

    def problem(self, problem: Problem) -> None:
        """Prints an error: one line and a hint, or one JSON object."""
        if self.machine_notes:
            self._say(to_json(problem.as_dict()))
            return
        self._say_titled("error:", "red", problem.headline)
        if problem.hint:
            self._say_titled("hint:", "yellow", one_line(problem.hint))

    def _say_titled(self, title: str, style: str, text: str) -> None:
        line = self._wrapped(f"{title} {text}")
        self._say(self._paint(style, title) + line.removeprefix(title))

    def _say(self, line: str) -> None:
        if self.progress is not None:
            self.progress.wipe()
        encoding = self.stderr.encoding or "utf-8"
        try:
            print(line.encode(encoding, "backslashreplace").decode(encoding), file=self.stderr, flush=True)
        except OSError:
            # Nobody can hear it. What the command does, and how it ends, does not depend on that.
            from tradesdk_cli.output.standins import forget

            forget(self.stderr)

    def color(self, stream: TextIO) -> bool:
        """True when colours are wanted on this stream."""
        if self.settings.color != "auto":
            return self.settings.color == "always"
        return stream.isatty() and self.environ.get("TERM") != "dumb"

    def _paint(self, style: str, text: str) -> str:
        return f"\x1b[{_ANSI[style]}m{text}\x1b[0m" if self.color(self.stderr) else text
