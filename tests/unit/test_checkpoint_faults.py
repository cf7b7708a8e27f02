"""Saving that fails, or is killed: the file is the one before or the one after, and never half of one."""

import errno
import os
import shutil
import stat
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tradesdk._stream import checkpoint as checkpoint_module
from tradesdk._stream.checkpoint import CheckpointFile, CheckpointState

from ._checkpoints import NOW, checkpoint, kept, refused, script, state
from ._small_disk import on_a_small_disk, possible

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="limits and modes are POSIX's")


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a whole state would be due, where a line is meant."""
    monkeypatch.setattr(checkpoint_module, "monotonic", lambda: 1_000.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint.json"


@pytest.fixture
def file(path: Path) -> CheckpointFile:
    file = checkpoint(path)
    file.open()
    file.save(state(1))
    return file


def names(path: Path) -> list[str]:
    return sorted(one.name for one in path.parent.iterdir())


def kept_beside(path: Path) -> CheckpointState | None:
    """What is in it while a stream has it."""
    other = path.with_name("copy.json")
    shutil.copy(path, other)
    found = kept(other)
    other.unlink()
    Path(f"{other}.lock").unlink()
    return found


def raising(number: int) -> Callable[..., Any]:
    def fails(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number))

    return fails


@pytest.mark.parametrize(
    ("step", "number", "hint"),
    [
        ("open", errno.EMFILE, "look at that folder"),
        ("open", errno.EACCES, "readable and writable for you"),
        ("open", errno.EROFS, "readable and writable for you"),
        ("write", errno.ENOSPC, "make room"),
        ("write", errno.EDQUOT, "make room"),
        ("write", errno.EFBIG, "make room"),
        ("write", errno.EIO, "look at that folder"),
        ("fsync", errno.ENOSPC, "make room"),
        ("fsync", errno.EIO, "look at that folder"),
        ("replace", errno.EPERM, "readable and writable for you"),
        ("replace", errno.EBUSY, "look at that folder"),
    ],
)
def test_a_step_that_fails_changes_nothing(
    path: Path, file: CheckpointFile, monkeypatch: pytest.MonkeyPatch, step: str, number: int, hint: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, step, raising(number))
        refused(file, state(2))
        error = refused(file, state(2))
    assert "cannot be written" in error.message
    assert f"{os.strerror(number)} ({errno.errorcode[number]})" in error.message
    assert hint in error.hint
    assert names(path) == ["checkpoint.json", "checkpoint.json.lock"]
    assert "in use" in refused(checkpoint(path)).message  # the stream may go on and try again
    file.save(state(3))
    file.close()
    assert kept(path) == state(3)


@pytest.mark.parametrize("step", ["open", "fstat", "write", "close"])
def test_a_line_that_cannot_be_added(
    path: Path, file: CheckpointFile, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Then the whole state is tried, which says why if that cannot be written either."""
    assert file.add("a", NOW)
    with monkeypatch.context() as patch:
        patch.setattr(os, step, raising(errno.EIO))
        assert not file.add("b", NOW)
        if step != "fstat":
            assert "EIO" in refused(file, state(2)).message
    assert not file.add("b", NOW)
    file.save(state(3))
    assert file.add("c", NOW)
    file.close()
    found = kept(path)
    assert found is not None
    assert found.handled == (*state(3).handled, ("c", NOW))


@pytest.mark.parametrize("most", [0, 1, 7, 1000])
def test_half_a_line(path: Path, file: CheckpointFile, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """There was no room for all of it: it counts for nothing."""
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda handle, data: write(handle, data[:most]))
        assert file.add("abcdefgh", NOW) is (most == 1000)
    file.close()
    found = kept(path)
    assert found is not None
    assert found.handled[3:] == ((("abcdefgh", NOW),) if most == 1000 else ())


