"""Blocking connections to a PostgreSQL server, which do not wait long for it."""

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
"""Seconds in which a server must answer, with connecting."""
SILENCE = 1.25
"""Seconds after which an old connection counts as lost: more than the one after which a server says that another
program has a lock."""
_CONNECT = 2.0
"""Seconds to connect, divided among the hosts of a URL."""


class SilentServerError(psycopg.OperationalError):
    """There was no answer in time."""


class _BigInt(Dumper):
    """Any int is a bigint. By psycopg's own way, its size would decide, and make another statement of it."""

    format, oid = Format.BINARY, 20

    def dump(self, obj: int) -> bytes:
        return obj.to_bytes(8, "big", signed=True)


class _Cursor(psycopg.RawCursor[Row]):
    """Of statements with PostgreSQL's own parameters."""


class Unprepared(str):
    """Text of a statement that is not prepared: behind a pooler, another program may have prepared another one by the
    same name. `session.NAME` in it stands for the name of the connection's session."""

    __slots__ = ()


class Connection(psycopg.Connection[Row]):
    """A connection whose statements are answered in time; or it is closed, and there is an error."""

    _silence = ANSWER
    session = ""
    """The name of its session, which no other connection has."""

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        """Of psycopg, which would wait without end."""
        found: T = super().wait(self._in_time(gen), *args, **options)
        return found

    def _in_time(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """The same generator, which ends with an error when the server was silent for too long."""
        ready = end = None
        try:
            while True:
                step = gen.send(ready)
                ready = yield step
                if ready:
                    end = None
                elif end is None:  # a tenth of a second is over, after which psycopg says that nothing is there
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
                        self.close()  # or the end of the pipeline would commit what is sent already
        except BaseException as error:
            self.close()
            raise _first(failed or error) from None
        return [[] if cursor.rownumber is None else cursor.fetchall() for cursor in cursors]

    def _send(self, text: str, values: Sequence[object]) -> psycopg.Cursor[Row]:
        is_prepared = not isinstance(text, Unprepared)
        query = numbered(text) if is_prepared else numbered(text).replace(NAME, self.session.encode())
        return self.execute(query, values, prepare=is_prepared, binary=True)


def _first(error: BaseException) -> BaseException:
    """What failed first: all after it in the pipeline fails because of that."""
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

    An error of psycopg, or an `UnusableServerError`.

    Each host is tried in a thread, as resolving its name may take any time; the next one soon after it.
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
    """Close what came too late."""
    with suppress(queue.Empty):
        while True:
            result = results.get_nowait()
            if isinstance(result, Connection):
                result.close()
