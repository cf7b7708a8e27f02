"""Printable text, without secrets."""

from __future__ import annotations

import math
import re
from numbers import Real
from typing import TypeGuard

# Characters that files add to a key: quotes, and a byte order mark (as UTF-8, or its bytes in other encodings).
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


def display(value: object) -> str:
    """A value of any type, as text for an error message."""
    try:
        return printable(repr(value), 40)
    except ValueError:  # an int with more digits than Python prints
        return f"such a large {type(value).__name__}"


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a real number, of Python or numpy."""
    return isinstance(value, Real) and not isinstance(value, bool)


def real(value: object) -> float:
    """A number as a float, infinite if too large for one. NaN, which fails every comparison, for anything else."""
    try:
        return float(value) if is_number(value) else math.nan
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]  # an int


def is_url(path: str) -> bool:
    """Whether it is a URL, or a URL that `pathlib` turned into a path. It may contain a password."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", path) is not None


def wrong_number(name: str, expected: str, value: object) -> tuple[str, str]:
    """Message and hint for an invalid argument."""
    hint = f"set {name} to {expected}"
    if is_number(value):
        return f"{name} must be {expected}, not {display(value)}", hint
    message = f"{name} must be {expected}, not the {type(value).__name__} {display(value)}"
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}(\.\d{1,18})?", value, re.ASCII):
        return message, f"write {name}={value}, without quotes"
    return message, hint


def bare_key(text: str) -> str:
    """A key as `$(cat file)` gives it, without the byte order mark, line break and quotes of the file."""
    text = _MARK.sub("", text.strip()).strip()
    quoted = _QUOTED.fullmatch(text)
    return text if quoted is None else next(part for part in quoted.groups() if part is not None).strip()
