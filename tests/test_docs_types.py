"""The examples that people copy first pass their type checkers: of the README all, of each page the first."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

from ._pages import PAGES, ROOT, Block, blocks, name_of

pytestmark = pytest.mark.long  # two type checkers


def examples(page: Path) -> list[Block]:
    """As one program: what a block needs stands in those before it."""
    found = [block for block in blocks(page) if block.language == "python" and not block.example]
    return found if page.name == "README.md" else found[:1]


def program(found: list[Block]) -> str:
    """The code, with each line where it stands in its page."""
    lines: list[str] = []
    for block in found:
        lines += [""] * (block.start - len(lines))
        if awaits(block):  # a cell of a notebook
            lines[-1] = "async def cell() -> None:"
            lines += indent(block.text, "    ").splitlines()
        else:
            lines += block.lines
    return "\n".join(lines) + "\n"


def awaits(block: Block) -> bool:
    try:
        compile(block.text, "", "exec")
    except SyntaxError:
        compile(block.text, "", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        return True
    return False


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program for each page."""
    folder = tmp_path_factory.mktemp("examples")
    for page in PAGES:
        if found := examples(page):
            name = name_of(page).removesuffix(".md").replace("/", "_").replace("-", "_")
            (folder / f"{name}.py").write_text(program(found), encoding="utf-8")
    assert len(list(folder.iterdir())) > 15
    return folder


def judged(*command: str, written: Path) -> None:
    paths = {"MYPYPATH": os.pathsep.join(str(ROOT / source) for source in ("src", "mock_server"))}
    done = subprocess.run(
        [sys.executable, "-m", *command, *sorted(file.name for file in written.glob("*.py"))],
        cwd=written,
        env=os.environ | paths,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_in_its_strictest_form(written: Path) -> None:
    judged("mypy", "--strict", "--config-file=", "--follow-imports=silent", written=written)


def test_pyright(written: Path) -> None:
    judged("pyright", "--pythonpath", sys.executable, written=written)
