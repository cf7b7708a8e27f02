"""Text as an attacker writes it: one table for all that is shown, stored or logged."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

LONE = "\ud800"
WEAPONS = {
    "ansi": "\x1b[2J\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "osc8": "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
    "osc52": "\x1b]52;c;ZXZpbA==\x07\x1bP+q\x1b\\",
    "c1": "\x9b31m\x9d52;c;x\x9c\x90q\x85\x84",
    "bidi": "\u202eevil\u202c\u2066x\u2069\u200f\u061c",
    "markup": "[bold]b[/bold][link=http://x]l[/link]:smile:[/] %s {0} ${HOME} `id` | <b>&amp;",
    "lines": "a\r\nb\tc\x0b\x0c\u2028\u2029\x1c",
    "unseen": "\u200b\u200d\ufeff\u00ad\u3164\u115f\ufe0f\U000e0041",
    "formula": "=cmd|'/C calc'!A0\t=1+1\r\n@SUM(1)",
    "lone": "\ud800\udfff\udc00",
    "nul": "\0\x7f\x08",
    "marks": "e" + "\u0301\u0e47" * 30,
    "wide": "漢字🙂🏽🇩אבג" * 6,
    "long": "n" * 2_000,
}
HOSTILE = "".join(text for name, text in WEAPONS.items() if name not in ("long", "lone"))
"""All of them in one text, as far as it stays short, and may stand in JSON at all."""

HALVES: dict[bytes, str] = {
    rb"\ud83d": "\ufffd",
    rb"a\uDC00": "a\ufffd",
    rb"\ud83d\ud83d\ude00": "\ufffd\U0001f600",
    rb"\uDE00\uD83D": "\ufffd\ufffd",
    rb"\ud83d\n\u0041": "\ufffd\nA",
    rb"\\ud83d\udbff": "\\ud83d\ufffd",
    rb"\\\ud83d\"": '\\\ufffd"',
    b"\xed\xa0\x80\xed\x9e\xa3": "\ufffd\ud7a3",
    b"\xf0\x9f\x98\x80\xed\xbf\xbf": "\U0001f600\ufffd",
}
"""Half a character, alone and beside others, in a string of JSON, and how it is read."""


def texts(**sizes: Any) -> st.SearchStrategy[str]:
    """What `st.text()` draws. In a new clone that first takes 2 s to learn what UTF-8 has: all but surrogates."""
    return st.text(st.characters(exclude_categories=["Cs"]), **sizes)
