"""Printable text, and parsing JSON."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def printable(text: str, limit: int = 500) -> str:
    """`text` on one line, cut at `limit`; characters that could move a cursor or hide text are escaped."""
    if len(text) > limit:
        text = text[:limit] + "…"
    if text.isprintable():
        return text
    return "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode("ascii") for ch in text)


def without_keys(text: str) -> str:
    """Typed `text` with anything that may be a private key, even a mistyped one, replaced by `****`."""
    return re.sub("[0-9A-Za-z]{48,}", "****", text)  # longer than an address or an id


def parse_json(content: bytes) -> Any:
    """Parse JSON. Raises `ValueError` for anything else, and for nesting of more than about 200 levels.

    The standard library's parser would overflow the stack when another library has raised the recursion limit.
    """
    from pydantic_core import from_json  # imported late: most answers are read by a model

    return from_json(content, allow_inf_nan=False)
