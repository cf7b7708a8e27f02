# Generated from src/tradesdk/_async/fleet_relay.py by scripts/unasync.py: change that file instead.
"""The relay of a fleet's signals.

`run` has two states: it waits for the lease (`_take_turns`), or has it and stores signals (`_lead`). While it has the
lease, `repeated` renews it in another thread every third of its time; if that fails, the stream is closed, which ends
`_lead`.

Who may write: only the relay with the lease. The database checks that with each write, so a relay that lost the lease
without noticing writes nothing: `LeaseLostError` ends its turn, and it waits again. An error of the database or of the
service ends `run`. The lease is released when `run` ends, also when it is canceled.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from .._fleet.bodies import LeaseLostError, storable
from .._http import settings
from .._http.arguments import chain as checked_chain
from .._http.arguments import seconds
from .._http.log_events import event
from .._postgres.server import SCHEMA, server
from .._system.clock import SystemClock
from .._values.frames import hides_locals
from ..errors import FleetError, TradeError
from ..models.stream import Gap, StreamSignal
from .base_client import Connected
from .client import TradeClient
from .concurrency import Interrupted, Interruptible, repeated, require_asyncio


class FleetRelay(Connected):
    """Stores the live signals of a chain for the members of a fleet, in PostgreSQL.

    Run it on two machines or more: one has the lease and works, the others wait. When it ends, another one takes over
    within a third of the lease; after a crash, when the lease has ended. Signals that the service publishes meanwhile
    are not lost: the next relay reads them from the history. What cannot be recovered is stored as a `Gap`.

    Args:
        client: the client for the service.
        chain: 8453 (Base) or 56 (BNB Chain).
        url: `postgresql://USER@HOST/DATABASE`; by default `TRADE_FLEET`.
        schema: the schema that holds the tables.
        lease: seconds without a renewal, by the server's clock, after which another relay takes over.
        keep: seconds that signals are kept.

    Raises:
        InvalidArgumentError: an argument was refused.
        ConfigError: the URL or the schema cannot be used, or psycopg is not installed.

    Example:
        ```python
        with TradeClient() as trade, FleetRelay(trade, chain=8453) as relay:
            relay.run()
        ```
    """

    @hides_locals
    def __init__(
        self,
        client: TradeClient,
        *,
        chain: int,
        url: str | None = None,
        schema: str = SCHEMA,
        lease: float = 15.0,
        keep: float = 7 * 86_400.0,
    ) -> None:
        settings.instance("client", client, TradeClient, "an TradeClient")
        self.chain = checked_chain("chain", chain)
        lease, keep = seconds("lease", lease, least=0.1, most=3600), seconds("keep", keep, least=3600)
        database = server(url, schema)
        from .._fleet.signals import Relay  # needs psycopg, an extra

        self._client = client
        self._relay = Relay(database, self.chain, client.base_url, lease=lease, keep=keep)
        self._lease = lease
        self._interruptible = Interruptible()

    def run(self) -> None:
        """Wait for the lease and store signals, until it is closed.

        Raises:
            FleetError: the server cannot be used.
            APIError: the service refuses the stream; as `signals.stream`.
        """
        with suppress(Interrupted):
            self._interruptible.run(self._run)

    def _run(self) -> None:
        require_asyncio("a relay")
        try:
            self._take_turns()
        finally:
            self._leave()

    def _take_turns(self) -> None:
        clock, waits = SystemClock(), False
        while not self._interruptible.shut:
            wait = self._relay.take(self._client._session.clock.now())
            if not wait:
                waits = False
                self._lead()
                continue
            if not waits:
                waits = True
                text = "another relay has the lease of chain %(chain)d; this one waits"
                event("fleet_relay_waits", text, level=logging.INFO, chain=self.chain)
            self._interruptible.sleep(clock, wait)

    def _lead(self) -> None:
        event("fleet_relay_leads", "this relay has the lease of chain %(chain)d", level=logging.INFO, chain=self.chain)
        stream = self._client.signals.stream(chain=self.chain, since=self._relay.since, reports=True)
        self._interruptible.watch(stream)
        try:
            with repeated(self._relay.renew, self._lease / 3, stream.close), stream:
                for item in stream:
                    if isinstance(item, StreamSignal | Gap) and (found := storable(item)) is not None:
                        self._relay.add(found)
            if not self._interruptible.shut:
                raise TradeError("the stream of signals was closed")
        except LeaseLostError:
            text = "the lease of chain %(chain)d is lost: another relay took it, or the connection was lost"
            event("fleet_relay_lost", text, chain=self.chain)
        finally:
            self._interruptible.watch(None)

    def _leave(self) -> None:
        try:
            self._relay.release()
        except FleetError:
            pass  # the lease ends by itself
        finally:
            self._relay.link.close()

    def close(self) -> None:
        """End `run`, from any task; another relay takes over soon. Closing again does nothing."""
        if self._interruptible.close():
            self._leave()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of chain {self.chain}>"
