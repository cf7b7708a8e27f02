"""The state in one SQLite database: in memory, or a file for several runs and processes."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from ..core.clock import RealTime
from ..core.errors import ApiError, MockServerError, StateFileError, closed, overloaded, unusable
from ..core.seeding import SeededRandom
from . import file_check, schema

T = TypeVar("T")
Row = tuple[Any, ...]
# Results of SQLite: the file is damaged, or can't be used now.
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_UNUSABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN)
# Seconds to wait for another process that creates the same file.
_CREATE_TIMEOUT = 5.0


class Database:
    """One connection under one lock.

    Another thread may close it at any time; every call after that fails with 503.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        if path is not None and not os.fspath(path):
            raise MockServerError("db: is empty; give the name of a file, or leave it out to keep the state in memory")
        self.path = None if path is None or str(path) == ":memory:" else os.fspath(path)
        self._lock = threading.RLock()
        self._depth = 0
        self._version = 0
        self._closed = False
        # Why the open transaction can't be committed.
        self._failure: ApiError | None = None
        if self.path is not None:
            # Before SQLite opens it for writing: a file of another program is never changed.
            file_check.check(self.path)
        try:
            # Commits and rollbacks are explicit (isolation_level None); the lock makes the connection safe to share.
            self._db = sqlite3.connect(
                self.path or ":memory:", timeout=5, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            reason = file_check.cause(error)
            raise StateFileError(str(self.path), f"can't be opened: {reason}") from reason
        try:
            self._prepare()
        except sqlite3.Error as error:
            reason = file_check.cause(error)
            self._db.close()
            raise StateFileError(str(self.path), f"can't be used: {reason}") from reason
        except ApiError as error:
            self._db.close()
            raise unusable(self.path, error) from error
        except MockServerError:
            self._db.close()
            raise

    def _prepare(self) -> None:
        # For SQL: a number in [0, 1) for a row, always the same for the same arguments.
        self._db.create_function("chance", 3, lambda seed, *row: SeededRandom(int(seed), *row, draws=1).unit())
        if self.path is None:
            _create_tables(self._db)
            return
        # With a write-ahead log a commit outlives the process, and readers don't block the writer.
        self._enable_write_ahead_log()
        self._db.execute("PRAGMA synchronous=NORMAL")
        with self.transaction():
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version == schema.VERSION:
                return
            if version or self._db.execute("SELECT 1 FROM sqlite_master").fetchone():
                # Another process has created it since the check.
                raise StateFileError(str(self.path), "is not of this version of the mock server")
            _create_tables(self._db)

    def _enable_write_ahead_log(self) -> None:
        # SQLite's own timeout doesn't apply to this.
        ends = RealTime.monotonic() + _CREATE_TIMEOUT
        while True:
            try:
                self._db.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or RealTime.monotonic() > ends:
                    raise
            time.sleep(0.01)

    @contextmanager
    def transaction(self) -> Iterator[bool]:
        """A write transaction; one within another joins it. Gives whether it is the outermost."""
        with self._lock:
            self._depth += 1
            try:
                if self._depth == 1:
                    self.run("BEGIN IMMEDIATE")
                    self._failure = None
                yield self._depth == 1
                if self._depth == 1:
                    if self._failure is not None:
                        # The caller handled the error and continued, but some of the changes may be missing.
                        raise self._failure
                    self.run("COMMIT")
            finally:
                self._depth -= 1
                # After a crash inside, or a failed commit (a full disk), no change is left half done.
                if self._depth == 0 and not self._closed:
                    self._db.rollback()

    def run(self, sql: str, args: Sequence[object] = ()) -> int:
        """Run a statement; the number of rows changed."""
        return self._ask(lambda db: db.execute(sql, args).rowcount)

    def run_many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        self._ask(lambda db: db.executemany(sql, rows))

    def all(self, sql: str, args: Sequence[object] = ()) -> list[Row]:
        return self._ask(lambda db: db.execute(sql, args).fetchall())

    def one(self, sql: str, args: Sequence[object] = ()) -> Row | None:
        row: Row | None = self._ask(lambda db: db.execute(sql, args).fetchone())
        return row

    def value(self, sql: str, args: Sequence[object] = ()) -> Any:
        """The first column of the first row; None when there is no row."""
        row = self.one(sql, args)
        return None if row is None else row[0]

    def add(self, table: str, **values: object) -> None:
        """Insert a row. The names of table and columns come from this package, never from a request."""
        names = ", ".join(values)
        marks = ", ".join("?" * len(values))
        self.run(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(values.values()))  # noqa: S608 - our own names

    def rows(self, columns: Sequence[str], source: str, args: Sequence[object] = ()) -> list[dict[str, Any]]:
        """Rows by column name. `source` is the text after FROM; values from a request are only in `args`."""
        sql = f"SELECT {', '.join(columns)} FROM {source}"  # noqa: S608 - names and clauses of our own routes
        return [dict(zip(columns, row, strict=True)) for row in self.all(sql, args)]

    def count(self, table: str, tenant: str) -> int:
        """The number of a tenant's rows in a table."""
        return int(self.rows(("count(*)",), f"{table} WHERE tenant = ?", (tenant,))[0]["count(*)"])

    def next(self, tenant: str, kind: str, count: int = 1) -> int:
        """The next ordinal of a kind within a tenant, from 1; of several, the last. Unrelated calls never change it."""
        sql = "INSERT INTO counters VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n RETURNING n"
        return int(self.value(sql, (tenant, kind, count)))

    def get_meta(self, name: str) -> str | None:
        value: str | None = self.value("SELECT value FROM meta WHERE name = ?", (name,))
        return value

    def set_meta(self, name: str, value: str) -> None:
        self.run("INSERT INTO meta VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", (name, value))

    def changed_elsewhere(self) -> bool:
        """Whether another process has written to the file since the last call."""
        if not self.is_behind():
            return False
        self._version = int(self.value("PRAGMA data_version"))
        return True

    def is_behind(self) -> bool:
        """As `changed_elsewhere`, but the next call gives the same result."""
        return self.path is not None and int(self.value("PRAGMA data_version")) != self._version

    def clear(self) -> None:
        """Empty every table."""
        with self.transaction():
            for name in schema.NAMES:
                self.run(f"DELETE FROM {name}")  # noqa: S608 - names of our own tables

    def copy_to(self, target: sqlite3.Connection) -> None:
        """Copy everything to another database, as it is at one moment. Not within a transaction."""
        with self._lock:
            self._outside()
            self._ask(lambda db: db.backup(target))

    @contextmanager
    def attached(self, file: str) -> Iterator[None]:
        """Attach another state file, for `replace_from_attached`. Not within a transaction."""
        with self._lock:
            self._outside()
            self.run("ATTACH ? AS other", (file,))
            try:
                yield
            finally:
                self._db.execute("DETACH other")

    def replace_from_attached(self) -> None:
        """Replace all rows with those of the attached file."""
        with self.transaction():
            for name in schema.NAMES:
                self.run(f"DELETE FROM main.{name}")  # noqa: S608 - names of our own tables
                self.run(f"INSERT INTO main.{name} SELECT * FROM other.{name}")  # noqa: S608 - as above

    def _outside(self) -> None:
        if self._depth:
            raise MockServerError("a snapshot can't be taken or restored in the middle of a change")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._db.close()

    def _ask(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        """The result of `ask` for the connection. ApiError if the file is busy, damaged or can't be used."""
        with self._lock:
            try:
                return ask(self._open())
            except sqlite3.DatabaseError as error:
                raise self._api_error(error) from error

    def _api_error(self, error: sqlite3.DatabaseError) -> Exception:
        """The error as an API error that names the file. Other errors are bugs of the mock and are raised unchanged."""
        # The lowest byte is the kind; the others add detail.
        kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
        where = "The state in memory" if self.path is None else f"The state file {self.path}"
        if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            self._failure = overloaded()
        elif kind in _DAMAGED or "decode to UTF-8" in str(error):
            reason = str(error).partition(" with text ")[0]
            self._failure = ApiError(500, "internal_error", f"{where} is damaged: {reason}.")
        elif kind in _UNUSABLE:
            self._failure = ApiError(503, "service_unavailable", f"{where} can't be used: {error}.")
        else:
            return error
        return self._failure

    def _open(self) -> sqlite3.Connection:
        if self._closed:
            raise closed()
        return self._db


def _create_tables(db: sqlite3.Connection) -> None:
    for statement in filter(str.strip, schema.TABLES.split(";")):
        db.execute(statement)
    db.execute(f"PRAGMA user_version={schema.VERSION}")
