"""Members of a fleet: their names, when they were last seen, and their connection."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Callable

from .._postgres.connection import ANSWER, Connection, Statement
from .._postgres.link import Link
from .._postgres.problems import Kind, UnusableServerError
from .._postgres.server import Server
from .._values.row import Row
from .._values.text import printable
from ..errors import ErrorCode, FleetError

TABLES = (
    # The last hour: who uses a key, a group or a lease, by the server's time.
    "CREATE TABLE members (key TEXT, member TEXT, seen TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(), "
    "PRIMARY KEY (key, member))",
)
SEEN = """
    WITH gone AS (DELETE FROM members WHERE seen < clock_timestamp() - interval '1 hour' AND member <> $2)
    INSERT INTO members VALUES ($1, $2) ON CONFLICT (key, member) DO UPDATE SET seen = excluded.seen
"""
LEFT = "DELETE FROM members WHERE member = $1"

_CODES: dict[Kind, ErrorCode] = {
    "unreachable": "fleet_unreachable",
    "denied": "fleet_denied",
    "lost": "fleet_lost",
    "locked": "fleet_failed",
    "refused": "fleet_failed",
    "failed": "fleet_failed",
}


def fleet_error(found: UnusableServerError) -> FleetError:
    """The error of a part of the fleet other than the ledger."""
    return FleetError(found.what, code=_CODES.get(found.kind, "fleet_unusable"), hint=found.hint)


def member_name() -> str:
    """A name that no other member has; it shows people the machine and the process."""
    return f"{printable(socket.gethostname(), 60)}/{os.getpid()}/{secrets.token_hex(4)}"


class MemberLink(Link):
    """The connection of a member."""

    def __init__(self, server: Server, began: Callable[[Connection], object] = lambda _: None) -> None:
        super().__init__(server, began)
        self.member = member_name()
        self._inside: int | None = None
        self._after: Callable[[], object] | None = None

    def forked(self) -> None:
        super().forked()
        self._inside, self._after = None, None
        self.member = member_name()

    def run(self, *statements: Statement, patience: float = ANSWER) -> list[list[Row]]:
        """Run statements as `ask` does, one thread at a time. Raises `FleetError`."""
        with self.lock:
            self._inside = threading.get_ident()
            try:
                return self.ask(statements, patience)
            except UnusableServerError as error:
                found = error
            finally:
                self._inside = None
                after, self._after = self._after, None
                if after is not None:
                    after()
        raise fleet_error(found)

    def end(self, step: Callable[[], object]) -> None:
        """Run a last step: now, or, in a signal handler that interrupted `run`, after `run`, as it would block."""
        if self._inside == threading.get_ident():
            self._after = step
        else:
            step()
