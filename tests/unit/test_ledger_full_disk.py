"""A disk that is really full: a file system of 300 KiB in memory, where the system lets a test have one."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, sys
from tests.unit._ledger import HEADER, NOW, PLENTY, reserve
from tradesdk.payments.budget import Budget
from tradesdk.errors import LedgerError
from tradesdk.payments.ledger.sqlite import Ledger
from tradesdk._values.payment import PaymentState

disk = sys.argv[1]

def full(use):
    try:
        use()
    except LedgerError as error:
        assert error.code == "ledger_failed", error
        assert "no space is left" in error.message, error
        assert error.hint == "free space on that disk", error
        return error.message.partition("; ")[2]
    raise AssertionError("it was written")

def fill():
    with open(f"{disk}/filling", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            pass

ledger, new = Ledger(f"{disk}/ledger"), Ledger(f"{disk}/new")
made = [reserve(ledger)]
ledger.close()
fill()
with Ledger(f"{disk}/ledger") as late:  # what SQLite keeps beside the file while it is open finds no room
    assert full(lambda: reserve(late)) == "nothing was sent"
os.unlink(f"{disk}/filling")
assert ledger.history() == made
fill()

def spend():
    for _ in range(100):
        made.append(reserve(ledger, budget=Budget.unlimited()))

assert full(spend) == "nothing was sent"
assert full(lambda: ledger.submit(made[0].id, HEADER * 200, now=NOW)) == "nothing was sent"
assert full(lambda: ledger.settle(made[0].id, PaymentState.UNKNOWN, reply=bytes(9000), now=NOW)) == (
    "the outcome of the payment is not written down"
)
assert full(lambda: reserve(new)) == "nothing was sent"
assert ledger.history(limit=999) == made[::-1]
assert ledger.spending(PLENTY, now=NOW).total == 30_000 * len(made)

ledger.close()
os.unlink(f"{disk}/filling")
made.append(reserve(ledger))
assert ledger.history(limit=999) == made[::-1]
reserve(new)
ledger.close()
new.close()
"""
MOUNT = 'mount -t tmpfs -o size=300k none "$1" && shift && exec "$@"'


def on_a_small_disk(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command that has a small disk for itself: nobody else sees it, and it goes with the command."""
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", MOUNT, "sh", str(folder), *command],  # noqa: S607 - from the system's path
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
    )


def possible(folder: Path) -> bool:
    return shutil.which("unshare") is not None and on_a_small_disk(folder, "true").returncode == 0


def test_nothing_is_lost_when_the_disk_is_full(tmp_path: Path) -> None:
    if not possible(tmp_path):
        pytest.skip("only root may mount a file system here")
    done = on_a_small_disk(tmp_path, sys.executable, "-W", "error", "-c", SCRIPT, str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
