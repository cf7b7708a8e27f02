"""Transactions of a ledger: the interface, and the engine for SQLite, a file or in memory. `postgres` has the other.

Blocking. `Engine.run` gives `step` a `Transaction`: it reads, then writes. The changes are durable when `run` returns;
if `step` raises, nothing has changed.

Who waits: a thread for the engine's lock, then for another process that writes; one deadline for both. An owner that
waited in vain does not wait again while the lock is held. Who may write: one transaction at a time, of all threads
and processes. What is `late` is written first; while that fails, no other change is made.
"""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from ..._http.log_events import ledger_failed
from ..._system import forks
from ..._system.clock import SystemClock
from ..._system.interrupts import failures
from ..._system.semaphore import Semaphore
from ..._values.row import Row
from ...errors import LedgerError
from . import errors
from . import schema as sql
from .opening import mark_signed, open_file, open_memory

T = TypeVar("T")


class StaleRowError(Exception):
    """A row is no longer what the transaction expects."""


class Transaction(Protocol):
    """A transaction. A statement comes with its parameters."""

    def read(self, *statements: tuple[str, Sequence[object]]) -> list[list[Row]]:
        """Run statements and return their rows: one round trip for all of them."""
        ...

    def expect(self, statement: str, values: Sequence[object]) -> None:
        """Check that a statement finds one row, before any change is made. Otherwise the transaction fails with
        `StaleRowError`, at its end at the latest.
        """

    def write(self, *statements: tuple[str, Sequence[object]]) -> None:
        """Make changes, at the end of the transaction at the latest."""
        ...


class Late(NamedTuple):
    """The end of a call, which could not be written and is written later. Writing it twice does no harm."""

    payment_id: str
    signatures: int
    change: Callable[[Any], Any]
    step: Callable[[Transaction], object]


class Engine(ABC):
    """The connection of a process to a database, opened at first use; one thread uses it at a time.

    Args:
        shown: the name of the database in errors.
        timeout: seconds that a call waits for another thread or process.

    Attributes:
        checks: statements that return what is wrong with the whole database, or `ok`.
        ahead: whole seconds that the database's clock is ahead of this machine's. Claims end by the database's clock.
        late: changes that are written before the next one, which is refused if they can't be.
        blocks: whether a transaction may wait for a disk or a server.
        is_marked: whether the mark of signed payments exists.
        ending: whether the last transaction was being committed: if that failed, it may be done.
    """

    checks: tuple[tuple[str, Sequence[object]], ...] = ()
    ahead = 0
    blocks = True
    is_marked = True

    def __init__(self, shown: str, timeout: float) -> None:
        self.shown = shown
        self.late: list[Late] = []
        self.ending = False
        self._timeout = timeout
        self._lock = Semaphore(1)
        self._waited: set[str] = set()
        """Owners that have waited a whole timeout for a lock: they don't wait again while it is held."""
        forks.bind(self)

    def forked(self) -> None:
        """In the child of a fork: forget what is late, as the parent writes it."""
        self.late = []

    def run(
        self,
        step: Callable[[Transaction], T],
        consequence: str = errors.NOTHING_SENT,
        *,
        write: bool = False,
        owner: str | None = None,
        late: Callable[[], Late | None] = lambda: None,
    ) -> T:
        """Run `step` in a transaction for the call `owner`. With `write` it excludes all other writers, and is durable
        when this returns.

        If the step raises, nothing has changed. `late`: the change to write later if it is unknown whether this one
        was committed: the response was lost, or the commit was interrupted.

        Raises:
            LedgerError: it failed; `consequence` says what that means for the call.
        """
        deadline = SystemClock.monotonic() + (0 if owner in self._waited else self._timeout)
        try:
            if not self._lock.acquire(timeout=left(deadline)):
                raise errors.locked(self.shown)
            try:
                self._catch_up(deadline, write=write)
                self.ending = False
                result = self._run(step, deadline, write=write)
            except BaseException:
                if self.ending and (one := late()) is not None:
                    self.late.append(one)
                raise
            finally:
                self._lock.release()
        except (LedgerError, *_OF_ROWS) as error:
            problem = self._problem(error, consequence)
            if owner is not None and problem.code == "ledger_locked":
                self._waited.add(owner)
            raise problem from problem.__cause__
        if owner is not None:
            self._waited.clear()
        return result

    def _catch_up(self, deadline: float, *, write: bool) -> None:
        """Write what is late; drop what the database will never accept. Before a read: at once, without waiting."""
        while self.late:
            one = self.late[0]
            try:
                self._run(one.step, deadline if write else 0.0, write=True)
            except _OF_ROWS as error:
                ledger_failed(self._problem(error, errors.DROPPED), one.payment_id)
            except LedgerError:
                if write:
                    raise
                return
            del self.late[0]

    def _problem(self, error: Exception, consequence: str) -> LedgerError:
        if not isinstance(error, LedgerError):
            is_damage = isinstance(error, errors.DamagedRowError)
            error = self.damaged(str(error)) if is_damage else errors.failed(self.shown, str(error))
        found = LedgerError(f"{error.message}; {consequence}", code=error.code, hint=error.hint)
        found.__cause__ = error.__cause__
        return found

    @abstractmethod
    def _run(self, step: Callable[[Transaction], T], deadline: float, *, write: bool) -> T:
        """Run `step` in a transaction, and commit if it does not raise; `LedgerError` if that fails."""

    def damaged(self, what: str) -> LedgerError:
        """The problem with a database that is damaged."""
        return errors.damaged(self.shown, what)

    @abstractmethod
    def mark(self, db: Transaction) -> None:
        """Note that there are signed payments, before or in the transaction that writes the first one."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection. The next use opens it again."""


