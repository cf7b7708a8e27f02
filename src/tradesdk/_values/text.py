"""Printable text, without secrets."""

from __future__ import annotations

import re

# What files add to a key: a byte order mark (as UTF-8, or as other encodings read its bytes) and quotes.
_MARK = re.compile("^(?:\ufeff|\u00ef\u00bb\u00bf|\udcef\udcbb\udcbf)")
_QUOTED = re.compile("\"(.*)\"|'(.*)'|\u201c(.*)\u201d|\u2018(.*)\u2019", re.DOTALL)


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


def bare_key(text: str) -> str:
    """A key as `$(cat file)` gives it, without the byte order mark, line break and quotes of the file."""
    text = _MARK.sub("", text.strip()).strip()
    quoted = _QUOTED.fullmatch(text)
    return text if quoted is None else next(part for part in quoted.groups() if part is not None).strip()
