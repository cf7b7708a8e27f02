"""The demo's output: numbered steps, the call as code, the result."""

from __future__ import annotations

import shutil
import sys
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


class Screen:
    """Prints steps."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._width = out.width or _WIDTH_IN_A_PIPE
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
        """A call as code, with a comment after it or, if it is too long, below it."""
        line, sign, comment = code.partition("  # ")
        parts = [line, f"# {comment}"] if sign and len(code) > self._width - 2 * _INDENT else [code]
        for part in parts:
            self._print(Text(part, style="dim"), _INDENT, _INDENT)

    def result(self, text: str, style: str = "") -> None:
        """A result."""
        self._print(Text.assemble(("✓ ", "green"), (visible(text), style)), _INDENT, 2)

    def table(self, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> None:
        """A few rows of a result."""
        self._out.draw(lambda console: render_list(console, columns, rows, self._width, indent=_INDENT + 2))

    def end(self, headline: str, tries: Sequence[tuple[str, str]]) -> None:
        """The last lines: a summary, and commands to try next."""
        for text in (Text(), Text(headline, style="bold green"), Text(), Text("Try next", style="bold")):
            self._print(text)
        width = max(len(command) for command, _ in tries)
        narrow = any(self._width < _INDENT + width + 2 + len(what) for _, what in tries)
        for command, what in tries:
            between = "\n  " if narrow else " " * (width + 2 - len(command))
            self._print(Text.assemble((command, "cyan"), between, what), _INDENT)
        script = Path(sys.argv[0])
        if (
            script.name == "trade" and shutil.which("trade") is None
        ):  # called by its path, without activating the environment
            self._print(Text(f"(here trade is {script}; . {script.parent / 'activate'} puts it on the PATH)"), _INDENT)

    def _print(self, text: Text, indent: int = 0, hang: int = 0) -> None:
        """Prints `text`, indented and wrapped; the next lines begin `hang` cells further right."""

        def draw(console: Console) -> None:
            for number, line in enumerate(text.wrap(console, self._width - indent - hang) or [Text()]):
                print_line(console, Text(" " * (indent + hang * (number > 0))) + line)

        self._out.draw(draw)
