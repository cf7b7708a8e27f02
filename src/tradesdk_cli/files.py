"""Files: written whole, and locked; standard streams that are closed."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from pathlib import Path

from tradesdk_cli.errors import CliError
from tradesdk_cli.text import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO


_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EROFS}


def atomic_write(path: Path, content: bytes | str, *, mode: int | None = None, sync: bool = True) -> None:
    """Puts `content` (text as UTF-8) into the file, whole or not at all.

    Args:
        path: the file; what is there, a link too, is replaced.
        content: all of it.
        mode: who may read it, from the first byte on; without one, a file keeps its mode and a new one has the usual.
        sync: it is on disk when this returns.

    Raises:
        OSError: it cannot be written; what was there is as before.
    """
    half = path.with_name(f".{path.name}.{os.getpid()}")
    kept = None if mode is not None or not path.exists() else stat.S_IMODE(path.stat().st_mode)
    half.unlink(missing_ok=True)  # of a process with our number that was killed
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(half, flags, 0o644 if mode is None and kept is None else mode or 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        if kept is not None:
            os.chmod(half, kept)
        os.replace(half, path)
    except BaseException:
        half.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def locked(path: str, in_use: CliError, *, wait: float = 0.0) -> Iterator[None]:
    """While one command works with a file, no other does. The lock of a killed command is free.

    The lock is on `.NAME.trade-lock` beside it, which stays: if it were removed, two could hold the lock at once. Where
    there are no locks, or the folder cannot be written, nothing is locked.

    Args:
        path: the file, without links in it.
        in_use: what is raised when another command has the lock.
        wait: how many seconds to wait for that one.

    Raises:
        CliError: `in_use`, or one of its class: the lock cannot be opened.
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
        if os.path.isdir(folder):  # filelock would make it; reading or writing says what is wrong
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
    """Gives descriptors 0 to 2 something to stand on where whoever started us had closed them.

    Otherwise the next file or socket that is opened gets such a number, and what is printed goes into it. Nothing can
    be read from a closed input, and what is said on a closed stderr is lost; but a closed stdout refuses to be written,
    because a command whose result nobody could get did not work.
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
    """Lets what is still to be written to `stream` go nowhere: Python tries once more at the end, and would fail."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is stream:
                setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # lives until the process ends
