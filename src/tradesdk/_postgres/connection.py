"""Blocking connections to a PostgreSQL server, in which no wait is unlimited.

Statements are sent in libpq's pipeline mode, and their results read, by `psycopg.pq`: with psycopg's cursors a payment
takes twice as much of the processor. After any error the connection is closed, so that no statement ever runs on one in
an unknown state.
"""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.adapt import Dumper, PyFormat
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, Format

from .._system.clock import SystemClock
from .._values.frames import Secret
from .._values.row import Row
from .server import Server
from .session import BEGIN, NAME, check, check_version

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

Statement = tuple[str, Sequence[object]]

ANSWER = 2.5
"""Seconds within which a server must respond, including the connection."""
SILENCE = 1.25
"""Seconds of silence after which an old connection counts as lost. It is more than `lock_timeout`, after which a server
says that another program has a lock.
"""
_CONNECT = 2.0
"""Seconds to connect, divided among the hosts of a URL."""


class _BigInt(Dumper):
    """Sends every int as a bigint. psycopg would choose by the size, which makes another prepared statement."""

    format, oid = Format.BINARY, 20

    def dump(self, obj: int) -> bytes:
        return obj.to_bytes(8, "big", signed=True)


class _Null(Dumper):
    def dump(self, obj: None) -> None:
        return None


class Connection:
    """A connection whose statements end in time; otherwise it is closed, and an error is raised.

    Attributes:
        session: the name of its session, which no other connection has. The names of its prepared statements begin
            with it: behind a pooler, another program may have prepared others.
        is_notified: whether the server has sent a notification. Whoever looks sets it to False.
        pgconn: the connection of libpq.
    """

    def __init__(self, url: Secret) -> None:
        self._db = psycopg.Connection.connect(url, autocommit=True)
        self._adapters = self._db.adapters
        self._adapters.register_dumper(int, _BigInt)
        self._adapters.register_dumper(type(None), _Null)
        self.pgconn = self._db.pgconn
        self.session = secrets.token_hex(8)
        self.is_notified = False
        self._prepared: dict[tuple[str, tuple[int, ...]], bytes] = {}
        """Names of the prepared statements, by their text and the types of their parameters."""
        self._dumpers: dict[type, Any] = {}
        self._loaders: dict[int, Callable[[bytes], object]] = {}
        self._selector = DefaultSelector()
        self._selector.register(self.pgconn.socket, EVENT_READ)
        self.pgconn.enter_pipeline_mode()

    @property
    def descriptor(self) -> int:
        """The socket that becomes readable with a notification; -1: there is one, or the connection is lost."""
        return -1 if self._db.closed or self.is_notified else self._db.fileno()

    def close(self) -> None:
        self._selector.close()
        self._db.close()

    def run(self, statements: Sequence[Statement], silence: float = ANSWER) -> list[list[Row]]:
        """Run statements in one round trip, all or none, and return their rows. After an error it is closed.

        Parameters and rows are binary, or text that no setting of the server changes. `silence`: seconds in which the
        server must send something.
        """
        try:
            have_rows = [each for statement in statements for each in self._send(*statement)]
            self.pgconn.pipeline_sync()
            results = zip(self._results(silence), have_rows, strict=True)
            return [self._rows(result) for result, has_rows in results if has_rows]
        except BaseException:
            self.close()
            raise

    def _send(self, text: str, values: Sequence[object]) -> list[bool]:
        """Put a statement into the pipeline, and before it, its preparation if it is new. Returns which has rows."""
        dumpers = [self._dumper(value) for value in values]
        types = tuple([dumper.oid for dumper in dumpers])
        name = self._prepared.get((text, types))
        is_new = name is None
        if name is None:
            name = self._prepared[text, types] = f"{self.session}_{len(self._prepared)}".encode()
            self.pgconn.send_prepare(name, numbered(text.replace(NAME, self.session)), types)
        parameters = [dumper.dump(value) for dumper, value in zip(dumpers, values, strict=True)]
        formats = [dumper.format for dumper in dumpers]
        self.pgconn.send_query_prepared(name, parameters, formats, Format.BINARY)
        return [False, True] if is_new else [True]

    def _results(self, silence: float) -> Iterator[PGresult]:
        """Send what is in the pipeline, and yield its results."""
        pgconn = self.pgconn
        while True:
            while pgconn.is_busy():
                events = EVENT_READ | EVENT_WRITE if pgconn.flush() else EVENT_READ
                self._selector.modify(pgconn.socket, events)
                if not self._selector.select(silence):
                    raise psycopg.OperationalError(f"it said nothing for {silence:.3g} seconds")
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:  # it follows each result
                if pgconn.status == ConnStatus.BAD:
                    raise psycopg.OperationalError("the connection was lost")
            elif result.status == ExecStatus.FATAL_ERROR:
                raise _error(result)
            elif result.status == ExecStatus.PIPELINE_SYNC:
                break
            else:
                yield result
        while pgconn.notifies() is not None:
            self.is_notified = True

    def _rows(self, result: PGresult) -> list[Row]:
        loads = [self._loader(result.ftype(column)) for column in range(result.nfields)]
        value = result.get_value
        return [
            Row([None if (data := value(row, column)) is None else load(data) for column, load in enumerate(loads)])
            for row in range(result.ntuples)
        ]

    def _dumper(self, value: object) -> Any:
        kind = type(value)
        if kind not in self._dumpers:
            self._dumpers[kind] = self._adapters.get_dumper(kind, PyFormat.AUTO)(kind, self._db)
        return self._dumpers[kind].upgrade(value, PyFormat.AUTO)

    def _loader(self, oid: int) -> Callable[[bytes], object]:
        if oid not in self._loaders:
            loader = self._adapters.get_loader(oid, Format.BINARY)
            self._loaders[oid] = bytes if loader is None else loader(oid, self._db).load
        return self._loaders[oid]


