"""Blocking connections, which do not wait long for an answer."""

from __future__ import annotations

import itertools
import os
import secrets
import socket
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import abc
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import ConnectionFailure, ConnectionTimeout, error_from_result
from psycopg.generators import fetch_many, send
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.types.numeric import Int8Dumper
from psycopg.waiting import wait

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

Statement = tuple[str, Sequence[object]]


class SilentServerError(psycopg.DatabaseError):
    """There was no answer in time. A lost connection is worth another try; this one is not: it would wait as long."""

    sqlstate = "08006"


class Connection(psycopg.Connection[Any]):
    """A connection that is made in time, and whose statements are answered in time; or there is an error.

    Always in pipeline mode: psycopg's own would send each statement by itself, and after an error take statements for
    prepared that are not.
    """

    def __init__(self, pgconn: PGconn) -> None:
        super().__init__(pgconn)
        self._names: dict[tuple[str, tuple[int, ...] | None], bytes] = {}
        """Of statements that are prepared, by their text and the types of their parameters."""
        # A pooler may give another program's connection: its COMMIT must not be our ROLLBACK.
        self._prefix = secrets.token_hex(4).encode()
        self._numbers = itertools.count(1)
        self.adapters.register_dumper(int, Int8Dumper)  # else a number's size would make another statement of it
        pgconn.enter_pipeline_mode()

    @classmethod
    def _connect_gen(cls, conninfo: str = "") -> Any:
        """Of psycopg, which would give every host and address two seconds or more, one after the other."""
        end = min(_CONNECTING.end, SystemClock.monotonic() + _CONNECTING.share)
        return _in_time(super()._connect_gen(conninfo), end, ConnectionTimeout("connection timeout expired"))

    def run(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run statements in one round trip, all or none, and return their rows."""
        adapt, names = Transformer(self), self._names.copy()
        are_new = [self._queue(one, adapt, names) for one in statements]
        self.pgconn.pipeline_sync()
        end, late = SystemClock.monotonic() + ANSWER, SilentServerError(f"waited {ANSWER:g} seconds")
        results = wait(_in_time(_answers(self.pgconn), end, late, ANSWER), self.pgconn.socket, interval=0.1)
        for result in results:
            if result.status == ExecStatus.FATAL_ERROR:
                raise error_from_result(result)
        self._names = names
        found = []
        for is_new in are_new:
            if is_new:
                del results[0]
            adapt.set_pgresult(result := results.pop(0))
            found.append(adapt.load_rows(0, result.ntuples, Row))
        return found

    def _queue(self, statement: Statement, adapt: abc.Transformer, names: dict[Any, bytes]) -> bool:
        """Queue a statement to be sent. Returns whether it is prepared before, which has a result of its own."""
        text, values = statement
        parameters = adapt.dump_sequence(values, [PyFormat.AUTO] * len(values))
        key = text, adapt.types
        is_new = key not in names
        if is_new:
            names[key] = b"%s_%d" % (self._prefix, next(self._numbers))
            self.pgconn.send_prepare(names[key], numbered(text), adapt.types)
        self.pgconn.send_query_prepared(names[key], parameters, adapt.formats)
        return is_new


def _answers(pgconn: PGconn) -> Generator[Any, Any, list[PGresult]]:
    """Send what is queued, and return the result of each."""
    yield from send(pgconn)
    found: list[PGresult] = []
    while True:
        results = yield from fetch_many(pgconn)
        if pgconn.status == ConnStatus.BAD:
            raise ConnectionFailure("the connection was lost")
        if results[0].status == ExecStatus.PIPELINE_SYNC:
            return found
        found += results


def _in_time(gen: Any, end: float, late: Exception, silence: float = 0) -> Any:
    """A generator of psycopg that raises `late` at `end`; each byte moves that, if a `silence` is allowed after it."""
    ready = None
    try:
        while True:
            step = gen.send(ready)
            if silence and ready:
                end = SystemClock.monotonic() + silence
            elif SystemClock.monotonic() >= end:
                raise late
            ready = yield step
    except StopIteration as done:
        return done.value


def connect(server: Server) -> Connection:
    """Connect, and check the server: an error of psycopg, or an `UnusableServerError`."""
    _CONNECTING.end = SystemClock.monotonic() + ANSWER
    _CONNECTING.share = CONNECT / server.hosts
    db = Connection.connect(server.url)
    try:
        check_version(server, db.info.server_version)
        ((answer,),) = db.run([(CHECK, (server.schema,))])
        check(server, answer)
    except BaseException:
        db.close()
        raise
    return db


_CONNECTING = threading.local()
_of_parents: list[Connection | None] = []


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
        """In the child of a fork: connect again. To close the parent's connection would end it for the parent."""
        self.lock, self._inside, self._after = threading.RLock(), None, None
        self.member = member_name()
        _of_parents.append(self.db)
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
            except BaseException:  # nobody knows what it still does
                self.close()
                raise
            if found.kind in ("stale", "locked"):
                self.reset()
            else:
                self.close()
            if not (is_old and is_lost):
                raise found  # outside of the handler: errors of psycopg may show what was to be written
            is_old = False

    def reset(self) -> None:
        """Leave no transaction open."""
        if self.in_transaction:
            with suppress(UnusableServerError):
                self.ask([("ROLLBACK", ())])

    def close(self) -> None:
        """Close the connection. The next use opens another one."""
        with self.lock:
            db, self.db = self.db, None
            if db is not None:
                db.close()
