"""Amounts that were typed with a sign: `5%`, `80%`, `$0.05`. Loaded when one is no number."""

from __future__ import annotations

import re

_PERCENT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)) ?%")
_DOLLARS = re.compile(r"\$ ?(\d+\.?\d*|\.\d+)")
_SHELL = re.compile(r"(?:\S*/|-)?(?:ba|c|da|fi|k|tc|z)?sh(\.\d+)?")
"""What a shell makes of `$0` and of `$0.05`: its own name comes first."""


def not_a_number(text: str, *, share: bool = False) -> str:
    """What to say of it; where it can be told which number is meant, that stands at the end. `share`: 0 to 1."""
    said = f"{text!r} is not a number"
    if percent := _PERCENT.fullmatch(text):
        return f"{said}: {text} is {float(percent[1]) / 100:g}" if share else f"{said}: write {percent[1]}"
    meant = dollars_meant(text)
    if meant is None:
        return said
    return f"{said}: write {meant}" if text.startswith("$") else f"{said}: {why_a_shell(meant)}"


def dollars_meant(text: str) -> str | None:
    """The amount, where the dollar sign is all that is too much, or a shell replaced `$0` by its own name."""
    if dollars := _DOLLARS.fullmatch(text):
        return dollars[1]
    shell = _SHELL.fullmatch(text)
    return f"0{shell[1] or ''}" if shell else None


def dollars_hint(option: str, text: str) -> str:
    """What to type instead of dollars that cannot be read."""
    meant = dollars_meant(text)
    if meant is None:
        empty = (
            "leave a dollar sign out, which a shell takes for a variable; " if not text or text.startswith(".") else ""
        )
        return f"{empty}for example: {option} 0.10"
    right = f"{option} {meant}"
    return f"leave the dollar sign out: {right}" if text.startswith("$") else why_a_shell(right)


def why_a_shell(meant: str) -> str:
    """What happened to the dollar sign."""
    return f"a shell puts its own name in place of $0, so without the dollar sign: {meant}"
