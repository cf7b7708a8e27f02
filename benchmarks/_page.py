"""Runs the programs of this folder, all or those that are named, and writes docs/benchmarks.md after a run of all."""

from __future__ import annotations

import ast
import datetime
import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
HANGS = 1_800  # seconds; the longest takes a third of it
HEAD = """\
# Benchmarks

tradesdk beside other packages, measured by the programs of `benchmarks/`: both sides in one run, in turns and in random
order. What counts is the ratio of CPU times: times themselves belong to the machine. A ratio is the median of the
rounds' ratios. "Bar": how many times the other's time ours may take, or a limit with its unit.
`scripts/benchmarks` wrote this page; below the table are the times.

{date}, Python {python}, {system}, {cores} cores. {held} of {all} rows hold.

| Program | Measured | Bar | |
|---|---|---|---|
"""
ROW = re.compile(r"^(ok  |MISS)  (.+?)(?:  \(bar (.+)\))?$|^\((.+ is not installed and left out)\)$", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """What a program printed, and why it ended early: "" if it did not."""

    program: Path
    printed: str
    trouble: str

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """What was measured, its bar and whether it holds; also what could not be measured."""
        rows = [
            (missing, "", "not measured") if missing else (text, bar, "held" if verdict == "ok  " else "missed")
            for verdict, text, bar, missing in ROW.findall(self.printed)
        ]
        return [*rows, (self.trouble, "", "not measured")] if self.trouble else rows

    @property
    def section(self) -> str:
        """Its docstring's first line and the times that it printed; the table at the top has its rows."""
        title = (ast.get_docstring(ast.parse(self.program.read_text(encoding="utf-8"))) or "").partition("\n")[0]
        times = re.sub(r"\n{3,}", "\n\n", ROW.sub("", self.printed)).strip()
        lines = "".join(f"    {line}".rstrip() + "\n" for line in times.splitlines())
        return f"\n## {self.program.stem}\n\n{title}\n" + (f"\n{lines}" if lines else "")


def run(program: Path) -> Run:
    print(f"== {program.stem}", flush=True)
    with subprocess.Popen(
        [sys.executable, program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=HERE.parent
    ) as process:
        try:
            printed, errors = process.communicate(timeout=HANGS)
        except subprocess.TimeoutExpired:
            process.kill()
            printed, errors = process.communicate()
            trouble = f"did not end in {HANGS // 60} minutes"
        else:
            said = errors.strip().splitlines()[-1:] or ["without a word"]
            failed = process.returncode != 0 and not (process.returncode == 1 and "MISS" in printed)
            trouble = f"ended with {process.returncode}: {said[0]}" if failed else ""
    print(printed, errors, sep="\n", flush=True)
    return Run(program, printed, trouble)


def page(runs: list[Run]) -> str:
    rows = [(one.program.stem, *row) for one in runs for row in one.rows]
    head = HEAD.format(
        date=datetime.date.today(),
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        cores=os.cpu_count(),
        held=sum(row[-1] == "held" for row in rows),
        all=len(rows),
    )
    cells = ([cell.replace("|", r"\|").replace("<", r"\<") for cell in row] for row in rows)
    return head + "".join(f"| {' | '.join(row)} |\n" for row in cells) + "".join(one.section for one in runs)


def main(names: list[str]) -> int:
    programs = {program.stem: program for program in sorted(HERE.glob("[!_]*.py"))}
    if unknown := [name for name in names if name not in programs]:
        print(f"no such program: {', '.join(unknown)}; there are {', '.join(programs)}", file=sys.stderr)
        return 2
    runs = [run(programs[name]) for name in names or programs]
    if not names:
        PAGE.write_text(page(runs), encoding="utf-8")
        print(f"wrote {PAGE.relative_to(HERE.parent)}")
    bad = [(one.program.stem, *row) for one in runs for row in one.rows if row[-1] != "held"]
    for name, text, bar, verdict in bad:
        print(f"{verdict}: {name}: {text}" + (f"  (bar {bar})" if bar else ""))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
