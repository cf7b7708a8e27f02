"""scripts/trace_call.py: it runs, counts what its table shows, and finds the file of an endpoint."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "scripts" / "trace_call.py"


def test_a_call_of_each_package(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(SCRIPT), "--order", "agents", "sdk-get"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    orders = {line.split()[0]: line.partition(" enters ")[2].split(" > ") for line in lines if " enters " in line}
    assert orders.keys() == {"agents", "sdk-get"}
    for name, order in orders.items():
        assert all((ROOT / folder_of(name) / file).is_file() for file in order)
        assert "agents" in {Path(file).stem for file in order}
        assert all(before != after for before, after in pairwise(order))
        totals = next(line.split()[1:] for line in reversed(lines) if line.startswith(f"{name} "))
        files, entries, moves, returns = (int(number.replace(",", "")) for number in totals)
        assert files == len(set(order))
        assert moves == len(order) - 1
        assert returns == sum(file in order[:place] for place, file in enumerate(order))
        assert entries == sum(int(line.split()[1]) for line in table_of(name, lines))


def folder_of(name: str) -> str:
    return "src/tradesdk" if name.startswith("sdk-") else "mock_server/tradesdk_mock"


def table_of(name: str, lines: list[str]) -> list[str]:
    """The rows of the table of a call, one for each of its files."""
    first = next(place for place, line in enumerate(lines) if line.startswith(f"{name}: ")) + 2
    return lines[first : lines.index("", first)]
