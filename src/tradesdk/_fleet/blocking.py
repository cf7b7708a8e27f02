"""A blocking connection, which waits for no answer longer than `ANSWER` seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from .server import ANSWER, CHECK, Row, Server, check, check_version, numbered

Statement = tuple[str, Sequence[object]]


class Connection(psycopg.Connection[Row]):
    """A connection whose statements are answered in time, or lost."""

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = ANSWER) -> Any:
        try:
            return super().wait(gen, interval, timeout)
        except psycopg.OperationalError as error:
            if error.sqlstate is None:  # nobody knows what it still does
                self.pgconn.finish()
            raise

    def run(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run statements in one round trip, and return their rows."""
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
    """Connect, and check the server.

    Raises:
        psycopg.Error: there is no connection.
        UnusableServerError: the server must not be used.
    """
    db = Connection.connect(
        server.url, autocommit=True, row_factory=_rows, cursor_factory=psycopg.RawCursor, prepare_threshold=2
    )
    try:
        check_version(server, db.info.server_version)
        check(server, db.execute(CHECK, [server.schema]).fetchone())
    except BaseException:
        db.close()
        raise
    return db


def _rows(cursor: Any) -> Any:
    return Row
