"""scripts/trace_call.py: it runs, counts what its table shows, and finds the file of an endpoint."""

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "scripts" / "trace_call.py"


CALLS = (
    *("agents", "paid", "tick", "stream", "sdk-get", "sdk-paid", "sdk-stream"),
    *("cli-list", "cli-update", "cli-stream", "cli-prices", "cli-top"),
)
"""In the order of the table in CONTRIBUTING.md."""


@pytest.mark.long
def test_every_call(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(SCRIPT), "--order", *CALLS]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    orders = {line.split()[0]: line.partition(" enters ")[2].split(" > ") for line in lines if " enters " in line}
    assert orders.keys() == set(CALLS)
    assert "agents" in {Path(file).stem for file in orders["agents"]} & {Path(file).stem for file in orders["sdk-get"]}
    for (name, order), written in zip(orders.items(), figures(), strict=True):
        assert all((ROOT / folder_of(name) / file).is_file() for file in order)
        assert all(before != after for before, after in pairwise(order))
        totals = next(line.split()[1:] for line in reversed(lines) if line.startswith(f"{name} "))
        files, entries, moves, returns = (int(number.replace(",", "")) for number in totals)
        assert files <= written[0], f"{name} enters more files than CONTRIBUTING.md says"
        assert moves <= 1.1 * written[1], f"{name} moves more often than CONTRIBUTING.md says"
        assert files == len(set(order))
        assert moves == len(order) - 1
        assert returns == sum(file in order[:place] for place, file in enumerate(order))
        assert entries == sum(int(line.split()[1]) for line in table_of(name, lines))


def figures() -> list[tuple[int, int]]:
    """(files, moves) of each call, as CONTRIBUTING.md has them."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|[^|]+\| (\d+) \| ([\d,]+) \| [\d,]+ \|", text, re.M)
    return [(int(files), int(moves.replace(",", ""))) for files, moves in rows]


def folder_of(name: str) -> str:
    folders = {"sdk": "src/tradesdk", "cli": "src/tradesdk_cli"}
    return folders.get(name.partition("-")[0], "mock_server/tradesdk_mock")


def table_of(name: str, lines: list[str]) -> list[str]:
    """The rows of the table of a call, one for each of its files."""
    first = next(place for place, line in enumerate(lines) if line.startswith(f"{name}: ")) + 2
    return lines[first : lines.index("", first)]
