"""Transactions on the ledger's file: one connection per process, safe over threads and forks."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from . import errors
from . import schema as sql
from .opening import mark_signed, open_file, open_memory


class DamagedRowError(Exception):
    """A row that no release writes."""


class LedgerFile:
    """The connection to the file, one per process and opened at first use; one thread uses it at a time.

    Without a path it is in memory.
    """

    def __init__(self, path: str | None, *, sync: bool, timeout: float) -> None:
        self._path = path
        self._shown = path or "in memory"
        self._sync = sync
        self._timeout = timeout
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._opened: tuple[int, int, bool] | None = None
        self._real = ""
        self._marked = False
        self._process = os.getpid()
        with _FILES_LOCK:
            _FILES.add(self)

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """A read transaction: one state of the file, while others may write."""
        return self._transaction("BEGIN", errors.NOTHING_SENT)

    def writing(self, consequence: str) -> AbstractContextManager[sqlite3.Connection]:
        """A write transaction, synced at its end. If the block raises, nothing has changed.

        Raises:
            LedgerError: it failed; `consequence` says what that means for the call.
        """
        return self._transaction("BEGIN IMMEDIATE", consequence)

    @contextmanager
    def _transaction(self, begin: str, consequence: str) -> Iterator[sqlite3.Connection]:
        if self._process != os.getpid() and (self._path is None or self._db is not None):
            raise errors.failed(
                self._shown,
                "it belongs to the process that forked this one",
                consequence,
                "processes can share a file: open its path in each of them",
            )
        held: list[threading.Lock] = []
        try:
            try:
                try:
                    held += [self._lock] if self._lock.acquire(timeout=self._timeout) else []
                    if not held:
                        raise errors.locked(self._shown, consequence)
                    db = self._open(consequence)
                    self._end(db)  # a signal handler may have prevented the end of the last one
                    db.execute(begin)
                    self._same_version(db, consequence)
                    yield db
                    db.execute("COMMIT")
                finally:
                    if held and self._db is not None:
                        self._end(self._db)
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY:
                    self._close()  # a connection that was opened read-only stays so
                raise errors.from_sqlite(error, self._shown, consequence) from error
            except DamagedRowError as error:
                raise errors.damaged(self._shown, str(error), consequence) from error
            except (OverflowError, UnicodeError) as error:
                raise errors.failed(self._shown, str(error), consequence) from error
            finally:
                while held:
                    held.pop().release()
        except BaseException:  # a signal handler may have raised before the release
            while held:
                held.pop().release()
            raise

    def _end(self, db: sqlite3.Connection) -> None:
        if db.in_transaction:
            db.execute("ROLLBACK")

    def mark_signed(self, consequence: str) -> None:
        """Before the first signed payment is written: create the mark that reveals a missing ledger."""
        if self._path is not None and not self._marked:
            try:
                mark_signed(self._real, sync=self._sync)
            except OSError as error:
                raise errors.from_os(error, self._shown, consequence) from error
            self._marked = True

    def close(self) -> None:
        """Close the file. A ledger in memory stays."""
        with self._lock:
            self._close()
            self._opened = None

    def _open(self, consequence: str) -> sqlite3.Connection:
        if self._path is None:
            if self._db is None:
                self._db = open_memory()
                weakref.finalize(self, self._db.close)
            return self._db
        if self._opened is not None and (found := _identity(self._path)) != self._opened:
            # An empty file in its place, or an older copy, would not know what is spent.
            what = "removed" if found is None else "replaced" if found[-1] else "emptied"
            raise errors.failed(
                self._shown,
                f"the file was {what} while it was in use",
                consequence,
                "restore it, or restart this program",
            )
        if self._db is None:
            self._process = os.getpid()
            self._real = os.path.realpath(self._path)
            self._marked = False
            self._db = open_file(self._real, sync=self._sync, timeout=self._timeout, consequence=consequence)
            self._db.execute(f"PRAGMA busy_timeout = {int(self._timeout * 1000)}")
            self._opened = _identity(self._path)
        return self._db

    def _close(self) -> None:
        if self._db is not None and self._path is not None:
            db, self._db = self._db, None
            db.close()

    def _same_version(self, db: sqlite3.Connection, consequence: str) -> None:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version > len(sql.MIGRATIONS):  # another process with a newer release migrated it
            raise errors.newer(self._shown, version, len(sql.MIGRATIONS), consequence)


def _identity(path: str) -> tuple[int, int, bool] | None:
    """The identity of a file, and whether it has content; None when it is missing."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size > 0


# A connection must not cross a fork: the child would treat the parent's locks as its own and could destroy the parent's
# writes. So every file is closed before a fork, and each process opens it again when it needs it.
_FILES_LOCK = threading.Lock()
_FILES: weakref.WeakSet[LedgerFile] = weakref.WeakSet()
_held: list[LedgerFile] = []


def _before_fork() -> None:
    _FILES_LOCK.acquire()
    for file in list(_FILES):
        file._lock.acquire()
        _held.append(file)
        file._close()


def _after_fork() -> None:
    while _held:
        _held.pop()._lock.release()
    if _FILES_LOCK.locked():  # not locked in the child of a fork that did not run the hook before it
        _FILES_LOCK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
