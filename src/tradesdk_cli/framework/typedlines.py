"""The line that was typed: how it began, and what of it can be repeated in a hint. Loaded when something is wrong."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from tradesdk_cli.config.entries import NAME, looks_secret
from tradesdk_cli.config.settings import program_of
from tradesdk_cli.framework.synonyms import SECRET_OPTIONS
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

_KEY = re.compile(r"[0-9A-Za-z]{48,}")
"""A private key, perhaps a mistyped one: no address and no id is as long."""
SECRET = re.compile(r"(?:mock|mocksk|sk|pk|ak|key|api|live)[_-]\S+", re.IGNORECASE)
WHOLE_LINE = "did you mean: "
"""What begins a hint with all that was typed, where it was typed."""


def program_typed(argv: Sequence[str]) -> str:
    """How the line began, as `program_of` has it. Typer may not have come to the options when something is wrong."""
    flags: dict[str, Any] = {}
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        value = value if equals else following
        if word == "--":
            break
        if word in ("--mock", "--no-mock"):
            flags["mock"] = word == "--mock"
        elif name in ("--world", "--profile") and NAME.fullmatch(value):
            flags[name.removeprefix("--")] = "NAME" if looks_secret(value) else value
    return program_of(flags)


def safe(text: str) -> str:
    """What somebody typed, on one line; a key that was typed where it does not belong need not be repeated."""
    return _KEY.sub("****", one_line(text))


def _again(argv: Sequence[str]) -> str | None:
    """The whole line, to paste. None where it holds what may be a secret."""
    for word in argv:
        if word.partition("=")[0] in SECRET_OPTIONS or _KEY.search(word) or SECRET.fullmatch(word):
            return None
    line = shlex.join(["trade", *argv])
    return line if line.isprintable() else None


def instead(argv: Sequence[str], path: str) -> str:
    line = _again(argv)
    return f"{WHOLE_LINE}{line}" if line else f"{path} --help"
