"""Terminals that can't write every character: whatever is printed comes out, replaced or escaped where it must be."""

from __future__ import annotations

import json
from collections.abc import Iterator

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
