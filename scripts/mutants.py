#!/usr/bin/env python3
"""Break the code that decides, one small change at a time, and see whether the tests notice.

    scripts/mutants.py                       run a sample of mutants and record each outcome in tests/mutants.txt
    scripts/mutants.py --compare             run the killed mutants of that record again; exit 1 if one survives now
    scripts/mutants.py --list                show the sample without running it
    scripts/mutants.py --modules sse,guards  only these modules (with each of the above)

`scripts/mutants.toml` names the modules and the tests. A mutant is one change by an operator of cosmic-ray: `<` becomes
`<=`, for example. Its name is module, function, operator and a number within that function, not a line, so records can
be compared when code moves. The sample is drawn by a hash of that name: the same code gives the same sample, and a
change elsewhere leaves it alone.

A mutant meets only the quick test files that enter its statement: the one that killed it before, then those that enter
most of its module in the least time. The first failure ends the run. Which file enters what is measured by running each
test file once under coverage. That takes about a quarter of an hour and is kept until the test file or its helpers
change. After large changes of the code `--fresh` measures all of them again.

Everything happens in a copy of the tree with its own environment, in the temporary folder (`--home` names another).
"""

from __future__ import annotations

import argparse
import ast
import fcntl
import filecmp
import hashlib
import json
import math
import os
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
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SETTINGS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
SIDES: list[dict[str, Any]] = [side for side in SETTINGS.values() if isinstance(side, dict)]
PACKAGES = ("cosmic-ray>=8.7,<9", "coverage>=7.10,<8")
MEMORY = 4 << 30
NO_TESTS = 5  # pytest's exit code where no test is selected

# Names of cosmic-ray, without "core/". Left out: what raises a TypeError wherever it runs (`a + b` to `a << b`), and
# what often changes nothing (`==` to `is`).
OPERATORS = (
    *("AddNot", "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue"),
    *("NumberReplacer", "ExceptionReplacer", "ZeroIterationForLoop"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak"),
    *("ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_USub", "ReplaceUnaryOperator_Delete_Invert"),
    *(
        f"ReplaceComparisonOperator_{pair}"
        for pair in (
            *("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is"),
            *("Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt"),
        )
    ),
    *(
        f"ReplaceBinaryOperator_{pair}"
        for pair in (
            *("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Div", "Div_FloorDiv", "Mod_FloorDiv", "Pow_Mul"),
            *("BitOr_BitAnd", "BitAnd_BitOr", "BitXor_BitOr", "LShift_RShift", "RShift_LShift"),
        )
    ),
)


def digest(*parts: object) -> str:
    return hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()


@dataclass(frozen=True)
class Mutant:
    """One change: its name in the record, and where to make it."""

    module: str
    function: str
    change: str  # operator#number within the function
    path: str
    occurrence: int  # number of this operator's place in the whole file, as cosmic-ray counts
    place: tuple[int, int]
    statement: str  # what Source.entered calls the statement there

    @property
    def name(self) -> str:
        return f"{self.module} {self.function} {self.change}"

    @property
    def rank(self) -> str:
        return digest(self.name)

    def code(self, source: str) -> str | None:
        """The whole file with this change; None if that is no Python."""
        from cosmic_ray.mutating import mutate_code
        from cosmic_ray.plugins import get_operator

        operator = get_operator("core/" + self.change.partition("#")[0])()
        with suppress(SyntaxError, AttributeError):  # AttributeError: ExceptionReplacer at `except (a.B, C)`
            changed: str | None = mutate_code(source, operator, self.occurrence)
            if changed is not None and ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source)):
                return changed
        return None

    def diff(self, source: str) -> str:
        """The changed lines, before and after."""
        before, after = source.splitlines(), (self.code(source) or "").splitlines()
        places = [at for at, (old, new) in enumerate(zip(before, after, strict=False)) if old != new]
        return "\n".join(
            f"    {sign} {text[at].strip()}" for at in places for sign, text in (("-", before), ("+", after))
        )


