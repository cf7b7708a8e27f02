"""Charts as files: a picture (.svg), a page (.html), or text (.txt), complete in one file."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from typing import TYPE_CHECKING

from tradesdk_cli.errors import Unwritable, UsageProblem
from tradesdk_cli.text import visible

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.text import Text

ENDINGS = (".svg", ".html", ".txt")
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
_HTML = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="UTF-8">
<title>trade plot</title>
<style>
{{stylesheet}}
body {{{{ color: {{foreground}}; background-color: {{background}}; }}}}
pre {{{{ font-family: {_MONOSPACE}; line-height: 1.2; }}}}
</style>
</head>
<body>
<pre><code style="font-family: inherit">{{code}}</code></pre>
</body>
</html>
"""


def writable(path: Path) -> bool:
    """True when a chart can be written under this name.

    Raises:
        UsageProblem: the name looks like a picture of another kind.
    """
    ending = path.suffix.lower()
    if ending in (".png", ".jpg", ".jpeg", ".gif", ".pdf", ".webp", ".htm"):
        raise UsageProblem(f"a chart is not written as {ending}", "use .svg, .html or .txt")
    return ending in ENDINGS


def write(path: Path, lines: Sequence[Text], width: int) -> None:
    """Writes the chart; a file that was there is replaced when the new one is complete.

    Raises:
        Unwritable: the folder or the file cannot be written.
    """
    try:
        _replace(path, render(path.suffix.lower(), lines, width))
    except OSError as error:
        raise Unwritable(
            f"cannot write {visible(str(path))}: {error.strerror}", "choose another file with --out"
        ) from None


def render(ending: str, lines: Sequence[Text], width: int) -> str:
    """The chart as the text of a file with this ending."""
    from rich.console import Console
    from rich.terminal_theme import SVG_EXPORT_THEME

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
    if ending == ".svg":
        # A Braille cell is as wide as any other; the id is fixed, so that the same chart is the same file. Its first
        # line is the title already.
        return record.export_svg(title="", code_format=_SVG, unique_id="trade-plot")
    if ending == ".html":
        return record.export_html(theme=SVG_EXPORT_THEME, code_format=_HTML, inline_styles=True)
    return "".join(f"{line.plain.rstrip()}\n" for line in lines)


def _replace(path: Path, content: str) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(content)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o644 & ~mask)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
