"""Many machines with one wallet and one API key, on PostgreSQL. Needs `pip install 'tradesdk[fleet]'`."""

from __future__ import annotations

from ._async.fleet_rate_limiter import AsyncFleetRateLimiter
from ._fleet.server import SCHEMA, UnusableServerError, fleet_error, problem, server
from ._sync.fleet_rate_limiter import FleetRateLimiter

__all__ = ["AsyncFleetRateLimiter", "FleetRateLimiter", "create_tables"]


def create_tables(url: str | None = None, *, schema: str = SCHEMA) -> bool:
    """Create the tables of a fleet, unless they are there. Returns whether it did.

    Its user needs the right to create a schema in the database, or must own the schema.

    Args:
        url: `postgresql://USER@HOST/DATABASE`; by default `TRADE_FLEET`.
        schema: the schema that holds the tables; it is created if it is missing.

    Raises:
        ConfigError: the URL or the schema cannot be used, or psycopg is not installed.
        FleetError: the server cannot be used.
    """
    place = server(url, schema)
    from psycopg import Error

    from .payments.ledger.postgres import create

    try:
        return create(place)
    except UnusableServerError as error:
        found = error.problem
    except Error as error:
        found = problem(error, place)
    raise fleet_error(found)
