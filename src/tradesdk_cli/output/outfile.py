"""`--out FILE`: writes the result to a file instead of standard output.

A result is written to a temporary file that replaces the file when it is complete, so a failed command leaves the old
file. Streams append to the file itself.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import stat
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tradesdk_cli.config.files import expanded
from tradesdk_cli.errors import Unwritable, UsageProblem
from tradesdk_cli.files import PartialFile, write_all
from tradesdk_cli.output.formats import ENDINGS, ROWS, cells_of, seconds_of
from tradesdk_cli.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_BLOCK = 64 * 1024
_LONGEST_ROW, _MOST_ROWS = 4 * 1024 * 1024, 200_000
FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
"""Errors of a full disk."""


class FileUnwritable(Unwritable):
    """The file cannot be written; standard output still can."""


class OutFile:
    """The file of `--out`."""

    def __init__(self, path: Path, *, by_ending: bool = False) -> None:
        """Checks that it can be written; creates nothing. `by_ending`: the ending must be that of a format."""
        path = expanded(str(path))
        self.shown = visible(str(path))
        self.form = ENDINGS.get(path.suffix.lower())
        """The format of its ending; None without one."""
        with self._file_errors():
            self._special = _refuse_unwritable(path, self.shown)
            self.path = path if self._special else Path(os.path.realpath(path))  # a link is followed
        if by_ending and not self._special and path.suffix and self.form is None:
            *most, last = ENDINGS
            raise UsageProblem(
                f"--out: there is no format for {visible(path.suffix.lower())} files",
                f"use {', '.join(most)} or {last}, or say which format it is: -o csv",
            )
        self._file: FileIO | None = None
        """Open while it is appended to."""

    def replace(self, texts: Iterable[str], is_partial: Callable[[], bool]) -> str:
        """Writes a result. When it is complete, it replaces the file; a partial one is saved beside it.

        Returns its path. If it fails, the old file stays.
        """
        if self._special:
            self.follow_on()
            with contextlib.closing(self):
                for text in texts:
                    self.write(text)
            return self.shown
        with self._file_errors():
            half = PartialFile(self.path)
        try:
            for text in texts:
                with self._file_errors():
                    write_all(half.file, _encoded(text))
            ending = ".part" if is_partial() else ""
            with self._file_errors():
                half.commit(Path(f"{self.path}{ending}"))
        except BaseException:
            half.drop()
            raise
        return self.shown + ending

    def close(self) -> None:
        """Ends appending."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        self._file = None

    def follow_on(self, *, resumed: str | None = None) -> None:
        """Begins appending to the file itself, on a new line.

        `resumed`: the format of the earlier run that is continued. An incomplete row, as of a killed process, is
        removed: its signal is delivered again.
        """
        with self._file_errors():
            if not self._special and self.path.exists():
                _end_last_row(self.path, resumed)
            self._file = FileIO(self.path, "ab", opener=lambda name, flags: os.open(name, flags, 0o644))

    def columns(self, form: str, names: Sequence[str], *, chosen: bool) -> list[str] | None:
        """The columns of the file, for rows with `names`, perhaps `chosen` by `--fields`. None without any."""
        if form not in ROWS or self._special or not self.path.is_file():
            return None
        with self._file_errors(), self.path.open("rb") as file:
            first = file.readline(_BLOCK)
        if not first.strip():
            return None
        there = cells_of(form, first)
        missing = [visible(name, 60) for name in names if name not in there]
        if chosen and missing:
            raise UsageProblem(f"--out: {self.shown} has no column {', '.join(missing)}", "choose another file")
        if not set(there) & set(names):
            raise UsageProblem(f"--out: {self.shown} has other columns than this", "choose another file")
        return there

    def write(self, text: str) -> None:
        """Appends text at once, as UTF-8. If it cannot be written whole, nothing of it is left."""
        assert self._file is not None  # noqa: S101  # a stream has begun
        before = None if self._special else self._file.seek(0, os.SEEK_END)
        with self._file_errors():
            try:
                write_all(self._file, _encoded(text))
            except OSError:
                if before is not None:
                    with contextlib.suppress(OSError):
                        self._file.truncate(before)
                raise

    @contextlib.contextmanager
    def _file_errors(self) -> Iterator[None]:
        """Turns OSError into an error that names the file."""
        try:
            yield
        except OSError as error:
            hint = "choose another file: --out FILE"
            if error.errno in FULL:
                hint = f"make room on that disk, or {hint}"
            raise FileUnwritable(f"{self.shown} cannot be written: {error.strerror}", hint) from None


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _refuse_unwritable(path: Path, shown: str) -> bool:
    """Whether it is a device or a pipe, which is written directly."""
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        kind = None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageProblem(f"--out: {shown} cannot be written: {reason}", "choose another file") from None
    if kind is not None and stat.S_ISDIR(kind):
        raise UsageProblem(f"--out: {shown} is a folder", f"name a file in it: --out {shown.rstrip('/')}/trades.csv")
    special = kind is not None and not stat.S_ISREG(kind)
    folder = path.parent if special else Path(os.path.realpath(path)).parent
    if not special and not folder.is_dir():
        raise UsageProblem(f"--out: there is no folder {visible(str(folder))}", "make it first, or choose another file")
    for checked, wanted in ((path, os.W_OK), (folder, os.W_OK | os.X_OK)):
        if checked.exists() and not os.access(checked, wanted) and not (special and checked is folder):
            raise UsageProblem(f"--out: {visible(str(checked))} may not be written", "choose another file")
    return special


