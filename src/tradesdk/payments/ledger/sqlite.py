"""The engine of a ledger in a SQLite file, or in memory."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence

from ..._fleet.server import Row
from ..._system.interrupts import failures
from . import errors
from . import schema as sql
from .engine import Engine, StaleRowError, T, left
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

    def write(self, *statements: tuple[str, Sequence[object]]) -> None:
        for statement, values in statements:
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
        self._process = os.getpid()
        with _FILES_LOCK:
            _FILES.add(self)

    def _run(self, step: Callable[[SqliteTransaction], T], deadline: float, *, write: bool) -> T:
        if self._process != os.getpid() and (self._path is None or self._db is not None):
            raise errors.failed(
                self.shown,
                "it belongs to the process that forked this one",
                "processes can share a file: open its path in each of them",
            )
        try:
            db = self._open(deadline)
            try:
                db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                (version,) = db.execute("PRAGMA user_version").fetchone()
                if version != sql.VERSION:  # another release has changed it
                    raise errors.other_version(self.shown, version, sql.VERSION)
                result = step(SqliteTransaction(db))
                self.ending = True
                db.execute("COMMIT")
            finally:
                db.rollback()  # does nothing after the commit
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY:
                self._close()  # a connection that was opened read-only stays so
            raise errors.from_sqlite(error, self.shown) from error
        except failures(OSError) as error:
            raise errors.from_os(error, self.shown) from error
        return result

    def mark(self) -> None:
        """Create the mark that reveals a missing ledger, before the first signed payment is written."""
        mark_signed(self._real, sync=self._sync)
        self.is_marked = True

    def close(self) -> None:
        """Close the file. A ledger in memory stays."""
        for _ in self.closed():
            self._opened = None

    def closed(self) -> Iterator[None]:
        """The file is closed, and no thread opens it, until this goes on or is dropped."""
        self._lock.acquire()
        try:
            self._close()
            yield
        finally:
            self._lock.release()

    def _open(self, deadline: float) -> sqlite3.Connection:
        if self._path is None:
            if self._db is None:
                db = open_memory()
                db.row_factory = _to_row
                weakref.finalize(self, db.close)
                self._db = db
            return self._db
        if self._opened is not None and (found := _identity(self._path)) != self._opened:
            # An empty file in its place, or an older copy, would not know what is spent.
            what = "removed" if found is None else "replaced" if found[-1] else "emptied"
            what = f"the file was {what} while it was in use"
            raise errors.failed(self.shown, what, "restore it, or restart this program")
        if self._db is None:
            self._process = os.getpid()
            self._real = os.path.realpath(self._path)
            self.is_marked = False
            db = open_file(self._real, sync=self._sync, timeout=left(deadline))
            db.row_factory = _to_row
            self._opened = _identity(self._path)
            self._busy = -1
            self._db = db
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
    except failures(OSError):
        return None
    return found.st_dev, found.st_ino, found.st_size > 0


# A connection must not cross a fork: the child would treat the parent's locks as its own and could destroy the parent's
# writes. So every file is closed before a fork, and each process opens it again when it needs it.
_FILES_LOCK = threading.Lock()
_FILES: weakref.WeakSet[SqliteEngine] = weakref.WeakSet()
_held: list[Iterator[None]] = []
"""Each releases a lock when it is dropped: one call in C drops all, which no handler of a signal interrupts."""


def _no_new_files() -> Iterator[None]:
    with _FILES_LOCK:
        yield


def _before_fork() -> None:
    _held.append(_no_new_files())
    next(_held[-1])
    for file in list(_FILES):
        _held.append(file.closed())
        next(_held[-1])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_held.clear, after_in_child=_held.clear)
