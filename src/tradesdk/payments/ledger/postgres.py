"""The engine of a ledger in PostgreSQL: the statements of SQLite, and one row that each writer locks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..._postgres.connection import Statement
from ..._postgres.link import Link
from ..._postgres.problems import Kind, UnusableServerError, by_state
from ..._postgres.server import Server
from ..._postgres.session import is_ours
from ..._system.clock import SystemClock
from ..._system.semaphore import Semaphore
from ..._values.row import Row
from ...errors import ErrorCode, LedgerError
from . import errors
from . import schema as sql
from .engine import Engine, StaleRowError, T, Transaction

_CODES: dict[Kind, ErrorCode] = {
    "unreachable": "ledger_unreachable",
    "denied": "ledger_denied",
    "not_durable": "ledger_not_durable",
    "version": "ledger_version",
    "read_only": "ledger_read_only",
    "lost": "ledger_lost",
    "locked": "ledger_locked",
}
"""Others are `ledger_failed`."""
_WORDS = (
    ("seq INTEGER PRIMARY KEY", "seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
    ("INTEGER", "BIGINT"),
    ("REAL", "DOUBLE PRECISION"),
    ("BLOB", "BYTEA"),
    (" CHECK (typeof(counted) = 'integer')", ""),
)
_BEGIN: Statement = ("BEGIN", ())  # READ COMMITTED: `session.BEGIN` has made it the default
_BEGIN_READING: Statement = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", ())
_COMMIT: Statement = ("COMMIT", ())
_IS_KNOWN = f"EXISTS (SELECT 1 FROM ledger WHERE version = {sql.VERSION})"  # noqa: S608
_MARK: Statement = ("UPDATE ledger SET signed = TRUE WHERE NOT signed", ())
_TABLES = "payments", "sums", "runs", "settings", "ledger"


def tables() -> Iterator[str]:
    """The statements that make the tables."""
    for statement in sql.TABLES:
        for word, ours in _WORDS:
            statement = statement.replace(word, ours)
        yield statement
    # A writer locks its row first, so that budgets are checked one after the other. `signed`: there are payments.
    yield (
        "CREATE TABLE ledger (one BIGINT PRIMARY KEY CHECK (one = 1), version BIGINT NOT NULL, "
        "signed BOOLEAN NOT NULL DEFAULT FALSE)"
    )
    yield f"INSERT INTO ledger VALUES (1, {sql.VERSION})"  # noqa: S608


class PostgresEngine(Engine):
    """One connection to a schema. A read is one round trip; so are all expectations and writes of a transaction."""

    checks = (
        (
            f"SELECT 'the table ' || name || ' is missing' FROM unnest(ARRAY{list(_TABLES)}) AS name "  # noqa: S608
            "WHERE to_regclass(name) IS NULL",
            (),
        ),
    )

    def __init__(self, server: Server, *, timeout: float) -> None:
        super().__init__(server.shown, timeout)
        self.link = Link(server)
        self.is_marked = False
        # The first statement of each transaction. It and all after it fail in a session that is not ours.
        version = (
            "SELECT version, extract(epoch FROM clock_timestamp())::float8, "  # noqa: S608
            f'%s, 1 / ({is_ours(server.schema)})::int FROM "{server.schema}".ledger'
        )
        # A call reads before it writes. After a wait for the lock, it does not see what others wrote meanwhile.
        is_lost = f'signed AND NOT EXISTS (SELECT FROM "{server.schema}".payments)'
        self.version: Statement = (version % is_lost, ())
        self.lock: Statement = (version % "FALSE" + " FOR UPDATE", ())

    def forked(self) -> None:
        super().forked()
        self._lock = Semaphore(1)  # a thread of the parent may hold the old one

    def damaged(self, what: str) -> LedgerError:
        return LedgerError(f"{self.shown} is damaged ({what})", code="ledger_damaged", hint="restore a backup")

    def _run(self, step: Callable[[PostgresTransaction], T], deadline: float, *, write: bool) -> T:
        transaction = PostgresTransaction(self, deadline, write=write)
        self._end()  # an interrupt may have prevented the end of the last transaction
        try:
            result = step(transaction)
            transaction.commit()
            return result
        except UnusableServerError as error:
            found: Exception = StaleRowError()
            if error.kind != "stale":
                kind = errors.RefusedRowError if error.kind == "refused" else LedgerError
                self.is_marked = False
                found = kind(f"the ledger {error.what}", code=_CODES.get(error.kind, "ledger_failed"), hint=error.hint)
        finally:
            self._end()
        raise found  # outside of the handler: that error's frames contain what was to be written

    def _end(self) -> None:
        """Leave no transaction open."""
        if self.link.in_transaction:
            self.link.close()

    def mark(self, db: Transaction) -> None:
        """A call never creates tables, so missing ones are noticed. This reveals that they were emptied."""
        db.write(_MARK)
        self.is_marked = True

    def close(self) -> None:
        self._lock.acquire()
        try:
            self.link.close()
        finally:
            self._lock.release()


class PostgresTransaction:
    """A transaction. A transaction that only reads needs no end: each `read` is one of its own."""

    def __init__(self, engine: PostgresEngine, deadline: float, *, write: bool) -> None:
        self._engine = engine
        self._deadline = deadline
        self._write = write
        self._begun = False
        self._expected: Statement | None = None
        self._changes: list[Statement] = []

    def read(self, *statements: Statement) -> list[list[Row]]:
        if self._begun:
            return self._engine.link.ask(statements) if statements else []
        if self._write:
            rows = self._begin(_BEGIN, self._engine.lock, *statements)
            self._begun = True
            return rows
        return self._begin(_BEGIN_READING, self._engine.version, *statements, _COMMIT)[:-1]

    def expect(self, statement: str, values: Sequence[object]) -> None:
        self._expected = statement, values

    def write(self, *statements: Statement) -> None:
        self._changes += statements

    def commit(self) -> None:
        """Write and commit in one round trip."""
        self._engine.ending = True
        if self._begun:
            self._engine.link.ask([*self._changes, _COMMIT])
        elif self._expected is not None:  # Not when it runs again after a lost response: the row has changed then.
            statement, values = self._expected
            # A division by zero ends the transaction if the row is not as expected.
            as_expected = f"SELECT 1 / (EXISTS ({statement}) AND {_IS_KNOWN})::int", values
            self._again([self._engine.lock, as_expected, *self._changes])  # a round trip is a transaction

    def _begin(self, begin: Statement, version: Statement, *statements: Statement) -> list[list[Row]]:
        """Begin a transaction. In a session that is not ours it fails, and begins again in a new one."""
        engine = self._engine
        for _ in range(2):
            try:
                _, found, *rows = self._again([begin, version, *statements])
            except UnusableServerError as error:
                if error.kind != "stale":
                    raise
            else:
                self._check(found)
                return rows
        raise by_state("pooled", engine.link.server)

    def _again(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run the start of a transaction, and again while others hold the lock."""
        while True:
            try:
                return self._engine.link.ask(statements)
            except UnusableServerError as error:
                if error.kind != "locked" or SystemClock.monotonic() >= self._deadline:
                    raise

    def _check(self, rows: list[Row]) -> None:
        engine = self._engine
        if len(rows) != 1:
            raise errors.emptied(engine.shown)
        version, time, is_lost, _ = rows[0]
        engine.ahead = round(time - SystemClock().now())
        if version <= 0:
            raise engine.damaged(f"its version is {version}")
        if version != sql.VERSION:
            raise errors.other_version(engine.shown, version, sql.VERSION, is_file=False)
        if is_lost:
            raise errors.emptied(engine.shown)
