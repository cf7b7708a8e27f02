"""`--out FILE`: what would have gone to standard output goes into a file.

A result is written beside the file and takes its place when it is complete, so that a command that fails leaves what
was there. Streams write into the file itself.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import math
import os
import stat
from io import FileIO, StringIO
from pathlib import Path

from tradesdk_cli.errors import Unwritable, UsageProblem
from tradesdk_cli.output.formats import ENDINGS, names_of, of_ending
from tradesdk_cli.text import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any


_TAIL = 64 * 1024
_LONGEST = 64 * 1024
_OUT_OF_ORDER = 60.0
"""Seconds. Rows needn't stand in the order of their times: late ones come after newer ones."""


class Written:
    """Which signals were in the file when a run began that continues in it."""

    def __init__(self, file: Path, form: str) -> None:
        self._file, self._form = file, form
        self._size = file.stat().st_size if file.is_file() else 0
        self._ids: set[str] | None = None
        self._since = -math.inf

    def has(self, event: Mapping[str, Any]) -> bool:
        """Whether this signal was there. Asked again, it says no: whoever comes twice is written twice."""
        if not self._size:
            return False
        when = event.get("timestamp")
        wanted = float(when) - _OUT_OF_ORDER if isinstance(when, int | float) else -math.inf
        if self._ids is None or wanted < self._since:
            self._read(wanted)
        found = self._ids is not None and event.get("id") in self._ids
        if found and self._ids is not None:
            self._ids.discard(str(event["id"]))
        return found

    def _read(self, wanted: float) -> None:
        """Reads back until the rows begin before `wanted`, where rows say when they are from."""
        tail = _TAIL
        while True:
            rows = rows_at_end(self._file, self._form, tail, self._size)
            times = [when for _, when in rows if when is not None]
            begin = max(times[: len(times) // 4 + 1], default=-math.inf)  # among the first, a late one may be older
            if tail >= self._size or begin < wanted:
                break
            tail *= 4
        self._ids = {signal_id for signal_id, _ in rows}
        self._since = -math.inf if tail >= self._size else begin


def last_time(file: Path, form: str) -> float | None:
    """The latest time at the end of the file, in Unix seconds; None when it does not say any."""
    times = [when for _, when in rows_at_end(file, form) if when is not None]
    return max(times, default=None)


def rows_at_end(file: Path, form: str, tail: int = _TAIL, size: int | None = None) -> list[tuple[str, float | None]]:
    """Id and time of the rows in the last bytes of NDJSON, CSV or TSV. Rows without an id are left out.

    `size`: how much of the file counts; else all of it.
    """
    try:
        with file.open("rb") as stream:
            head = stream.readline(_TAIL)
            end = stream.seek(0, 2) if size is None else size
            begin = max(0, end - tail)
            stream.seek(begin)
            lines = stream.read(end - begin).split(b"\n")
    except OSError:
        return []
    if begin:
        del lines[0]  # the end of a row
    if form == "ndjson":
        return [row for line in lines if (row := _of_json(line)) is not None]
    if form not in ("csv", "tsv"):
        return []
    delimiter = "," if form == "csv" else "\t"
    names = _cells(head, delimiter)
    return [row for line in _csv_rows(lines) if (row := _of_cells(names, _cells(line, delimiter))) is not None]


def _of_json(line: bytes) -> tuple[str, float | None] | None:
    from tradesdk import RawResponse

    try:
        found = RawResponse(200, {}, line).json() if line else None  # the standard library's can overflow the stack
    except ValueError:
        return None
    return _row(found) if isinstance(found, dict) else None


def _csv_rows(lines: list[bytes]) -> list[bytes]:
    """The rows of CSV, whose values may have line breaks: as many lines as it takes until quotes are in pairs.

    From the end, where a row ends for certain: the first line may be the middle of one.
    """
    rows, row = [], b""
    for line in reversed(lines):
        row = line + b"\n" + row
        if row.count(b'"') % 2 == 0:
            rows.append(row)
            row = b""
    return rows[::-1]


def _cells(row: bytes, delimiter: str) -> list[str]:
    try:
        lines = StringIO(row.decode("utf-8", "replace"), newline="\n")
        return next(csv.reader(lines, delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []


def _of_cells(names: list[str], values: list[str]) -> tuple[str, float | None] | None:
    return _row(dict(zip(names, values, strict=True))) if len(names) == len(values) and names != values else None


def _row(fields: Mapping[str, object]) -> tuple[str, float | None] | None:
    name, when = fields.get("id"), fields.get("timestamp")
    if not isinstance(name, str) or not name:
        return None
    try:
        seconds = float(when) if isinstance(when, int | float | str) else math.nan
    except (ValueError, OverflowError):
        seconds = math.nan
    return name, seconds if math.isfinite(seconds) else None


_BLOCK = 64 * 1024
_LONGEST_ROW = 4 * 1024 * 1024
FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
"""What says that there is no room."""


class FileUnwritable(Unwritable):
    """The file does not take what was to be written; standard output is as good as ever."""


class OutFile:
    """The file of `--out`."""

    def __init__(self, path: Path, *, by_ending: bool = False) -> None:
        """Looks whether it can be written, and makes nothing yet.

        `by_ending`: the ending says how, so it must be one of a format.

        Raises:
            UsageProblem: it is a folder or a symbolic link, its folder is not there, or one of them may not be written;
                or the ending says something else than what could be in it.
        """
        self.path = path
        self.shown = visible(str(path))
        self.form = of_ending(path.suffix)
        """The format that its ending asks for; None when it says nothing."""
        self._special = _refuse_unwritable(path, self.shown)
        if by_ending and not self._special:
            _refuse_foreign(path.suffix.lower())
        self._file: FileIO | None = None
        self._beside: Path | None = None
        self._goes_on = False
        self._waiting = bytearray()

    # A result, as a whole

    def begin(self) -> None:
        """What is written from now on is one result. A second one of the same command goes below the first."""
        if self._file is not None:
            return
        if self._special:
            self._open("wb")
        elif self._goes_on:
            self._open("ab")
        else:
            try:
                self._open_beside()
            except OSError as error:
                raise self._problem(error) from None

    def write(self, content: str) -> None:
        """Writes text, as UTF-8."""
        self._waiting += content.encode("utf-8", "backslashreplace")
        if len(self._waiting) >= _BLOCK:
            self._flush()

    def commit(self, *, partly: bool = False) -> str:
        """The result is complete and takes the file's place; `partly`: it is kept beside it. Returns where it is."""
        self._flush()
        if self._beside is None:
            self._close()
            return self.shown
        place = self.path.with_name(f"{self.path.name}.part") if partly else self.path
        beside, self._beside = self._beside, None
        try:
            self._close()
            os.replace(beside, place)
        except OSError as error:
            _remove(beside)
            raise self._problem(error) from None
        self._goes_on = not partly
        return visible(str(place)) if partly else self.shown

    def forget(self) -> None:
        """The result did not become complete: what was there stays."""
        self._waiting = bytearray()
        with contextlib.suppress(OSError):
            self._close()
        if self._beside is not None:
            _remove(self._beside)
            self._beside = None

    # Lines, one by one

    def follow_on(self, *, resumed: str | None = None) -> str | None:
        """Lines go to the end of the file itself from now on. Returns its first line, or None when it is empty.

        `resumed`: the format of an earlier run that continues. A row that it did not write whole is removed, as a
        killed process may leave one: its signal comes again.
        """
        if resumed is not None and not self._special and self.path.exists():
            try:
                _cut_torn_row(self.path, resumed)
            except OSError as error:
                raise self._problem(error) from None
        first = self._first_line()
        self._goes_on = True
        self._open("ab")
        return first

    def line(self, text: str) -> None:
        """Writes a line at once. When it cannot be written whole, nothing of it is left."""
        file = self._opened()
        before = None if self._special else file.seek(0, os.SEEK_END)
        try:
            _write_all(file, text.encode("utf-8", "backslashreplace"))
        except OSError as error:
            if before is not None:
                with contextlib.suppress(OSError):
                    file.truncate(before)
            raise self._problem(error) from None

    def close(self) -> None:
        """Closes the file; what was not committed is dropped."""
        self.forget()

    # Inside

    def _open(self, mode: str) -> FileIO:
        if self._file is None:
            try:
                self._file = FileIO(self.path, mode, opener=_opener)
            except OSError as error:
                raise self._problem(error) from None
        return self._file

    def _open_beside(self) -> None:
        import tempfile  # only a result that goes into a file needs it

        number, name = tempfile.mkstemp(prefix=f".{self.path.name[:80]}.", dir=self.path.parent)
        self._beside = Path(name)
        self._file = FileIO(number, "wb")
        os.chmod(name, _mode_for(self.path))

    def _opened(self) -> FileIO:
        return self._open("ab") if self._file is None else self._file

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, bytearray()
        if not waiting:
            return
        try:
            _write_all(self._opened(), waiting)
        except OSError as error:
            raise self._problem(error) from None

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _first_line(self) -> str | None:
        """The first line of the file. An end without a line break gets one: whatever broke off there stays apart."""
        if self._special or not self.path.exists():
            return None
        try:
            with open(self.path, "rb+") as file:
                first = file.readline(_BLOCK)
                if not first:
                    return None
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")
        except OSError as error:
            raise self._problem(error) from None
        return first.decode("utf-8", "replace")

    def _problem(self, error: OSError) -> FileUnwritable:
        hint = "choose another file: --out FILE"
        if error.errno in FULL:
            hint = f"make room on that disk, or {hint}"
        return FileUnwritable(f"{self.shown} cannot be written: {error.strerror}", hint)


def _cut_torn_row(path: Path, form: str) -> None:
    """Removes what is behind the last line break, unless it is a whole row whose line break is missing."""
    with open(path, "rb+") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _LONGEST_ROW))
        end = file.read()
        if end.endswith(b"\n") or (b"\n" not in end and size > _LONGEST_ROW):
            return
        row = end.rpartition(b"\n")[2]
        if form == "ndjson":
            whole = _of_json(row) is not None
        else:
            file.seek(0)
            delimiter = "," if form == "csv" else "\t"
            whole = len(_cells(row, delimiter)) == len(_cells(file.readline(_TAIL), delimiter))
        if not whole:
            file.truncate(size - len(row))


def _refuse_unwritable(path: Path, shown: str) -> bool:
    """Whether it is a device or a pipe, which is written as it is."""
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        kind = None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageProblem(f"--out: {shown} cannot be written: {reason}", "choose another file") from None
    if kind is not None and stat.S_ISDIR(kind):
        raise UsageProblem(f"--out: {shown} is a folder", f"name a file in it: --out {shown.rstrip('/')}/trades.csv")
    if path.is_symlink() and (kind is None or stat.S_ISREG(kind)):
        from shlex import quote

        # Neither the link nor its target is replaced by surprise. Links to devices and pipes (/dev/stdout) work.
        there = visible(os.path.realpath(path))
        raise UsageProblem(
            f"--out: {shown} is a symbolic link to {there}", f"to write there, name that file: --out {quote(there)}"
        )
    if kind is not None and not os.access(path, os.W_OK):
        raise UsageProblem(f"--out: {shown} may not be written", "choose another file")
    if kind is not None and not stat.S_ISREG(kind):
        return True
    folder = path.parent
    if not folder.is_dir():
        raise UsageProblem(f"--out: there is no folder {visible(str(folder))}", "make it first, or choose another file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageProblem(f"--out: the folder {visible(str(folder))} may not be written", "choose another folder")
    return False


def _refuse_foreign(ending: str) -> None:
    if ending and ending not in ENDINGS:
        *most, last = ENDINGS
        raise UsageProblem(
            f"--out: there is no format for {visible(ending)} files",
            f"use {', '.join(most)} or {last}, or say which format it is: -o csv",
        )


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags, 0o644)


def _mode_for(path: Path) -> int:
    """Of a file that is there, its own; else what everybody may read, as far as the user's mask allows."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        mask = os.umask(0o077)
        os.umask(mask)
        return 0o644 & ~mask


def _write_all(file: FileIO, content: bytes | bytearray) -> None:
    left = memoryview(content)
    while left:
        left = left[file.write(left) or 0 :]


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def columns_there(form: str, first: str, names: Sequence[str], *, place: str, chosen: bool) -> list[str]:
    """The columns of a file whose `first` line this is. `names` are those of the rows to come; `chosen` by --fields.

    Raises:
        UsageProblem: they do not fit.
    """
    there = names_of(form, first)
    missing = [visible(name, 60) for name in names if name not in there]
    if chosen and missing:
        raise UsageProblem(f"--out: {place} has no column {', '.join(missing)}", "choose another file")
    if not set(there) & set(names):
        raise UsageProblem(f"--out: {place} has other columns than this", "choose another file")
    return there


def refuse_others(file: Path, form: str, names: Sequence[str], *, place: str, chosen: bool) -> None:
    """Looks into the file before there is a row.

    Raises:
        UsageProblem: the rows would not fit below its header.
    """
    if not file.is_file():
        return
    try:
        with file.open("rb") as stream:
            first = stream.readline(_LONGEST)
    except OSError:
        return  # whoever writes says so
    if first:
        columns_there(form, first.decode("utf-8", "replace"), names, place=place, chosen=chosen)
