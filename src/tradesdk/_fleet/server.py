"""A PostgreSQL server: where it is, what it must be, and what its errors mean."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from .._http.parts import loading
from .._values.hints import HINTS
from .._values.text import printable
from ..errors import ConfigError, ErrorCode, FleetError

if TYPE_CHECKING:
    import psycopg

SCHEMA = "tradesdk"
OLDEST = 14
ANSWER = 2.5
"""Seconds in which a server must answer: more than the second after which it says that another one has a lock."""
CONNECT = 2.0
"""Seconds to connect, divided among the hosts of a URL."""
_SCHEMA = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
_EXAMPLE = "postgresql://USER@HOST:5432/DATABASE"

Kind = Literal[
    "unreachable",
    "denied",
    "not_durable",
    "version",
    "encoding",
    "read_only",
    "lost",
    "locked",
    "stale",
    "refused",
    "failed",
]
"""The second half of an error's code: `ledger_…` of a ledger, `fleet_…` otherwise."""


class Row(tuple[Any, ...]):
    """A row. It may hold a signed payment, so its `repr`, which tracebacks may show, hides it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<row>"


class Secret(str):
    """Text with a password. Its `repr`, which tracebacks may show, hides it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'****'"


class UnusableServerError(Exception):
    """A server that does not answer, refuses, or must not be used: what is wrong, and what to do."""

    def __init__(self, kind: Kind, what: str, hint: str) -> None:
        super().__init__(what)
        self.kind: Kind = kind
        self.what = what
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Server:
    """A schema in a database of a server."""

    url: Secret = field(repr=False)
    schema: str
    shown: str
    """Its name in errors, without a password."""
    hosts: int
    """How many there are in the URL."""


@loading()
def server(url: str | None = None, schema: str = SCHEMA) -> Server:
    """The server of a URL, by default `TRADE_FLEET`. A `ConfigError` says what is wrong with that."""
    try:
        from psycopg import Error
        from psycopg.conninfo import conninfo_to_dict, make_conninfo
    except ImportError:
        missing = 'a fleet needs a package that is not installed: pip install "psycopg[binary]>=3.3.6,<3.4"'
        raise ConfigError(missing, code="missing_package") from None
    name = "the URL of the fleet" if url is not None else "TRADE_FLEET"
    given = os.environ.get("TRADE_FLEET", "").strip() if url is None else url
    if not isinstance(given, str) or not given.startswith(("postgresql://", "postgres://")):
        what = f"{name} must be the URL of a PostgreSQL database, such as {_EXAMPLE}"
        raise ConfigError(what, code="invalid_fleet_url")
    if not isinstance(schema, str) or not _SCHEMA.fullmatch(schema):
        what = (
            "schema must be 1 to 63 lowercase letters, digits and underscores, such as tradesdk, and not begin with pg_"
        )
        raise ConfigError(what, code="invalid_setting")
    parts: dict[str, Any] | None = None
    with suppress(Error, UnicodeError):  # raised below: frames of this error have the URL
        parts = conninfo_to_dict(Secret(given))
    # libpq takes a part of a password with `/` or `@` for one of these, and they are shown.
    is_clear = parts and re.fullmatch("[0-9,]*", str(parts.get("port", "")))
    if not parts or not is_clear or any("@" in str(parts.get(name, "")) for name in ("host", "dbname")):
        raise ConfigError(f"{name} cannot be read: it must look like {_EXAMPLE}", code="invalid_fleet_url")
    host = printable(str(parts.get("host", "localhost")), 100)
    place = f"{host}:{parts.get('port', 5432)}/{printable(str(parts.get('dbname', '')), 60)}"
    # Both can be set in the URL, too; libpq would wait for minutes.
    options = {"connect_timeout": 2, "application_name": "tradesdk", **parts, "client_encoding": "UTF8"}
    hosts = str(parts.get("hostaddr") or parts.get("host", "")).count(",") + 1
    return Server(Secret(make_conninfo("", **options)), schema, f"postgresql://{place}", hosts)


# One round trip after connecting. A transaction that is left open (its program is stopped) must not block all others.
CHECK = (
    "SELECT set_config('search_path', $1, false), set_config('lock_timeout', '1s', false), "
    "set_config('idle_in_transaction_session_timeout', '5s', false), "
    # A member that is cut off in the middle of a round trip is not idle. PostgreSQL 17 has a time for that.
    "set_config('tcp_keepalives_idle', '3', false), set_config('tcp_keepalives_interval', '2', false), "
    "set_config('tcp_keepalives_count', '3', false), CASE WHEN current_setting('server_version_num')::int >= 170000 "
    "THEN set_config('transaction_timeout', '10s', false) END, "
    "set_config('TimeZone', 'UTC', false), set_config('default_transaction_isolation', 'read committed', false), "
    # Every question has its index. A new table has no statistics: the planner would read all of it.
    # Before PostgreSQL 18, a plan that must read all of a table then seems so dear that it is compiled: for a second.
    "set_config('enable_seqscan', 'off', false), set_config('jit', 'off', false), "
    "current_setting('fsync'), current_setting('synchronous_commit'), current_setting('server_encoding'), "
    "pg_is_in_recovery(), "
    "to_regnamespace($1) IS NULL OR has_schema_privilege(to_regnamespace($1), 'USAGE')"
)