def _error(result: PGresult) -> psycopg.Error:
    """The error in a result, with the server's first line only: others may contain what was written."""
    state = result.error_field(DiagnosticField.SQLSTATE)
    message = result.error_field(DiagnosticField.MESSAGE_PRIMARY) or result.error_message
    error = (psycopg.OperationalError if state is None else psycopg.DatabaseError)(message.decode(errors="replace"))
    error.sqlstate = None if state is None else state.decode()
    return error


@cache
def numbered(statement: str) -> bytes:
    """A statement with PostgreSQL's parameters: `$1` for the first `?`."""
    first, *rest = statement.split("?")
    return (first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))).encode()


def connect(server: Server, seconds: float = ANSWER) -> Connection:
    """Connect, set up the session, and check the server.

    Raises an error of psycopg, or an `UnusableServerError`.

    Each host is tried in a thread, as resolving its name may take any time; the next host starts soon after.
    """
    end = SystemClock.monotonic() + seconds
    results: queue.SimpleQueue[Connection | psycopg.Error] = queue.SimpleQueue()
    is_over = threading.Event()

    def attempt(url: Secret) -> None:
        try:
            results.put(Connection(url))
        except psycopg.Error as error:
            results.put(error)
        if is_over.is_set():
            _close_all(results)

    db: Connection | None = None
    pending = 0
    failed: psycopg.Error = psycopg.errors.ConnectionTimeout(f"no connection in {seconds:g} seconds")
    try:
        for number, url in enumerate(server.hosts, 1):
            threading.Thread(target=attempt, args=(url,), daemon=True).start()
            pending += 1
            until = end if number == len(server.hosts) else SystemClock.monotonic() + _CONNECT / len(server.hosts)
            while pending and db is None and (left := until - SystemClock.monotonic()) > 0:
                with suppress(queue.Empty):
                    result = results.get(timeout=left)
                    pending -= 1
                    if isinstance(result, Connection):
                        db = result
                    else:
                        failed = result
            if db is not None:
                break
        else:
            raise failed
        check_version(server, db.pgconn.server_version)
        ((answer,),) = db.run([(BEGIN, (server.schema,))], max(0.0, end - SystemClock.monotonic()))
        check(server, answer)
    except BaseException:
        if db is not None:
            db.close()
        raise
    finally:
        is_over.set()
        _close_all(results)
    return db


def _close_all(results: queue.SimpleQueue[Connection | psycopg.Error]) -> None:
    """Close connections that came too late."""
    with suppress(queue.Empty):
        while True:
            result = results.get_nowait()
            if isinstance(result, Connection):
                result.close()
