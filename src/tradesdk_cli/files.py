"""Files that one command writes, or reads while it writes: each has to be another one, and none of `trade`'s own."""

from __future__ import annotations

import os
import stat
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from tradesdk_cli.errors import UsageProblem
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_OWN_ENDINGS = (".toml", ".sqlite3", ".lock")
_OWN_FOLDERS = ("keys", "mock", "checkpoints")


def refuse_same(files: Mapping[str, Path | None]) -> None:
    """`files` by what a person calls them; None, and `-` for stdout, are no files. Links are followed.

    Raises:
        UsageProblem: two of them are one file, so that one would be written over the other.
    """
    named = [(name, path) for name, path in files.items() if path is not None and str(path) != "-"]
    for (first, path), (second, other) in combinations(named, 2):
        if _same(path, other):
            raise UsageProblem(
                f"{first} and {second} are the same file: {one_line(str(other), 200)}",
                f"choose another file for {second}",
            )


def refuse_own(out: Path, folders: Iterable[Path]) -> None:
    """`out` is not to replace what is kept in `folders`: settings, keys, ledgers, worlds, places of streams.

    Raises:
        UsageProblem: it would.
    """
    try:
        if not stat.S_ISREG(out.stat().st_mode):
            return
        file = Path(os.path.realpath(out))
        own = any(file.is_relative_to(os.path.realpath(folder)) for folder in folders)
    except (OSError, ValueError):
        return  # whoever opens it says what is wrong with it
    if own and (file.suffix in _OWN_ENDINGS or file.parent.name in _OWN_FOLDERS):
        raise UsageProblem(f"--out: {one_line(str(out), 200)} is a file of trade itself", "choose another file")


def _same(one: Path, other: Path) -> bool:
    try:
        if os.path.exists(one) and os.path.exists(other):
            found = os.stat(one)
            # Of a device or a pipe nothing is lost.
            return stat.S_ISREG(found.st_mode) and os.path.samestat(found, os.stat(other))
        return os.path.realpath(one) == os.path.realpath(other)
    except (OSError, ValueError):
        return False  # whoever opens it says what is wrong with it
