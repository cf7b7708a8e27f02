"""The demo's output: numbered steps, the call as code, the result."""

from __future__ import annotations

import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tradesdk_cli.output.table import print_line, render_list
from tradesdk_cli.text import visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from tradesdk_cli.output.columns import Column
    from tradesdk_cli.output.printer import Output

_WIDTH_IN_A_PIPE = 100
_INDENT = 4
_HANG = 4


class Screen:
    """Prints steps as they happen."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._steps = 0

    def title(self, text: str) -> None:
        """The first line."""
        self._print(Text(text, style="bold"))

    def step(self, title: str) -> None:
        """Begins a step."""
        self._steps += 1
        self._print(Text())
        self._print(Text.assemble((f"{self._steps:>2}  ", "cyan"), (title, "bold")))

    def call(self, code: str) -> None:
        """A call as code."""
        line, sign, comment = code.partition("  # ")
        if not sign or len(code) <= self._width() - _INDENT - _HANG:
            self._print(Text(code, style="dim"), _INDENT, hang=_HANG)
            return
        self._print(Text(line, style="dim"), _INDENT, hang=_HANG)
        for part in textwrap.wrap(comment, max(20, self._width() - _INDENT - 2)):  # a comment on each of its lines
            self._print(Text(f"# {part}", style="dim"), _INDENT)

    def result(self, text: str, style: str = "") -> None:
        """What came of it."""
        self._print(Text(visible(text), style=style), _INDENT, mark=Text("✓ ", style="green"))

    def table(self, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> None:
        """A few rows of what came."""

        def draw(console: Console) -> None:
            render_list(console, columns, rows, self._width(), indent=_INDENT + 2)

        self._out.draw(draw)

    def end(self, headline: str, tries: Sequence[tuple[str, str]]) -> None:
        """The last lines: what it amounts to, and what to try next."""
        self._print(Text())
        self._print(Text(headline, style="bold green"))
        self._print(Text())
        self._print(Text("Try next", style="bold"))
        width = max(len(command) for command, _ in tries)
        narrow = any(self._width() < _INDENT + width + 2 + len(what) for _, what in tries)
        for command, what in tries:
            if narrow:
                self._print(Text(command, style="cyan"), _INDENT)
                self._print(Text(what), _INDENT + 2)
            else:
                self._print(Text.assemble((command.ljust(width + 2), "cyan"), what), _INDENT)
        place = Path(sys.argv[0])
        if place.name == "trade" and shutil.which("trade") is None:  # called by its path, from a fresh environment
            self._print(Text(f"(here trade is {place}; . {place.parent / 'activate'} puts it on the PATH)"), _INDENT)

    def _width(self) -> int:
        return self._out.width or _WIDTH_IN_A_PIPE

    def _print(self, text: Text, indent: int = 0, *, mark: Text | None = None, hang: int = 0) -> None:
        """Prints `text` after `mark`; lines that follow begin below the text, `hang` cells further right."""
        mark = mark or Text()
        first = Text.assemble(" " * indent, mark)
        other = Text(" " * (indent + len(mark) + hang))

        def draw(console: Console) -> None:
            lines = text.wrap(console, max(20, self._width() - len(other)))
            for number, line in enumerate(lines or [Text()]):
                line.rstrip()
                print_line(console, Text.assemble(other if number else first, line))

        self._out.draw(draw)