class Source:
    """The function and the statement at each place of a file, and the places where a change means nothing."""

    def __init__(self, text: str) -> None:
        self._text = text.splitlines()
        self._functions: dict[int, str] = {}
        self._statements: dict[int, range] = {}  # of a compound statement: its head
        self._definitions: set[int] = set()
        self._skipped: list[tuple[tuple[int, int], tuple[int, int]]] = []
        self._visit(ast.parse(text), "")

    def _visit(self, node: ast.AST, inside: str) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = f"{inside}.{node.name}" if inside else node.name
            self._functions.update(dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), inside))
            self._skip(*node.decorator_list)
            self._definitions.add(node.lineno)
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None) or getattr(node, "cases", None)
            last = node.end_lineno or node.lineno
            if body:
                starts = (getattr(body[0], "pattern", body[0]), *getattr(body[0], "decorator_list", ()))
                last = max(node.lineno, min(start.lineno for start in starts) - 1)
            lines = range(node.lineno, last + 1)
            self._statements.update(dict.fromkeys(lines, lines))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            self._skip(node)
        self._skip(*(getattr(node, name, None) for name in ("annotation", "returns")))
        for child in ast.iter_child_nodes(node):
            self._visit(child, inside)

    def _skip(self, *nodes: Any) -> None:
        for node in filter(None, nodes):
            self._skipped.append(((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)))

    def skips(self, place: tuple[int, int]) -> bool:
        return any(first <= place < last for first, last in self._skipped)

    def function(self, line: int) -> str:
        return self._functions.get(line, "<module>")

    def statement(self, line: int) -> str:
        """A name for the statement at a line that holds wherever the statement is in its function."""
        lines = self._statements.get(line, range(line, line + 1))
        return digest(self.function(line), *(self._text[at - 1].strip() for at in lines))[:12]

    def entered(self, lines: Iterable[int]) -> set[str]:
        """The statements at lines that were run, and their functions; to define a function is not to enter it."""
        return {self.statement(line) for line in lines} | {
            self.function(line) for line in lines if line not in self._definitions
        }


def files_of(module: str) -> list[str]:
    return [f"{side['root']}/{name}" for side in SIDES for name in side["modules"].get(module, ())]


