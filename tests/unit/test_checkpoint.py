"""What a checkpoint promises: what is written is found again, by its owner only, and one stream at a time has it."""

import errno
import hashlib
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tradesdk import CheckpointError, ConfigError, InvalidArgumentError
from tradesdk._stream import checkpoint as checkpoint_module
from tradesdk._stream.checkpoint import CheckpointFile, CheckpointState, default_path, hash_of_key
from tradesdk._system import private_files

from .._rows import each_of
from .._texts import texts
from ._checkpoints import BASE, KEY, NOW, PRINT, URL, checkpoint, in_use, kept, opened, refused, save, script, state

TURNS = int(os.environ.get("TRADE_TURNS", "150"))
"""Of each process; 1,500 in scripts/soak."""
posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="modes, links and processes of POSIX")


class Time:
    """The clock of the file."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(checkpoint_module, "monotonic", time)
    return time


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint.json"


# Written, and found again

times = st.floats(-62135596800, 253402300799, allow_nan=False)
pairs = st.lists(st.tuples(texts(), times), max_size=9)
ODD = [("\U0001f600", -5.5), ("\0\n\u2028", 0.0), ('"', 1.0)]


@given(st.lists(st.floats(0, 253402300799), min_size=2, max_size=2).map(sorted), pairs)
@example([0, 0], ODD)
def test_what_is_written_is_found_again(
    tmp_path_factory: pytest.TempPathFactory, begin: list[float], handled: list[tuple[str, float]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "every.json"
    path.unlink(missing_ok=True)
    whole = CheckpointState(begin[0], begin[1], tuple(handled))
    with opened(path, whole):
        pass
    assert kept(path) == whole


def test_from_run_to_run(path: Path) -> None:
    file = checkpoint(path)
    for number in range(4):
        assert file.open() == (state(number - 1) if number else None)
        assert path.exists() is bool(number)
        save(file, state(9, ids=0))
        save(file, state(number))
        assert not file.behind
        file.close()
        file.close()
    refused(file, "not open", saves=state(9))
    with pytest.raises(CheckpointError, match="is not open"):
        file.save_soon(lambda: state(9))
    assert kept(path) == state(3)
    assert sorted(one.name for one in path.parent.iterdir()) == ["checkpoint.json", "checkpoint.json.lock"]


def test_the_bytes_of_a_file(path: Path) -> None:
    with opened(path, state(1, ids=1)):
        pass
    first = path.read_text()
    assert json.loads(first) == {
        "version": 1,
        "service": URL,
        "key": PRINT,
        "chain": BASE,
        "begin": NOW,
        "position": NOW + 1,
        "handled": [["sig_1_0", NOW + 1]],
    }
    assert first.endswith("}\n")
    assert KEY[-4:] not in first
    for neat in (json.dumps(json.loads(first), indent=2) + "\n", json.dumps(json.loads(first))):  # an editor's
        path.write_text(neat)
        assert kept(path) == state(1, ids=1)


# At most twice a second


class Timers:
    """The threads that were started: `fire` lets the time of the last one come."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    def __call__(self, seconds: float, function: Callable[..., None], given: tuple[Any, ...]) -> Any:
        timer = SimpleNamespace(seconds=seconds, daemon=False, start=lambda: None, cancel=lambda: None)
        timer.run = lambda: function(*given)
        self.all.append(timer)
        return timer

    def fire(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(threading, "current_thread", lambda: self.all[-1])
            self.all[-1].run()


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> Timers:
    timers = Timers()
    monkeypatch.setattr(threading, "Timer", timers)
    return timers


def test_the_first_of_a_half_second_is_written_at_once_and_the_rest_at_its_end(
    path: Path, time: Time, timers: Timers, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def current() -> CheckpointState:
        return state(len(done))

    with opened(path) as file:
        assert not file.save_soon(current), "the caller saves"
        save(file, state(0))
        for _ in range(5):
            time.now += 0.0625
            done.append("another")
            assert file.save_soon(current)
            assert file.behind
        assert (len(timers.all), timers.all[0].seconds, timers.all[0].daemon) == (1, 0.4375, True)
        time.now = 1_000.5
        timers.fire(monkeypatch)
        assert not file.behind
        assert json.loads(path.read_text())["position"] == NOW + 5
        assert file.save_soon(lambda: state(6)), "half a second after that"
        assert len(timers.all) == 2
        time.now += 0.5
        assert not file.save_soon(lambda: state(7))


def test_a_write_that_was_due_is_not_done_twice_or_after_the_end(
    path: Path, timers: Timers, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(path, state(0)) as file:
        assert file.save_soon(lambda: state(1))
        save(file, state(2))
        timers.fire(monkeypatch)
        assert json.loads(path.read_text())["position"] == NOW + 2
        assert file.save_soon(lambda: state(3))
    timers.fire(monkeypatch)
    assert kept(path) == state(2)


def test_a_late_write_that_fails_is_told_by_the_next(
    path: Path, time: Time, timers: Timers, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(path, state(0)) as file:
        assert file.save_soon(lambda: state(1))
        path.write_text("a note")
        time.now += 0.5
        timers.fire(monkeypatch)
        assert file.behind
        assert not file.save_soon(lambda: state(1))
        refused(file, "another program", saves=state(1))
        path.unlink()
        save(file, state(1))
    assert kept(path) == state(1)


def test_what_comes_during_a_write_is_written_by_the_next(path: Path, timers: Timers) -> None:
    """Not waited for, and not forgotten."""
    with opened(path, state(0)) as file:

        def acknowledged_meanwhile() -> CheckpointState:
            assert file.save_soon(lambda: state(2))
            return state(1)

        file.save(acknowledged_meanwhile)
        assert file.behind
        assert len(timers.all) == 1


def test_a_thread_writes_it_in_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_module, "WAIT", 0.05)
    written = threading.Event()
    replace = private_files.replace

    def noticed(name: str, data: bytes) -> None:
        replace(name, data)
        if b"sig_1_0" in data:
            written.set()

    with opened(path, state(0)) as file:
        monkeypatch.setattr(private_files, "replace", noticed)
        assert file.save_soon(lambda: state(1))
        assert written.wait(60)
    assert kept(path) == state(1)


# Whose it is, and where


def test_a_hash_tells_keys_apart_and_shows_nothing_of_them() -> None:
    keys = [KEY, KEY[:-1], KEY + "a", KEY.lower(), KEY[1:]]
    prints = [hash_of_key(key) for key in keys]
    assert len(set(prints)) == len(keys)
    assert hash_of_key(KEY) == PRINT
    for one in prints:
        assert len(one) == 16
        int(one, 16)
        assert not any(KEY[at : at + 4].lower() in one for at in range(len(KEY) - 3))
    assert PRINT not in hashlib.sha256(KEY.encode()).hexdigest()  # so it is of no use elsewhere


@each_of(
    ("changes", "told"),
    [
        ({"base_url": "https://other.example"}, ("another service", URL, "another file")),
        ({"chain": 56}, ("another chain", "8453, not 56", "another file")),
        ({"key_hash": hash_of_key("other")}, ("another API key", "was rotated", "another account")),
    ],
)
def test_a_file_of_another_stream(path: Path, changes: dict[str, str], told: tuple[str, ...]) -> None:
    with opened(path, state(4)):
        pass
    before = path.read_bytes()
    refused(checkpoint(path, **changes), *told, code="checkpoint_mismatch")
    assert path.read_bytes() == before
    assert kept(path) == state(4)


def test_a_rotated_key_goes_on_from_there(path: Path) -> None:
    """By the edit that the hint names."""
    with opened(path, state(4)):
        pass
    new = hash_of_key("another key of the same account")
    refused(checkpoint(path, key_hash=new), f'"key":"{new}"', code="checkpoint_mismatch")
    text = path.read_text()
    assert text.count(f'"key":"{PRINT}"') == 1
    path.write_text(text.replace(f'"key":"{PRINT}"', f'"key":"{new}"'))
    assert kept(path, key_hash=new) == state(4)


def test_the_default_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the ledger, for each service, key and chain, and with a name that every system takes."""
    from tradesdk.payments.ledger.opening import default_path as ledger_path

    for home in ("~/trading", "", str(tmp_path)):
        monkeypatch.setenv("TRADE_HOME", home)
        here = default_path(URL, PRINT, BASE)
        assert here.parent == ledger_path().parent / "checkpoints"
    assert here.parent.parent == tmp_path
    assert here.name.startswith("api.trade.example-8453-")
    services = [
        *(f"{URL}/other", "http://[::1]:8000", "http://127.0.0.1:8000"),
        *(f"https://{'long.' * 50}example", "https://bücher.example"),
    ]
    places = {default_path(url, PRINT, BASE) for url in services} | {here}
    places |= {default_path(URL, hash_of_key("another"), BASE), default_path(URL, PRINT, 56)}
    assert len(places) == len(services) + 3
    for name in (place.name for place in places):
        assert name.isascii()
        assert not set(name) & set('/\\:*?"<>| %[]')
        assert len(name) < 100
        assert name.endswith(".json")
        assert PRINT not in name
    assert not here.parent.exists()


def test_without_a_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(self: Path) -> Path:
        raise RuntimeError("no home")

    monkeypatch.setenv("TRADE_HOME", "~/trading")
    monkeypatch.setattr(Path, "expanduser", nowhere)
    with pytest.raises(ConfigError, match=r"no home folder for ~/trading\nhint: .*TRADE_HOME"):
        default_path(URL, PRINT, BASE)


@each_of("bad", ["", "a\0b", "\udfff\ud800", b"bytes"])
def test_a_path_must_name_a_file(bad: str) -> None:
    with pytest.raises(InvalidArgumentError, match="checkpoint"):
        CheckpointFile(bad, base_url=URL, key_hash=PRINT, chain=BASE)


def test_a_process_may_change_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    file = checkpoint("here.json")
    monkeypatch.chdir("elsewhere")
    file.open()
    save(file, state(1))
    file.close()
    assert kept(tmp_path / "here.json") == state(1)


# Who may read it, and which links are followed


def modes(folder: Path) -> dict[str, int]:
    return {one.relative_to(folder).as_posix(): stat.S_IMODE(one.stat().st_mode) for one in folder.rglob("*")}


@posix
@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o777])
def test_only_its_owner_may_read_it(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "new" / "newer" / "checkpoint.json"
    before = os.umask(mask)
    try:
        with opened(path, state(1)) as file:
            save(file, state(2))
        assert kept(path) == state(2)
    finally:
        os.umask(before)
    files = {"new/newer/checkpoint.json": 0o600, "new/newer/checkpoint.json.lock": 0o600}
    assert modes(tmp_path) == {"new": 0o700, "new/newer": 0o700, **files}


@posix
def test_a_file_that_others_may_read_is_so_no_longer(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "checkpoint.json"
    with opened(path, state(1)) as file:
        path.chmod(0o644)
        path.parent.chmod(0o755)
        save(file, state(2))
    found = modes(tmp_path)
    assert found["folder/checkpoint.json"] == 0o600
    assert found["folder"] == 0o755  # a folder that was there is not ours to change


@posix
def test_links_are_followed(tmp_path: Path) -> None:
    """To the file, to a file that is not there yet, and to a folder."""
    real = tmp_path / "real" / "checkpoint.json"
    link, second, folder = tmp_path / "link", tmp_path / "second", tmp_path / "folder"
    link.symlink_to(real)
    second.symlink_to(link)
    folder.symlink_to(real.parent)
    names = (link, second, folder / "checkpoint.json", real)
    for number, name in enumerate(names):
        with opened(name, state(number)):
            for other in names:  # one file has one lock, whatever it is called
                in_use(checkpoint(other), "another stream of this process")
        assert kept(real) == state(number)
    assert link.is_symlink()
    assert second.is_symlink()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["folder", "link", "real", "second"]


@pytest.mark.skipif(not hasattr(os, "link"), reason="there are no such links here")
def test_a_second_name_is_refused(path: Path, tmp_path: Path) -> None:
    """Replacing the file would leave the other name with the old state."""
    other = tmp_path / "other.json"
    with opened(path, state(1)):
        os.link(path, other)
    before = path.read_bytes()
    for name in (path, other):
        refused(checkpoint(name), "has 2 names (hard links)", "copy it")
    assert path.read_bytes() == before
    assert path.samefile(other)
    other.unlink()
    assert kept(path) == state(1)


@posix
@pytest.mark.parametrize("end", ["", ".lock"])
def test_a_link_to_itself_or_in_the_place_of_the_lock_is_refused(path: Path, tmp_path: Path, end: str) -> None:
    link, aim = Path(f"{path}{end}"), tmp_path / "mine"
    aim.write_text("mine")
    link.symlink_to(aim if end else path)
    refused(checkpoint(path), "ELOOP")
    assert link.is_symlink()
    assert aim.read_text() == "mine"


# One stream at a time


def test_a_second_stream_of_this_process(path: Path) -> None:
    first, second = checkpoint(path), checkpoint(path)
    first.open()
    for file in (second, first, checkpoint(path, chain=56)):
        in_use(file, "another stream of this process")
    refused(second, "not open", saves=state(1))
    second.close()  # it holds nothing
    in_use(second, "another stream of this process")
    with opened(path.with_name("other"), state(5)):  # another file has another lock
        save(first, state(2))
    first.close()
    assert second.open() == state(2)
    refused(first, "not open", saves=state(3))
    second.close()
    assert kept(path.with_name("other")) == state(5)


def test_a_refused_file_leaves_nothing_open(path: Path) -> None:
    """Neither the lock nor a descriptor."""
    path.write_bytes(b"damaged")
    refused(checkpoint(path), code="checkpoint_damaged")
    count = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(20):
        refused(checkpoint(path), code="checkpoint_damaged")
    assert not count or len(os.listdir("/proc/self/fd")) == count
    path.unlink()
    assert kept(path) is None


@pytest.mark.parametrize("blocked", [0, 1, 3])
def test_a_lock_that_was_removed_is_taken_again(path: Path, blocked: int) -> None:
    """The stream continues as soon as nothing else is in its place."""
    lock = Path(f"{path}.lock")
    with opened(path) as file:
        for number in range(3):
            lock.unlink()
            if blocked:
                lock.mkdir()
                for _ in range(blocked):
                    refused(file, "cannot be locked", saves=state(9))
                lock.rmdir()
            save(file, state(number))
            assert lock.is_file()
            in_use(checkpoint(path), "another stream of this process")
    assert kept(path) == state(2)


def test_closed_while_its_lock_is_gone(path: Path) -> None:
    lock = Path(f"{path}.lock")
    with opened(path, state(1)) as file:
        lock.unlink()
        lock.mkdir()
        refused(file, "cannot be locked", saves=state(2))
    refused(file, "not open", saves=state(2))
    lock.rmdir()
    assert kept(path) == state(1)


def test_without_a_module_for_locks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fcntl", "msvcrt"):
        monkeypatch.setitem(sys.modules, name, None)  # as where Python is built without it
    refused(checkpoint(path), "cannot be locked: this Python has neither the module fcntl nor msvcrt", "no checkpoint")
    assert os.listdir(path.parent) == []


@posix
@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS])
def test_where_there_are_no_locks(path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Without a lock, two streams could damage the file unnoticed: so there is no stream."""

    def none(file: int, how: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", none)
    refused(checkpoint(path), "cannot be locked", errno.errorcode[number], "local disk")
    assert not path.exists()


@posix
def test_closed_by_a_signal_while_another_one_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    first, second = checkpoint(tmp_path / "first"), checkpoint(tmp_path / "second")
    first.open()
    real = fcntl.flock

    def closing(file: int, how: int) -> None:
        patch.undo()
        first.close()  # as a signal handler does, in the thread that opens
        real(file, how)

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", closing)
        second.open()
    assert first.open() is None
    in_use(checkpoint(second.path), "another stream of this process")
    first.close()
    second.close()


@posix
def test_a_lock_whose_owner_is_not_told(path: Path) -> None:
    """The lock of another program, or one that was made on a full disk."""
    import fcntl

    with open(f"{path}.lock", "wb", buffering=0) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for said, told in ((b"", "another process"), (b" 123\n", "process 123"), (b" hi", "another process")):
            os.pwrite(lock.fileno(), said, 0)
            in_use(checkpoint(path), told)
        for said in (b" -5\n", b" \xb2\n"):
            os.ftruncate(lock.fileno(), 0)
            os.pwrite(lock.fileno(), said, 0)
            in_use(checkpoint(path), "another process")


# Between processes

HOLDER = """
import os, sys
from tests.unit._checkpoints import checkpoint, save, state
file = checkpoint(sys.argv[1])
file.open()
save(file, state(5))
if os.fork() == 0:  # outlives this process, and holds no lock
    print("taken", flush=True)
sys.stdin.read()
"""


@pytest.mark.long
@posix
def test_a_stream_that_lost_its_lock_does_not_write(path: Path) -> None:
    """The lock's file was removed, and another process took a new one."""
    file = checkpoint(path)
    file.open()
    save(file, state(1))
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
        for _ in range(2):  # each save tries again
            in_use(file, f"process {other.pid}", saves=state(2))
        other.kill()
        other.wait()
        # Its child still runs: it reads from the same pipe, which is open.
        assert kept(path) == state(5)
        file.close()


FORK = """
import os, sys
from tests.unit._checkpoints import checkpoint, in_use, refused, save, state

path = sys.argv[1]
file, closed = checkpoint(path), checkpoint(path + ".closed")
file.open()
save(file, state(1))
parent = os.getpid()
child = os.fork()
if child == 0:
    refused(file, "forked from", saves=state(2))
    file.close()
    file.close()
    in_use(file, f"process {parent}")
    refused(file, "not open", saves=state(2))
    in_use(checkpoint(path), f"process {parent}")
    file.close()
    closed.open()  # it was nobody's
    save(closed, state(9))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
save(file, state(3))
child = os.fork()
if child == 0:
    in_use(checkpoint(path), f"process {parent}")  # the first child did not release it
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
file.close()
child = os.fork()
if child == 0:
    assert file.open() == state(3)
    save(file, state(4))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert file.open() == state(4)
assert closed.open() == state(9)
print("done")
"""

BUSY_FORK = """
import os, sys, threading, warnings
import filelock, pydantic_core  # an import that is under way in another thread never ends in the child
from tests.unit._checkpoints import checkpoint, opened, refused, save, state

warnings.simplefilter("ignore")  # a newer Python warns of what is tried here
path = sys.argv[1]
file = checkpoint(path)
file.open()
stop = threading.Event()

def save_often():
    number = 0
    while not stop.is_set():
        number += 1
        save(file, state(number))

def take_turns():
    while not stop.is_set():
        with opened(path + ".other"):
            pass

threads = [threading.Thread(target=save_often), threading.Thread(target=take_turns)]
for thread in threads:
    thread.start()
for _ in range(20):  # in the middle of a save or of a lock, which never ends in the child
    child = os.fork()
    if child == 0:
        refused(file, "forked from", saves=state(1))
        file.close()
        refused(file, "in use by process", code="checkpoint_in_use")
        with opened(path + ".mine", state(1)):
            pass
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for thread in threads:
    thread.join()
file.close()
print("done")
"""


@pytest.mark.long
@posix
@pytest.mark.parametrize("text", [FORK, BUSY_FORK], ids=["idle", "while threads save and lock"])
def test_a_forked_child_does_not_have_it(path: Path, text: str) -> None:
    assert script(text, str(path)) == "done\n"


# Several processes count in one file, each step under the lock. No step is lost, and none is done twice.
COUNTING = """
import os, random, sys
from tests.unit._checkpoints import checkpoint, save, state, NOW
from tradesdk import CheckpointError

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
        save(file, state(number + 1))
        file.close()
        done += 1
    os._exit(0)
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
file = checkpoint(path)
print(round(file.open().position - NOW))
"""


@pytest.mark.long
@posix
def test_processes_take_turns(path: Path) -> None:
    assert script(COUNTING, str(path), str(TURNS)) == f"{3 * TURNS}\n"
