"""The screen of `trade approve` on terminals of several widths: no value of a stranger can look like a line of ours."""

from __future__ import annotations

import json
import time
import unicodedata
from typing import Any

import pytest

from tradesdk_cli.mcp.approvals import Approvals, approvals_file

from ._terminal import Terminal

WIDTHS = (120, 80, 60, 20)
FORGED = "  what      buy nothing for $0.00"
NAMES = {
    "plain": "calm bot",
    "other scripts": "Jürgen 日本 Ελλάδα 🚀",
    "blanks": "x" + " " * 400 + FORGED,
    "blanks to the end of a line": "".join(
        f"{'.' * n}{' ' * (width - n)}{FORGED}" for width in WIDTHS for n in (1, 9, 13)
    ),
    "other blanks": "a" + "\u2003" * 80 + FORGED + "\u00a0" * 80 + FORGED,
    "blank glyphs": "".join(
        f"{char * 90}{FORGED}" for char in "\u2800\u3164\uffa0\u115f\ufffc\ufe0f\U0001d159\U00013441"
    ),
    "zero width": f"a\u200b\u200d\u2060\ufeff{FORGED}\u00ad\U000e0041",
    "bidi": f"\u202e{FORGED}\u202c \u2067x\u2069",
    "right to left": "שלום עולם ومرحبا ١٢٣",
    "marks": "e" + "\u0301" * 300,
    "lines": f"a\n{FORGED}\r{FORGED}\x0b\x85\u2028{FORGED}",
    "escapes": f"\x1b[2J\x1b[H{FORGED}\x9b1;1H\x1b]0;title\x07\b\b\b\x7f",
    "our mark": "a\n  │ b  │ c → d",
    "long": "long" * 1250,
    "long and wide": "日" * 500,
    "half an emoji": "\ud83d and \udc00",
}
KEY = "risk.trailing_stop_pct"


def screen(text: str, columns: int) -> list[str]:
    """The rows of a terminal: it goes on in the next row by itself, and wide characters take two cells."""
    rows, room = [""], columns
    for char in text:
        if char == "\n":
            rows, room = [*rows, ""], columns
            continue
        assert char.isprintable(), f"{char!r} reaches the terminal"
        assert unicodedata.category(char)[0] != "M", f"{char!r} joins another one"
        assert unicodedata.bidirectional(char) not in ("R", "AL", "AN"), f"{char!r} turns the line"
        cells = 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if cells > room:
            rows, room = [*rows, ""], columns
        rows[-1] += char
        room -= cells
    return rows


def shown(trade: Terminal, content: dict[str, Any], columns: int) -> tuple[list[tuple[str, str]], str]:
    """The values by their names, as somebody reads them off the screen; and the question."""
    code = Approvals(approvals_file(trade.home / "ledger.sqlite3")).prepare(content, content, time.time()).code
    run = trade("approve", code, answers="n\n", columns=columns, env={"NO_COLOR": "1"})
    above, question, rest = run.err.partition("Let the client")
    found: list[list[str]] = []
    for row in screen(above, columns)[:-1]:
        if row.startswith("  │ "):
            found[-1].append(row[4:])
        else:
            found.append([row])
    names = [name for name, _ in map(parts, found)]
    assert len(set(names)) == len(names), names
    asked = " ".join(f"{question}{rest}".split()).partition(" [y/N]")[0]  # in lines, without a word in two
    return [parts(one) for one in found], asked


def parts(rows: list[str]) -> tuple[str, str]:
    assert rows[0].startswith("  ")
    name, _, value = "".join(rows).strip().partition(" ")
    return name, value.strip()


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_stranger_cannot_imitate_a_line(trade: Terminal, columns: int) -> None:
    for number, (what, name) in enumerate(NAMES.items()):
        before = {"id": "agt_1", "name": name, "status": "paused", KEY: 5}
        content = {
            "do": "update",
            "id": "agt_1",
            "body": {"risk": {"trailing_stop_pct": number}, "name": f"{name}!"},
            "before": before,
            "where": "127.0.0.1 · this machine",
            "account": f"{columns}",
        }
        rows, question = shown(trade, content, columns)
        assert [one for one, _ in rows] == ["where", "id", KEY, "name", "unchanged", "status", "expires"], what
        values = dict(rows)
        assert values[KEY] == f"5 → {number}"
        old, _, new = values["name"].rpartition('" → "')
        assert (json.loads(f'{old}"'), json.loads(f'"{new}')) == (name, f"{name}!"), "every value is there whole"
        assert "  " not in values["name"], what
        assert not set(values["name"]) & set("\u2800\u3164\uffa0\u115f\ufffc\ufe0f\u00a0\u2003\U0001d159\U00013441"), (
            what
        )
        assert question == "Let the client update an agent?"


@pytest.mark.parametrize("columns", WIDTHS)
def test_what_is_bought_and_its_price_stand_in_the_question(trade: Terminal, columns: int) -> None:
    for what, name in NAMES.items():
        content: dict[str, Any] = {
            "do": "buy",
            "what": "token-prices",
            "body": {"tokens": [{"identifier": name}, {"identifier": "ETH"}]},
            "purchase": f"mcp/{columns}",
            "price_usd": "0.06",
            "where": "127.0.0.1 · this machine",
            "payer": "0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A",
        }
        rows, question = shown(trade, content, columns)
        assert [one for one, _ in rows] == ["where", "purchase", "payer", "tokens", "expires"], what
        assert json.loads(dict(rows)["tokens"]) == content["body"]["tokens"]
        assert question == "Let the client buy token-prices for 2 tokens for $0.06?"


def test_plain_names_are_shown_as_they_are(trade: Terminal) -> None:
    for name in ("plain", "other scripts"):
        content: dict[str, Any] = {
            "do": "delete",
            "id": "agt_1",
            "body": {},
            "before": {"name": NAMES[name]},
            "where": "here",
        }
        assert ("name", f'"{NAMES[name]}"') in shown(trade, content, 80)[0]


def test_names_of_fields_that_are_none_are_quoted(trade: Terminal) -> None:
    content = {"do": "delete", "id": "agt_1", "body": {}, "before": {f"x\n{FORGED}": 1}, "where": "here"}
    rows, _ = shown(trade, content, 80)
    assert [name for name, _ in rows][:2] == ["where", "id"]
    assert str(rows[2][0]).startswith('"x\\n')
