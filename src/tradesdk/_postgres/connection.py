"""Blocking connections to a PostgreSQL server, in which no wait is unlimited.

psycopg runs a generator that yields when it waits for the socket. `Connection.wait` runs it inside `_in_time`, which
ends it when the server has sent nothing for too long. After any error the connection is closed, so that no statement
ever runs on one in an unknown state.
"""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Generator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

from .._system.clock import SystemClock
from .._values.row import Row
from .server import Secret, Server
from .session import BEGIN, NAME, check, check_version

T = TypeVar("T")

Statement = tuple[str, Sequence[object]]

ANSWER = 2.5
"""Seconds within which a server must respond, including the connection."""
SILENCE = 1.25
"""Seconds of silence after which an old connection counts as lost. It is more than `lock_timeout`, after which a server
says that another program has a lock.
"""
_CONNECT = 2.0
"""Seconds to connect, divided among the hosts of a URL."""


class SilentServerError(psycopg.OperationalError):
    """The server did not respond in time."""


class _BigInt(Dumper):
    """Sends every int as a bigint. psycopg would choose by the size, which makes another prepared statement."""

    format, oid = Format.BINARY, 20

    def dump(self, obj: int) -> bytes:
        return obj.to_bytes(8, "big", signed=True)


class _Cursor(psycopg.RawCursor[Row]):
    """A cursor for statements with PostgreSQL's own parameters."""


class Unprepared(str):
    """Text of a statement that is not prepared: behind a pooler, another program may have prepared a different one with
    the same name. `session.NAME` in it stands for the name of the connection's session.
    """

    __slots__ = ()


class Connection(psycopg.Connection[Row]):
    """A connection whose statements end in time; otherwise it is closed, and an error is raised."""

    _silence = ANSWER
    session = ""
    """The name of its session, which no other connection has."""

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        """Run a generator of psycopg, which alone would wait without limit."""
        found: T = super().wait(self._in_time(gen), *args, **options)
        return found

    def _in_time(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """The same generator; it raises an error when the server was silent for too long."""
        ready = end = None
        try:
            while True:
                step = gen.send(ready)
                ready = yield step
                if ready:
                    end = None
                elif end is None:  # psycopg reports that after a tenth of a second
                    end = SystemClock.monotonic() + self._silence - 0.1
                elif SystemClock.monotonic() >= end:
                    self.close()
                    raise SilentServerError(f"it said nothing for {self._silence:.3g} seconds")
        except StopIteration as done:
            found: T = done.value
            return found

    def run(self, statements: Sequence[Statement], silence: float = ANSWER) -> list[list[Row]]:
        """Run statements in one round trip, all or none, and return their rows. After an error it is closed.

        Rows and parameters are binary: no setting of the server changes how they read.
        """
        self._silence = silence
        failed: BaseException | None = None
        cursors: list[psycopg.Cursor[Row]] = []
        try:
            if len(statements) == 1:
                cursors.append(self._send(*statements[0]))
            else:
                with self.pipeline():
                    try:
                        cursors += [self._send(*statement) for statement in statements]
                    except BaseException as error:
                        failed = error
                        self.close()  # or the end of the pipeline would commit what was sent
        except BaseException as error:
            self.close()
            raise _first(failed or error) from None
        return [[] if cursor.rownumber is None else cursor.fetchall() for cursor in cursors]

    def _send(self, text: str, values: Sequence[object]) -> psycopg.Cursor[Row]:
        is_prepared = not isinstance(text, Unprepared)
        query = numbered(text) if is_prepared else numbered(text).replace(NAME, self.session.encode())
        return self.execute(query, values, prepare=is_prepared, binary=True)


def _first(error: BaseException) -> BaseException:
    """The first failure: the errors after it in the pipeline are its consequences."""
    while isinstance(error, psycopg.errors.PipelineAborted) and isinstance(error.__context__, psycopg.Error):
        error = error.__context__
    return error


@cache
def numbered(statement: str) -> bytes:
    """A statement with PostgreSQL's parameters: `$1` for the first `?`."""
    first, *rest = statement.split("?")
    return (first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))).encode()


def connect(server: Server, seconds: float = ANSWER) -> Connection:
    """Connect, give the session a name, and check the server.

    Raises an error of psycopg, or an `UnusableServerError`.

    Each host is tried in a thread, as resolving its name may take any time; the next host starts soon after.
    """
    end = SystemClock.monotonic() + seconds
    results: queue.SimpleQueue[Connection | psycopg.Error] = queue.SimpleQueue()
    is_over = threading.Event()

    def attempt(url: Secret) -> None:
        try:
            made = Connection.connect(url, autocommit=True, cursor_factory=_Cursor, row_factory=_to_rows)
            made.adapters.register_dumper(int, _BigInt)
            results.put(made)
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
        check_version(server, db.info.server_version)
        db.session = secrets.token_hex(8)
        # Behind a pooler, another program may have prepared statements by our names in it.
        begin = (Unprepared("DEALLOCATE ALL"), ()), (Unprepared(BEGIN), (server.schema, db.session))
        _, (answer,) = db.run(begin, max(0.0, end - SystemClock.monotonic()))
        check(server, answer)
    except BaseException:
        if db is not None:
            db.close()
        raise
    finally:
        is_over.set()
        _close_all(results)
    return db


def _to_rows(_: object) -> type[Row]:
    return Row


def _close_all(results: queue.SimpleQueue[Connection | psycopg.Error]) -> None:
    """Close connections that came too late."""
    with suppress(queue.Empty):
        while True:
            result = results.get_nowait()
            if isinstance(result, Connection):
                result.close()
