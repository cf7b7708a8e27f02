"""The generator's guards, each shown on a copy of the tree that has exactly one thing wrong with it."""

import importlib.util
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("src/tradesdk/_async", "src/tradesdk/_sync", "tests/_async", "tests/_sync")


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("unasync_under_test", ROOT / "scripts" / "unasync.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def unformatted(text: str, target: Path) -> str:
    """In place of the formatter, which takes seconds and has its own test."""
    return text


class Memory:
    """In place of the generator: what it made of the same text before. In each copy one file is another, at most."""

    def __init__(self, script: ModuleType) -> None:
        self._script = script
        self._real = script.generate
        self._known: dict[object, tuple[str, set[int]]] = {}

    def __call__(self, source: Path, text: str, used: set[int]) -> str:
        asked = source.relative_to(self._script.ROOT), text, len(self._script.RULES)
        if asked not in self._known:
            rules: set[int] = set()
            self._known[asked] = self._real(source, text, rules), rules
        written, rules = self._known[asked]
        used.update(rules)
        return written


def run(script: ModuleType, root: Path, *arguments: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(script, "ROOT", root)
        patch.setattr(sys, "argv", ["unasync.py", *arguments])
        status: int = script.main()
    return status


class Copy:
    """A copy of both trees, and the script looking at it."""

    def __init__(self, root: Path, script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self._script = script
        self._capsys = capsys

    def run(self, *arguments: str) -> tuple[int, str]:
        self._capsys.readouterr()
        return run(self._script, self.root, *arguments), self._capsys.readouterr().out

    def edit(self, path: str, change: Callable[[str], str]) -> None:
        file = self.root / path
        text = file.read_text("utf-8")
        changed = change(text)
        assert changed != text
        file.write_text(changed, "utf-8")

    def texts(self) -> dict[str, str]:
        return {file.relative_to(self.root).as_posix(): file.read_text("utf-8") for file in self.root.rglob("*.py")}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load()


@pytest.fixture(scope="module")
def memory(script: ModuleType) -> Memory:
    return Memory(script)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory, script: ModuleType) -> Path:
    """A copy that is current, whatever is being worked on."""
    root = tmp_path_factory.mktemp("pristine")
    shutil.copy(ROOT / "pyproject.toml", root)
    for part in PARTS:
        if (ROOT / part).exists():
            shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(script, "formatted", unformatted)
        assert run(script, root) == 0
    return root


@pytest.fixture
def copied(
    pristine: Path,
    tmp_path: Path,
    script: ModuleType,
    memory: Memory,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Copy:
    monkeypatch.setattr(script, "formatted", unformatted)
    monkeypatch.setattr(script, "generate", memory)
    root = tmp_path / "tree"
    shutil.copytree(pristine, root)
    return Copy(root, script, capsys)


CALLS = "src/tradesdk/_sync/session.py"
SOURCE = "src/tradesdk/_async/session.py"


def test_a_current_tree_is_current(copied: Copy) -> None:
    before = copied.texts()
    for arguments in ((), ("--check",)):
        assert copied.run(*arguments) == (0, "the generated tree is current\n")
    assert copied.texts() == before


@pytest.mark.parametrize("missing", [False, True])
def test_a_stale_or_missing_file_is_found_and_written(copied: Copy, missing: bool) -> None:
    current = copied.texts()
    if missing:
        (copied.root / CALLS).unlink()
    else:
        copied.edit(CALLS, lambda text: text.replace("def call(", "def call_me(") + "# mine\n")
    changed = copied.texts()
    assert copied.run("--check") == (1, f"{CALLS}: is not current; run scripts/unasync.py\n")
    assert copied.texts() == changed, "--check writes nothing"
    status, said = copied.run()
    assert status == 0
    assert f"wrote {CALLS}" in said
    assert copied.texts() == current
    assert current[CALLS].startswith(f"# Generated from {SOURCE} by scripts/unasync.py")


@pytest.mark.parametrize("name", ["old.py", "resources/old.py", "new_folder/old.py"])
@pytest.mark.parametrize("tree", ["src/tradesdk/_sync", "tests/_sync"])
def test_an_orphan_written_by_hand_is_found_and_never_deleted(copied: Copy, tree: str, name: str) -> None:
    orphan = copied.root / tree / name
    orphan.parent.mkdir(parents=True, exist_ok=True)
    orphan.write_text("x = 1\n", "utf-8")
    for arguments in ((), ("--check",)):
        assert copied.run(*arguments) == (1, f"{tree}/{name}: has no source; delete it\n")
    assert orphan.exists()


@pytest.mark.parametrize("tree", ["src/tradesdk/_sync", "tests/_sync"])
def test_what_was_generated_goes_with_its_source(copied: Copy, tree: str) -> None:
    orphan = copied.root / tree / "old.py"
    orphan.write_text("# Generated from old.py by scripts/unasync.py: change that file instead.\n", "utf-8")
    if tree.startswith("src"):
        assert copied.run("--check") == (1, f"{tree}/old.py: has no source; delete it\n")
        assert orphan.exists()
    assert copied.run() == (0, "the generated tree is current\n")
    assert not orphan.exists()


def test_a_rule_that_matches_nowhere_is_found(
    copied: Copy, script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "RULES", [*script.RULES, (re.compile(r"\bnowhere_at_all\b"), "x")])
    status, said = copied.run("--check")
    assert status == 1
    assert r"the rule '\\bnowhere_at_all\\b' matches nowhere" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("import asyncio\n", "asyncio"),
        ("from anyio import sleep\n", "anyio"),
        ("import trio\n", "trio"),
        ("x = MyAsyncThing\n", "MyAsyncThing"),
        ("# this is async as well\n", "async"),
        ("y = x.aiter_text()\n", "aiter_text"),
        ("y = x.aenter_context\n", "aenter_context"),
        ("y = (await\n    x)\n", "await"),
    ],
)
def test_a_word_of_async_that_is_left_over_is_found(copied: Copy, line: str, word: str) -> None:
    copied.edit("src/tradesdk/_async/resources/account.py", lambda text: text + line)
    status, said = copied.run()
    assert status == 1
    assert f"{word!r} is left over" in said
    assert "src/tradesdk/_sync/resources/account.py:" in said


@pytest.mark.parametrize("side", ["_async", "_sync"])
def test_a_hand_written_twin_has_the_same_names(copied: Copy, side: str) -> None:
    copied.edit(f"src/tradesdk/{side}/concurrency.py", lambda text: text + "\n\ndef only_here() -> None: ...\n")
    assert copied.run("--check") == (
        1,
        "src/tradesdk/_sync/concurrency.py: does not define the same names as its twin\n",
    )


def test_tests_are_generated_like_the_rest(copied: Copy) -> None:
    source = copied.root / "tests/_async/test_made_up.py"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text("async def test_it(x: object) -> None:\n    await x.aclose()  # type: ignore\n", "utf-8")
    assert copied.run()[0] == 0
    written = (copied.root / "tests/_sync/test_made_up.py").read_text("utf-8")
    assert written.splitlines()[1:] == ["def test_it(x: object) -> None:", "    x.close()  # type: ignore"]
    (copied.root / "tests/_sync/test_made_up.py").write_text("stale", "utf-8")
    assert copied.run("--check")[0] == 0
    assert (copied.root / "tests/_sync/test_made_up.py").read_text("utf-8") == written, "they are not stored"


def test_what_is_written_is_formatted_and_its_imports_are_sorted(
    pristine: Path, script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "ROOT", pristine)
    text = "import sys\nimport os\nfrom ..errors import (\n    b, a)\nx = [ 1,2 ]\nprint(os, sys, a, b)\n"
    assert script.formatted(text, pristine / CALLS) == (
        "import os\nimport sys\n\nfrom ..errors import a, b\n\nx = [1, 2]\nprint(os, sys, a, b)\n"
    )
