"""Texts of errors and log records are shown, never searched: the client goes by classes, codes and fields."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent.parent / "src" / "tradesdk_cli"
TEXTS = {"message", "hint", "reason", "getMessage", "format_message"}
LOOKS_INTO = {
    *("startswith", "endswith", "replace", "removeprefix", "removesuffix", "partition", "rpartition", "split"),
    *("find", "index", "count", "search", "match", "fullmatch", "sub", "findall", "finditer"),
}
OF_OTHERS = {
    "helping/mistakes.py": "Typer and pydantic: what is wrong with a command line",
    "settings/profiles.py": "the standard library's reader of TOML: the line and column of a mistake",
    "embedded.py": "SQLite: whether a disk is full",
    "commands/mock/serve.py": "the mock: why it cannot start",
    "commands/mock/worlds.py": "the mock: what is wrong with a state file",
    "commands/mock/clock.py": "the mock's control interface: the name of a field, which is an option here",
    "problems.py": "the service: what a 404 of an agent's change is about; and our own hints get the program's name",
}


def searched(tree: ast.AST) -> Iterator[ast.AST]:
    """Where the text of an error or a record is compared with another text, or taken apart."""
    caught = {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)} | {"error", "problem"}
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        named: set[str] = set()

        def is_text(node: ast.AST, named: set[str] = named) -> bool:
            """Whether `node` is such a text, or is made of one."""
            for one in ast.walk(node):
                if isinstance(one, ast.Attribute) and one.attr in TEXTS:
                    return True
                if isinstance(one, ast.Name) and one.id in named | TEXTS:
                    return True
                if isinstance(one, ast.Call) and ast.unparse(one.func) == "str":
                    return any(isinstance(each, ast.Name) and each.id in caught for each in one.args)
            return False

        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and is_text(node.value):
                named |= {each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)}
        for node in ast.walk(function):
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


def found() -> dict[str, list[str]]:
    by_file = {}
    for file in sorted(SOURCE.rglob("*.py")):
        lines = [ast.unparse(node) for node in searched(ast.parse(file.read_text(encoding="utf-8")))]
        if lines:
            by_file[file.relative_to(SOURCE).as_posix()] = lines
    return by_file


def test_no_text_of_the_sdk_is_searched() -> None:
    assert {file: lines for file, lines in found().items() if file not in OF_OTHERS} == {}


def test_what_is_searched_is_of_others() -> None:
    """The list of exceptions has no file without one."""
    assert set(found()) == set(OF_OTHERS)


def test_a_search_is_found() -> None:
    for line in (
        "'base URL' in error.message",
        "str(error).startswith('no')",
        "record.getMessage().partition(';')",
        "WORDS.search(error.hint)",
        "error.message.replace('per_call', option)",
    ):
        assert list(searched(ast.parse(f"def f(error, record, option):\n    return {line}"))), line
    kept = "def f(record):\n    text = record.getMessage()\n    return HOW_LONG.search(text)"
    assert list(searched(ast.parse(kept)))
    assert not list(searched(ast.parse("def f(error):\n    return error.code == 'timeout', one_line(error.message)")))
