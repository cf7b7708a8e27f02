"""Terminals that can't write every character: whatever is printed comes out, replaced or escaped where it must be."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tradesdk_cli.app import command

from .._rows import each_of
from ._services import Scripted
from ._terminal import Terminal
from .test_environment import ASCII, shell

long = pytest.mark.long
ENCODINGS = ["ascii", "iso8859-1", "cp437", "cp850", "cp1252", "koi8-r", "shift_jis", "utf-8"]
QUICK = [
    ("--help",),
    ("help", "environment"),
    ("agents", "list", "--nonsense"),
    ("agents", "lst"),
    ("agents", "get", "…"),
]
SLOW = [
    ("--mock", "agents", "list", "-o", "table"),
    ("--mock", "account", "usage", "-o", "table"),
    ("--mock", "plot", "BRETT"),
    ("--mock", "top", "--once"),
    ("doctor", "-o", "table"),
    ("demo",),
]


def pages(group: object, *words: str) -> Iterator[tuple[str, ...]]:
    """The command line of every page of help."""
    group = group.load() if hasattr(group, "load") else group
    yield (*words, "--help")
    for name, one in getattr(group, "commands", {}).items():
        yield from pages(one, *words, name)


@each_of("line", QUICK)
def test_texts(trade: Terminal, line: tuple[str, ...]) -> None:
    is_printed(trade, line)


@long
@each_of("line", SLOW)
def test_results(trade: Terminal, line: tuple[str, ...]) -> None:
    is_printed(trade, line)


def is_printed(trade: Terminal, line: tuple[str, ...]) -> None:
    usual = trade(*line, tty=True, columns=70)
    for encoding in ENCODINGS:
        run = trade(*line, tty=True, columns=70, encoding=encoding)
        assert run.code == usual.code, run.err
        assert (bool(run.out), bool(run.err)) == (bool(usual.out), bool(usual.err))
        assert "bug" not in run.err
        assert "\\u2" not in run.out + run.err, "signs of ours have a simple form"


@long
def test_every_page_of_help_is_ascii_where_it_must_be(trade: Terminal) -> None:
    lines = list(pages(command()))
    assert len(lines) > 80
    for line in lines:
        run = trade(*line, encoding="ascii")
        assert (run.code, run.err) == (0, ""), line
        assert "\\u" not in run.out, line


def test_json_stays_json(trade: Terminal, service: Scripted) -> None:
    """On stderr, too: an escape of a terminal is none of JSON."""
    service.fails(404, "not_found", "Größe… 漢")
    for encoding in ENCODINGS:
        assert "Größe… 漢" in json.loads(trade("agents", "get", "agt_1", encoding=encoding).err)["message"]


@pytest.mark.parametrize(
    "env", [ASCII, *(pytest.param({"PYTHONIOENCODING": one, "PYTHONUTF8": "0"}, marks=long) for one in ENCODINGS[1:3])]
)
def test_from_the_first_byte(trade: Terminal, env: dict[str, str]) -> None:
    run = shell(trade, "trade agents --help", **env)
    assert (run.code, run.err) == (0, "")
    assert "(-o, --mock, " in run.out


NOT_UTF_8 = "x\udcff"
LINES = [
    (("agents", "get", NOT_UTF_8), "AGENT_ID: x\\udcff is not UTF-8"),
    (("agents", "create", "--name", NOT_UTF_8, "--wallet-id", "w", "--chain", "base"), "--name: x\\udcff is not UTF-8"),
    (("agents", "list", "--query", NOT_UTF_8), "--query: x\\udcff is not UTF-8"),
    (("agents", "list", "--profile", NOT_UTF_8), "--profile: x\\udcff is not UTF-8"),
    (("api", "GET", f"/v1/{NOT_UTF_8}"), "/v1/x\\udcff is not UTF-8"),
    (("api", "POST", "/v1/agents", "-f", f"name={NOT_UTF_8}"), "name=x\\udcff is not UTF-8"),
    (("market", "prices", "ETH", NOT_UTF_8), "TOKEN: x\\udcff is not UTF-8"),
    (("agents", NOT_UTF_8), "x\\udcff"),
]


@each_of(("line", "said"), LINES)
def test_an_argument_that_is_not_utf_8(trade: Terminal, line: tuple[str, ...], said: str) -> None:
    run = trade("--mock", *line)
    assert (run.code, run.problem["code"]) == (2, "usage"), run.err
    assert said in run.problem["message"]


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are any bytes on Linux")
def test_a_path_that_is_not_utf_8(trade: Terminal, tmp_path: Path) -> None:
    home, out = tmp_path / NOT_UTF_8, tmp_path / f"{NOT_UTF_8}.json"
    for line in (
        ("--mock", "account", "show"),
        ("--mock", "account", "show", "--out", str(out)),
        ("--mock", "pay", "budget", "set", "--per-day", "1", "--yes"),
        ("mcp", "config", "claude"),
    ):
        run = trade(*line, env={"TRADE_HOME": str(home)})
        assert run.code == 0, run.err
    assert json.loads(out.read_text())
    assert (home / "mock" / "default.sqlite3").exists()
