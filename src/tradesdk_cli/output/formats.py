"""How values look in CSV and TSV, as text. Pure: nothing is printed here.

Names and values are the service's own, numbers are exactly as JSON has them. What cannot be printed is written as an
escape; only CSV keeps the line breaks of a value. Nested fields have dotted names and lists are JSON.
"""

from __future__ import annotations

import re

from tradesdk_cli.text import to_json, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

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
"""The formats that the ending of a file asks for."""


def flatten(item: Mapping[str, Any]) -> dict[str, Any]:
    """Nested fields with dotted names. Lists and empty objects stay values."""
    return dict(_flat("", item))


def _flat(prefix: str, item: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in item.items():
        if isinstance(value, dict) and value:
            yield from _flat(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", value


# CSV and TSV

# What a spreadsheet takes for a formula, also after spaces, and in its full-width form. A semicolon is what separates
# cells where the comma is the decimal mark, and a line break separates rows for whoever ignores quotes. Tabs and
# carriage returns are escapes by then.
_FORMULA = re.compile(r"(^|[;\n])([ \"]*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])")
_NUMBER = re.compile(r"-\d+(?:\.\d+)?")


def harmless(text: str, *, lines: bool = False) -> str:
    """`text` with an apostrophe in front of what a spreadsheet would calculate; on one line, or with its `lines`."""
    if _NUMBER.fullmatch(text):
        return text
    shown = "\n".join(map(visible, text.split("\n"))) if lines else visible(text)
    return _FORMULA.sub(r"\1\2'", shown)


def plain(value: Any, *, lines: bool = False) -> str:
    """A value as a cell, before quotes: nothing for null, numbers as in JSON, lists as JSON, text made harmless."""
    if value is None:
        return ""
    if isinstance(value, str):
        return harmless(value, lines=lines)
    text = to_json(value)
    return _FORMULA.sub(r"\1\2'", text) if isinstance(value, list | dict) else text


def _csv(value: Any) -> str:
    text = plain(value, lines=True)
    return _quoted(text) if any(char in text for char in ',";\n') or text != text.strip() or value == "" else text


def _tsv(value: Any) -> str:
    text = plain(value)
    return _quoted(text) if text.startswith('"') else text  # spreadsheets would look for the other quote


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


# Rows


class Rows:
    """Rows below a header, as CSV or TSV; `names` are the columns."""

    def __init__(self, form: str, names: Sequence[str]) -> None:
        self._form, self.names = form, tuple(names)

    def header(self) -> str:
        """The header."""
        return self._line(list(map(visible, self.names)))  # one line: it is what a file is known by

    def row(self, flat: Mapping[str, Any]) -> str:
        """One row; `flat` is what `flatten` makes."""
        return self._line([flat.get(name) for name in self.names])

    def _line(self, values: Sequence[Any]) -> str:
        # \n and not \r\n: every spreadsheet reads it, and cut, awk and diff leave no \r in the last cell.
        if self._form == "tsv":
            return "\t".join(map(_tsv, values)) + "\n"
        line = ",".join(map(_csv, values))
        return (line or '""') + "\n"  # readers leave out empty lines


def cells_of(form: str, row: bytes) -> list[str]:
    """The cells of a row that is in a file already; none when it is not whole."""
    import csv
    from io import StringIO

    lines = StringIO(row.decode("utf-8", "replace"), newline="\n")
    try:
        return next(csv.reader(lines, delimiter="," if form == "csv" else "\t", strict=True), [])
    except csv.Error:
        return []


def as_rows(values: Sequence[Any]) -> list[dict[str, Any]]:
    """Whatever a list holds as rows: objects flattened, lists with their positions from 1, the rest as `value`."""
    if all(isinstance(value, dict) for value in values):
        return [flatten(value) for value in values]
    if all(isinstance(value, list) for value in values):
        return [{str(number): inner for number, inner in enumerate(value, 1)} for value in values]
    return [{"value": value} for value in values]
