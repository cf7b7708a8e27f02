"""The last signal in a file that a stream goes on in: after a crash that one comes again, and is there already."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_TAIL = 64 * 1024


def last_id(file: Path, form: str) -> str | None:
    """The id in the last row of NDJSON, CSV or TSV; None when there is none, or nothing tells which it is."""
    try:
        with file.open("rb") as stream:
            head = stream.readline(_TAIL)
            stream.seek(max(0, stream.seek(0, 2) - _TAIL))
            lines = stream.read().splitlines()
    except OSError:
        return None
    last = lines[-1].decode("utf-8", "replace") if lines else ""
    if form == "ndjson":
        from tradesdk import RawResponse

        try:
            found = RawResponse(200, {}, last.encode()).json()  # the standard library's can overflow the stack
        except ValueError:
            return None
        name = found.get("id") if isinstance(found, dict) else None
        return name if isinstance(name, str) else None
    if form not in ("csv", "tsv"):
        return None
    if form == "csv":
        last = _last_row(lines)
    try:
        names, values = csv.reader(
            [head.decode("utf-8", "replace"), *last.splitlines(keepends=True)], delimiter="," if form == "csv" else "\t"
        )
        return dict(zip(names, values, strict=True)).get("id")
    except (ValueError, csv.Error):
        return None


def _last_row(lines: list[bytes]) -> str:
    """The last row of CSV, whose values may have line breaks: as many lines as it takes until quotes are in pairs."""
    row = b""
    for line in reversed(lines):
        row = line + b"\n" + row
        if row.count(b'"') % 2 == 0:
            break
    return row.decode("utf-8", "replace")
