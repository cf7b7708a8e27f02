"""The address of a PostgreSQL server."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from .._http.parts import loading
from .._values.frames import Secret
from .._values.text import printable
from ..errors import ConfigError

SCHEMA = "tradesdk"
_SCHEMA = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
_EXAMPLE = "postgresql://USER@HOST:5432/DATABASE"


@dataclass(frozen=True, slots=True)
class Server:
    """A schema in a database of a server.

    Attributes:
        hosts: how to connect to each host of the URL.
        schema: the schema.
        shown: its name in errors, without a password.
    """

    hosts: tuple[Secret, ...] = field(repr=False)
    schema: str
    shown: str


@loading()
def server(url: str | None = None, schema: str = SCHEMA) -> Server:
    """The server of a URL, by default `TRADE_FLEET`. A `ConfigError` says what is wrong with the URL."""
    try:
        from psycopg import Error
        from psycopg.conninfo import conninfo_to_dict, make_conninfo
    except ImportError:
        missing = 'a fleet needs a package that is not installed: pip install "psycopg[binary]>=3.3.6,<4"'
        raise ConfigError(missing, code="missing_package") from None
    name = "the URL of the fleet" if url is not None else "TRADE_FLEET"
    given = os.environ.get("TRADE_FLEET", "").strip() if url is None else url
    if not isinstance(given, str) or not given.startswith(("postgresql://", "postgres://")):
        what = f"{name} must be the URL of a PostgreSQL database, such as {_EXAMPLE}"
        raise ConfigError(what, code="invalid_fleet_url")
    if not isinstance(schema, str) or not _SCHEMA.fullmatch(schema):
        what = "schema must be 1 to 63 lowercase letters, digits and underscores, and not begin with pg_"
        raise ConfigError(what, hint=f"write schema={SCHEMA!r}, or leave it out")
    parts: dict[str, Any] | None = None
    with suppress(Error, UnicodeError):  # raised below: frames of this error contain the URL
        parts = conninfo_to_dict(Secret(given))
    # libpq takes a part of a password with `/` or `@` for one of these, and errors show them.
    is_clear = parts and re.fullmatch("[0-9,]*", str(parts.get("port", "")))
    if not parts or not is_clear or any("@" in str(parts.get(name, "")) for name in ("host", "dbname")):
        raise ConfigError(f"{name} cannot be read: it must look like {_EXAMPLE}", code="invalid_fleet_url")
    host = printable(str(parts.get("host", "localhost")), 100)
    address = f"{host}:{parts.get('port', 5432)}/{printable(str(parts.get('dbname', '')), 60)}"
    # The URL may set both. Without them, libpq would wait for minutes.
    options = {"connect_timeout": 2, "application_name": "tradesdk", **parts, "client_encoding": "UTF8"}
    hosts = tuple(Secret(make_conninfo("", **{**options, **each})) for each in _each_host(parts))
    return Server(hosts, schema, f"postgresql://{address}")


def _each_host(parts: dict[str, Any]) -> list[dict[str, str]]:
    """The parameters of each host of the URL. One port may be for all."""
    lists = {name: str(parts[name]).split(",") for name in ("host", "hostaddr", "port") if parts.get(name)}
    many = max((len(values) for name, values in lists.items() if name != "port"), default=1)
    return [{name: values[min(at, len(values) - 1)] for name, values in lists.items()} for at in range(many)]
