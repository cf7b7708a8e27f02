"""A checkpoint that is damaged, cannot be written, or is killed: refused with a reason, and never half of one."""

import errno
import json
import os
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tradesdk import CheckpointError
from tradesdk._stream import checkpoint as checkpoint_module
from tradesdk._stream.checkpoint import CheckpointFile, CheckpointState

from .._rows import each_of
from .._texts import texts
from ._checkpoints import BASE, NOW, PRINT, URL, checkpoint, in_use, kept, opened, refused, save, script, state
from ._small_disk import on_a_small_disk, possible

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="limits, modes and kills of POSIX")

GOOD: dict[str, Any] = {
    "version": 1,
    "service": URL,
    "key": PRINT,
    "chain": BASE,
    "begin": NOW,
    "position": NOW + 5,
    "handled": [["sig_1", NOW + 4.5]],
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint.json"


@pytest.fixture
def file(path: Path) -> CheckpointFile:
    file = checkpoint(path)
    file.open()
    save(file, state(1))
    return file


def text(**changes: Any) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


# Damaged


def test_the_good_one_is_good(path: Path) -> None:
    """So the cases below are refused for the one thing that they change."""
    path.write_bytes(text())
    assert kept(path) == CheckpointState(NOW, NOW + 5, (("sig_1", NOW + 4.5),))
    path.write_bytes(text(begin=5, position=6, handled=[], note="of a later release that says it is of this version"))
    assert kept(path) == CheckpointState(5.0, 6.0)


WRONG: dict[str, list[Any]] = {
    "version": [0, -1, True, 1.0, "1"],
    "service": [5],
    "key": [None],
    "chain": ["8453", True],
    "begin": ["5", True, float("nan"), -1],
    "position": [None, float("nan"), float("inf"), 10**400, 253402300800, NOW - 1],
    "handled": [
        *({}, None, ["sig_1"], [["sig_1"]], [["sig_1", 1, 2]], [[1, 1]], [["sig_1", None]], [["sig_1", True]]),
        *([["sig_1", float("nan")]], [["sig_1", 10**400]], [["sig_1", 253402300800]]),
    ],
}
DAMAGED = {
    "empty": b"",
    "blank": b" \n",
    "no JSON": b"position: 5",
    "cut off": text()[:-9],
    "two": text() * 2,
    "zeros after a crash": bytes(4096),
    "no UTF-8": text(service="x").replace(b'"x"', b'"\xff"'),
    "UTF-16": text().decode().encode("utf-16"),
    "a mark in front": b"\xef\xbb\xbf" + text(),
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "a number without end": b'{"version":' + b"9" * 10_000 + b"}",
    "a list": b"[1]",
    "null": b"null",
    "a string": b'"version"',
    "position negative": text(begin=0, position=-0.5),
    "position 1e999": text().replace(str(NOW + 5).encode(), b"1e999"),
    **{f"no {name}": json.dumps({key: GOOD[key] for key in GOOD if key != name}).encode() for name in GOOD},
    **{f"{name} {value!r:.30}": text(**{name: value}) for name, values in WRONG.items() for value in values},
}


@each_of("name", DAMAGED)
def test_a_damaged_file_is_refused_and_stays(path: Path, name: str) -> None:
    path.write_bytes(DAMAGED[name])
    file = checkpoint(path)
    for _ in range(2):
        refused(file, "damaged or not a checkpoint (", "move it away", code="checkpoint_damaged")
        refused(file, "not open", saves=state(1))
    assert path.read_bytes() == DAMAGED[name]
    path.unlink()
    assert file.open() is None  # the lock was given back
    file.close()


@each_of("version", [2, 99, 10**30])
def test_a_file_of_a_newer_release(path: Path, version: int) -> None:
    data = json.dumps({"version": version, "all": "is different"}).encode()
    path.write_bytes(data)
    refused(checkpoint(path), "version should be less than or equal to 1", code="checkpoint_damaged")
    assert path.read_bytes() == data


def test_a_strange_service_is_shown_in_one_line(path: Path) -> None:
    path.write_bytes(text(service="\x1b[2J\n" * 1000))
    refused(checkpoint(path), "another service", code="checkpoint_mismatch")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(
    st.binary(max_size=200)
    | st.integers(0, len(text()) - 1).map(lambda at: text()[:at] + b"7" + text()[at + 1 :])
    | st.dictionaries(st.sampled_from(sorted(GOOD)), JSON, max_size=3).map(lambda changes: text(**changes))
)
@example(b"")
@example(text())
def test_any_bytes_are_a_state_or_an_error_of_ours(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """What can be read can be saved and read again."""
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(data)
    file = checkpoint(path)
    try:
        found = file.open()
    except CheckpointError as error:
        refused(file, code=error.code)  # and it says so in one line
        assert path.read_bytes() == data
        return
    assert found is not None
    save(file, found)
    file.close()
    assert kept(path) == found


def test_how_large_it_may_be(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(path, "wb") as file:
        file.write(text())
        file.truncate((64 << 20) + 1)  # takes no room on the disk
    refused(checkpoint(path), "more than 64 MiB", code="checkpoint_damaged")
    assert path.stat().st_size == (64 << 20) + 1
    path.unlink()
    with opened(path, state(1)) as one:
        size = path.stat().st_size
        monkeypatch.setattr(checkpoint_module, "LARGEST", size)
        save(one, state(1))
        refused(one, "too large", saves=state(2, ids=4))
    assert kept(path) == state(1)  # exactly as large as it may be


# Changed by another program while a stream uses it


def other_file(path: Path) -> Path:
    other = path.with_name("other")
    other.write_bytes(text())
    return other


CHANGES: dict[str, Callable[[Path], object]] = {
    "rewritten": lambda path: path.write_bytes(text(position=NOW + 50)),
    "rewritten, of the same size": lambda path: path.write_bytes(path.read_bytes().replace(b"sig_1_0", b"sig_7_0")),
    "replaced": lambda path: other_file(path).replace(path),
    "more behind it": lambda path: path.write_bytes(path.read_bytes() + b"more"),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "emptied": lambda path: path.write_bytes(b""),
    "too large": lambda path: os.truncate(path, 2 << 20),
}


@pytest.mark.parametrize("back", [False, True], ids=["moved away", "put back"])
@pytest.mark.parametrize("how", CHANGES)
def test_what_another_program_wrote_is_not_replaced(
    path: Path, file: CheckpointFile, monkeypatch: pytest.MonkeyPatch, how: str, back: bool
) -> None:
    monkeypatch.setattr(checkpoint_module, "LARGEST", 1 << 20)
    mine = path.read_bytes()
    CHANGES[how](path)
    theirs = path.stat().st_size, path.read_bytes()[:10_000]
    why = "more than 1 MiB" if how == "too large" else "another program"
    for _ in range(2):
        refused(file, "cannot be written: ", why, "move that file away", saves=state(2))
        assert (path.stat().st_size, path.read_bytes()[:10_000]) == theirs
    if back:
        path.write_bytes(mine)
    else:
        path.unlink()
    save(file, state(3))
    file.close()
    assert kept(path) == state(3)


def test_one_that_appears_or_vanishes(path: Path) -> None:
    with opened(path) as file:
        path.write_bytes(text())
        refused(file, "another program", saves=state(1))
        assert path.read_bytes() == text()
        path.unlink()
        save(file, state(1))
        path.unlink()
        save(file, state(2))
    assert kept(path) == state(2)


# Something else than a file


def test_a_folder_in_the_way(path: Path) -> None:
    path.mkdir()
    refused(checkpoint(path), "it is a folder", code="checkpoint_damaged")
    assert os.listdir(path.parent) == [path.name]
    path.rmdir()
    with opened(path) as file:
        path.mkdir()
        refused(file, "cannot be written", saves=state(1))
        path.rmdir()
        save(file, state(1))
    assert kept(path) == state(1)


@posix
def test_a_pipe_and_a_device_are_refused_at_once(path: Path) -> None:
    os.mkfifo(path)
    for one in (path, Path(os.devnull)):
        before = os.listdir(one.parent)
        refused(checkpoint(one), "it is not a file", code="checkpoint_damaged")
        assert os.listdir(one.parent) == before
    path.unlink()
    with opened(path, state(1)) as file:
        path.unlink()
        os.mkfifo(path)
        refused(file, "it is not a file", saves=state(2))


def test_a_name_that_is_not_possible(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("file/checkpoint.json", "file/a/b/checkpoint.json", "n" * 255, "n" * 300):  # .lock comes behind it
        message = refused(checkpoint(tmp_path / name), "cannot be")
        assert "ENOTDIR" in message or "ENAMETOOLONG" in message or os.name == "nt"
    assert os.listdir(tmp_path) == ["file"]


def test_something_in_the_place_of_what_is_written(path: Path) -> None:
    temp = Path(f"{path}.tmp")
    temp.mkdir()
    refused(checkpoint(path), "cannot be written")
    temp.rmdir()
    assert kept(path) is None


@posix
def test_a_link_in_the_place_of_what_is_written_is_not_followed(path: Path, tmp_path: Path) -> None:
    aim = tmp_path / "mine"
    aim.write_text("mine")
    file = checkpoint(path)
    os.symlink(aim, f"{path}.tmp")
    file.open()
    os.symlink(aim, f"{path}.tmp")
    save(file, state(1))
    file.close()
    assert aim.read_text() == "mine"
    assert not path.is_symlink()
    assert kept(path) == state(1)


@each_of("left", [b"", b"half of a stat", b"x" * 100_000])
def test_what_a_killed_process_left_behind(path: Path, left: bytes) -> None:
    temp = Path(f"{path}.tmp")
    temp.write_bytes(left)
    temp.chmod(0o644)
    with opened(path) as file:
        assert not temp.exists()
        temp.write_bytes(left)
        save(file, state(1))
        assert not temp.exists()
    assert kept(path) == state(1)


# Steps that fail


def names(path: Path) -> list[str]:
    return sorted(one.name for one in path.parent.iterdir())


def raising(error: int | BaseException) -> Callable[..., Any]:
    def fails(*_: object, **__: object) -> Any:
        raise OSError(error, os.strerror(error)) if isinstance(error, int) else error

    return fails


ROOM, MODE, LOOK = "make room", "readable and writable for you", "check that folder"


@pytest.mark.parametrize(
    ("step", "number", "hint"),
    [
        *(("open", errno.EMFILE, "ulimit -n"), ("open", errno.EACCES, MODE), ("open", errno.EROFS, MODE)),
        *(("write", errno.ENOSPC, ROOM), ("write", errno.EDQUOT, ROOM), ("write", errno.EFBIG, ROOM)),
        *(("write", errno.EIO, LOOK), ("fsync", errno.ENOSPC, ROOM), ("fsync", errno.EIO, LOOK)),
        *(("replace", errno.EPERM, MODE), ("replace", errno.EBUSY, LOOK)),
    ],
)
def test_a_step_that_fails_changes_nothing(
    path: Path, file: CheckpointFile, monkeypatch: pytest.MonkeyPatch, step: str, number: int, hint: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, step, raising(number))
        for _ in range(2):
            refused(file, f"cannot be written: {os.strerror(number)} ({errno.errorcode[number]})", hint, saves=state(2))
    assert names(path) == ["checkpoint.json", "checkpoint.json.lock"]
    assert json.loads(path.read_text())["position"] == NOW + 1
    in_use(checkpoint(path), "another stream of this process")  # the stream may continue and try again
    save(file, state(3))
    file.close()
    assert kept(path) == state(3)


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_an_interrupted_save(path: Path, file: CheckpointFile, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, step, raising(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            save(file, state(2))
    assert names(path) == ["checkpoint.json", "checkpoint.json.lock"]
    file.close()
    assert kept(path) == state(1)


def test_a_folder_that_cannot_be_synced(path: Path, file: CheckpointFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every file system can do it; a disk that fails is an error."""
    synced: list[bool] = []

    def failing(number: int) -> Callable[[int], None]:
        def fails(handle: int) -> None:
            synced.append(stat.S_ISDIR(os.fstat(handle).st_mode))
            if synced[-1]:
                raise OSError(number, os.strerror(number))

        return fails

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(errno.EINVAL))
        save(file, state(2))
        assert synced == [False, True]  # first the bytes, then the name
        patch.setattr(os, "fsync", failing(errno.EIO))
        refused(file, "EIO", saves=state(3))
        refused(checkpoint(path.parent / "new" / "checkpoint.json"), "EIO")  # the name of a new folder likewise
    shutil.copy(path, path.with_name("copy.json"))
    assert kept(path.with_name("copy.json")) == state(
        3
    )  # the new one is in place although the save failed: no signal is lost
    save(file, state(4))  # it is known as our own
    file.close()
    assert kept(path) == state(4)


def test_a_disk_that_takes_little_at_a_time(path: Path, file: CheckpointFile, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda handle, data: write(handle, data[:7]))
        save(file, state(2, ids=50))
    file.close()
    assert kept(path) == state(2, ids=50)


def test_closed_by_a_signal_in_the_middle_of_a_save(
    path: Path, file: CheckpointFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler runs in the thread that saves, so it must not wait for the lock that this thread holds."""
    sync = os.fsync

    def closing(handle: int) -> None:
        file.close()
        sync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", closing)
        save(file, state(2))
    assert kept(path) == state(2)


def test_its_folder_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "checkpoint.json"
    with opened(path, state(1)) as file:
        shutil.rmtree(path.parent)
        refused(file, "ENOENT", saves=state(2))
    assert os.listdir(tmp_path) == []


READ_ONLY = """
import os, sys, tempfile
from pathlib import Path
import filelock, pydantic_core  # while they can be read
from tests.unit._checkpoints import checkpoint, kept, opened, refused, state

if os.geteuid() == 0:
    os.seteuid(65534)  # nothing is read-only for root

def said(file, saves=None):
    return refused(file, "readable and writable", saves=saves).removeprefix(f"the checkpoint {file.path} ")

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    folder.chmod(0o500)
    for path in ("new", "new/new/new"):
        print(path, said(checkpoint(folder / path)))
    folder.chmod(0o300)  # writable, but it cannot be synced
    with opened(folder / "there", state(1)) as file:
        folder.chmod(0o500)
        print("in use", said(file, state(2)))
    print("there", said(checkpoint(folder / "there")))
    folder.chmod(0o700)
    (folder / "there").chmod(0)
    print("file", said(checkpoint(folder / "there")))
    (folder / "there").chmod(0o400)
    (folder / "there.lock").chmod(0o400)
    print("lock", said(checkpoint(folder / "there")))
    (folder / "there.lock").chmod(0o600)
    assert kept(folder / "there") == state(1)
"""


@pytest.mark.long
@posix
def test_where_nothing_can_be_written() -> None:
    assert script(READ_ONLY).splitlines() == [
        "new cannot be locked: Permission denied (EACCES)",
        "new/new/new cannot be used: Permission denied (EACCES)",
        "in use cannot be written: Permission denied (EACCES)",
        "there cannot be written: Permission denied (EACCES)",
        "file cannot be read: Permission denied (EACCES)",
        "lock cannot be locked: Permission denied (EACCES)",
    ]


FULL = """
import os, sys
from tests.unit._checkpoints import checkpoint, kept, refused, save, state

disk = sys.argv[1]
file, new = checkpoint(f"{disk}/checkpoint"), checkpoint(f"{disk}/new")
file.open()
save(file, state(1))
with open(f"{disk}/filling", "wb", buffering=0) as filling:
    try:
        while True:
            filling.write(bytes(512))
    except OSError:
        pass
for one in (file, new):
    if one is new:
        new.open()  # an empty lock needs no room, so the first save tells
    refused(one, "No space left on device (ENOSPC)", "make room", saves=state(2))
os.unlink(f"{disk}/filling")
save(file, state(3))
save(new, state(4))
file.close()
new.close()
assert (kept(file.path), kept(new.path)) == (state(3), state(4))
assert sorted(os.listdir(disk)) == ["checkpoint", "checkpoint.lock", "new", "new.lock"]
"""


@pytest.mark.long
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    if not possible(tmp_path):
        pytest.skip("only root may mount a file system here")
    done = on_a_small_disk(tmp_path, sys.executable, "-W", "error", "-c", FULL, str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")


# Killed: the file can always be read, and is never older than what was saved

# At each step of a save: the child kills itself before or after every call of the system.
AT_EVERY_STEP = """
import os, signal, sys
from tests._killing import Deadly, child
from tests.unit._checkpoints import checkpoint, save, state
from tradesdk._system import private_files

path = sys.argv[1]
file = checkpoint(path)
file.open()
save(file, state(0))
found = state(0)
file.close()
steps = ("open", "fchmod", "write", "fsync", "close", "replace")
number, killed = 0, [0, 0]

def saved(tell):
    file = checkpoint(path)
    file.open()
    private_files.os = Deadly(os, (step,), nth, after=not before)
    save(file, state(number, ids=number))

for before in (True, False):
    for step in steps:
        for nth in range(1, 6):
            number += 1
            _, ended = child(saved)
            assert ended in (0, signal.SIGKILL)
            new = state(number, ids=number)
            old, found = found, file.open()
            file.close()
            stands = [old, new].index(found)
            if ended:
                killed[stands] += 1
            else:
                assert found == new, (step, nth)
            assert sorted(os.listdir(os.path.dirname(path))) == ["checkpoint.json", "checkpoint.json.lock"]
print(*killed)
"""


@pytest.mark.long
@posix
def test_killed_at_every_step(tmp_path: Path) -> None:
    # Before and after each call of the system; the rename decides.
    assert script(AT_EVERY_STEP, str(tmp_path / "checkpoint.json")) == "15 7\n"
