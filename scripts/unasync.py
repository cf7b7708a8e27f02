#!/usr/bin/env python3
"""Write the blocking twin of everything async: `src/tradesdk/_async` → `_sync`, `tests/_async` → `tests/_sync`.

    scripts/unasync.py           write what is not current, delete what was generated from a file that is gone
    scripts/unasync.py --check   exit 1 when something of `src` is not current, and write nothing there

The twins of tests are not stored: git ignores them, pytest and this script write those that are not current.

It also fails on a rule that matches nowhere, on a generated file without a source, on a word of async that no rule
took away, and on a hand-written twin that defines other names; what it lacks, mypy misses.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("src/tradesdk/_async", "src/tradesdk/_sync")
TESTS = ("tests/_async", "tests/_sync")
MARK = "# Generated from "
HAND_WRITTEN = ("src/tradesdk/_async/concurrency.py", "src/tradesdk/_async/signing.py")

# Applied in this order to every file. Each must match somewhere.
RULES = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # removed in the blocking twin
        (r"(?m)^.*# async only\n", ""),
        # text
        (r"It belongs to one event loop\.", "Threads may share it."),
        (r"\b(?:always_)?in_(?:own_)?thread\(([a-z_][\w.]*)(?:, )?", r"\1("),
        (r"\bin_thread_if\([\w.]+, ([a-z_][\w.]*)(?:, )?", r"\1("),
        (r"\bcompleted\([\w.]+, \w+, ([a-z_][\w.]*)(?:, )?", r"\1("),
        # language
        (r"\basync (def|for|with)\b", r"\1"),
        (r"\bawait ", ""),
        (r"\bAwaitable\[(\w+)\]", r"\1"),
        (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
        (r"\bStopAsyncIteration\b", "StopIteration"),
        (r"\bAsync(Iterator|Iterable)\b", r"\1"),
        # libraries
        (r"\bAnyIOBackend\b", "SyncBackend"),
        (r"\bhandle_async_request\b", "handle_request"),
        (r"\baconnect_sse\b", "connect_sse"),
        (r"\ba(close|iter|next)\b", r"\1"),
        # tests
        (r"\basynccontextmanager\b", "contextmanager"),
        (r"\baread\b", "read"),
        (r"\btradesdk\._async\b", "tradesdk._sync"),
        (r"\b_flavour_async\b", "_flavour_sync"),
        # ours
        (r"\b(_?)Async(?=[A-Z])", r"\1"),
    )
]
LEFT_OVER = re.compile(
    r"\b(async|await|anyio|asyncio|trio|\w*Async[A-Z]\w*|a(close|iter|next|enter|exit)(_\w+)?|__a(iter|next|enter|exit)__)\b"
)


def generate(source: Path, text: str, used: set[int]) -> str:
    for number, (pattern, replacement) in enumerate(RULES):
        text, count = pattern.subn(replacement, text)
        if count:
            used.add(number)
    name = source.relative_to(ROOT).as_posix()
    return f"{MARK}{name} by scripts/unasync.py: change that file instead.\n{text}"


def formatted(text: str, target: Path) -> str:
    """As `ruff check --fix` (imports) and `ruff format` leave it, so that the generated tree passes the same checks."""
    for command in (["check", "--fix-only", "--quiet", "--select", "I,F401"], ["format", "--quiet"]):
        text = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(target), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
    return text


def public_names(path: Path) -> set[str]:
    body = ast.parse(path.read_text("utf-8")).body
    defined = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    passed_on = {each.asname for node in body if isinstance(node, ast.ImportFrom) for each in node.names if each.asname}
    return {node.name.removeprefix("Async") for node in body if isinstance(node, defined)} | passed_on


def twins(folders: tuple[str, str], used: set[int], problems: list[str], *, delete: bool) -> Iterator[tuple[Path, str]]:
    """Every file to be generated, and its text. Files without a source are problems, or deleted."""
    expected: set[Path] = set()
    for source in sorted((ROOT / folders[0]).rglob("*.py")):
        target = ROOT / folders[1] / source.relative_to(ROOT / folders[0])
        expected.add(target)
        name = target.relative_to(ROOT).as_posix()
        if source.relative_to(ROOT).as_posix() in HAND_WRITTEN:
            if not target.exists() or not public_names(target) <= public_names(source):
                problems.append(f"{name}: defines names that its twin does not have")
            continue
        text = generate(source, source.read_text("utf-8"), used)
        for number, line in enumerate(text.splitlines()[1:], 2):
            if match := LEFT_OVER.search(line):
                problems.append(f"{name}:{number}: {match[0]!r} is left over: {line.strip()}")
        yield target, text
    for found in sorted((ROOT / folders[1]).rglob("*.py")):
        if found in expected:
            continue
        if delete and found.read_text("utf-8").startswith(MARK):
            found.unlink()
        else:
            problems.append(f"{found.relative_to(ROOT).as_posix()}: has no source; delete it")


def is_current(target: Path, text: str) -> bool:
    return target.exists() and target.read_text("utf-8") == text


def write(target: Path, text: str) -> None:
    """At once: other programs read these files meanwhile."""
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f"{target.name}.{os.getpid()}")
    beside.write_text(text, "utf-8")
    beside.replace(target)


def write_tests(used: set[int] | None = None) -> list[str]:
    """Write the tests of the blocking flavour that are not current; what is wrong with them."""
    problems: list[str] = []
    for target, text in twins(TESTS, set() if used is None else used, problems, delete=True):
        if not is_current(target, text):
            write(target, text)
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing in src; exit 1 when one is not current")
    check = parser.parse_args().check
    if importlib.util.find_spec("ruff") is None:
        print('ruff is missing, which formats what is generated: use the environment of pip install -e ".[test]"')
        return 1
    problems: list[str] = []
    used: set[int] = set()
    for target, text in twins(SOURCES, used, problems, delete=not check):
        name = target.relative_to(ROOT).as_posix()
        text = formatted(text, target)
        if is_current(target, text):
            continue
        if check:
            problems.append(f"{name}: is not current; run scripts/unasync.py")
        else:
            write(target, text)
            print(f"wrote {name}")
    problems += write_tests(used)
    problems += [f"the rule {RULES[number][0].pattern!r} matches nowhere" for number in set(range(len(RULES))) - used]
    print("\n".join(problems) or "the generated tree is current")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
