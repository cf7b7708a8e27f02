"""Checks of arguments. The errors say what a value must be."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import field, fields
from typing import Any

from .errors import MockServerError

_SURROGATE = re.compile("[\ud800-\udfff]")

Check = Callable[[object], object]
"""Returns the value to keep, or raises ValueError with what it must be."""


def quoted(value: object) -> str:
    """Untrusted text for an error message, shortened and without control characters; the type of anything else."""
    if not isinstance(value, str):
        return type(value).__name__
    text = repr(value if len(value) <= 80 else value[:77] + "...")
    return text if len(text) <= 120 else text[:116] + "...'"


def is_text(value: object, longest: int) -> bool:
    """Whether it is text, at most this long, that can be sent and stored."""
    return isinstance(value, str) and len(value) <= longest and not _SURROGATE.search(value)


def text(longest: int, form: str, must_be: str) -> Check:
    """Text of at most this length, in the form of a regular expression."""
    pattern = re.compile(form, re.DOTALL)

    def check(value: object) -> object:
        if not is_text(value, longest) or not pattern.fullmatch(str(value)):
            raise ValueError(f"must be {must_be}")
        return value

    return check


def number(low: float, high: float) -> Check:
    def check(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"must be a number from {low:,} to {high:,}")
        if not low <= value <= high or not math.isfinite(value):
            raise ValueError(f"must be from {low:,} to {high:,}")
        return value

    return check


def integer(low: int, high: int) -> Check:
    def check(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"must be an integer from {low:,} to {high:,}")
        return value

    return check


def choice(*names: str) -> Check:
    def check(value: object) -> object:
        if value not in names:
            raise ValueError(f"must be one of {', '.join(names)}")
        return value

    return check


def checked_by(check: Check, default: Any = None) -> Any:
    """A field of a dataclass whose values `check` accepts: `checks_of` finds it."""
    return field(default=default, metadata={"check": check})


def checks_of(kind: Any) -> dict[str, Check]:
    """The checks of a dataclass's fields, by name."""
    return {each.name: each.metadata["check"] for each in fields(kind) if each.metadata}


def checked(name: str, check: Check, value: object) -> object:
    """The value to keep; otherwise a MockServerError that begins with the name."""
    try:
        return check(value)
    except ValueError as error:
        raise MockServerError(f"{name}: {error}") from None
