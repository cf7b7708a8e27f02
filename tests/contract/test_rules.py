"""The rules of the service stand in rules.toml; tests carry the ids of those they show: `pytest.mark.rule`.

Marks are found by reading the files, not by importing them: in milliseconds, and in any environment.
"""

import ast
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._rows import each_of

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"

RULES: list[dict[str, Any]] = tomllib.loads((HERE / "rules.toml").read_text())["rule"]


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
    shown = dict(marked())
    golden = {rule["id"] for rule in RULES if "golden" in rule}
    assert {rule["id"] for rule in RULES} - golden - shown.keys() == set(), "rules that no test shows"
    assert {rule: file for rule, file in shown.items() if rule not in {rule["id"] for rule in RULES}} == {}


def test_rules_are_well_formed() -> None:
    for rule in RULES:
        assert set(rule) <= {"id", "text", "golden", "fields"}, rule
        assert re.fullmatch(r"[a-z0-9_]+(\.[a-z0-9_-]+)+", rule["id"]), rule
        assert len(rule["text"]) > 15, rule


def test_ids_are_unique() -> None:
    assert [rule_id for rule_id, count in Counter(rule["id"] for rule in RULES).items() if count > 1] == []


def test_texts_are_unique() -> None:
    assert [text for text, count in Counter(rule["text"] for rule in RULES).items() if count > 1] == []


@each_of("rule", [rule for rule in RULES if "golden" in rule], ids=lambda rule: str(rule["id"]))
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
