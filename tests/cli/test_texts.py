"""Texts of errors and log records are shown, never searched: the client goes by classes, codes and fields."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent.parent / "src" / "tradesdk_cli"
TEXTS = {"message", "hint", "reason", "getMessage", "format_message"}
MENTIONED = re.compile(rf"str\(|{'|'.join(TEXTS)}")
LOOKS_INTO = {
    *("startswith", "endswith", "replace", "removeprefix", "removesuffix", "partition", "rpartition", "split"),
    *("find", "index", "count", "search", "match", "fullmatch", "sub", "findall", "finditer"),
}
OF_OTHERS = {
    "places in our own hints that are to be filled, and words that somebody typed": {
        "hint.replace(LOGIN, f'{login} login').replace(TRADE, program)",
        "hint.replace(LOGIN, f'{login} login')",
        "message.replace(word, '****')",
    },
}


def searched(source: str) -> Iterator[ast.AST]:
    """Where the text of an error or a record is compared with another text, or taken apart."""
    lines, everything = source.splitlines(), list(ast.walk(ast.parse(source)))
    caught = {node.name for node in everything if isinstance(node, ast.ExceptHandler)} | {"error", "problem"}
    for function in everything:
        if not isinstance(function, ast.FunctionDef):
            continue
        if not MENTIONED.search("\n".join(lines[function.lineno - 1 : function.end_lineno])):
            continue
        named: set[str] = set()

        def is_text(node: ast.AST, named: set[str] = named) -> bool:
            """Whether `node` is such a text, or is made of one."""
            for one in ast.walk(node):
                if isinstance(one, ast.Attribute) and one.attr in TEXTS:
                    return True
                if isinstance(one, ast.Name) and one.id in named | TEXTS:
                    return True
                if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == "str":
                    return any(isinstance(each, ast.Name) and each.id in caught for each in one.args)
            return False

        nodes = list(ast.walk(function))
        for node in nodes:
            if isinstance(node, ast.Assign) and is_text(node.value):
                targets = [each for target in node.targets for each in ast.walk(target)]
                named |= {each.id for each in targets if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        for node in nodes:
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                if isinstance(node.ops[0], ast.Eq | ast.NotEq):  # a name may hold a word of our own
                    sides = [side for side in sides if not isinstance(side, ast.Name)]
                constant = any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in sides)
                if constant and any(is_text(side) for side in sides):
                    yield node
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in LOOKS_INTO
                and any(is_text(part) for part in (node.func.value, *node.args))
            ):
                yield node


@pytest.mark.long
def test_no_text_of_the_sdk_is_searched() -> None:
    """What is searched is of others, who have no other way to tell, and the list of it is whole."""
    found = {
        ast.unparse(node)
        for file in sorted(SOURCE.rglob("*.py"))
        for node in searched(file.read_text(encoding="utf-8"))
    }
    assert found == set().union(*OF_OTHERS.values())


def test_a_search_is_found() -> None:
    for line in (
        "'base URL' in error.message",
        "str(error).startswith('no')",
        "record.getMessage().partition(';')",
        "WORDS.search(error.hint)",
        "error.message.replace('per_call', option)",
    ):
        assert list(searched(f"def f(error, record, option):\n    return {line}")), line
    kept = "def f(record):\n    text = record.getMessage()\n    return HOW_LONG.search(text)"
    assert list(searched(kept))
    assert not list(searched("def f(error):\n    return error.code == 'timeout', one_line(error.message)"))