_OF_ROWS = errors.DamagedRowError, errors.RefusedRowError, OverflowError, UnicodeError
"""Errors of what a step reads or writes, not of the database."""


def left(deadline: float) -> float:
    """Seconds until a monotonic time, not below 0."""
    return max(0.0, deadline - SystemClock.monotonic())


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
        self.blocks = path is not None
        self._path = path
        self._sync = sync
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
                if version != sql.VERSION:  # another release has changed the tables
                    raise errors.other_version(self.shown, version, sql.VERSION)
                result = step(SqliteTransaction(db))
                self.ending = True
                db.execute("COMMIT")
            finally:
                db.rollback()  # does nothing after a commit
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY:
                self._close()  # a connection opened read-only stays read-only
            raise errors.from_sqlite(error, self.shown) from error
        except failures(OSError) as error:
            raise errors.from_os(error, self.shown) from error
        return result

    def mark(self, db: Transaction) -> None:
        """Create the mark, which reveals a missing ledger, before the first signed payment is written."""
        mark_signed(self._real, sync=self._sync)
        self.is_marked = True

    def close(self) -> None:
        """Close the file. A ledger in memory stays open."""
        for _ in self.closed():
            self._opened = None

    def closed(self) -> Iterator[None]:
        """Keep the file closed, so that no thread opens it, until the generator continues or is dropped."""
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
            # An empty file or an older copy in its place would not know what is spent.
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
            self._db = db
        self._db.execute(f"PRAGMA busy_timeout = {math.ceil(left(deadline) * 1000)}")
        return self._db

    def _close(self) -> None:
        if self._db is not None and self._path is not None:
            db, self._db = self._db, None
            db.close()


def _to_row(cursor: sqlite3.Cursor, values: tuple[object, ...]) -> Row:
    return Row(values)


def _identity(path: str) -> tuple[int, int, bool] | None:
    """The identity of a file, and whether it has content; None if it is missing."""
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
"""Each holds a lock until it is dropped. One call in C drops all, so no signal handler can interrupt that."""


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
