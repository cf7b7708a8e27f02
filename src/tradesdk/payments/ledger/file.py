"""The ledger's one connection: shared by the threads of a process, never by two processes."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from . import errors as errors
from . import schema as sql
from .opening import mark_signed, open_file, open_memory
from .steps import DamagedRowError


class LedgerFile:
    """Opens at first use; `reading` and `writing` give the connection to one thread at a time. No path means memory."""

    def __init__(self, path: str | None, *, sync: bool, timeout: float) -> None:
        self._path = path
        self._shown = path or "in memory"
        self._sync = sync
        self._timeout = timeout
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._opened: tuple[int, int, bool] | None = None
        self._real = ""
        self._process = os.getpid()
        with _REGISTRY:
            _FILES.add(self)

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """One state of the file, while others may go on writing."""
        return self._transaction("BEGIN", errors.NOTHING_SENT)

    def writing(self, told: str) -> AbstractContextManager[sqlite3.Connection]:
        """All of the block or nothing, synced at its end. A block that raises has changed nothing.

        Raises:
            LedgerError: it cannot be done; `told` is said of the call.
        """
        return self._transaction("BEGIN IMMEDIATE", told)

    @contextmanager
    def _transaction(self, begin: str, told: str) -> Iterator[sqlite3.Connection]:
        if self._process != os.getpid() and (self._path is None or self._db is not None):
            raise errors.failed(
                self._shown,
                "it belongs to the process that this one was forked from",
                told,
                "use a file, which processes can share, and open it in each of them",
            )
        held: list[threading.Lock] = []
        try:
            try:
                try:
                    held += [self._lock] if self._lock.acquire(timeout=self._timeout) else []
                    if not held:
                        raise errors.locked(self._shown, told)
                    db = self._open(told)
                    self._end(db)  # a signal's handler may have kept the one before from its end
                    db.execute(begin)
                    self._same_version(db, told)
                    yield db
                    db.execute("COMMIT")
                finally:
                    if held and self._db is not None:
                        self._end(self._db)
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY:
                    self._close()  # what was opened like that stays so, even when the file may be written again
                raise errors.from_sqlite(error, self._shown, told) from error
            except DamagedRowError as error:
                raise errors.damaged(self._shown, str(error), told) from error
            except (OverflowError, UnicodeError) as error:
                raise errors.failed(self._shown, str(error), told) from error
            finally:
                while held:
                    held.pop().release()
        except BaseException:  # a signal's handler may have raised before that was done
            while held:
                held.pop().release()
            raise

    def _end(self, db: sqlite3.Connection) -> None:
        if db.in_transaction:
            db.execute("ROLLBACK")

    def mark_signed(self, told: str) -> None:
        """Within `writing`: what is written now is a signed payment, so that the file is missed when it vanishes."""
        if self._path is not None:
            try:
                mark_signed(self._real, sync=self._sync)
            except OSError as error:
                raise errors.from_os(error, self._shown, told) from error

    def close(self) -> None:
        """Close the file. What is in memory has nothing to close: it goes with its owner."""
        with self._lock:
            self._close()
            self._opened = None

    def _open(self, told: str) -> sqlite3.Connection:
        if self._path is None:
            if self._db is None:
                self._db = open_memory()
                weakref.finalize(self, self._db.close)
            return self._db
        if self._opened is not None and (found := _identity(self._path)) != self._opened:
            # An empty one in its place, or an older copy, would forget what is spent.
            what = "removed" if found is None else "replaced by another one" if found[-1] else "emptied"
            raise errors.failed(
                self._shown, f"the file was {what} while it was in use", told, "put it back, or start again"
            )
        if self._db is None:
            self._process = os.getpid()
            self._real = os.path.realpath(self._path)
            self._db = open_file(self._real, sync=self._sync, timeout=self._timeout, told=told)
            self._db.execute(f"PRAGMA busy_timeout = {int(self._timeout * 1000)}")
            self._opened = _identity(self._path)
        return self._db

    def _close(self) -> None:
        if self._db is not None and self._path is not None:
            db, self._db = self._db, None
            db.close()

    def _same_version(self, db: sqlite3.Connection, told: str) -> None:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version > len(sql.MIGRATIONS):  # another process runs a newer release
            raise errors.newer(self._shown, version, len(sql.MIGRATIONS), told)


def _identity(path: str) -> tuple[int, int, bool] | None:
    """Which file it is, and whether there is anything in it."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size > 0


# A connection must not cross a fork: the child would take the parent's locks for its own, and could throw away what
# the parent has written. So every file is closed before a fork, and each process opens it again when it needs it.
_REGISTRY = threading.Lock()
_FILES: weakref.WeakSet[LedgerFile] = weakref.WeakSet()
_held: list[LedgerFile] = []


def _before_fork() -> None:
    _REGISTRY.acquire()
    for file in list(_FILES):
        file._lock.acquire()
        _held.append(file)
        file._close()


def _after_fork() -> None:
    while _held:
        _held.pop()._lock.release()
    if _REGISTRY.locked():  # it is not in the child of a fork that Python was not told of before
        _REGISTRY.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
