"""Charts as pictures: SVG, complete in one file."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from tradesdk_cli.errors import Unwritable, UsageProblem
from tradesdk_cli.files import atomic_write
from tradesdk_cli.text import visible

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.text import Text

ENDING = ".svg"
_MONOSPACE = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
# Rich's own frame names a font on the network. It carries its dark ground with it, so it looks the same everywhere.
_SVG = f"""<svg class="rich-terminal" viewBox="0 0 {{width}} {{height}}" xmlns="http://www.w3.org/2000/svg">
<style>
.{{unique_id}}-matrix {{{{
font-family: {_MONOSPACE};
font-size: {{char_height}}px;
line-height: {{line_height}}px;
white-space: pre;
}}}}
{{styles}}
</style>
<defs>
<clipPath id="{{unique_id}}-clip-terminal"><rect x="0" y="0" width="{{terminal_width}}" height="{{terminal_height}}" />
</clipPath>
{{lines}}
</defs>
{{chrome}}
<g transform="translate({{terminal_x}}, {{terminal_y}})" clip-path="url(#{{unique_id}}-clip-terminal)">
{{backgrounds}}
<g class="{{unique_id}}-matrix">
{{matrix}}
</g>
</g>
</svg>
"""


def writable(path: Path) -> bool:
    """True when a chart can be written under this name.

    Raises:
        UsageProblem: the name looks like a picture of another kind.
    """
    ending = path.suffix.lower()
    if ending in (".png", ".jpg", ".jpeg", ".gif", ".pdf", ".webp", ".htm", ".html"):
        raise UsageProblem(f"a chart is not written as {ending}", "use .svg")
    return ending == ENDING


def write(path: Path, lines: Sequence[Text], width: int) -> None:
    """Writes the chart; a file that was there is replaced when the new one is complete.

    Raises:
        Unwritable: the folder or the file cannot be written.
    """
    try:
        atomic_write(path, render(lines, width))
    except OSError as error:
        raise Unwritable(
            f"cannot write {visible(str(path))}: {error.strerror}", "choose another file with --out"
        ) from None


def render(lines: Sequence[Text], width: int) -> str:
    """The chart as SVG."""
    from rich.console import Console

    record = Console(
        record=True,
        file=io.StringIO(),
        width=width,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        _environ={},  # neither COLUMNS nor NO_COLOR are about a file
    )
    for line in lines:
        record.print(line, soft_wrap=True, markup=False, highlight=False, emoji=False)
    # A Braille cell is as wide as any other; the id is fixed, so that the same chart is the same file. Its first line
    # is the title already.
    return record.export_svg(title="", code_format=_SVG, unique_id="trade-plot")
