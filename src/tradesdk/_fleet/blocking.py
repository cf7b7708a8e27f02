"""Blocking connections, which do not wait long for an answer."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from .._system import forks
from .._system.clock import SystemClock
from .._values.text import printable
from .server import (
    ANSWER,
    CHECK,
    CONNECT,
    Row,
    Server,
    UnusableServerError,
    check,
    check_version,
    fleet_error,
    numbered,
    problem,
)

_RAW: Any = psycopg.RawCursor  # parameters are $1, as the server has them
Statement = tuple[str, Sequence[object]]


class SilentServerError(psycopg.DatabaseError):
    """There was no answer in time. A lost connection is worth another try; this one is not: it would wait as long."""

    sqlstate = "08006"


class Connection(psycopg.Connection[Row]):
    """A connection that is made in time, and whose statements are answered in time; or there is an error."""

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        began = SystemClock.monotonic()
        try:
            return super().wait(gen, interval, timeout or ANSWER)
        except psycopg.OperationalError as error:
            if error.sqlstate is None:  # nobody knows what it still does
                self.pgconn.finish()
            if timeout is None and SystemClock.monotonic() - began >= ANSWER:
                raise SilentServerError(f"waited {ANSWER:g} seconds") from None
            raise

    @classmethod
    def _connect_gen(cls, conninfo: str = "") -> Any:
        """Of psycopg, which would give every host and address two seconds or more, one after the other."""
        gen: Any = super()._connect_gen(conninfo)
        ready = None
        end = min(_CONNECTING.end, SystemClock.monotonic() + _CONNECTING.share)
        try:
            while True:
                step = gen.send(ready)
                if SystemClock.monotonic() >= end:
                    raise psycopg.errors.ConnectionTimeout("connection timeout expired")
                ready = yield step
        except StopIteration as made:
            return made.value

    def run(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run statements in one round trip, all or none, and return their rows."""
        if len(statements) == 1:  # a pipeline of one would cost more
            ((statement, values),) = statements
            cursor = self.execute(numbered(statement), values)
            return [cursor.fetchall() if cursor.description else []]
        first: psycopg.Error | None = None
        cursors: list[psycopg.Cursor[Row]] = []
        try:
            with self.pipeline():
                try:
                    for statement, values in statements:
                        cursors.append(self.execute(numbered(statement), values))
                except psycopg.Error as error:  # leaving with it, psycopg would log a warning
                    first = error
        except psycopg.Error as error:
            first = first or error
        if first is not None:
            raise first
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


def connect(server: Server) -> Connection:
    """Connect, and check the server: an error of psycopg, or an `UnusableServerError`."""
    _CONNECTING.end = SystemClock.monotonic() + ANSWER
    _CONNECTING.share = CONNECT / server.hosts
    db = Connection.connect(server.url, autocommit=True, row_factory=_rows, cursor_factory=_RAW, prepare_threshold=2)
    try:
        check_version(server, db.info.server_version)
        check(server, db.execute(CHECK, [server.schema]).fetchone())
    except BaseException:
        db.close()
        raise
    return db


_CONNECTING = threading.local()


def leave_behind(connection: Connection | None) -> None:
    """In the child of a fork: keep the parent's connection unused. Closing it would end it for the parent."""
    _LEFT_BEHIND.append(connection)


_LEFT_BEHIND: list[object] = []


def _rows(cursor: Any) -> Any:
    return Row


def member_name() -> str:
    """A name that no other member has, and that tells people which machine and process it is."""
    return f"{printable(socket.gethostname(), 60)}/{os.getpid()}/{secrets.token_hex(4)}"


# Of the last hour: who uses a key, a group or a lease, by the server's time.
MEMBERS = (
    "CREATE TABLE members (key TEXT, member TEXT, seen TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(), "
    "PRIMARY KEY (key, member))"
)
SEEN = """
    WITH gone AS (DELETE FROM members WHERE seen < clock_timestamp() - interval '1 hour' AND member <> $2)
    INSERT INTO members VALUES ($1, $2) ON CONFLICT (key, member) DO UPDATE SET seen = excluded.seen
"""
LEFT = "DELETE FROM members WHERE member = $1"


class Link:
    """What a member says to the server: one connection, opened at first use, and again after it was lost.

    `began` is called with each new one.
    """

    def __init__(self, server: Server, began: Callable[[Connection], object] = lambda _: None) -> None:
        self.server = server
        self.member = member_name()
        self.db: Connection | None = None
        self._began = began
        self._inside: int | None = None
        self._after: Callable[[], object] | None = None
        self.lock = threading.RLock()
        forks.bind(self)

    def forked(self) -> None:
        """In the child of a fork: connect again."""
        self.lock, self._inside, self._after = threading.RLock(), None, None
        self.member = member_name()
        leave_behind(self.db)
        self.db = None

    def run(self, *statements: Statement) -> list[list[Row]]:
        """As `ask`, by one thread at a time; or there is a `FleetError`."""
        with self.lock:
            self._inside = threading.get_ident()
            try:
                return self.ask(statements)
            except UnusableServerError as error:
                found = error
            finally:
                self._inside = None
                after, self._after = self._after, None
                if after is not None:
                    after()
        raise fleet_error(found)

    def end(self, step: Callable[[], object]) -> None:
        """Do a last step: at once, or in a signal handler that interrupted `run` after that, which would block it."""
        if self._inside == threading.get_ident():
            self._after = step
        else:
            step()

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, or may be."""
        return self.db is not None and self.db.info.transaction_status != TransactionStatus.IDLE

    def ask(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run statements in one round trip, all or none; again if an old connection was lost.

        An `UnusableServerError` may also mean that they were run, and the answer was lost.
        """
        is_old = self.db is not None and not self.in_transaction  # its second half is lost with the first
        while True:
            try:
                if self.db is None:
                    self.db = connect(self.server)
                    self._began(self.db)
                return self.db.run(statements)
            except psycopg.Error as error:
                found = problem(error, self.server)
                is_lost = isinstance(error, psycopg.OperationalError) and found.kind != "locked"
            self.close()  # of a pipeline that failed, psycopg takes statements for prepared that are not
            if not (is_old and is_lost):
                raise found  # outside of the handler: errors of psycopg may show what was to be written
            is_old = False

    def reset(self) -> None:
        """Leave no transaction open."""
        try:
            if self.db is not None and self.in_transaction:
                self.db.execute("ROLLBACK")
        except psycopg.Error:
            self.close()

    def close(self) -> None:
        """Close the connection. The next use opens another one."""
        with self.lock:
            db, self.db = self.db, None
            if db is not None:
                db.close()
