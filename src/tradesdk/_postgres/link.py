"""The connection of one part of a program to a server.

One thread at a time uses it: the one that holds `lock`. Statements that fail on an old connection are run once more, on
a new one: their response may have been lost, so they may run twice. Inside a transaction nothing is repeated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import psycopg
from psycopg.pq import TransactionStatus

from .._system import forks
from .._system.clock import SystemClock
from .._values.row import Row
from .connection import ANSWER, SILENCE, Connection, Statement, connect
from .problems import problem
from .server import Server

_of_parents: list[Connection | None] = []


class Link:
    """One connection, opened at first use, and again after it was lost. One thread at a time uses it, with `lock`.

    `began` is called with each new connection.
    """

    def __init__(self, server: Server, began: Callable[[Connection], object] = lambda _: None) -> None:
        self.server = server
        self._began = began
        self.db: Connection | None = None
        self.lock = threading.RLock()
        forks.bind(self)

    def forked(self) -> None:
        """In the child of a fork: forget the connection. Closing it would also end it for the parent."""
        self.lock = threading.RLock()
        _of_parents.append(self.db)
        self.db = None

    def ask(self, statements: Sequence[Statement], patience: float = ANSWER) -> list[list[Row]]:
        """Run statements in one round trip, all or none; once more, on a new connection, if an old one was lost.

        `patience`: seconds within which a new connection must respond. After an `UnusableServerError`, the statements
        may have run: the response may have been lost.
        """
        end = SystemClock.monotonic() + patience
        is_old = self.db is not None and not self.in_transaction  # in a transaction, the first half is lost too
        while True:
            try:
                if self.db is None:
                    self.db = connect(self.server, min(ANSWER, end - SystemClock.monotonic()))
                    self._began(self.db)
                return self.db.run(statements, SILENCE if is_old else max(0.1, end - SystemClock.monotonic()))
            except psycopg.Error as error:
                found = problem(error, self.server)
            except BaseException:  # its state is unknown
                self.close()
                raise
            self.close()
            if not (is_old and found.kind == "unreachable"):
                raise found  # outside of the handler: errors of psycopg may show what was to be written
            is_old = False

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction may be open."""
        return self.db is not None and self.db.pgconn.transaction_status != TransactionStatus.IDLE

    def close(self) -> None:
        """Close the connection, which ends its transaction. The next use opens another one."""
        with self.lock:
            db, self.db = self.db, None
            if db is not None:
                db.close()