# Continuing a stream in a file


def _end_last_row(path: Path, form: str | None) -> None:
    """Adds a missing line break at the end, so that an incomplete line stays separate.

    With the `form` of the rows, an incomplete row is removed instead.
    """
    size = path.stat().st_size
    row = next(_lines_back(path, size), None)  # None: the line is too long
    if row == b"":
        return
    with path.open("rb+") as file:
        if form is None or row is None or _is_whole(row, path, form):
            file.seek(size)
            file.write(b"\n")
        else:
            file.truncate(size - len(row))


def _is_whole(row: bytes, path: Path, form: str) -> bool:
    return _of_json(row) is not None if form == "ndjson" else len(cells_of(form, row)) == len(_header(path, form))


def ids_in(file: Path, form: str) -> set[str]:
    """The ids in the file, of at most its last 200,000 rows."""
    return {name for name, _ in islice(rows_back(file, form), _MOST_ROWS)}


def last_time(file: Path, form: str) -> float | None:
    """The latest time at the end of the file, in Unix seconds; None without one."""
    return max((time for _, time in islice(rows_back(file, form), 100) if time is not None), default=None)


def rows_back(file: Path, form: str) -> Iterator[tuple[str, float | None]]:
    """Id and time of rows of NDJSON, CSV or TSV, from the end. Rows without an id are skipped."""
    if form not in ("ndjson", *ROWS) or not file.is_file():
        return iter(())
    lines = _lines_back(file, file.stat().st_size)
    found = map(_of_json, lines) if form == "ndjson" else _of_rows(lines, _header(file, form), form)
    return (row for row in found if row is not None)


def _lines_back(path: Path, end: int) -> Iterator[bytes]:
    """The lines before `end`, last one first, including one without a line break."""
    rest = b""
    while end > 0 and len(rest) < _LONGEST_ROW:
        begin = max(0, end - _BLOCK)
        with path.open("rb") as file:
            file.seek(begin)
            rest, *lines = (file.read(end - begin) + rest).split(b"\n")
        yield from reversed(lines)
        end = begin
    if end == 0:
        yield rest


def _of_rows(lines: Iterator[bytes], names: list[str], form: str) -> Iterator[tuple[str, float | None] | None]:
    """Joins lines of CSV to rows: values may have line breaks, so a row ends where its quotes are paired."""
    row = b""
    for line in lines:
        row = line + b"\n" + row if row else line
        if row.count(b'"') % 2 == 0:
            values, row = cells_of(form, row), b""
            whole = len(names) == len(values) and names != values
            yield _of_fields(dict(zip(names, values, strict=True))) if whole else None


def _header(path: Path, form: str) -> list[str]:
    with path.open("rb") as file:
        return cells_of(form, file.readline(_BLOCK))


def _of_json(line: bytes) -> tuple[str, float | None] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return _of_fields(found) if isinstance(found, dict) else None


def _of_fields(fields: Mapping[str, object]) -> tuple[str, float | None] | None:
    name, when = fields.get("id"), fields.get("timestamp")
    if not isinstance(name, str) or not name:
        return None
    try:
        seconds = float(when) if isinstance(when, int | float | str) else math.nan
    except (ValueError, OverflowError):
        seconds = seconds_of(when) or math.nan
    return name, seconds if math.isfinite(seconds) else None
