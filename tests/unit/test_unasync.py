"""The generator's guards, each shown on a small tree that has exactly one thing wrong with it."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .._pages import ROOT

pytestmark = pytest.mark.long

SOURCE, TARGET = "src/tradesdk/_async/session.py", "src/tradesdk/_sync/session.py"
TREE = {
    SOURCE: "from .other import b,a,c\nimport os\n\nasync def call(x: object) -> None:\n    await x.aclose(a,b, os )\n",
    "src/tradesdk/_async/concurrency.py": "class AsyncLock: ...\n",
    "src/tradesdk/_sync/concurrency.py": "class Lock: ...\n",
    "tests/_async/test_it.py": "async def test_it(x: object) -> None:\n    await x.aclose()\n",
}
WRITTEN = f"""# Generated from {SOURCE} by scripts/unasync.py: change that file instead.
import os

from .other import a, b


def call(x: object) -> None:
    x.close(a, b, os)
"""
CURRENT = 0, "the generated tree is current\n"
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def unasync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the script on that tree, with the rules that have something to do there."""
    spec = importlib.util.spec_from_file_location("unasync_under_test", ROOT / "scripts" / "unasync.py")
    assert spec is not None
    assert spec.loader is not None
    script: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    used: set[int] = set()
    for name, text in TREE.items():
        script.write(tmp_path / name, text)
        if name not in script.HAND_WRITTEN:
            script.generate(ROOT / name, text, used)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    script.ROOT, rules = tmp_path, [script.RULES[number] for number in sorted(used)]

    def run(*arguments: str, rule: str | None = None) -> tuple[int, str]:
        script.RULES = rules if rule is None else [*rules, (re.compile(rule), "x")]
        monkeypatch.setattr(sys, "argv", ["unasync.py", *arguments])
        status: int = script.main()
        return status, capsys.readouterr().out

    assert run() == (0, f"wrote {TARGET}\n{CURRENT[1]}")
    return run


def test_what_is_written_is_formatted_and_current(unasync: Run, tmp_path: Path) -> None:
    assert (tmp_path / TARGET).read_text() == WRITTEN
    assert [unasync(), unasync("--check")] == [CURRENT, CURRENT]


@pytest.mark.parametrize("text", [None, WRITTEN + "# mine\n"])
def test_a_stale_or_missing_file_is_found_and_written(unasync: Run, tmp_path: Path, text: str | None) -> None:
    file = tmp_path / TARGET
    file.unlink() if text is None else file.write_text(text)
    assert unasync("--check") == (1, f"{TARGET}: is not current; run scripts/unasync.py\n")
    assert (file.read_text() if file.exists() else None) == text, "--check writes nothing"
    assert unasync() == (0, f"wrote {TARGET}\n{CURRENT[1]}")
    assert file.read_text() == WRITTEN


@pytest.mark.parametrize(
    "name", ["src/tradesdk/_sync/old.py", "src/tradesdk/_sync/folder/old.py", "tests/_sync/old.py"]
)
def test_a_file_without_a_source_goes_if_it_was_generated(unasync: Run, tmp_path: Path, name: str) -> None:
    orphan = tmp_path / name
    orphan.parent.mkdir(exist_ok=True)
    orphan.write_text("x = 1\n")
    for arguments in ((), ("--check",)):
        assert unasync(*arguments) == (1, f"{name}: has no source; delete it\n")
    orphan.write_text(WRITTEN)
    if name.startswith("src"):
        assert unasync("--check") == (1, f"{name}: has no source; delete it\n")
        assert orphan.exists()
    assert unasync() == CURRENT
    assert not orphan.exists()


def test_a_rule_that_matches_nowhere_is_found(unasync: Run) -> None:
    assert unasync("--check", rule="nowhere") == (1, "the rule 'nowhere' matches nowhere\n")


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("import asyncio", "asyncio"),
        ("from anyio import sleep", "anyio"),
        ("import trio", "trio"),
        ("x = MyAsyncThing", "MyAsyncThing"),
        ("# this is async as well", "async"),
        ("y = x.aiter_text()", "aiter_text"),
        ("y = x.aenter_context", "aenter_context"),
        ("y = (await\n    x)", "await"),
    ],
)
def test_a_word_of_async_that_is_left_over_is_found(unasync: Run, tmp_path: Path, line: str, word: str) -> None:
    (tmp_path / SOURCE).write_text(f"{TREE[SOURCE]}{line}\n")
    status, said = unasync()
    assert status == 1
    assert f"{TARGET}:7: {word!r} is left over: {line.partition(chr(10))[0]}\n" in said


@pytest.mark.parametrize("side", ["_async", "_sync"])
def test_a_hand_written_twin_has_the_same_names(unasync: Run, tmp_path: Path, side: str) -> None:
    (tmp_path / f"src/tradesdk/{side}/concurrency.py").write_text("class Another: ...\n")
    problem = "src/tradesdk/_sync/concurrency.py: defines names that its twin does not have\n"
    assert unasync("--check") == (1, problem)


def test_tests_are_written_also_when_others_are_only_checked(unasync: Run, tmp_path: Path) -> None:
    file = tmp_path / "tests/_sync/test_it.py"
    written = file.read_text()
    assert written.splitlines()[1:] == ["def test_it(x: object) -> None:", "    x.close()"]
    file.write_text("stale")
    assert unasync("--check") == CURRENT
    assert file.read_text() == written, "they are not stored"
