#!/usr/bin/env python3
"""Change the code that decides about money, at one place at a time, and see whether the tests notice.

    scripts/mutants.py                        the sample of scripts/mutants.toml
    scripts/mutants.py --number 200 --seed 5  a larger one, and another one
    scripts/mutants.py --only guards,budget   of these modules: names of files
    scripts/mutants.py --list                 show the sample without running it

`scripts/mutants.toml` names the modules, the tests, and the changes that make no difference. A change is named by file,
function, and its text before and after. The sample is drawn by a hash of seed and name: a change elsewhere leaves it
alone. Each one runs the quick ones of these tests until the first that fails, in a copy of the tree.

Exit code 1: a change survived that is not named as making no difference, or one is named that the code no longer has.
2: the tests fail without any change.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import os
import queue
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SETTINGS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
HANGS = 300  # seconds; the tests take a tenth of it
MEMORY = 4 << 30

COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
DROPPED = {"lower", "casefold", "strip"}  # methods whose result is much like the value itself
SAID = {"event", "debug", "info", "warning", "error", "display", "printable"}  # texts decide nothing


@dataclass(frozen=True)
class Mutant:
    """One change of a file: the text from one byte to another becomes another."""

    path: str
    name: str
    start: int
    end: int
    text: str

    def code(self, source: bytes) -> bytes:
        """The whole changed file."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    @property
    def is_python(self) -> bool:
        try:
            ast.parse(self.code((ROOT / self.path).read_bytes()))
        except SyntaxError:
            return False
        return True


def variants(node: ast.AST) -> Iterator[ast.AST]:
    """The replacements for a node."""

    def other(**changes: Any) -> ast.AST:
        changed = copy.copy(node)
        for name, value in changes.items():
            setattr(changed, name, value)
        return changed

    match node:
        case ast.Compare(ops=[op]):
            yield from (other(ops=[new()]) for new in COMPARED[type(op)])
        case ast.BoolOp(op=op, values=values):
            yield other(op=ast.Or() if isinstance(op, ast.And) else ast.And())
            for at in range(len(values)):
                rest = [*values[:at], *values[at + 1 :]]
                yield other(values=rest) if len(rest) > 1 else rest[0]
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.BinOp(op=op) if type(op) in COMPUTED:
            yield other(op=COMPUTED[type(op)]())
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield from (body, orelse)
        case ast.Constant(value=bool(value)):
            yield other(value=not value)
        case ast.Constant(value=int(value) | float(value)):
            yield other(value=value + 1)
        case ast.Call(func=ast.Name(id=name)) if name in CALLED:
            yield other(func=ast.Name(id=CALLED[name]))
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=[]) if name in DROPPED:
            yield value
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()
        case ast.Expr(value=ast.Call()) | ast.Raise() | ast.AugAssign():
            yield ast.Pass()
        case ast.If(test=test) | ast.While(test=test) if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp):
            yield ast.UnaryOp(op=ast.Not(), operand=test)


def skipped(node: ast.AST) -> bool:
    """Nodes that decide nothing, or have no place of their own in the text, with all inside."""
    if isinstance(node, ast.JoinedStr) or getattr(node, "name", None) in ("__repr__", "__str__"):
        return True
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return True
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in SAID


def places(node: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.AST]]:
    """The nodes of a module that may be changed, each with its function."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        inside = f"{inside}.{node.name}" if inside else node.name
    yield inside or "the module", node
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        if isinstance(node, ast.Raise):  # raising it is a decision, its text is not
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not skipped(child):
                yield from places(child, inside)


def mutants_of(path: str) -> Iterator[Mutant]:
    """Every change of a file."""
    source = (ROOT / path).read_bytes()
    lines, count = source.splitlines(keepends=True), Counter[str]()

    def position(line: int, column: int) -> int:
        return sum(map(len, lines[: line - 1])) + column

    for function, node in places(ast.parse(source)):
        for changed in variants(node):
            at: Any = node.test if isinstance(node, ast.If | ast.While) else node
            before, after = ast.unparse(at), ast.unparse(changed)
            name = f"{path} {function}: {before} -> {after}"
            count[name] += 1
            yield Mutant(
                path,
                name if count[name] == 1 else f"{name} ({count[name]})",
                position(at.lineno, at.col_offset),
                position(at.end_lineno, at.end_col_offset),
                after if isinstance(changed, ast.stmt) else f"({after})",
            )


def files(setting: str) -> list[str]:
    """The files that the patterns of a setting name, in their order."""
    found: dict[str, None] = {}
    for pattern in SETTINGS[setting]:
        matching = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern))
        if not matching:
            sys.exit(f"scripts/mutants.toml: no file is called {pattern}")
        found |= dict.fromkeys(matching)
    return list(found)


def modules() -> list[str]:
    texts = files("texts")
    return [path for path in files("modules") if path not in texts]


def copy_tree(tree: Path) -> None:
    """The files here, committed or not, and the blocking twins of tests."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
    for name in (*listed, *(str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "_sync").glob("*.py"))):
        if name and (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)


