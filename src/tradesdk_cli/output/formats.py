"""How values look in each machine format: JSON, YAML, CSV, TSV and Markdown, as text. Pure: nothing is printed here.

Names and values are the service's own, numbers are exactly as JSON has them. What cannot be printed is written as an
escape in every format; only CSV keeps the line breaks of a value. In CSV, TSV and Markdown nested fields have dotted
names and lists are JSON.
"""

from __future__ import annotations

import re

from tradesdk_cli.text import to_json, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

ROWS = ("csv", "tsv", "md")
"""Formats with a header and rows."""

ENDINGS = {
    ".json": "json",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".csv": "csv",
    ".tsv": "tsv",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".md": "md",
    ".txt": "table",
}


def of_ending(suffix: str) -> str | None:
    """The format that a file with this ending is expected to have; None when it says nothing."""
    return ENDINGS.get(suffix.lower())


def flatten(item: Mapping[str, Any]) -> dict[str, Any]:
    """Nested fields with dotted names. Lists and empty objects stay values."""
    return dict(_flat("", item))


def _flat(prefix: str, item: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in item.items():
        if isinstance(value, dict) and value:
            yield from _flat(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", value


# YAML

# Read as a text by every reader, whichever version of YAML it knows, so it needs no quotes.
_PLAIN = re.compile(r"[^\W\d](?:[\w./+@()-]|[ ](?=[\w./+@()-]))*")
_LONGEST_KEY = 1000
_NO_TEXT = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def to_yaml(value: Any, *, ascii_only: bool = False) -> str:
    """A YAML document whose value is exactly `value`.

    Raises:
        ValueError: NaN or an infinity somewhere inside.
    """
    return "".join(f"{line}\n" for line in _yaml_lines(value, ascii_only))


def yaml_item(value: Any, *, ascii_only: bool = False) -> str:
    """One item of a YAML list. Items in a row are a list, so it can grow."""
    return "".join(f"{line}\n" for line in _yaml_lines([value], ascii_only))


def _yaml_lines(value: Any, ascii_only: bool) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            name = _yaml_text(key, ascii_only)
            long = len(name) > _LONGEST_KEY  # readers refuse it in front of a colon
            if long:
                yield f"? {name}"
                name = ""
            if isinstance(inner, dict | list) and inner:
                yield f"{name}:"
                margin = "  " if isinstance(inner, dict) or long else ""
                yield from (margin + line for line in _yaml_lines(inner, ascii_only))
            else:
                yield f"{name}: {_yaml_scalar(inner, ascii_only)}"
    elif isinstance(value, list) and value:
        for inner in value:
            for number, line in enumerate(_yaml_lines(inner, ascii_only)):
                yield ("  " if number else "- ") + line
    else:
        yield _yaml_scalar(value, ascii_only)


def _yaml_scalar(value: Any, ascii_only: bool) -> str:
    if isinstance(value, str):
        return _yaml_text(value, ascii_only)
    text = to_json(value)
    if isinstance(value, float) and "e" in text and "." not in text:
        return text.replace("e", ".0e")  # without a point it would be a text
    return text


def _yaml_text(text: str, ascii_only: bool) -> str:
    plain = _PLAIN.fullmatch(text) and text.lower() not in _NO_TEXT
    if plain and text.isprintable() and (text.isascii() or not ascii_only):
        return text
    return '"' + "".join(_yaml_char(char, ascii_only) for char in text) + '"'


def _yaml_char(char: str, ascii_only: bool) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if char.isprintable() and (char.isascii() or not ascii_only):
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


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


# Markdown

_CALM = re.compile(r"(?:[\w.,/%+()-]|(?<=\d):(?=\d)|(?<=\S) (?=\S))*")
_LIVELY = re.compile(r"www\.|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", re.IGNORECASE)


def _md(value: Any) -> str:
    """A cell of a table. What could be markup, a link or a mention stands as code, where it is only text."""
    if value is None:
        return ""
    text = visible(value) if isinstance(value, str) else to_json(value)
    if isinstance(value, bool | int | float) or (_CALM.fullmatch(text) and not _LIVELY.search(text)):
        return text
    # A backslash in front of a bar would let the bar end the cell.
    inner = re.sub(r"(\\*)\|", lambda found: found[1] * 2 + "\\|", text)
    fence = "`"
    while fence in inner:
        fence += "`"
    edges = inner[0] + inner[-1]
    space = " " if "`" in edges or (edges == "  " and inner.strip()) else ""
    return f"{fence}{space}{inner}{space}{fence}"


# Rows


class Rows:
    """Rows below a header, as CSV, TSV or Markdown."""

    def __init__(self, form: str, names: Sequence[str], right: Sequence[str] = ()) -> None:
        """`names` are the columns; in Markdown those of `right` are aligned to the right."""
        self._form, self.names, self._right = form, tuple(names), frozenset(right)

    def header(self) -> str:
        """The header."""
        first = self._line(list(map(visible, self.names)))  # one line in every format: it is what a file is known by
        if self._form != "md":
            return first
        return first + "".join("| ---: " if name in self._right else "| --- " for name in self.names) + "|\n"

    def row(self, flat: Mapping[str, Any]) -> str:
        """One row; `flat` is what `flatten` makes."""
        return self._line([flat.get(name) for name in self.names])

    def _line(self, values: Sequence[Any]) -> str:
        # \n and not \r\n: every spreadsheet reads it, and cut, awk and diff leave no \r in the last cell.
        if self._form == "md":
            return "".join(f"| {_md(value)} " for value in values) + "|\n"
        if self._form == "tsv":
            return "\t".join(map(_tsv, values)) + "\n"
        line = ",".join(map(_csv, values))
        return (line or '""') + "\n"  # readers leave out empty lines


def names_of(form: str, line: str) -> list[str]:
    """The columns in the header of a file that is there already; `line` is its first."""
    line = line.rstrip("\r\n")
    if form == "tsv":
        return line.split("\t")
    if form == "csv":
        import csv

        return next(iter(csv.reader([line])), [])
    return [part.strip().strip("`").strip() for part in re.split(r"(?<!\\)\|", line)[1:-1]]


def as_rows(values: Sequence[Any]) -> list[dict[str, Any]]:
    """Whatever a list holds as rows: objects flattened, lists with their positions from 1, the rest as `value`."""
    if all(isinstance(value, dict) for value in values):
        return [flatten(value) for value in values]
    if all(isinstance(value, list) for value in values):
        return [{str(number): inner for number, inner in enumerate(value, 1)} for value in values]
    return [{"value": value} for value in values]


def is_number(value: Any) -> bool:
    """True for what is aligned to the right."""
    return isinstance(value, int | float) and not isinstance(value, bool)
