"""A blocking connection, which does not wait long for an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from .server import ANSWER, CHECK, Row, Server, check, check_version, numbered

_RAW: Any = psycopg.RawCursor  # parameters are $1, as the server has them
Statement = tuple[str, Sequence[object]]


class Connection(psycopg.Connection[Row]):
    """A connection whose statements are answered in time, or lost."""

    answer: float = ANSWER

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        try:
            return super().wait(gen, interval, timeout or self.answer)
        except psycopg.OperationalError as error:
            if error.sqlstate is None:  # nobody knows what it still does
                self.pgconn.finish()
            raise

    def run(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run statements in one round trip, and return their rows."""
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


def connect(server: Server, answer: float = ANSWER) -> Connection:
    """Connect, and check the server. From then on, `answer` is for how many seconds an answer is waited for.

    Raises:
        psycopg.Error: there is no connection.
        UnusableServerError: the server must not be used.
    """
    db = Connection.connect(server.url, autocommit=True, row_factory=_rows, cursor_factory=_RAW, prepare_threshold=2)
    try:
        check_version(server, db.info.server_version)
        check(server, db.execute(CHECK, [server.schema]).fetchone())
    except BaseException:
        db.close()
        raise
    db.answer = answer
    return db


def leave_behind(connection: Connection | None) -> None:
    """In the child of a fork: keep the parent's connection unused. Closing it would end it for the parent."""
    _LEFT_BEHIND.append(connection)


_LEFT_BEHIND: list[object] = []


def _rows(cursor: Any) -> Any:
    return Row
