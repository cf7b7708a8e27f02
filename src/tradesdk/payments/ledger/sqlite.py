"""The engine of a ledger in a SQLite file, or in memory."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..._fleet.server import Row
from . import errors
from . import schema as sql
from .engine import Engine, StaleRowError, left
from .opening import mark_signed, open_file, open_memory


class SqliteTransaction:
    """A transaction on the file."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.connection = db

    def read(self, *statements: tuple[str, Sequence[object]]) -> list[list[Row]]:
        return [self.connection.execute(statement, values).fetchall() for statement, values in statements]

    def expect(self, statement: str, values: Sequence[object]) -> None:
        if self.connection.execute(statement, values).fetchone() is None:
            raise StaleRowError

    def write(self, statement: str, values: Sequence[object]) -> None:
        self.connection.execute(statement, values)


class SqliteEngine(Engine):
    """One SQLite file, or without a path one in memory. Reading goes on while another process writes."""

    checks = (("PRAGMA integrity_check(3)", ()),)

    def __init__(self, path: str | None, *, sync: bool, timeout: float) -> None:
        super().__init__(path or "in memory", timeout)
        self._path = path
        self._sync = sync
        self._busy = -1
        self._db: sqlite3.Connection | None = None
        self._opened: tuple[int, int, bool] | None = None
        self._real = ""
        self._marked = False
        self._process = os.getpid()
        with _FILES_LOCK:
            _FILES.add(self)

    @contextmanager
    def _begin(self, deadline: float, *, write: bool) -> Iterator[SqliteTransaction]:
        if self._process != os.getpid() and (self._path is None or self._db is not None):
            raise errors.failed(
                self.shown,
                "it belongs to the process that forked this one",
                "processes can share a file: open its path in each of them",
            )
        try:
            db = self._open(deadline)
            self._end(db)  # an interrupt may have prevented the end of the last one
            try:
                db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                (version,) = db.execute("PRAGMA user_version").fetchone()
                if version != sql.VERSION:  # another release has changed it
                    raise errors.other_version(self.shown, version, sql.VERSION)
                yield SqliteTransaction(db)
                db.execute("COMMIT")
            finally:
                self._end(db)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY:
                self._close()  # a connection that was opened read-only stays so
            raise errors.from_sqlite(error, self.shown) from error
        except OSError as error:
            raise errors.from_os(error, self.shown) from error

    def _end(self, db: sqlite3.Connection) -> None:
        if db.in_transaction:
            db.execute("ROLLBACK")

    def sign(self) -> None:
        """Create the mark that reveals a missing ledger, before the first signed payment is written."""
        if self._path is not None and not self._marked:
            mark_signed(self._real, sync=self._sync)
            self._marked = True

    def close(self) -> None:
        """Close the file. A ledger in memory stays."""
        with self._lock:
            self._close()
            self._opened = None

    def _open(self, deadline: float) -> sqlite3.Connection:
        if self._path is None:
            if self._db is None:
                self._db = open_memory()
                self._db.row_factory = _to_row
                weakref.finalize(self, self._db.close)
            return self._db
        if self._opened is not None and (found := _identity(self._path)) != self._opened:
            # An empty file in its place, or an older copy, would not know what is spent.
            what = "removed" if found is None else "replaced" if found[-1] else "emptied"
            what = f"the file was {what} while it was in use"
            raise errors.failed(self.shown, what, "restore it, or restart this program")
        if self._db is None:
            self._process = os.getpid()
            self._real = os.path.realpath(self._path)
            self._marked = False
            self._db = open_file(self._real, sync=self._sync, timeout=left(deadline))
            self._db.row_factory = _to_row
            self._opened = _identity(self._path)
            self._busy = -1
        busy = math.ceil(left(deadline) * 1000)
        if busy != self._busy:
            self._db.execute(f"PRAGMA busy_timeout = {busy}")
            self._busy = busy
        return self._db

    def _close(self) -> None:
        if self._db is not None and self._path is not None:
            db, self._db = self._db, None
            db.close()


def _to_row(cursor: sqlite3.Cursor, values: tuple[object, ...]) -> Row:
    return Row(values)


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
_FILES: weakref.WeakSet[SqliteEngine] = weakref.WeakSet()
_held: list[SqliteEngine] = []


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
