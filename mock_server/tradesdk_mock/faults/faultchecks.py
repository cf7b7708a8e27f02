"""What a stranger may say of a fault: checks of its parameters, each with words for what is wrong."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping

LONGEST = 3_600
MONTH = 31 * 86_400
MOST_BYTES = 8 * 2**20
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
_VALUE = re.compile(r"(?:[!-~](?:[ \t!-~]{0,1998}[!-~])?)?", re.ASCII)
_FRAMING = ("content-length", "transfer-encoding", "connection")

Check = Callable[[object], object]
"""The value to keep, or ValueError with what it must be."""


def shown(value: object) -> str:
    """A stranger's value in a message: on one line, and not for ever."""
    text = ascii(value[:100]) if isinstance(value, str) else type(value).__name__
    return text if len(text) <= 80 else text[:77] + "..."


def is_text(value: object, longest: int) -> bool:
    """Whether it is text of this length that can be sent and stored."""
    return isinstance(value, str) and len(value) <= longest and not any("\ud800" <= c <= "\udfff" for c in value)


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


def flag(value: object) -> object:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def choice(*names: str) -> Check:
    def check(value: object) -> object:
        if value not in names:
            raise ValueError(f"must be one of {', '.join(names)}")
        return value

    return check


def words(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)  # a command line can't tell them apart
    if not is_text(value, 2_000):
        raise ValueError("must be text of at most 2,000 characters")
    return value


def header_value(value: object) -> object:
    if not isinstance(value, str) or not _VALUE.fullmatch(value):
        raise ValueError("must be printable ASCII of at most 2,000 characters, as a header's value is")
    return value


def wait(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("must be whole seconds, or text such as a date")
    return header_value(value) if isinstance(value, str) else integer(0, 10**9)(value)


def headers(value: object) -> object:
    if not isinstance(value, dict) or len(value) > 50:
        raise ValueError("must be an object of at most 50 names and values")
    found = {}
    for name, each in value.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"{shown(name)} is not the name of a header")
        if name.lower() in _FRAMING:
            raise ValueError(f"{name.lower()} says where the answer ends: use truncate or bad_chunk")
        if isinstance(each, int | float) and not isinstance(each, bool):
            each = str(each)
        try:
            found[name] = header_value(each)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return found


def share(value: object) -> object:
    found = number(0, 1)(value)
    if not found:
        raise ValueError("must be more than 0: with 0 nothing would ever happen")
    return found


def content(value: object) -> object:
    """Text that is sent as it is."""
    if not is_text(value, MOST_BYTES) or len(str(value).encode()) > MOST_BYTES:
        raise ValueError("must be text of at most 8 MiB in UTF-8")
    return value


def encoded(value: object) -> object:
    """Bytes that JSON can't say."""
    if not isinstance(value, str) or len(value) > MOST_BYTES * 4 // 3 + 4:
        raise ValueError("must be base64 of at most 8 MiB")
    try:
        found = base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        raise ValueError("must be base64, with its padding and without line breaks") from None
    if len(found) > MOST_BYTES:
        raise ValueError("must be base64 of at most 8 MiB")
    return value


def bytes_of(parameters: Mapping[str, object]) -> bytes:
    """What `text` or `base64` stand for."""
    text = parameters.get("text")
    return base64.b64decode(str(parameters["base64"])) if text is None else str(text).encode()
