"""Atomic writes, file locks, and closed standard streams."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from io import FileIO
from pathlib import Path

from tradesdk_cli.errors import CliError
from tradesdk_cli.text import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO


_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EROFS}


class PartialFile:
    """A temporary file that replaces another one when it is complete.

    If its command is killed, it stays; the next command for that file removes it, as nothing holds its lock.
    """

    def __init__(self, path: Path, mode: int | None = None) -> None:
        """Creates it. Without a `mode`, it gets the mode of the file, or the default."""
        self._path = path
        self._kept = stat.S_IMODE(path.stat().st_mode) if mode is None and path.exists() else None
        from tradesdk.local import new_part, remove_parts  # most commands write no file

        remove_parts(str(path.parent), path.name)
        half, file = new_part(str(path), 0o644 if mode is None and self._kept is None else mode or 0o600)
        self._half = Path(half)
        self.file = FileIO(file, "wb")

    def commit(self, path: Path | None = None, *, sync: bool = False) -> None:
        """Replaces the file, or `path`; with `sync`, after an fsync. After an OSError the old file is unchanged."""
        if sync:
            os.fsync(self.file.fileno())
        if self._kept is not None:
            os.chmod(self._half, self._kept)
        if os.name == "nt":  # Windows can neither rename an open file nor let others remove it
            self.file.close()
        os.replace(self._half, path or self._path)
        self.file.close()

    def drop(self) -> None:
        """Removes it, unless it has replaced the file."""
        with contextlib.suppress(OSError):
            self.file.close()
        with contextlib.suppress(OSError):
            self._half.unlink(missing_ok=True)


def atomic_write(path: Path, content: bytes | str, *, mode: int | None = None, sync: bool = True) -> None:
    """Writes `content` (text as UTF-8) to the file, whole or not at all. An existing file, or link, is replaced.

    `mode`: its permissions from the first byte on; None: those of the old file, or the default. `sync`: fsync before
    returning. After an OSError the old file is unchanged.
    """
    half = PartialFile(path, mode)
    try:
        write_all(half.file, content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)
        half.commit(sync=sync)
    except BaseException:
        half.drop()
        raise


@contextlib.contextmanager
def file_errors(kind: type[CliError], message: str, hint: str) -> Iterator[None]:
    """Turns an OSError into an error of this program: `message` and the reason."""
    try:
        yield
    except OSError as error:
        raise kind(f"{message}: {error.strerror}", hint) from None


def write_all(file: FileIO, content: bytes) -> None:
    """Writes all of it."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) or 0 :]


@contextlib.contextmanager
def locked(path: str, in_use: CliError, *, wait: float) -> Iterator[None]:
    """Locks a file, without links in its path, against other commands. The lock of a killed command is free.

    After `wait` seconds raises `in_use`, and one of its class if the lock cannot be opened. The lock file
    `.NAME.trade-lock` beside it stays: if it were removed, two commands could hold the lock at once. Without locks in
    the system, or in a folder that cannot be written, nothing is locked.
    """
    from importlib.util import find_spec

    if not (find_spec("fcntl") or find_spec("msvcrt")):
        yield
        return
    from filelock import FileLock, Timeout

    folder, name = os.path.split(path)
    file = os.path.join(folder, f".{name}.trade-lock")
    lock = FileLock(file, wait, mode=0o600, thread_local=False, preserve_lock_file=True)
    try:
        if os.path.isdir(folder):  # filelock would create the folder; reading or writing reports the error
            lock.acquire()
    except Timeout:
        raise in_use from None
    except OSError as error:
        there = os.path.lexists(file)
        if error.errno not in _NO_LOCKS and (there or not isinstance(error, PermissionError)):
            raise type(in_use)(
                f"the lock {one_line(file, 400)} cannot be {'opened' if there else 'made'}: {error.strerror}",
                f"{'make it yours, or remove it' if there else 'make room, or use a shorter name'}, and run it again",
            ) from None
    try:
        yield
    finally:
        lock.release()


def open_closed_streams() -> None:
    """Opens descriptors 0 to 2 where the parent process had closed them.

    Otherwise the next file or socket gets such a number, and output goes into it. A closed stdin is empty, and output
    to a closed stderr is lost. Writing to a closed stdout fails: the result would be lost.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            found = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            if found != number:
                os.dup2(found, number)
                os.close(found)
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115  # for good


def forget(stream: TextIO) -> None:
    """Discards the unwritten output of `stream`: Python flushes again at exit, and would fail."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is stream:
                setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # lives until the process ends