def all_mutants(root: Path, module: str) -> list[Mutant]:
    """All mutants of a module by their rank: its files count as one, so that they can be split or merged."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator

    found = []
    count: Counter[tuple[str, str]] = Counter()
    for path in files_of(module):
        text = (root / path).read_text()
        nodes, source = list(ast_nodes(get_ast(text))), Source(text)
        for operator in OPERATORS:
            positions = get_operator(f"core/{operator}")().mutation_positions
            places = (start for node in nodes for start, _ in positions(node))
            for occurrence, place in enumerate(places):
                if source.skips(place):
                    continue
                function = source.function(place[0])
                count[function, operator] += 1
                change = f"{operator}#{count[function, operator]}"
                statement = source.statement(place[0])
                found.append(Mutant(module, function, change, path, occurrence, place, statement))
    return sorted(found, key=lambda mutant: mutant.rank)


def sample(root: Path, module: str, number: int) -> list[Mutant]:
    """The first mutants by rank, at most one at each place: else places with many operators would fill the sample."""
    drawn: dict[tuple[str, tuple[int, int]], Mutant] = {}
    for mutant in all_mutants(root, module):
        if len(drawn) == number:
            break
        at = (mutant.path, mutant.place)
        if at not in drawn and mutant.code((root / mutant.path).read_text()) is not None:
            drawn[at] = mutant
    return list(drawn.values())


class Workshop:
    """A copy of the working tree, an environment where it is installed, and what each test file covers."""

    def __init__(self, home: Path) -> None:
        self.home, self.tree, self.python = home, home / "tree", home / "env" / "bin" / "python"
        self._stable: dict[str, bool] = {}
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("TRADE_", "PYTHON"))}
        self._variables = variables | {"PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"}

    def prepare(self) -> None:
        """Bring the copy up to date with the files here, committed or not; install it again if its packages changed."""
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True, text=True).stdout
        names = [name for name in listed.split("\0") if name and (ROOT / name).is_file()]
        kept = {self.tree / part for name in names for part in (Path(name), *Path(name).parents)}
        for path in sorted(self.tree.rglob("*")):
            if path not in kept and "__pycache__" not in path.parts and path.exists():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for name in names:
            copy = self.tree / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            if not copy.exists() or not filecmp.cmp(ROOT / name, copy):
                shutil.copy2(ROOT / name, copy)
        stamp, wanted = self.home / "installed", digest((ROOT / "pyproject.toml").read_text(), *PACKAGES)
        if not stamp.exists() or stamp.read_text() != wanted:
            print(f"== a new environment in {self.home}", flush=True)
            subprocess.run([sys.executable, "-m", "venv", "--clear", self.home / "env"], check=True)
            install = [str(self.python), "-m", "pip", "install", "-q", "-e", f"{self.tree}[test]", *PACKAGES]
            subprocess.run(install, check=True)
            stamp.write_text(wanted)
        generate = [self.python, self.tree / "scripts" / "unasync.py"]
        subprocess.run(generate, env=self._variables, stdout=subprocess.DEVNULL, check=True)

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        path = self.tree / mutant.path
        source = path.read_text()
        try:
            write_source(path, mutant.code(source) or source)
            yield
        finally:
            write_source(path, source)

    def pytest(
        self, files: list[str], seconds: float, *options: str, under: tuple[str, ...] = ()
    ) -> tuple[int | None, str]:
        """Exit code (None: a test hangs) and output of the quick tests in these files."""
        usual = ["-vx", "--color=no", "-p", "no:cacheprovider", "-m", SETTINGS["marks"]]
        with tempfile.TemporaryFile("w+") as output:
            child = subprocess.Popen(
                [str(self.python), *under, "-m", "pytest", *usual, *options, *files],
                cwd=self.tree,
                env=self._variables,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
            )
            code = None
            try:
                with suppress(subprocess.TimeoutExpired):
                    code = child.wait(seconds)
            finally:
                with suppress(ProcessLookupError):  # what the tests started and left behind
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            output.seek(0)
            text = output.read()
        return (None if re.search(r"Timeout \([\d:.]+\)!\n", text) else code), text

    @cached_property
    def coverage(self) -> dict[str, dict[str, Any]]:
        """By test file: whether its tests pass, their CPU time in seconds, and what they enter by module."""
        kept = self.home / "coverage.json"
        known = json.loads(kept.read_text()) if kept.exists() else {}
        code, output = self.pytest([folder for side in SIDES for folder in side["tests"]], 900, "--collect-only", "-qq")
        if code != 0:
            sys.exit(f"{output[-4000:]}\nscripts/mutants.py: the tests can't be collected")
        measured: dict[str, list[str]] = {}
        for test in sorted(set(re.findall(r"^([^\s:]+\.py)::", output, re.MULTILINE))):
            for side in SIDES:
                if test.startswith(tuple(f"{folder}/" for folder in side["tests"])):
                    measured.setdefault(test, []).extend(side["modules"])
        found = {}
        for number, (test, modules) in enumerate(measured.items(), 1):
            helpers = {*(self.tree / "tests").glob("*.py"), *(self.tree / test).parent.glob("*.py")}
            read = [self.tree / test, *sorted(helper for helper in helpers if not helper.name.startswith("test_"))]
            key = digest(SETTINGS["marks"], *modules, *(path.read_text() for path in read))
            if known.get(test, {}).get("key") != key:
                print(f"== coverage {number} of {len(measured)}: {test}", flush=True)
                found[test] = {"key": key} | self._measure(test, modules)
                if found[test]["passes"]:
                    kept.write_text(json.dumps(known | found))
            else:
                found[test] = known[test]
        return found

    def _measure(self, test: str, modules: list[str]) -> dict[str, Any]:
        from coverage import CoverageData

        data = self.home / "coverage.data"
        data.unlink(missing_ok=True)
        include = f"--include={','.join(str(self.tree / path) for module in modules for path in files_of(module))}"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        under = ("-m", "coverage", "run", f"--data-file={data}", include)
        code, output = self.pytest([test], 900, under=under)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if code != 0:
            print(f"{output[-2000:]}\n== {test} fails without any change: left out", flush=True)
        self._stable[test] = code == 0
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        lines = CoverageData(str(data))
        lines.read()
        entered: dict[str, list[str]] = {}
        for module in modules:
            paths = [self.tree / path for path in files_of(module)]
            each = (Source(path.read_text()).entered(lines.lines(str(path)) or ()) for path in paths)
            entered[module] = sorted(set().union(*each))
        sources = {module: self._sources(module) for module in modules}
        return {"passes": code == 0, "seconds": seconds, "entered": entered, "sources": sources}

    def tests_of(self, mutant: Mutant, budget: float) -> tuple[list[str], int]:
        """The test files that a mutant meets in so many seconds, and how many enter its statement in all.

        First come those that enter many statements of the module in little time: what any import runs is no measure.
        """
        by_test = {test: set(each["entered"].get(mutant.module, ())) for test, each in self.coverage.items()}
        imported = min((len(entered) for entered in by_test.values() if entered), default=0)
        start = min((each["seconds"] for each in self.coverage.values()), default=0.0)
        now = self._sources(mutant.module)
        entering: list[tuple[bool, float, float, str]] = []
        for test, entered in by_test.items():
            each = self.coverage[test]
            exact = mutant.statement in entered
            # A statement may be newer than the coverage of its module: then all that enter its function, last.
            if each["passes"] and (exact or (mutant.function in entered and each["sources"][mutant.module] != now)):
                seconds = each["seconds"] - start + 0.5
                entering.append((not exact, seconds / (len(entered) - imported + 0.1), seconds, test))
        chosen: list[str] = []
        spent = 0.0
        for _, _, seconds, test in sorted(entering):
            spent += seconds
            if chosen and spent > budget:
                break
            chosen.append(test)
        return chosen, len(entering)

    def _sources(self, module: str) -> str:
        return digest(*((self.tree / path).read_text() for path in files_of(module)))

    def passes(self, test: str) -> bool:
        """Whether a test file passes without any change: one that fails anyway notices nothing."""
        if test not in self._stable:
            self._stable[test] = self.pytest([test], 900)[0] == 0
        return self._stable[test]

    def outcome(self, mutant: Mutant, killer: str, budget: float) -> tuple[str, str]:
        """("killed", test file), ("timeout", test file) or ("survived", why); `killer` is the file to begin with."""
        if killer and (self.tree / killer).is_file() and self.passes(killer):
            found, test = self._meet(mutant, [killer])
            if found != "survived":
                return found, test
        chosen, entering = self.tests_of(mutant, budget)
        files = [test for test in chosen if test != killer]
        while files:
            found, test = self._meet(mutant, files)
            if found == "survived":
                break
            if self.passes(test):
                return found, test
            files.remove(test)
        return "survived", f"{len(chosen)} of {entering} test files that enter it"

    def _meet(self, mutant: Mutant, files: list[str]) -> tuple[str, str]:
        limits = (f"faulthandler_timeout={SETTINGS['test_seconds']}", "faulthandler_exit_on_timeout=true")
        with self.changed(mutant):
            options = (f"--override-ini={limit}" for limit in limits)
            code, output = self.pytest(files, 120 + 20 * len(files), *options)
        if code in (0, NO_TESTS):
            return "survived", ""
        failed = re.findall(r"^(?:FAILED|ERROR) ([^\s:]+\.py)", output, re.MULTILINE)
        begun = re.findall(r"^([^\s:]+\.py)::", output, re.MULTILINE)
        test = next((test for test in (*failed, *reversed(begun)) if test in files), files[0])
        return ("timeout" if code is None else "killed"), test


def write_source(path: Path, text: str) -> None:
    """A file that changes twice a second, and keeps its size, would be run from the bytecode of the first change."""
    path.write_text(text)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


Record = dict[str, tuple[str, str]]  # by a mutant's name: its outcome, and the test file that killed it

HEAD = """\
# Written by scripts/mutants.py: module, function, operator#number, outcome, and the test file that noticed the change.
"""


def read_record(path: Path) -> Record:
    record = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            module, function, change, outcome, *killer = line.split()
            record[f"{module} {function} {change}"] = (outcome, "".join(killer))
    return record


def write_record(path: Path, record: Record) -> None:
    path.write_text(HEAD + "".join(f"{name} {' '.join(record[name])}".rstrip() + "\n" for name in sorted(record)))


def run_sample(shop: Workshop, modules: list[str], number: int, path: Path) -> int:
    record = read_record(path) if path.exists() else {}
    for module in modules:
        begun, new = time.monotonic(), Record()
        for mutant in sample(shop.tree, module, number):
            killer = record.get(mutant.name, ("", ""))[1]
            outcome, why = shop.outcome(mutant, killer, SETTINGS["mutant_seconds"])
            print(f"{mutant.name} {outcome} ({why})", flush=True)
            if outcome == "survived":
                print(mutant.diff((shop.tree / mutant.path).read_text()), flush=True)
            new[mutant.name] = (outcome, "" if outcome == "survived" else why)
        record = {name: it for name, it in record.items() if name.split()[0] != module} | new
        record = {name: it for name, it in record.items() if files_of(name.split()[0])}
        write_record(path, record)
        survived = sum(outcome == "survived" for outcome, _ in new.values())
        print(f"== {module}: {len(new)} mutants, {survived} survived, {time.monotonic() - begun:.0f} s", flush=True)
    return 0


def compare(shop: Workshop, modules: list[str], number: int, path: Path) -> int:
    if not path.exists():
        sys.exit(f"scripts/mutants.py: {path} is not there; it is written by a run without --compare")
    lines = read_record(path).items()
    record = {name: it for name, it in lines if name.split()[0] in modules or not files_of(name.split()[0])}
    mutants = {mutant.name: mutant for module in modules for mutant in all_mutants(shop.tree, module)}
    drawn = [mutant.name for module in modules for mutant in sample(shop.tree, module, number)]
    lost, again = [], [name for name, (outcome, _) in record.items() if outcome != "survived" and name in mutants]
    for name in again:
        outcome, killer = record[name]
        now, why = shop.outcome(mutants[name], killer, math.inf)  # no budget: an alarm must be true
        print(f"{name} {now} ({why})", flush=True)
        if now == "survived":
            diff = mutants[name].diff((shop.tree / mutants[name].path).read_text())
            lost.append(f"{name}: {outcome} before by {killer}, survives {why} now\n{diff}")
    for title, names in (
        ("in the sample, but not in the record", [name for name in drawn if name not in record]),
        ("in the record, but no longer in the code", [name for name in record if name not in mutants]),
        ("killed before, survive now", lost),
    ):
        print(f"== {title}: {len(names)}", *names, sep="\n")
    print(f"== of {len(again)} killed before, {len(again) - len(lost)} are killed again")
    return 1 if lost else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", action="store_true", help="run what was killed in the record again")
    parser.add_argument("--list", action="store_true", help="show the sample")
    parser.add_argument("--modules", default="", metavar="A,B", help="names from scripts/mutants.toml (default: all)")
    parser.add_argument(
        "--number", type=int, default=SETTINGS["per_module"], help="mutants per module (default: %(default)s)"
    )
    parser.add_argument("--record", type=Path, default=ROOT / "tests" / "mutants.txt", metavar="FILE")
    home = Path(tempfile.gettempdir()) / f"tradesdk-mutants-{digest(ROOT)[:8]}"
    parser.add_argument("--home", type=Path, default=home, metavar="FOLDER", help="keep the copy there (%(default)s)")
    parser.add_argument("--fresh", action="store_true", help="measure again which tests enter which statements")
    chosen = parser.parse_args()
    known = [module for side in SIDES for module in side["modules"]]
    modules = chosen.modules.split(",") if chosen.modules else known
    if wrong := [module for module in modules if module not in known]:
        parser.error(f"{', '.join(wrong)}: not in scripts/mutants.toml, which has {', '.join(known)}")
    if gone := [path for module in modules for path in files_of(module) if not (ROOT / path).is_file()]:
        parser.error(f"scripts/mutants.toml names files that are not there: {', '.join(gone)}")

    shop = Workshop(chosen.home.resolve())
    if Path(sys.prefix) != shop.home / "env":  # cosmic-ray is installed there only
        shop.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(shop.home / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        os.set_inheritable(lock, True)  # held until the program below ends
        fcntl.flock(lock, fcntl.LOCK_EX)
        shop.prepare()
        if chosen.fresh:
            (shop.home / "coverage.json").unlink(missing_ok=True)
        os.execv(shop.python, [str(shop.python), __file__, *sys.argv[1:]])  # noqa: S606
    if chosen.list:
        for mutant in (mutant for module in modules for mutant in sample(shop.tree, module, chosen.number)):
            print(
                f"{mutant.name} ({mutant.path}:{mutant.place[0]})",
                mutant.diff((shop.tree / mutant.path).read_text()),
                sep="\n",
            )
        return 0
    return (compare if chosen.compare else run_sample)(shop, modules, chosen.number, chosen.record)


if __name__ == "__main__":
    sys.exit(main())
