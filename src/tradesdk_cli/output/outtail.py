"""The signals at the end of a file that a stream goes on in: those that come again are there already."""

from __future__ import annotations

import csv
import math
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

_TAIL = 64 * 1024
_OUT_OF_ORDER = 60.0
"""Seconds. Rows needn't stand in the order of their times: late ones come after newer ones."""


class Written:
    """Which signals were in the file when a run began that goes on in it."""

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
