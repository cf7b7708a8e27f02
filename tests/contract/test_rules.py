"""The rules of the service stand in rules.toml, each with the tests that show it. This keeps that list honest.

Tests are found by reading the files, not by importing them: a rename is noticed in milliseconds, in any environment.
"""

import ast
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
GOLDEN = HERE / "golden"

RULES: list[dict[str, Any]] = tomllib.loads((HERE / "rules.toml").read_text())["rule"]
KEYS = {"id", "text", "tests", "golden", "fields"}


@cache
def named_tests(path: str) -> dict[str, bool]:
    """Node names in a test file (``test_a``, ``TestB::test_c``), and whether each one really runs."""
    file = ROOT / path
    if not file.is_file():
        return {}
    found: dict[str, bool] = {}
    body = ast.parse(file.read_text()).body
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            skipped = is_skipped(node)
            for inner in functions(node.body):
                found[f"{node.name}::{inner.name}"] = not (skipped or is_skipped(inner))
    for function in functions(body):
        found[function.name] = not is_skipped(function)
    return found


def functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node


def is_skipped(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A conditional skip (``skipif``) may run somewhere; ``skip`` and ``xfail`` show nothing."""
    return any(re.search(r"\bmark\.(skip|xfail)\b", ast.unparse(decorator)) for decorator in node.decorator_list)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.get("id", "without an id")))
def test_rule_is_shown_by_tests(rule: dict[str, Any]) -> None:
    assert set(rule) <= KEYS, "unknown key"
    assert re.fullmatch(r"[a-z0-9_]+(\.[a-z0-9_-]+)+", rule["id"])
    assert len(rule["text"]) > 15
    assert rule["tests"], "no test shows this rule"
    assert len(set(rule["tests"])) == len(rule["tests"]), "the same test twice"
    for test in rule["tests"]:
        path, _, name = test.partition("::")
        assert "[" not in name, f"{test}: without its parameters, please"
        assert name in named_tests(path), f"{test} does not exist"
        assert named_tests(path)[name], f"{test} is skipped, so it shows nothing"


def test_ids_are_unique() -> None:
    assert [rule_id for rule_id, count in Counter(rule["id"] for rule in RULES).items() if count > 1] == []


def test_texts_are_unique() -> None:
    assert [text for text, count in Counter(rule["text"] for rule in RULES).items() if count > 1] == []


@pytest.mark.parametrize("rule", [rule for rule in RULES if "golden" in rule], ids=lambda rule: str(rule["id"]))
def test_field_rules_agree_with_the_golden_files(rule: dict[str, Any]) -> None:
    """A rule that lists fields, and the golden files typed beside it, name exactly the same ones."""
    for name in rule["golden"]:
        file, _, pointer = name.partition("#")
        value: Any = json.loads((GOLDEN / file).read_text())
        for step in filter(None, pointer.split("/")):
            value = value[int(step)] if isinstance(value, list) else value[step]
        assert sorted(value) == sorted(rule["fields"]), name


def test_every_golden_record_has_a_field_rule() -> None:
    named = {name.partition("#")[0] for rule in RULES for name in rule.get("golden", ())}
    files = {str(file.relative_to(GOLDEN)) for file in GOLDEN.rglob("*.json")}
    assert files - named == set()
    assert named - files == set()
