# Generated from src/tradesdk/_async/fleet/pinned_connection.py by scripts/unasync.py: change that file instead.
"""A connection that notices when the server is another process than before."""

from __future__ import annotations

from typing import Any

from ..._fleet.client import OpenSockets
from ..._fleet.streams import AnotherRun, run_id
from ...errors import FleetError
from .connection import FleetConnection


class PinnedConnection(FleetConnection):
    """A connection to one run of the server: nothing is sent to another one before `adopt` allows it.

    redis-py connects again by itself, and after a failover that is a server that may lack the last writes.
    """

    def __init__(self, url: str | None = None) -> None:
        super().__init__(url, on_connect=self._check)
        self.sockets = OpenSockets()
        self._run: str | None = None

    def run_of_server(self) -> str:
        """The id of the server's process.

        Raises:
            FleetError: the server cannot be asked.
            AnotherRun: it has changed.
        """
        if self._run is None:
            self.command("PING")  # connecting finds it out
        if self._run is None:  # a connection that was open before
            self.drop()
            self.command("PING")
        return self._run or ""

    def adopt(self) -> None:
        """Take the server as it is now."""
        self.drop()
        self._run = None

    def drop(self) -> None:
        """Close the connections that nobody uses; the next command opens one."""
        self._client.connection_pool.disconnect(inuse_connections=False)

    def _check(self, connection: Any) -> None:
        self.sockets.add(connection)
        connection.on_connect()
        connection.send_command("INFO", "server")
        try:
            found = run_id(connection.read_response())
        except FleetError:
            connection.disconnect()
            raise
        if self._run is None:
            self._run = found
        elif found != self._run:
            connection.disconnect()
            raise AnotherRun
