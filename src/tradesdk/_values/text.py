"""Printable text, without secrets."""

from __future__ import annotations

import re


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
