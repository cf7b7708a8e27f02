"""A lock between processes, and between two users of one file in a process. Who is killed gives it back."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading

_TAKEN = {errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, getattr(errno, "EDEADLK", errno.EAGAIN)}
_taking = threading.RLock()  # a handler of signals may close a stream while another one opens
_held: dict[str, FileLock] = {}
"""By path. On some file systems a lock is gone when its process opens the file once more: so this is asked first."""


class InUseError(Exception):
    """Somebody else has the lock; the text says who."""


class FileLock:
    """A lock on a file that is made for it and stays behind: removing it would let two have the lock at once.

    Args:
        path: that file, absolute and without links in it.
    """

    __slots__ = ("_file", "_path", "_process")

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = -1
        self._process = 0

    def take(self) -> None:
        """Take it, at once or not at all.

        Raises:
            InUseError: somebody else has it.
            OSError: the file cannot be made, or there are no locks here (ENOLCK and the like).
        """
        with _taking:
            if self._path in _held:
                raise InUseError("another stream of this process")
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
            file = os.open(self._path, flags, 0o600)
            try:
                try:
                    _lock(file)
                except OSError as error:
                    if error.errno in _TAKEN:
                        raise InUseError(_holder(file)) from None
                    raise
                _sign(file)
            except BaseException:
                os.close(file)
                raise
            self._file, self._process = file, os.getpid()
            _held[self._path] = self

    @property
    def forked(self) -> bool:
        """Whether it was taken by the process that this one was forked from, and so is not ours."""
        return self._process not in (0, os.getpid())

    def lost(self) -> bool:
        """Whether it is not held any more, or its file was removed or replaced, so that somebody else could take it."""
        if self._file < 0:
            return True
        mine = os.fstat(self._file)
        try:
            found = os.lstat(self._path)
        except FileNotFoundError:
            return True
        return (found.st_dev, found.st_ino) != (mine.st_dev, mine.st_ino)

    def release(self) -> None:
        """Give it back, when this process has it."""
        with _taking:
            if self._file < 0 or self.forked:
                return
            # Said, not only closed: a process forked in a way that we didn't see would go on holding it.
            with contextlib.suppress(OSError):
                _unlock(self._file)
            _held.pop(self._path, None)
            self._close()

    def _close(self) -> None:
        file, self._file = self._file, -1
        os.close(file)


def _sign(file: int) -> None:
    """Write down whose it is. Nothing depends on it."""
    with contextlib.suppress(OSError, AttributeError):
        os.fchmod(file, 0o600)
    with contextlib.suppress(OSError):
        os.ftruncate(file, 0)
        os.lseek(file, 0, os.SEEK_SET)
        os.write(file, b"%d\n" % os.getpid())


def _holder(file: int) -> str:
    try:
        os.lseek(file, 0, os.SEEK_SET)
        found = os.read(file, 20).strip()
    except OSError:
        found = b""
    return f"process {int(found)}" if found.isdigit() else "another process"


if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30  # what is locked cannot be read, and the number in front must be

    def _lock(file: int) -> None:
        os.lseek(file, _FAR, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

    def _unlock(file: int) -> None:
        os.lseek(file, _FAR, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)

else:

    def _lock(file: int) -> None:
        try:
            import fcntl
        except ImportError:  # a Python without processes, as in a browser
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK)) from None
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(file: int) -> None:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_UN)


def _forget() -> None:
    """In a forked child: the locks are the parent's. Kept open here, they would outlive a parent that is killed."""
    global _taking
    _taking = threading.RLock()  # another thread of the parent may have been holding it
    for lock in _held.values():
        with contextlib.suppress(OSError):
            lock._close()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
