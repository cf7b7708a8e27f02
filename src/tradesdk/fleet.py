"""Many machines with one wallet, one API key and one stream of signals, on PostgreSQL.

Needs the extra `fleet`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._async.fleet_rate_limiter import AsyncFleetRateLimiter
from ._async.fleet_relay import AsyncFleetRelay
from ._async.fleet_signals import AsyncFleetSignals
from ._postgres.server import SCHEMA, server
from ._sync.fleet_rate_limiter import FleetRateLimiter
from ._sync.fleet_relay import FleetRelay
from ._sync.fleet_signals import FleetSignals
from ._values.frames import hides_locals
from .models.stream import FleetSignal

if TYPE_CHECKING:
    from ._fleet.status import FleetStatus

__all__ = [
    "AsyncFleetRateLimiter",
    "AsyncFleetRelay",
    "AsyncFleetSignals",
    "FleetRateLimiter",
    "FleetRelay",
    "FleetSignal",
    "FleetSignals",
    "create_tables",
    "status",
]


@hides_locals
def create_tables(url: str | None = None, *, schema: str = SCHEMA) -> bool:
    """Create the tables of a fleet, unless they exist. Returns whether it created any.

    Its user needs the right to create a schema in the database, or must own the schema. Existing tables are checked,
    and analyzed if they were restored.

    Args:
        url: `postgresql://USER@HOST/DATABASE`; by default `TRADE_FLEET`.
        schema: the schema that holds the tables; it is created if it is missing.

    Raises:
        ConfigError: the URL or the schema cannot be used, or psycopg is not installed.
        FleetError: the server cannot be used, or some tables are missing.
        LedgerError: the tables of the ledger are empty although there were payments, or are of another release.
    """
    database = server(url, schema)
    from ._fleet.tables import create
    from .payments.ledger.postgres import tables
    from .payments.ledger.store import Ledger

    made = create(database, list(tables()))
    if not made:
        with Ledger.postgres(url, schema=schema) as ledger:
            ledger.history(limit=1)
    return made


@hides_locals
def status(url: str | None = None, *, schema: str = SCHEMA) -> FleetStatus:
    """The relays, groups and members of a fleet, how far each has read, and what is left of each rate limit.

    Parts that the user of the URL may not read are in `unread`. For money: `Ledger.postgres().spending()`.

    Args:
        url: `postgresql://USER@HOST/DATABASE`; by default `TRADE_FLEET`.
        schema: the schema that holds the tables.

    Raises:
        ConfigError: the URL or the schema cannot be used, or psycopg is not installed.
        FleetError: the server cannot be used, or has no tables.
    """
    database = server(url, schema)
    from ._fleet.status import status

    return status(database)