def test_half_a_line_is_replaced(path: Path, file: CheckpointFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is not taken for something that somebody else has put there, nor added to."""
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda handle, data: write(handle, data[:9]))
        assert not file.add("abcdefgh", NOW)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", raising(errno.EBUSY))
        for _ in range(2):
            assert "EBUSY" in refused(file, state(2)).message
    assert not file.add("i", NOW)
    file.save(state(2))
    file.close()
    assert kept(path) == state(2)


def test_an_interrupted_line(path: Path, file: CheckpointFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Ctrl-C, before or after it is written: the stream may go on, and what it wrote is its own."""
    write = os.write

    def interrupted(handle: int, data: bytes, *, after: bool) -> int:
        if after:
            write(handle, data)
        raise KeyboardInterrupt

    for number, after in enumerate([False, True], 2):
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", partial(interrupted, after=after))
            with pytest.raises(KeyboardInterrupt):
                file.add("a", NOW)
        file.save(state(number))
        assert file.add("b", NOW)
    file.close()


def test_a_folder_that_cannot_be_synced(path: Path, file: CheckpointFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every file system can; but a disk that fails is not to be believed."""
    synced: list[bool] = []

    def fails(handle: int, number: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(handle).st_mode))
        if synced[-1]:
            raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: fails(handle, errno.EINVAL))
        file.save(state(2))
        assert synced == [False, True]  # first the bytes, then the name
        patch.setattr(os, "fsync", lambda handle: fails(handle, errno.EIO))
        assert "EIO" in refused(file, state(3)).message
    assert kept_beside(path) == state(3)  # further than what was said is right: nothing of it comes again
    file.save(state(4))  # it is not taken for somebody else's
    file.close()
    assert kept(path) == state(4)


def test_a_disk_that_takes_little_at_a_time(path: Path, file: CheckpointFile, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda handle, data: write(handle, data[:7]))
        file.save(state(2, ids=50))
    file.close()
    assert kept(path) == state(2, ids=50)


def test_an_interrupted_save(path: Path, file: CheckpointFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    for step in ("write", "fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, interrupted)
            with pytest.raises(KeyboardInterrupt):
                file.save(state(2))
        assert names(path) == ["checkpoint.json", "checkpoint.json.lock"]
    file.close()
    assert kept(path) == state(1)


def test_closed_by_a_signal_in_the_middle_of_a_save(
    path: Path, file: CheckpointFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler runs in the thread that saves: it must not wait for itself."""
    sync = os.fsync

    def closing(handle: int) -> None:
        file.close()
        sync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", closing)
        file.save(state(2))
    assert kept(path) == state(2)


@pytest.mark.parametrize("left", [b"", b"half of a stat", b"x" * 100_000])
def test_what_a_killed_process_left_behind(path: Path, left: bytes) -> None:
    temp = Path(f"{path}.tmp")
    temp.write_bytes(left)
    temp.chmod(0o644)
    file = checkpoint(path)
    assert file.open() is None
    assert not temp.exists()
    temp.write_bytes(left)
    file.save(state(1))
    assert not temp.exists()
    file.close()
    assert kept(path) == state(1)


def test_something_in_the_place_of_what_is_written(path: Path) -> None:
    temp = Path(f"{path}.tmp")
    temp.mkdir()
    assert "cannot be written" in refused(checkpoint(path)).message
    temp.rmdir()
    assert kept(path) is None


@posix
def test_a_link_in_the_place_of_what_is_written_is_not_followed(path: Path, tmp_path: Path) -> None:
    aim = tmp_path / "mine"
    aim.write_text("mine")
    file = checkpoint(path)
    for number in range(2):
        os.symlink(aim, f"{path}.tmp")
        if number == 0:
            file.open()
        else:
            file.save(state(1))
    file.close()
    assert aim.read_text() == "mine"
    assert not path.is_symlink()
    assert kept(path) == state(1)


def test_its_folder_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "checkpoint.json"
    file = checkpoint(path)
    file.open()
    file.save(state(1))
    shutil.rmtree(path.parent)
    assert "ENOENT" in refused(file, state(2)).message
    file.close()
    assert list(tmp_path.iterdir()) == []


READ_ONLY = """
import os, sys, tempfile
from pathlib import Path
import pydantic_core  # while it can be read
from tests.unit._checkpoints import checkpoint, kept, refused, state

if os.geteuid() == 0:
    os.seteuid(65534)  # nothing is read-only for root

def said(file, saves=None):
    error = refused(file, saves)
    assert "readable and writable" in error.hint, error.hint
    return error.message.removeprefix(f"the checkpoint {file.path} ")

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    folder.chmod(0o500)
    for path in ("new", "new/new/new"):
        print(path, said(checkpoint(folder / path)))
    folder.chmod(0o700)
    file = checkpoint(folder / "there")
    file.open()
    file.save(state(1))
    folder.chmod(0o500)
    print("in use", said(file, state(2)))
    file.close()
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


NO_ROOM = """
import resource, signal, sys
from tests.unit._checkpoints import checkpoint, kept, refused, state

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file = checkpoint(sys.argv[1])
file.open()
file.save(state(1, ids=40))
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # the bytes up to there are written
error = refused(file, state(2, ids=40))
assert "EFBIG" in error.message, error
file.save(state(3, ids=1))
refused(file, state(4, ids=40))
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
file.close()
assert kept(sys.argv[1]) == state(3, ids=1)
"""


@posix
def test_when_the_system_refuses_to_write(path: Path) -> None:
    script(NO_ROOM, str(path))
    assert names(path) == ["checkpoint.json", "checkpoint.json.lock"]


FULL = """
import os, sys
from tests.unit._checkpoints import checkpoint, kept, refused, state

disk = sys.argv[1]
file, new = checkpoint(f"{disk}/checkpoint"), checkpoint(f"{disk}/new")
file.open()
file.save(state(1))
with open(f"{disk}/filling", "wb", buffering=0) as filling:
    try:
        while True:
            filling.write(bytes(512))
    except OSError:
        pass
for one in (file, new):
    if one is new:
        new.open()  # an empty lock needs no room, so the first save tells
    error = refused(one, state(2))
    assert "No space left on device (ENOSPC)" in error.message, error
    assert "make room" in error.hint, error.hint
os.unlink(f"{disk}/filling")
file.save(state(3))
new.save(state(4))
file.close()
new.close()
assert (kept(file.path), kept(new.path)) == (state(3), state(4))
assert sorted(os.listdir(disk)) == ["checkpoint", "checkpoint.lock", "new", "new.lock"]
"""


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    if not possible(tmp_path):
        pytest.skip("only root may mount a file system here")
    done = on_a_small_disk(tmp_path, sys.executable, "-W", "error", "-c", FULL, str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
