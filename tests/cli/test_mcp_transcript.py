"""The transcripts of docs/mcp.md are played: what an agent calls, what a person types, and the result.

In a block `mcp`, lines `> TOOL {…}` are calls and `$ …` commands, `< …` is typed into the latter; the lines below are
what comes out. The first line, `# trade mcp …`, says how the session was started. With --update the page is rewritten.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tradesdk import SystemClock
from tradesdk_cli.mcp.answers import Fault
from tradesdk_cli.mcp.catalog import Scope
from tradesdk_mock import MockClock, MockServer

from .._stock import stocked
from ._mcp import Box, toolbox
from ._terminal import Terminal

PAGE = Path(__file__).parents[2] / "docs" / "mcp.md"
SHOWN_AT = 1_795_262_400
BLOCK = re.compile(r"(?ms)^```mcp\n# trade mcp --write --spend 0\.50(?P<auto> --auto-spend 0\.10)?\n(?P<text>.*?)^```$")
CODE = re.compile(r'(?<="code": ")\w{8}(?=")')
RANDOM = [
    (re.compile(r"pay_[0-9a-f]{24}"), "pay_5f2b0c9d1e3a47586b7c8d9e"),
    (re.compile(r"\b[2-9A-HJ-NP-Z]{8}\b"), "7KQ2M9XA"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"), "2026-11-21 12:10:00Z"),
    (re.compile(r'"expires_in_s": \d+'), '"expires_in_s": 600'),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:8787"),
    (re.compile(r"\bin \d+ min( \d+ s)?"), "in 9 min"),
]


class Player:
    """A session of an agent, and a person's terminal beside it."""

    def __init__(self, box: Box, trade: Terminal) -> None:
        self.box = box
        self.trade = trade
        self.code = ""

    def call(self, line: str) -> str:
        tool, _, arguments = line.partition(" ")
        try:
            answer = self.box.call(tool, json.loads(arguments))
        except Fault as fault:
            answer = fault.as_dict()
        self.code = answer.get("code", self.code)
        rows = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in answer.items()]
        return "{\n" + ",\n".join(rows) + "\n}"

    def command(self, line: str, typed: str) -> str:
        words = [self.code if word == "CODE" else word for word in shlex.split(line)[1:]]
        env = {"NO_COLOR": "1"}
        run = self.trade(*words, tty=True, columns=100, answers=typed or None, env=env)
        return (run.err.rstrip("\n") + "\n" + run.out).strip("\n")


def played(text: str, player: Player) -> str:
    found: list[str] = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("> "):
            found += [line, hidden(player.call(line[2:]))]
        elif line.startswith("$ "):
            after = lines[number + 1] if number + 1 < len(lines) else ""
            typed = f"{after[2:]}\n" if after.startswith("< ") else ""
            found += [line, *([after] if typed else []), hidden(player.command(line[2:], typed))]
    return "\n".join(found) + "\n"


def hidden(text: str) -> str:
    """What differs from run to run is always the same on the page."""
    for pattern, shown in RANDOM:
        text = pattern.sub(shown, text)
    return text


@pytest.mark.long
def test_the_transcripts_are_what_happens(
    trade: Terminal, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    page = PAGE.read_text(encoding="utf-8")

    def play(block: re.Match[str]) -> str:
        home = trade.home / ("auto" if block["auto"] else "asked")
        trade.env["TRADE_HOME"] = str(home)
        scope = Scope(write=True, spend=500_000, auto=100_000 if block["auto"] else 0)
        with toolbox(home, server, scope, tenant="me", wallet="0x" + "11" * 32) as box:
            return f"{block[0].partition(block['text'])[0]}{played(block['text'], Player(box, trade))}```"

    with MockServer(seed=7, clock=MockClock(SHOWN_AT)) as server:
        stocked(server, SHOWN_AT, "me")
        monkeypatch.setattr(SystemClock, "now", lambda _: server.clock.now())
        trade.env |= {"TRADE_BASE_URL": server.url, "TRADE_MARKET_BASE_URL": server.market_url}
        wanted = BLOCK.sub(play, page)
    if request.config.getoption("--update"):
        PAGE.write_text(wanted, encoding="utf-8")
    assert page == wanted or request.config.getoption("--update")
    assert len(BLOCK.findall(page)) == 2


def cost_of(text: str) -> list[Any]:
    return re.findall(r'"paid_now_usd": "([\d.]+)"', text)


def test_the_example_buys_one_price_for_less_than_ten_cents() -> None:
    example = next(block["text"] for block in BLOCK.finditer(PAGE.read_text(encoding="utf-8")) if block["auto"])
    assert "> signals" in example
    assert [float(paid) < 0.10 for paid in cost_of(example) if float(paid)] == [True]
