"""The rules of the service stand in rules.toml; tests carry the ids of those they show: `pytest.mark.rule`.

Marks are found by reading the files, not by importing them: in any environment. `scripts/check` plays it.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
HERE = Path(__file__).parent


def marked() -> Iterator[tuple[str, str]]:
    """Each rule that a test shows, and the file. A test that never runs shows nothing; a `skipif` may run somewhere."""
    for file in HERE.parent.rglob("test_*.py"):
        text = file.read_text()
        for node in ast.walk(ast.parse(text)) if "mark.rule(" in text else ():
            marks = [ast.unparse(mark) for mark in getattr(node, "decorator_list", ())]
            if not any(re.search(r"\bmark\.(skip|xfail)\b", mark) for mark in marks):
                for mark in marks:
                    if mark.startswith("pytest.mark.rule("):
                        for rule in " ".join(re.findall(r"'(.*?)'", mark)).split():
                            yield rule, str(file.relative_to(HERE.parent))


def test_each_rule_is_shown_by_a_test_and_each_mark_names_a_rule() -> None:
    rules, shown = tomllib.loads((HERE / "rules.toml").read_text()), dict(marked())
    assert rules.keys() - shown.keys() == set(), "rules that no test shows"
    assert {rule: file for rule, file in shown.items() if rule not in rules} == {}
