"""A lock between processes, and between two streams of one process. When its process is killed, it is free."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from .interrupts import suppress

if TYPE_CHECKING:
    from filelock import BaseFileLock


class InUseError(Exception):
    """Another stream has the lock; the text says which."""


class FileLock:
    """A lock on its own file, which stays: if the file were removed, two could hold the lock at once."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock: BaseFileLock | None = None
        self._file = 0, 0
        self._process = 0

    def take(self) -> None:
        if not (find_spec("fcntl") or find_spec("msvcrt")):  # filelock would use a file that stays after a kill
            raise ImportError("this Python has neither the module fcntl nor msvcrt")
        from filelock import FileLock, Timeout

        # First: on systems where a lock belongs to the process, opening and closing the file again would release ours.
        other = _held.get(self._path)
        if other is not None and not other.forked:
            raise InUseError("another stream of this process")
        os.stat(os.path.dirname(self._path))  # filelock would create the folder, open to others
        lock = FileLock(
            self._path,
            mode=0o600,
            thread_local=False,
            blocking=False,
            preserve_lock_file=True,  # prevents a soft lock where the system has no locks
            on_acquired=self._sign,
        )
        try:
            lock.acquire()
        except Timeout:
            raise InUseError(_holder(self._path)) from None
        self._lock, self._process = lock, os.getpid()
        _held[self._path] = self

    @property
    def forked(self) -> bool:
        """Whether the parent process took it, so that this process does not hold it."""
        return self._process not in (0, os.getpid())

    def lost(self) -> bool:
        """Whether it is no longer held, or its file was removed or replaced, so that another stream may take it."""
        if self._lock is None:
            return True
        try:
            found = os.lstat(self._path)
        except FileNotFoundError:
            return True
        return (found.st_dev, found.st_ino) != self._file

    def release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None and not self.forked:
            _held.pop(self._path, None)
            with suppress(OSError):
                lock.release()

    def _sign(self, file: int) -> None:
        """Remember which file it is, and write our pid into it."""
        found = os.fstat(file)
        self._file = found.st_dev, found.st_ino
        with suppress(OSError):  # the pid is only for messages
            os.ftruncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)
            os.write(file, b" %d\n" % os.getpid())  # on Windows others cannot read the first byte


_held: WeakValueDictionary[str, FileLock] = WeakValueDictionary()
"""By path: the locks of this process; after a fork also those of its parent."""


def _holder(path: str) -> str:
    with suppress(OSError), open(path, "rb", buffering=0) as file:
        file.seek(1)
        found = (file.read(20) or b"").strip()
        if found.isdigit():
            return f"process {int(found)}"
    return "another process"
