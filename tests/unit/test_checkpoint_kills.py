"""A process that is killed while it saves. The file can always be read, and is never older than what was saved."""

import os
from pathlib import Path

import pytest

from ._checkpoints import script

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no kill like that here")

# A child saves in a loop, adds some lines each time, and says after each of both that it returned; it is killed at a
# moment of the seed's choice.
AT_ANY_MOMENT = """
import os, random, signal, sys, time
from tests.unit._checkpoints import checkpoint, state, NOW
from tradesdk._stream import checkpoint as checkpoint_module

LINES = 5
checkpoint_module.monotonic = lambda: 1.0

path, kills = sys.argv[1], int(sys.argv[2])
random.seed(kills)
last, left, between = 0, 0, 0
for _ in range(kills):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        file = checkpoint(path)
        file.open()
        number = last
        while True:
            number += 1
            file.save(state(number, ids=number % 60))
            os.write(writing, b"%d\\n" % (number * (LINES + 1)))
            for line in range(LINES):
                assert file.add(f"line {number} {line}", NOW)
                os.write(writing, b"%d\\n" % (number * (LINES + 1) + line + 1))
    os.close(writing)
    with os.fdopen(reading, "rb") as said:
        first = said.readline()
        until = time.perf_counter() + random.random() * 0.01
        while time.perf_counter() < until:
            pass
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        returned = int((first + said.read()).split()[-1])
    left += os.path.exists(path + ".tmp")
    file = checkpoint(path)
    found = file.open()  # the lock is free
    number = round(found.position - NOW)
    whole = state(number, ids=number % 60)
    lines = len(found.handled) - len(whole.handled)
    assert (found.begin, found.position) == (whole.begin, whole.position)
    assert found.handled == (*whole.handled, *((f"line {number} {line}", NOW) for line in range(lines)))
    step = number * (LINES + 1) + lines
    assert returned <= step <= returned + 1, (returned, step)
    between += step - returned
    assert not os.path.exists(path + ".tmp")
    file.close()
    last = number
print(left, between, last)
"""


def killed(path: Path, kills: int) -> tuple[int, int, int]:
    left, between, last = map(int, script(AT_ANY_MOMENT, str(path), str(kills)).split())
    assert last >= kills
    return left, between, last


def test_at_any_moment(tmp_path: Path) -> None:
    killed(tmp_path / "checkpoint.json", 20)


@pytest.mark.long
def test_at_many_moments(tmp_path: Path) -> None:
    left, between, _ = killed(tmp_path / "checkpoint.json", 200)
    assert left + between > 20  # many moments are in the middle of a step, so this says that they were hit


# The same at each step of a save, and of a line: the child kills itself before or after every call of the system.
AT_EVERY_STEP = """
import os, signal, sys
from tests.unit._checkpoints import checkpoint, state, NOW
from tradesdk._stream import checkpoint as checkpoint_module
from tradesdk._stream.checkpoint import CheckpointState

checkpoint_module.monotonic = lambda: 1.0
path = sys.argv[1]
file = checkpoint(path)
file.open()
file.save(state(0))
found = state(0)
file.close()
steps = ("open", "fchmod", "write", "fsync", "close", "replace")
number, killed = 0, [0, 0, 0]
for before in (True, False):
    for step in steps:
        for nth in range(1, 6):
            number += 1
            child = os.fork()
            if child == 0:
                file = checkpoint(path)
                file.open()
                real, calls = getattr(os, step), 0

                def dying(*given):
                    global calls
                    calls += 1
                    if before and calls == nth:
                        os.kill(os.getpid(), signal.SIGKILL)
                    result = real(*given)
                    if not before and calls == nth:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return result

                setattr(os, step, dying)
                file.save(state(number, ids=number))
                assert file.add("line", NOW)
                os._exit(0)
            ended = os.waitpid(child, 0)[1]
            assert ended in (0, signal.SIGKILL)
            new = state(number, ids=number)
            line = CheckpointState(new.begin, new.position, (*new.handled, ("line", NOW)))
            old, found = found, file.open()
            file.close()
            stands = [old, new, line].index(found)
            if ended:
                killed[stands] += 1
            else:
                assert found == line, (step, nth)
            assert sorted(os.listdir(os.path.dirname(path))) == ["checkpoint.json", "checkpoint.json.lock"]
print(*killed)
"""


def test_at_every_step(tmp_path: Path) -> None:
    # 14 calls, so 28 kills: 15 while the old file is there, 10 while the new one has no line yet, 3 when it has.
    assert script(AT_EVERY_STEP, str(tmp_path / "checkpoint.json")) == "15 10 3\n"
