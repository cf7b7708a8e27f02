"""A ledger whose process is killed: whatever the moment, each step is there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ._ledger import end, start

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
KILLS = int(os.environ.get("TRADE_LEDGER_KILLS", "50"))

# Each child runs the same steps, tells each one that is done, and is killed before its nth statement, whichever that
# is: those that make the file count as well. A kill, unlike a power cut, needs no syncing.
KILLED = """
from tests._killing import child, dies_at_statement

# Stage, submissions and signatures.
STEPS = [("None", 0, 0), ("sent", 1, 1), ("sent", 0, 1), ("sent", 1, 2), ("sent", 2, 2), ("answered", 2, 2)]

def run(file, fatal, tell):
    dies_at_statement(fatal)
    ledger = Ledger(file, sync=False)
    mine = {"owner": owner_name(), "until": NOW + 300}
    payment = submitted(ledger, draft(id="pay_killed", fingerprint="killed"), **mine)
    tell(b"1")
    payment = told(ledger, payment, ReasonCode.NOT_RECEIVED)
    tell(b"1")
    payment = submitted(ledger, draft(fingerprint="killed"), earlier=payment, **mine)
    tell(b"1")
    resubmit(ledger, payment, owner=mine["owner"])
    tell(b"1")
    told(ledger, payment, ReasonCode.DELIVERED, reply=b"prices")
    tell(b"1")

seen = {}
for fatal in range(1, 500):
    file = f"{path}-{fatal}"
    steps, status = child(lambda tell: run(file, fatal, tell))
    done = len(steps)
    with Ledger(file, sync=False, timeout=0) as ledger:
        sums_agree(ledger)
        payment = ledger.get("pay_killed")
        stage, submissions, signatures = step = STEPS[0]
        if payment:
            stage, submissions, signatures = step = payment.stage.value, payment.submissions, payment.signatures
            assert payment.header == (HEADER if payment.is_open else None)
        # A step that was told is there; one that was under way may be.
        assert step in STEPS[done : done + 2], (fatal, done, payment)
        seen[str(step)] = seen.get(str(step), 0) + 1
        assert trusted(ledger, "https://market.example") == ([ADDRESS] if payment else [])
        if payment and stage != "answered":
            # Whoever comes next takes it over at once: its owner is dead.
            assert standing(ledger, "killed", now=NOW) == payment
            owner = owner_name()
            assert claim(ledger, payment, owner)
            if not submissions:
                payment = submitted(ledger, payment, earlier=payment, owner=owner)
            told(ledger, payment, ReasonCode.DELIVERED)
        elif payment:
            assert payment.reply == b"prices"
        sums_agree(ledger)
    if status == 0:
        break
    assert status == signal.SIGKILL
print(json.dumps([done, fatal, seen]))
"""


@pytest.mark.long
def test_a_kill_before_any_statement_leaves_whole_steps(tmp_path: Path) -> None:
    done, fatal, seen = end(start(KILLED, tmp_path / "ledger"))
    assert done == 5  # the last one came to its end
    assert fatal > 50
    assert len(seen) == 6  # each step


# Killed from outside, at any moment: within a write to the file as well as between two of them.
ANY_MOMENT = """
rounds, seed = int(sys.argv[2]), int(sys.argv[3])
chance = random.Random(seed)
heard = 0
for number in range(rounds):
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        ledger = Ledger(path)
        for turn in range(10**6):
            name = f"{number}_{turn}"
            made = submitted(ledger, draft(id=f"pay_{name}", fingerprint=name), budget=Budget.unlimited())
            os.write(write, b"p")
            if turn % 2:
                told(ledger, made, ReasonCode.REJECTED)
        os._exit(1)
    os.close(write)
    heard += len(os.read(read, chance.randrange(1, 8)))  # it has begun
    for _ in range(chance.randrange(20_000)):
        pass
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    while more := os.read(read, 100):
        heard += len(more)
    os.close(read)
with Ledger(path) as ledger:
    print(json.dumps([heard, len(sums_agree(ledger))]))
"""


@pytest.mark.parametrize("rounds", [12, pytest.param(KILLS, marks=pytest.mark.long)])
def test_a_kill_at_any_moment_loses_nothing_that_was_written_down(tmp_path: Path, rounds: int) -> None:
    told, written = end(start(ANY_MOMENT, tmp_path / "ledger", rounds, 7))
    assert told > 0
    assert told <= written <= told + rounds  # the last one of each round may be written down and not told
