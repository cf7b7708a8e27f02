"""Values in CSV and TSV, and times in all formats. Pure functions.

Names and values are the service's, numbers are exactly as in JSON; times are ISO 8601 in UTC, or as --times says.
Unprintable characters become escapes; only CSV keeps line breaks in values. Nested fields
have dotted names and lists are JSON.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tradesdk_cli.text import to_json, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tradesdk_cli.choices import Times

ROWS = ("csv", "tsv")
"""Formats with a header and rows."""

ENDINGS = {
    ".json": "json",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "table",
}
"""Formats by file ending."""


def flatten(item: Mapping[str, Any]) -> dict[str, Any]:
    """Nested fields with dotted names. Lists and empty objects stay values."""
    return dict(_flat("", item))


def _flat(prefix: str, item: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in item.items():
        if isinstance(value, dict) and value:
            yield from _flat(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", value


# Times

_TIMES = ("timestamp", "createdAt", "at", "now", "valid_before", "service_now", "signals_upto")


def is_time(name: str) -> bool:
    """Whether a field of this name, dotted where nested, is a time."""
    last = name.rpartition(".")[2]
    return last in _TIMES or last.endswith("_at")


def seconds_of(value: Any) -> float | None:
    """Unix seconds of a time in either API's form; None when it is not a time."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return None if found.tzinfo is None else found.timestamp()


def utc(seconds: float) -> datetime | None:
    """Unix seconds in UTC; None out of the calendar's range."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def as_time(value: Any, times: Times) -> Any:
    """A time in the requested form; anything else is unchanged."""
    seconds = seconds_of(value)
    if seconds is None or (times == "iso" and isinstance(value, str)):
        return value
    if times == "unix":
        return int(seconds) if seconds == int(seconds) else seconds
    moment = utc(seconds)
    return value if moment is None else moment.isoformat().replace("+00:00", "Z")


def with_times(value: Any, times: Times) -> Any:
    """The value with all its times in the form `times`."""
    if isinstance(value, dict):
        return {
            name: as_time(inner, times) if is_time(str(name)) else with_times(inner, times)
            for name, inner in value.items()
        }
    return [with_times(inner, times) for inner in value] if isinstance(value, list) else value


# CSV and TSV

# The beginnings of spreadsheet formulas, also after spaces, and in full-width form. Where the comma is the decimal
# mark, a semicolon separates cells; for programs that ignore quotes, a line break separates rows. Tabs and carriage
# returns are escapes by then.
_FORMULA = re.compile(r"(^|[;\n])([ \"]*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])")
_NUMBER = re.compile(r"-\d+(?:\.\d+)?")


def harmless(text: str, *, lines: bool = False) -> str:
    """`text` with an apostrophe before a spreadsheet formula; on one line, or with its `lines`."""
    if _NUMBER.fullmatch(text):
        return text
    shown = "\n".join(map(visible, text.split("\n"))) if lines else visible(text)
    return _FORMULA.sub(r"\1\2'", shown)


def _cell(form: str, value: Any) -> str:
    """A value as a cell: empty for null, numbers as in JSON, lists as JSON, text escaped."""
    text = "" if value is None else value if isinstance(value, str) else to_json(value)
    if isinstance(value, str | list | dict):
        text = harmless(text, lines=form == "csv")
    if form == "csv":
        quoted = any(char in text for char in ',";\n') or text != text.strip() or value == ""
    else:
        quoted = text.startswith('"')  # spreadsheets would look for the closing quote
    return '"' + text.replace('"', '""') + '"' if quoted else text


# Rows


class Rows:
    """A header and rows, as CSV or TSV; `names` are the columns, `times` is the form of times."""

    def __init__(self, form: str, names: Sequence[str], times: Times | None = None) -> None:
        self._form, self.names = form, tuple(names)
        self._times: Times = times or "iso"

    def header(self) -> str:
        """The header."""
        return self._line(list(map(visible, self.names)))  # one line, as it identifies the file's columns

    def row(self, flat: Mapping[str, Any]) -> str:
        """One row; `flat` is a result of `flatten`."""
        return self._line(
            [as_time(flat.get(name), self._times) if is_time(name) else flat.get(name) for name in self.names]
        )

    def _line(self, values: Sequence[Any]) -> str:
        # \n, not \r\n: spreadsheets read it, and cut, awk and diff leave no \r in the last cell.
        line = ("," if self._form == "csv" else "\t").join(_cell(self._form, value) for value in values)
        return ('""' if not line and self._form == "csv" else line) + "\n"  # readers of CSV skip empty lines


def cells_of(form: str, row: bytes) -> list[str]:
    """The cells of a row in a file; empty when the row is incomplete."""
    import csv
    from io import StringIO

    lines = StringIO(row.decode("utf-8", "replace"), newline="\n")
    try:
        return next(csv.reader(lines, delimiter="," if form == "csv" else "\t", strict=True), [])
    except csv.Error:
        return []


def as_rows(values: Sequence[Any]) -> list[dict[str, Any]]:
    """Items that are not all objects as rows: lists with positions from 1, others as `value`."""
    if all(isinstance(value, list) for value in values):
        return [{str(number): inner for number, inner in enumerate(value, 1)} for value in values]
    return [{"value": value} for value in values]
