"""A ledger whose process is killed: whatever the moment, each step is there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ._ledger import end, start

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
KILLS = int(os.environ.get("TRADE_LEDGER_KILLS", "150"))

# Each child runs the same steps, tells each one that is done, and is killed before its nth statement, whichever that
# is: those that make the file count as well. A kill, unlike a power cut, needs no syncing.
KILLED = """
from tests._killing import child, dies_at_statement

STAGES = [None, "reserved", "sent", "sent", "answered"]
SUBMISSIONS = [0, 0, 1, 2, 2]

def run(file, fatal, tell):
    dies_at_statement(fatal)
    ledger = Ledger(file, sync=False)
    payment = draft(id="pay_killed", fingerprint="killed")
    reserve(ledger, payment, owner=owner_name(), until=NOW + 300)
    tell(b"1")
    payment = submit(ledger, payment)
    tell(b"1")
    resubmit(ledger, payment)
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
        stage = payment and payment.stage.value
        # A step that was told is there; one that was under way may be.
        allowed = list(zip(STAGES, SUBMISSIONS))[done : done + 2]
        assert (stage, payment.submissions if payment else 0) in allowed, (fatal, done, payment)
        assert (payment.header if payment else None) == (HEADER if stage == "sent" else None)
        seen[str(stage)] = seen.get(str(stage), 0) + 1
        if payment is None:
            assert trusted(ledger, "https://market.example") == []
        elif stage != "answered":
            # Whoever comes next takes it over at once: its owner is dead.
            assert ledger.find("killed", now=NOW) == payment
            owner = owner_name()
            assert claim(ledger, payment, owner)
            if stage == "reserved":
                payment = submit(ledger, payment, owner=owner)
            told(ledger, payment, ReasonCode.DELIVERED)
        else:
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
    assert done == 4  # the last one came to its end
    assert fatal > 50
    assert seen.keys() == {"None", "reserved", "sent", "answered"}
    assert min(seen.values()) >= 1


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
            made = reserve(ledger, draft(id=f"pay_{name}", fingerprint=name), budget=Budget.unlimited())
            made = submit(ledger, made)
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
    sums_agree(ledger)
    submitted = [payment for payment in ledger.history(limit=10**6) if payment.submissions]
    ledger.check()
print(json.dumps([heard, len(submitted)]))
"""


@pytest.mark.parametrize("rounds", [12, pytest.param(KILLS, marks=pytest.mark.long)])
def test_a_kill_at_any_moment_loses_nothing_that_was_written_down(tmp_path: Path, rounds: int) -> None:
    told, submitted = end(start(ANY_MOMENT, tmp_path / "ledger", rounds, 7))
    assert told > 0
    assert told <= submitted <= told + rounds  # the last one of each round may be written down and not told
