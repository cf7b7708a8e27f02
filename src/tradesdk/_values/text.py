"""Text that people read, and JSON."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def printable(text: str, limit: int = 500) -> str:
    """`text` on one line, cut at `limit`: whatever could move a cursor or hide text is shown as an escape."""
    if len(text) > limit:
        text = text[:limit] + "…"
    if text.isprintable():
        return text
    return "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode("ascii") for ch in text)


def without_keys(text: str) -> str:
    """`text` that somebody typed, without what may be a private key, a mistyped one too: so long a row of letters and
    digits is no address and no id."""
    return re.sub("[0-9A-Za-z]{48,}", "****", text)


def parse_json(content: bytes) -> Any:
    """Any JSON; `ValueError` when it is none, or is nested more than about 200 deep.

    Not the standard library's parser: it overflows the stack when another library has raised the recursion limit.
    """
    from pydantic_core import from_json  # only where an answer is not read by a model

    return from_json(content, allow_inf_nan=False)
