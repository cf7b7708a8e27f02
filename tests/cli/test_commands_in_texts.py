"""A command within a message is kept in one line, so that it can be copied: up to where it ends, and no further."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests._pages import ROOT

from tradesdk_cli.output.stderr import wrapped

TREE = json.loads((ROOT / "src" / "tradesdk_cli" / "completion" / "commands.json").read_text(encoding="utf-8"))
# The scripts of shells are not messages.
SOURCES = [file for file in (ROOT / "src" / "tradesdk_cli").rglob("*.py") if file.name != "shells.py"]


def texts_in(source: str) -> Iterator[str]:
    """Literals that are not docstrings, on one line; what is filled in is X."""
    everything = list(ast.walk(ast.parse(source)))
    skipped = {id(node.value) for node in everything if isinstance(node, ast.Expr)}
    for node in everything:
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield " ".join(node.value.split())


def held(text: str) -> list[str]:
    """The commands that a narrow screen keeps in one piece."""
    return [line for line in wrapped(text, 1) if " " in line]


def too_long(command: str) -> str | None:
    """The first word that does not belong to `command`; None where all do, and where it is not a command."""
    program, *words = command.strip("()").split(" ")
    if program != "trade" or not (words[0].startswith("-") or words[0] in TREE["commands"][""]["commands"]):
        return None
    path, arguments = "", 0
    given = iter([word.rstrip(".") for word in words])
    for word in given:
        here: dict[str, Any] = TREE["commands"][path]
        params = [TREE["params"][number] for number in here["params"]]
        if word.startswith("-"):
            name = word.partition("=")[0]
            found = [param for param in params if name in param.get("names", []) + param.get("off", [])]
            if not found:
                return word
            if "value" in found[0] and "=" not in word:
                next(given, None)
        elif word in here.get("commands", {}):
            path = f"{path} {word}".strip()
        elif path != "help" and re.fullmatch("[a-z]+", word):  # not a placeholder, an id or a number
            arguments += 1
            if "commands" in here or arguments > sum("names" not in param for param in params):
                return word
    return None


@pytest.mark.long
def test_a_command_ends_where_its_words_do() -> None:
    texts = {text for file in SOURCES for text in texts_in(file.read_text(encoding="utf-8")) if "trade " in text}
    commands = {command for text in texts for command in held(text)}
    assert len(commands) > 200
    assert {command: word for command in commands if (word := too_long(command))} == {}


def test_a_command_is_held_whole_and_prose_is_not() -> None:
    assert held("it is off: trade config set world X, or trade login keeps a key") == [
        "trade config set world X,",
        "trade login",
    ]
    assert too_long("trade login keeps a key") == "keeps"
    assert too_long("trade agents lists them") == "lists"
    assert too_long("trade signals stream --heartbeats") is None
