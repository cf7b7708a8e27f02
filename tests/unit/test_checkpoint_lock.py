"""One stream at a time has a checkpoint: in a process, between processes, after a fork, and after a kill."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tradesdk._system.file_lock import FileLock

from ._checkpoints import checkpoint, kept, refused, script, state

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked on POSIX only")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint.json"


def test_a_second_stream_of_this_process(path: Path) -> None:
    first, second = checkpoint(path), checkpoint(path)
    first.open()
    for file in (second, first, checkpoint(path, chain=56)):
        error = refused(file)
        assert "in use by another stream of this process" in error.message
        assert "end that one first" in error.hint
    assert "not open" in refused(second, state(1)).message
    second.close()  # has nothing to give back
    assert "in use" in refused(second).message
    first.save(state(2))
    first.close()
    assert second.open() == state(2)
    assert "not open" in refused(first, state(3)).message
    second.close()


def test_two_checkpoints_in_one_folder(tmp_path: Path) -> None:
    one, two = checkpoint(tmp_path / "one"), checkpoint(tmp_path / "two")
    one.open()
    two.open()
    one.save(state(1))
    two.save(state(2))
    one.close()
    two.close()
    assert (kept(tmp_path / "one"), kept(tmp_path / "two")) == (state(1), state(2))


def test_a_refused_file_leaves_nothing_open(path: Path) -> None:
    """Neither the lock nor a descriptor, however often it is tried."""
    path.write_bytes(b"damaged")
    for _ in range(3):
        refused(checkpoint(path))
        lock = FileLock(f"{path}.lock")
        lock.take()
        lock.release()
        lock.release()
    if os.path.isdir("/proc/self/fd"):
        before = os.listdir("/proc/self/fd")
        for _ in range(20):
            refused(checkpoint(path))
        assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_lock_that_was_removed_is_taken_again(path: Path) -> None:
    """Somebody cleaned up. As long as nobody else has it, that is no reason to stop."""
    file = checkpoint(path)
    file.open()
    for number in range(3):
        os.unlink(f"{path}.lock")
        file.save(state(number))
        assert os.path.exists(f"{path}.lock")
        assert "in use" in refused(checkpoint(path)).message
    file.close()
    assert kept(path) == state(2)


@pytest.mark.parametrize("errors", [1, 3])
def test_a_lock_that_cannot_be_taken_for_a_while(path: Path, errors: int) -> None:
    """Somebody cleaned up, and something else is in its place: the stream goes on as soon as that is gone."""
    file = checkpoint(path)
    file.open()
    file.save(state(1))
    os.unlink(f"{path}.lock")
    os.mkdir(f"{path}.lock")
    for _ in range(errors):
        assert "cannot be locked" in refused(file, state(2)).message
    os.rmdir(f"{path}.lock")
    file.save(state(3))
    assert "in use" in refused(checkpoint(path)).message
    file.close()
    assert kept(path) == state(3)


def test_closed_while_its_lock_is_gone(path: Path) -> None:
    file = checkpoint(path)
    file.open()
    file.save(state(1))
    os.unlink(f"{path}.lock")
    os.mkdir(f"{path}.lock")
    refused(file, state(2))
    file.close()
    assert "not open" in refused(file, state(2)).message
    os.rmdir(f"{path}.lock")
    assert kept(path) == state(1)


OTHER = """
import sys
from tests.unit._checkpoints import checkpoint, state
file = checkpoint(sys.argv[1])
found = file.open()
print(found.position if found else None)
file.save(state(int(sys.argv[2])))
"""
REFUSED = """
import sys
from tests.unit._checkpoints import checkpoint, refused
print(refused(checkpoint(sys.argv[1])).message)
"""


def test_another_process(path: Path) -> None:
    assert script(OTHER, str(path), "1") == "None\n"
    file = checkpoint(path)
    assert file.open() == state(1)  # it ended without giving the lock back
    assert f"in use by process {os.getpid()}" in script(REFUSED, str(path))
    file.close()
    assert script(OTHER, str(path), "2").strip() == str(state(1).position)
    assert kept(path) == state(2)


HOLDER = """
import os, sys
from tests.unit._checkpoints import checkpoint, state
file = checkpoint(sys.argv[1])
file.open()
file.save(state(5))
if os.fork() == 0:  # stays when this one has ended, and has no lock
    print("taken", flush=True)
sys.stdin.read()
"""


@posix
def test_who_loses_the_lock_does_not_write(path: Path) -> None:
    """The lock's file was removed, and another process took a new one."""
    file = checkpoint(path)
    file.open()
    file.save(state(1))
    os.unlink(f"{path}.lock")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "taken\n"
        for _ in range(2):  # it is tried again, for as long as the other one has it
            assert f"in use by process {other.pid}" in refused(file, state(2)).message
        other.kill()
        other.wait()
        # Its child still runs: it reads from the same pipe, which is open.
        assert kept(path) == state(5)
        file.close()


