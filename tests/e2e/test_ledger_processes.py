"""One ledger and many processes: no budget is passed, and a fork is harmless."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ._ledger import LOOK, end, start

pytestmark = [pytest.mark.long, pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")]

SPENDERS = """
number, threads, tries = (int(value) for value in sys.argv[2:])
budget = Budget(per_hour="1.20")  # 40 payments of $0.03
counts = {"submitted": 0, "refused": 0, "cancelled": 0, "over": 0}
lock = threading.Lock()
ledger = Ledger(path, sync=False, timeout=120)
start = threading.Barrier(threads)

def spend(thread):
    chance = random.Random(1000 * number + thread)
    start.wait()
    for turn in range(tries):
        # Ids are counted by each process for itself.
        payment = draft(id=f"pay_{number}_{thread}_{turn}", fingerprint=f"{number} {thread} {turn}")
        try:
            payment = submitted(ledger, payment, budget=budget)
            result = "submitted"
        except PaymentRefusedError as refusal:
            assert refusal.code == "over_budget"
            result = "refused"
        over = ledger.spending(budget, now=NOW).last_hour.counted > 1_200_000
        if result == "submitted" and chance.random() < 0.9:
            told(ledger, payment, ReasonCode.NOT_RECEIVED)
            result = "cancelled"
        with lock:
            counts[result] += 1
            counts["over"] += over

workers = [threading.Thread(target=spend, args=(thread,)) for thread in range(threads)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
ledger.close()
print(json.dumps(counts))
"""


def test_many_processes_and_threads_share_one_budget(tmp_path: Path) -> None:
    """Most of what is written down is not handed over, so that there is always somebody at the limit."""
    path, processes, threads, tries = tmp_path / "ledger.sqlite3", 6, 8, 12
    running = [start(SPENDERS, path, number, threads, tries) for number in range(processes)]
    counts = [end(process) for process in running]
    total = {name: sum(count[name] for count in counts) for name in counts[0]}
    assert total["over"] == 0
    assert total["submitted"] + total["refused"] + total["cancelled"] == processes * threads * tries
    assert end(start(LOOK, path)) == total["submitted"] <= 40


FORKS = """
ledger, memory = Ledger(path, timeout=120), Ledger.memory()  # the threads below never pause
first = submitted(ledger)
submitted(memory)
stop = threading.Event()

def busy():
    while not stop.is_set():
        submitted(ledger, budget=Budget.unlimited())
        memory.history(limit=1)

workers = [threading.Thread(target=busy) for _ in range(2)]
for worker in workers:
    worker.start()
children = []
for number in range(6):
    pid = os.fork()
    if not pid:
        code = 1
        try:
            assert ledger.get(first.id) == first
            for turn in range(5):
                name = f"pay_child_{number}_{turn}"
                made = submitted(ledger, draft(id=name, fingerprint=name), budget=Budget.unlimited())
                assert ledger.get(name) == made
            ledger.close()
            try:
                memory.history()
            except LedgerError as error:
                assert error.code == "ledger_failed", error
                code = 0
        finally:
            os._exit(code)
    children.append(pid)
codes = [os.waitpid(pid, 0)[1] for pid in children]
stop.set()
for worker in workers:
    worker.join()
counts = sums_agree(ledger)
ledger.close()
memory.close()
print(json.dumps([codes, sum(payment.id.startswith("pay_child") for payment in counts), len(memory.history())]))
"""


def test_forked_children_use_the_file_and_not_the_memory(tmp_path: Path) -> None:
    assert end(start(FORKS, tmp_path / "ledger")) == [[0] * 6, 30, 1]


HOLDS_ON = """
# A child that is forked in the middle of a parent's life must not cost the parent what it writes afterwards.
ledger = Ledger(path)
first = submitted(ledger)
pid = os.fork()
if not pid:
    ledger.history()
    sys.exit()  # the whole way out, with everything that is closed there
os.waitpid(pid, 0)
second = submitted(ledger)
pid = os.fork()
if not pid:
    os.execv(sys.executable, [sys.executable, "-c", "pass"])
os.waitpid(pid, 0)
third = submitted(ledger)
assert ledger.history() == [third, second, first]
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_child_that_ends_takes_nothing_along(tmp_path: Path) -> None:
    process = start(HOLDS_ON, tmp_path / "ledger")
    assert process.communicate(timeout=300) == ("", "")
    assert process.returncode == -9
    assert end(start(LOOK, tmp_path / "ledger")) == 3


PAST_PYTHON = """
# A fork that Python is not told of before, as some servers do it in C: the connection must not be used by two.
import ctypes

ledger, closed = Ledger(path), Ledger(path + "-closed")
submitted(ledger)
pid = ctypes.PyDLL(None).fork()
if not pid:
    code = 1
    try:
        submitted(closed)
        submitted(ledger)
    except LedgerError as error:
        code = 0 if error.code == "ledger_failed" and "forked" in error.message else 2
    finally:
        os._exit(code)
code = os.waitpid(pid, 0)[1]
submitted(ledger)
ledger.close()
print(json.dumps(code))
"""


def test_a_fork_past_python_is_noticed(tmp_path: Path) -> None:
    assert end(start(PAST_PYTHON, tmp_path / "ledger")) == 0
    assert end(start(LOOK, tmp_path / "ledger")) == 2
    assert end(start(LOOK, tmp_path / "ledger-closed")) == 1
