"""The engine of a ledger in PostgreSQL: the statements of SQLite, one row that all writers lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

from ..._fleet import rate, signals
from ..._fleet.blocking import MEMBERS, Link, Statement
from ..._fleet.server import Row, Server, UnusableServerError
from ..._system.clock import SystemClock
from ..._system.semaphore import Semaphore
from . import errors
from . import schema as sql
from .engine import Engine, StaleRowError, T

_WORDS = (
    ("seq INTEGER PRIMARY KEY", "seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
    ("INTEGER", "BIGINT"),
    ("REAL", "DOUBLE PRECISION"),
    ("BLOB", "BYTEA"),
    (" CHECK (typeof(counted) = 'integer')", ""),
)
_BEGIN: Statement = ("BEGIN", ())  # READ COMMITTED: `CHECK` has made it the default
_VERSION: Statement = ("SELECT version, extract(epoch FROM clock_timestamp())::float8 FROM ledger", ())
_LOCK: Statement = (f"{_VERSION[0]} FOR UPDATE", ())


def _expectation(statement: str, values: Sequence[object]) -> Statement:
    """A statement that fails, and the transaction with it, unless another one finds one row."""
    return f"SELECT 1 / count(*) FROM ({statement}) AS found", values  # noqa: S608


_LOCK_KNOWN = _expectation("SELECT 1 FROM ledger WHERE version = ? FOR UPDATE", (sql.VERSION,))


def tables() -> Iterator[str]:
    """The statements that make the tables."""
    for statement in sql.TABLES:
        for word, ours in _WORDS:
            statement = statement.replace(word, ours)
        yield statement
    # Who writes locks its row first, so that budgets are decided one after the other.
    yield "CREATE TABLE ledger (one BIGINT PRIMARY KEY CHECK (one = 1), version BIGINT NOT NULL)"
    yield f"INSERT INTO ledger VALUES (1, {sql.VERSION})"  # noqa: S608


def create(server: Server) -> bool:
    """Create the schema and its tables, unless they are there. Returns whether it did."""
    with closing(Link(server)) as link:
        *_, ((found,),), ((schema,),) = link.run(
            ("BEGIN", ()),
            ("SELECT pg_advisory_xact_lock(hashtext('tradesdk ' || ?))", (server.schema,)),
            ("SELECT to_regclass(?)", (f"{server.schema}.ledger",)),
            ("SELECT to_regnamespace(?)", (server.schema,)),
        )
        if found is None:
            made = [*tables(), MEMBERS, *rate.TABLES, *signals.TABLES]
            if schema is None:
                made.insert(0, f'CREATE SCHEMA "{server.schema}"')
            link.run(*((statement, ()) for statement in made), ("COMMIT", ()))
    return found is None


class PostgresEngine(Engine):
    """One connection to a schema. A read is one round trip, and so is all that a transaction expects and writes."""

    def __init__(self, server: Server, *, timeout: float) -> None:
        super().__init__(server.shown, timeout)
        self.link = Link(server)

    def forked(self) -> None:
        super().forked()
        self._lock = Semaphore(1)  # a thread of the parent may have it

    def _run(self, step: Callable[[PostgresTransaction], T], deadline: float, *, write: bool) -> T:
        transaction = PostgresTransaction(self, deadline, write=write)
        self.link.reset()  # an interrupt may have prevented the end of the last one
        try:
            result = step(transaction)
            transaction.commit()
            return result
        except UnusableServerError as error:
            found: Exception = StaleRowError()
            if error.kind != "stale":
                kind = errors.RefusedRowError if error.kind == "refused" else errors.UnusableLedgerError
                found = kind(errors.CODES[error.kind], f"the ledger {error.what}", error.hint)
        finally:
            self.link.reset()
        raise found  # outside of the handler: frames of that error have what was to be written

    def mark(self) -> None:
        """Nothing: a call never makes tables, so lost ones are missed."""

    def close(self) -> None:
        self._lock.acquire()
        try:
            self.link.close()
        finally:
            self._lock.release()


class PostgresTransaction:
    """A transaction. One that reads needs no end: each `read` is one of its own."""

    def __init__(self, engine: PostgresEngine, deadline: float, *, write: bool) -> None:
        self._engine = engine
        self._deadline = deadline
        self._write = write
        self._begun = False
        self._expected: list[Statement] = []
        self._changes: list[Statement] = []

    def read(self, *statements: Statement) -> list[list[Row]]:
        if self._write:
            return self._begin(statements)
        begin = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", ())
        _, found, *rows, _ = self._again([begin, _VERSION, *statements, ("COMMIT", ())])
        self._same_version(found)
        return rows

    def expect(self, statement: str, values: Sequence[object]) -> None:
        self._expected.append((statement, values))

    def write(self, *statements: Statement) -> None:
        self._changes += statements

    def commit(self) -> None:
        """Write and commit, in one round trip."""
        self._engine.ending = True
        if self._begun:
            self._engine.link.ask([*self._changes, ("COMMIT", ())])
        elif self._expected:  # to be run again if it was run and the answer was lost: its row is then another
            found = " AND ".join(f"EXISTS ({statement})" for statement, _ in self._expected)
            values = [value for _, several in self._expected for value in several]
            as_expected = _expectation(f"SELECT 1 WHERE {found}", values)
            self._again([_LOCK_KNOWN, as_expected, *self._changes])  # a round trip is a transaction

    def _begin(self, statements: Sequence[Statement]) -> list[list[Row]]:
        if self._begun:
            return self._engine.link.ask(statements) if statements else []
        _, found, *rows = self._again([_BEGIN, _LOCK, *statements])
        self._begun = True
        self._same_version(found)
        return rows

    def _again(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run what begins a transaction, again while others hold the lock."""
        while True:
            try:
                return self._engine.link.ask(statements)
            except UnusableServerError as error:
                if error.kind != "locked" or SystemClock.monotonic() >= self._deadline:
                    raise

    def _same_version(self, rows: list[Row]) -> None:
        if len(rows) != 1:
            raise errors.emptied(self._engine.shown)
        ((version, time),) = rows
        self._engine.ahead = round(time - SystemClock().now())
        if version != sql.VERSION:
            raise errors.other_version(self._engine.shown, version, sql.VERSION, is_file=False)
