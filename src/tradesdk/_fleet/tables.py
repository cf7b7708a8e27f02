"""The tables of a fleet: created together, and checked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing

from .._postgres.problems import by_state
from .._postgres.server import Server
from .._postgres.session import UNLIMITED
from .._values.row import Row
from ..errors import FleetError
from . import member, rate, signals
from .member import MemberLink, fleet_error

TABLES = (*member.TABLES, *rate.TABLES, *signals.TABLES)
MISSING = "SELECT name FROM unnest(?::text[]) AS name WHERE to_regclass(? || '.' || name) IS NULL"
# A new table or a restored dump has no statistics, so the server would read whole tables. Analyzing may take long.
_UNKNOWN = (
    "SELECT relname::text FROM pg_class WHERE relnamespace = to_regnamespace(?) AND relname = ANY(?) AND reltuples < 0"
)
_ANALYSIS = 600.0


def create(database: Server, more: Sequence[str]) -> bool:
    """Create the schema and all tables, and the tables in `more`, unless they exist. Returns whether it created any."""
    statements = [*more, *TABLES]
    names = names_of(statements)
    schema = f'"{database.schema}"'
    with closing(MemberLink(database)) as link:
        *_, missing, ((is_there,),) = link.run(
            ("BEGIN", ()),
            ("SELECT pg_advisory_xact_lock(hashtext('tradesdk ' || ?))", (database.schema,)),
            (MISSING, (names, schema)),
            ("SELECT to_regnamespace(?) IS NOT NULL", (schema,)),
        )
        if len(missing) == len(names):  # a new fleet
            if not is_there:
                statements.insert(0, f"CREATE SCHEMA {schema}")
            link.run(*((statement, ()) for statement in statements), ("COMMIT", ()))
            return True
        link.run(("COMMIT", ()))
        check(database, missing)
        (unknown,) = link.run((_UNKNOWN, (schema, names)))
    for (name,) in unknown:
        with closing(MemberLink(database)) as link:
            link.run((UNLIMITED, ()), (f"ANALYZE {name}", ()), patience=_ANALYSIS)
    return False


def names_of(statements: Sequence[str]) -> list[str]:
    """The names of the tables that statements create."""
    return [name for one in statements for name in re.findall(r"CREATE TABLE (\w+)", one)]


def check(database: Server, missing: Sequence[Row]) -> None:
    """Raise a `FleetError` if tables are missing."""
    if len(missing) >= len(names_of(TABLES)):
        raise fleet_error(by_state("42P01", database))
    if missing:
        lacks = ", ".join(name for (name,) in missing)
        what = f"{database.shown} lacks tables of tradesdk in its schema {database.schema}: {lacks}"
        raise FleetError(what, code="fleet_lost", hint="restore a backup")