FORK = """
import os, sys
from tests.unit._checkpoints import checkpoint, refused, state

path = sys.argv[1]
file, closed = checkpoint(path), checkpoint(path + ".closed")
file.open()
file.save(state(1))
parent = os.getpid()
child = os.fork()
if child == 0:
    assert "forked from" in refused(file, state(2)).message
    file.close()
    file.close()
    assert f"in use by process {parent}" in refused(file).message
    assert "not open" in refused(file, state(2)).message
    assert f"in use by process {parent}" in refused(checkpoint(path)).message
    file.close()
    closed.open()  # it was nobody's
    closed.save(state(9))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
file.save(state(3))
child = os.fork()
if child == 0:
    assert f"in use by process {parent}" in refused(checkpoint(path)).message  # the first child didn't give it away
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
file.close()
child = os.fork()
if child == 0:
    assert file.open() == state(3)
    file.save(state(4))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert file.open() == state(4)
assert closed.open() == state(9)
print("done")
"""


@posix
def test_a_forked_child_does_not_have_it(path: Path) -> None:
    assert script(FORK, str(path)) == "done\n"


BUSY_FORK = """
import os, sys, threading, warnings
from tests.unit._checkpoints import checkpoint, refused, state

warnings.simplefilter("ignore")  # a newer Python warns of what is tried here
file = checkpoint(sys.argv[1])
file.open()
stop = threading.Event()

def save():
    number = 0
    while not stop.is_set():
        number += 1
        file.save(state(number))

thread = threading.Thread(target=save)
thread.start()
for _ in range(20):  # in the middle of a save, of which nobody in the child will ever come out
    child = os.fork()
    if child == 0:
        assert "forked from" in refused(file, state(1)).message
        file.close()
        assert "in use by process" in refused(file).message
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
file.close()
print("done")
"""


@posix
def test_a_child_forked_while_another_thread_saves(path: Path) -> None:
    assert script(BUSY_FORK, str(path)) == "done\n"


# Several processes count in one file, each step under the lock. No step is lost, and none is done twice.
COUNTING = """
import os, random, sys
from tests.unit._checkpoints import checkpoint, state, NOW
from tradesdk.errors import CheckpointError

path, rounds = sys.argv[1], int(sys.argv[2])
children = []
for seed in range(3):
    child = os.fork()
    if child:
        children.append(child)
        continue
    done = 0
    while done < rounds:
        file = checkpoint(path)
        try:
            found = file.open()
        except CheckpointError as error:
            assert "in use by" in error.message and "this process" not in error.message, error
            continue
        number = 0 if found is None else round(found.position - NOW)
        file.save(state(number + 1))
        file.close()
        done += 1
    os._exit(0)
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
file = checkpoint(path)
print(round(file.open().position - NOW))
"""


@posix
def test_processes_take_turns(path: Path) -> None:
    assert script(COUNTING, str(path), "40") == "120\n"


@pytest.mark.long
@posix
def test_processes_take_turns_for_longer(path: Path) -> None:
    assert script(COUNTING, str(path), "1500") == "4500\n"


def test_where_there_are_no_locks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one, two streams could spoil the file and nobody would see it: so there is no stream."""
    for number in (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS):

        def none(file: int, how: int, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr("fcntl.flock", none)
        error = refused(checkpoint(path))
        assert "cannot be locked" in error.message
        assert errno.errorcode[number] in error.message
        assert "local disk" in error.hint
    assert not path.exists()


def test_closed_by_a_signal_while_another_one_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = checkpoint(tmp_path / "first"), checkpoint(tmp_path / "second")
    first.open()
    real = fcntl.flock

    def closing(file: int, how: int) -> None:
        patch.undo()
        first.close()  # as a handler does, in the thread that is in the middle of it
        real(file, how)

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", closing)
        second.open()
    assert first.open() is None
    assert "in use" in refused(checkpoint(tmp_path / "second")).message
    first.close()
    second.close()


@posix
def test_a_lock_whose_owner_is_not_told(path: Path) -> None:
    """Another program's, or on a disk that was full when it was made."""
    with open(f"{path}.lock", "wb", buffering=0) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for said in (b"", b" hello", b" -5", b" \xb2"):
            os.ftruncate(lock.fileno(), 0)
            os.pwrite(lock.fileno(), said, 0)
            assert "is in use by another process" in refused(checkpoint(path)).message


@pytest.mark.skipif(os.name == "nt", reason="links need a permission there")
def test_a_link_in_the_place_of_the_lock_is_not_followed(path: Path, tmp_path: Path) -> None:
    aim = tmp_path / "mine"
    aim.write_text("mine")
    os.symlink(aim, f"{path}.lock")
    assert "cannot be locked" in refused(checkpoint(path)).message
    assert aim.read_text() == "mine"
