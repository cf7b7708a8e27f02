"""Text for output: untrusted text, JSON, counts, times and money.

Names, symbols and messages are untrusted. Characters that could move the cursor, hide or reorder text are shown as
escapes: control and escape sequences, bidirectional overrides, invisible characters. Markup is never interpreted.
"""

from __future__ import annotations

import codecs
import io
import re
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from decimal import Decimal
    from typing import Any

# Printable for Python, but invisible: fillers, joiners, variation selectors (except the emoji one).
_UNSEEN = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0e\uffa0\U000e0100-\U000e01ef"
# Combining marks: many of them cover the lines around them.
_MARKS = (
    "\u0300-\u034e\u0350-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u06d6-\u06dc\u06df-\u06e4"
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_LINE = re.compile(r"(?:export\s+|set\s+|\$env:)?[\"']?(TRADE_\w+|[\w-]*key)[\"']?\s*[:=]\s*(.+?),?", re.IGNORECASE)
_BEYOND_ASCII = re.compile("[^ -~]")
"""Characters to check one by one, which are few in most texts."""
_DOUBTFUL = re.compile("[^ -~]|  +")
_ODD = re.compile(f"[{_UNSEEN}]|(?<=[{_MARKS}]{{3}})[{_MARKS}]+")


def visible(text: str, limit: int | None = None) -> str:
    """`text` on one line with everything unprintable as an escape; longer than `limit` characters ends with `…`."""
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + "…"
    if not text.isprintable():
        text = _BEYOND_ASCII.sub(lambda found: found[0] if found[0].isprintable() else _escape(found[0]), text)
    return text if text.isascii() else _ODD.sub(lambda found: "".join(map(_escape, found[0])), text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def unmistakable(value: Any) -> str:
    """Unambiguous JSON of `value`: repeated spaces, invisible characters, marks and right-to-left text are escapes."""
    return _DOUBTFUL.sub(
        lambda found: "".join(char if _is_distinct(char) else json_escaped(char, always=True) for char in found[0]),
        to_json(value),
    )


def _is_distinct(char: str) -> bool:
    import unicodedata  # not needed for completion and help

    name = unicodedata.name(char, "BLANK")
    return (
        unicodedata.category(char)[0] in "LNPS"
        and unicodedata.bidirectional(char) not in ("R", "AL", "AN")
        and not any(word in name for word in ("BLANK", "FILLER", "NULL", "OBJECT REPLACEMENT"))
    )


def one_line(text: str, limit: int = 600) -> str:
    """Like `visible`, for our own messages that may be wrapped: runs of white space become one space first."""
    return visible(" ".join(text.split()), limit)


def is_not_text(word: object) -> bool:
    """Whether a word has bytes that are not UTF-8, which requests and JSON cannot have."""
    return isinstance(word, str) and _SURROGATE.search(word) is not None


def to_paste(words: Iterable[str]) -> list[str]:
    """At most three of `words` that can be typed, each quoted for a shell."""
    from shlex import quote  # only for mistakes

    return [quote(word) for word in words if one_line(word, 80) == word][:3]


def to_json(value: Any, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """JSON of exactly `value` that is safe to print: unprintable characters are written as `\\uXXXX`.

    Raises ValueError for NaN or an infinity somewhere inside.
    """
    import json  # not needed for completion and help

    separators = (",", ":") if indent is None else None
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent, allow_nan=False, separators=separators)
    if text.replace("\n", "").isprintable():
        return text
    # json.dumps has escaped characters below U+0020; DEL, C1, format characters and lone surrogates remain.
    return _BEYOND_ASCII.sub(lambda found: found[0] if found[0] == "\n" else json_escaped(found[0]), text)


def json_escaped(char: str, *, always: bool = False) -> str:
    """The JSON escape of `char` if it is unprintable, or `always`; else `char`."""
    if char.isprintable() and not always:
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


PLAIN = "tradesdk_cli.plain"
"""Error handler for missing characters of an encoding: our symbols become ASCII, others escapes."""
_SIGNS = {"…": "...", "→": "->", "←": "<-", "↑": "^", "↓": "v", "·": "-", "✓": "+", "✗": "x", "█": "#", "░": "."}


def _plainly(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_SIGNS.get(c) or c.encode("ascii", "backslashreplace").decode() for c in lacking), error.end


codecs.register_error(PLAIN, _plainly)


def print_in_any_encoding() -> None:
    """Makes output tolerate characters that the terminal's encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and isinstance(stream.buffer, io.RawIOBase):
            # `python -u`: partial writes would lose output, and errors of a full disk would be raised in many places.
            stream = open(stream.fileno(), "w", encoding=stream.encoding, closefd=False)  # noqa: SIM115  # for good
            setattr(sys, name, stream)
        if isinstance(stream, io.TextIOWrapper):
            with suppress(OSError):  # it flushes first; commands that print report the error
                stream.reconfigure(errors=PLAIN)


def is_unicode(encoding: str | None) -> bool:
    """Whether this encoding has every character."""
    return (encoding or "").lower().startswith("utf")


def plural(number: int, things: str) -> str:
    """`1 trade`, `2 trades`; `things` is the plural."""
    ending = "es" if things.endswith("ches") else "s"
    return f"{number} {things.removesuffix(ending) if number == 1 else things}"


def span(seconds: float) -> str:
    """`8 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if minutes < 10 and rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def dollars(amount: Decimal) -> str:
    """`$0.06`, `$0.000001`: at least two decimals, and as many as there are."""
    return f"${plain_dollars(amount)}"


def plain_dollars(amount: Decimal) -> str:
    """The same without a dollar sign, exact: `0.06`."""
    whole, _, part = f"{amount:f}".partition(".")
    return f"{whole}.{part.rstrip('0').ljust(2, '0')}"


def usd(micro: int) -> Decimal:
    """Dollars of micro-dollars."""
    from decimal import Decimal  # not needed for completion and help

    return Decimal(micro).scaleb(-6)


def maybe_dollars(micro: int | None) -> str | None:
    """Dollars for programs; None stays None."""
    return None if micro is None else plain_dollars(usd(micro))


def bare_key(text: str, variable: str = "TRADE_API_KEY") -> str:
    """A key from a file's text, without byte order mark, line break and quotes.

    A line that sets `variable`, or its short name `api_key`, gives its value.
    """
    text = text.strip().removeprefix("\ufeff").strip()
    if line := _LINE.fullmatch(text):
        if not variable.endswith(line[1].upper().replace("-", "_")):
            from tradesdk_cli.errors import ConfigProblem

            raise ConfigProblem(f"this line sets {line[1]}, not {variable}", "give the key alone")
        text = line[2]
    return text.strip("\"' \t")
