"""Output of every format, read back by real readers, and what has to be true of it."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ._terminal import Run


@dataclass
class Handed:
    """What a command handed over to be printed, before it had a format."""

    many: bool
    value: Any


def check(form: str, run: Run, handed_over: Handed) -> None:
    """What was printed is what was handed over, whole, and safe to open."""
    value, many = handed_over.value, handed_over.many
    assert "…" not in run.out or "…" in json.dumps(value, ensure_ascii=False), "nothing is cut"
    if form == "json":
        assert run.json == value
    elif form == "ndjson":
        assert run.lines == (value if many else [value])
    elif form in ("csv", "tsv"):
        rows = list(csv.reader(io.StringIO(run.out), "excel" if form == "csv" else "excel-tab"))
        _same_rows(rows, [flat(item) for item in (value if many else [value])], lines=form == "csv")
        for row in rows:
            assert not [cell for cell in row if cell[:1] in "=+-@" and cell and not re.fullmatch(r"-[\d.e+-]+", cell)]
    if form != "table":
        assert all(name in run.out for name in ids(value)), "every id can be pasted back"


def _same_rows(rows: list[list[str]], items: list[dict[str, Any]], *, lines: bool = False) -> None:
    if not items:
        assert rows == []
        return
    names = list(dict.fromkeys(name for item in items for name in item))
    assert rows[0] == names
    assert rows[1:] == [[_cell(_moment(name, item.get(name)), lines=lines) for name in names] for item in items]


TIMES = ("timestamp", "at", "now", "valid_before", "service_now", "signals_upto")


def _moment(name: str, value: Any) -> Any:
    """Times are ISO 8601 in rows, where the service sends Unix seconds."""
    last = name.rpartition(".")[2]
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value
    if not last.endswith("_at") and last not in TIMES:
        return value
    return datetime.fromtimestamp(value, UTC).isoformat().replace("+00:00", "Z")


def _cell(value: Any, *, lines: bool = False) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if lines else text.replace("\n", "\\n")


def flat(item: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested fields with dotted names."""
    found: dict[str, Any] = {}
    for name, value in item.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) and value else {f"{prefix}{name}": value}
    return found


def ids(value: Any, name: str = "") -> list[str]:
    """Every id, address and hash somewhere in `value`."""
    if isinstance(value, dict):
        return [one for key, inner in value.items() for one in ids(inner, key)]
    if isinstance(value, list):
        return [one for inner in value for one in ids(inner, name)]
    named = name == "id" or name.lower().endswith(("_id", "address", "hash", "transaction", "payer"))
    return [value] if isinstance(value, str) and named and value.isascii() and value.isprintable() else []