def check_version(place: Server, version: int) -> None:
    if version < OLDEST * 10_000:
        what = f"{place.shown} is PostgreSQL {version // 10_000}, and a fleet needs {OLDEST} or newer"
        raise UnusableServerError("version", what, "upgrade that server, or set another URL")


def check(place: Server, answer: Row) -> None:
    """Check an answer to `CHECK`: whether money may be entrusted to that server."""
    *_, fsync, synchronous, encoding, in_recovery, may_use = answer
    if in_recovery:
        raise _by_state("25006", place)
    for setting, value in (("fsync", fsync), ("synchronous_commit", synchronous)):
        if value == "off":
            what = f"{place.shown} has {setting} = off, so it may lose payments that it acknowledged"
            how = "ALTER SYSTEM SET fsync = on, and reload it" if setting == "fsync" else "remove that setting"
            raise UnusableServerError("not_durable", what, f"set {setting} = on at the server: {how}")
    if encoding != "UTF8":
        what = f"{place.shown} is a database in {encoding}, and a fleet needs UTF8"
        how = "create one: CREATE DATABASE fleet ENCODING 'UTF8' TEMPLATE template0"
        raise UnusableServerError("encoding", what, how)
    if not may_use:
        raise _by_state("42501", place, f"this user may not use the schema {place.schema}")


def problem(error: psycopg.Error, place: Server) -> UnusableServerError:
    """What an error of psycopg means. Only the server's first line is shown: others may have what was to be written."""
    from psycopg import OperationalError

    state = error.sqlstate or ""
    said = printable((error.diag.message_primary or str(error)).partition("\n")[0], 200)
    for known in (state, state[:2]):
        if known in _STATES:
            return _by_state(known, place, said)
    if state or not isinstance(error, OperationalError):
        what = f"{place.shown} failed: {said}" + (f" ({state})" if state else "")
        return UnusableServerError("failed", what, "see the log of that server")
    # A refusal to connect has no code, only text.
    refused = any(word in said for word in _REFUSED) and not any(word in said for word in _PASSES)
    return _by_state("28" if refused else "08", place, said)


_REFUSED = ("FATAL", "no password supplied", "SSL was required")
_PASSES = "starting up", "shutting down", "terminating", "recovery", "not yet accepting", "connection slots", "too many"
_UNREACHABLE: tuple[Kind, str, str] = (
    "unreachable",
    "{shown} does not answer: {said}",
    "check that the server runs and can be reached from here, and make the call again",
)
_DENIED: tuple[Kind, str, str] = (
    "denied",
    "{shown} refuses: {said}",
    "check user, password and database; docs/fleet.md has the rights",
)
_LOST: tuple[Kind, str, str] = (
    "lost",
    "{shown} has no tables of tradesdk in its schema {schema}",
    HINTS["fleet_lost"],
)
_REFUSED_ROW: tuple[Kind, str, str] = ("refused", "{shown} failed: {said}", "see the log of that server")
_STATES: dict[str, tuple[Kind, str, str]] = {
    "08": _UNREACHABLE,
    "57": _UNREACHABLE,  # it is shut down or starts
    "25P03": _UNREACHABLE,
    "53300": ("unreachable", "{shown} has no free connection", "raise max_connections of that server"),
    "28": _DENIED,
    "3D000": _DENIED,
    "42501": _DENIED,
    "42P01": _LOST,
    "42703": _LOST,
    "3F000": _LOST,
    "25006": (
        "read_only",
        "{shown} is read-only, such as a standby",
        "use the URL of the primary, or add ?target_session_attrs=read-write with all hosts",
    ),
    "53100": ("failed", "{shown}: no space is left on its disk", "free space on the disk of that server"),
    "22": _REFUSED_ROW,
    "23": _REFUSED_ROW,
    "54": _REFUSED_ROW,
    "55P03": ("locked", "{shown} is locked by another program", "try again in a moment"),
    "40": ("locked", "{shown} is busy: {said}", "try again in a moment"),
    "22012": ("stale", "{shown} has a row that was changed meanwhile", "make the call again"),
}


def _by_state(state: str, place: Server, said: str = "") -> UnusableServerError:
    kind, what, hint = _STATES[state]
    return UnusableServerError(kind, what.format(shown=place.shown, schema=place.schema, said=said), hint)


def fleet_error(found: UnusableServerError) -> FleetError:
    """The error of a part of the fleet that is no ledger."""
    return FleetError(found.what, code=_CODES.get(found.kind, "fleet_unusable"), hint=found.hint)


_CODES: dict[Kind, ErrorCode] = {
    "unreachable": "fleet_unreachable",
    "denied": "fleet_denied",
    "lost": "fleet_lost",
    "locked": "fleet_failed",
    "refused": "fleet_failed",
    "failed": "fleet_failed",
}


@cache
def numbered(statement: str) -> bytes:
    """A statement with PostgreSQL's parameters: `$1` for the first `?`."""
    first, *rest = statement.split("?")
    return (first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))).encode()