def run_tests(tree: Path) -> str:
    """The result of the tests there: "" if they pass, else which one failed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRADE_", "PYTEST"))}
    env = {**kept, "PYTHONPATH": os.pathsep.join(str(tree / folder) for folder in ("src", "mock_server"))}
    options = ["-xq", "--color=no", "-p", "no:cacheprovider", "-p", "no:randomly", "-m", "not long and not peers"]
    with tempfile.TemporaryFile("w+") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, *files("tests")],
            cwd=tree,
            env=env,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        )
        try:
            code = child.wait(HANGS)
        except subprocess.TimeoutExpired:
            return "they hang"
        finally:
            with suppress(ProcessLookupError):  # programs that the tests started
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        output.seek(0)
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", text := output.read(), re.MULTILINE)
    return "" if code == 0 else failed[0] if failed else text[-2000:]


def write(path: Path, code: bytes) -> None:
    """A file that changes twice a second and keeps its size would be run from the bytecode of the first change."""
    path.write_bytes(code)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=SETTINGS["number"], help="changes to draw (%(default)s)")
    parser.add_argument("--seed", type=int, default=SETTINGS["seed"], help="which ones (%(default)s)")
    parser.add_argument("--only", default="", metavar="A,B", help="names of files, without .py")
    parser.add_argument("--jobs", type=int, default=2, help="how many at the same time (%(default)s)")
    parser.add_argument("--list", action="store_true", help="show the sample without running it")
    chosen = parser.parse_args()

    every = [mutant for path in modules() for mutant in mutants_of(path)]
    equivalent: dict[str, str] = SETTINGS["equivalent"]
    gone = equivalent.keys() - {mutant.name for mutant in every}
    for name in sorted(gone):
        print(f"scripts/mutants.toml names a change that the code no longer has: {name}")
    only = set(filter(None, chosen.only.split(",")))
    if unknown := only - {Path(path).stem for path in modules()}:
        parser.error(f"no such module: {', '.join(sorted(unknown))}; there are: {', '.join(modules())}")
    candidates = [mutant for mutant in every if not only or Path(mutant.path).stem in only]
    candidates.sort(key=lambda one: hashlib.sha256(f"{chosen.seed} {one.name}".encode()).digest())
    sample = list(islice((mutant for mutant in candidates if mutant.is_python), chosen.number))
    if chosen.list:
        print(*(mutant.name for mutant in sample), sep="\n")
        return 1 if gone else 0

    began, survived = time.monotonic(), list[str]()
    with tempfile.TemporaryDirectory(prefix="tradesdk-mutants-") as home:
        trees: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(chosen.jobs):
            copy_tree(Path(home) / str(number))
            trees.put(Path(home) / str(number))

        def play(mutant: Mutant) -> None:
            tree = trees.get()
            path = tree / mutant.path
            source = path.read_bytes()
            write(path, mutant.code(source))
            noticed = run_tests(tree)
            write(path, source)
            trees.put(tree)
            known = equivalent.get(mutant.name)
            survived.extend([mutant.name] * (not noticed and known is None))
            outcome = f"killed by {noticed}" if noticed else f"makes no difference: {known}" if known else "SURVIVED"
            print(f"{mutant.name}\n    {outcome}", flush=True)

        def unchanged() -> str:
            tree = trees.get()
            noticed = run_tests(tree)
            trees.put(tree)
            return noticed

        with ThreadPoolExecutor(chosen.jobs) as jobs:
            broken = jobs.submit(unchanged)
            for _ in jobs.map(play, sample):
                pass
    if broken.result():
        print(f"the tests fail without any change, so that says nothing:\n{broken.result()}")
        return 2
    seconds = time.monotonic() - began
    print(f"== seed {chosen.seed}: {len(sample)} of {len(every)} changes, {len(survived)} survived, {seconds:.0f} s")
    print(*survived, sep="\n")
    return 1 if survived or gone else 0


if __name__ == "__main__":
    sys.exit(main())
