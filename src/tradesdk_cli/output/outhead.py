"""The header of a file that rows go on below: whether they fit there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.output.formats import ROWS, names_of
from tradesdk_cli.text import visible

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tradesdk_cli.output.printer import Output

_LONGEST = 64 * 1024


def columns_there(out: Output, form: str, first: str | None, names: Sequence[str]) -> list[str] | None:
    """The columns of a file whose `first` line this is; None when it is empty. `names` are those of the rows to come.

    Raises:
        UsageProblem: they do not fit.
    """
    if first is None:
        return None
    there = names_of(form, first)
    missing = [visible(name, 60) for name in names if name not in there]
    if out.selection.fields and missing:
        raise UsageProblem(f"--out: {out.place} has no column {', '.join(missing)}", "choose another file")
    if not set(there) & set(names):
        raise UsageProblem(f"--out: {out.place} has other columns than this", "choose another file")
    return there


def refuse_others(out: Output, file: Path, names: Sequence[str]) -> None:
    """Looks into the file of `--out` before there is a row; `names` are what it has when nothing is selected.

    Raises:
        UsageProblem: the rows would not fit below its header.
    """
    form = out.format_for(many=True)
    if form not in ROWS or out.selection.asks or not file.is_file():
        return
    try:
        with file.open("rb") as stream:
            first = stream.readline(_LONGEST)
    except OSError:
        return  # whoever writes says so
    columns_there(out, form, first.decode("utf-8", "replace") if first else None, out.selection.fields or names)
