"""What a server's errors mean, by their SQLSTATE: their texts may be in any language."""

from __future__ import annotations

from typing import Literal

import psycopg

from .._values.hints import HINTS
from .._values.text import printable
from .server import Server

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
"""The second half of an error's code: `ledger_…` for a ledger, else `fleet_…`."""


class UnusableServerError(Exception):
    """A server that does not respond, refuses, or must not be used: what is wrong, and what to do."""

    def __init__(self, kind: Kind, what: str, hint: str) -> None:
        super().__init__(what)
        self.kind: Kind = kind
        self.what = what
        self.hint = hint


def problem(error: psycopg.Error, database: Server) -> UnusableServerError:
    """What an error of psycopg means. Only the server's first line is shown: others may contain what was written."""
    state = error.sqlstate or ""
    text = printable(str(error).partition("\n")[0], 200)
    for known in (state, state[:2]):
        if known in _STATES:
            return by_state(known, database, text)
    if state or not isinstance(error, psycopg.OperationalError):
        what = f"{database.shown} failed: {text}" + (f" ({state})" if state else "")
        return UnusableServerError("failed", what, "see the log of that server")
    # A refused connection has no SQLSTATE. If its text is unknown, the server may be starting.
    return by_state("28" if any(word in text for word in _REFUSED) else "08", database, text)


_REFUSED = (
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "pg_hba.conf rejects",
    'role "',
    'database "',
    "permission denied",
    # Texts of libpq and OpenSSL, which are always English.
    "certificate",
    "SSL was required",
)
_UNREACHABLE: tuple[Kind, str, str] = (
    "unreachable",
    "{shown} does not answer: {text}",
    "check that the server runs and can be reached from here, and make the call again",
)
_DENIED: tuple[Kind, str, str] = (
    "denied",
    "{shown} refuses: {text}",
    "check user, password, database and certificates; docs/fleet.md has the rights",
)
_LOST: tuple[Kind, str, str] = (
    "lost",
    "{shown} has no tables of tradesdk in its schema {schema}",
    HINTS["fleet_lost"],
)
_POOLED = "{shown} gives each transaction another session, as a pooler does", "use the URL of the database itself"
_REFUSED_ROW: tuple[Kind, str, str] = ("refused", "{shown} failed: {text}", "see the log of that server")
_STATES: dict[str, tuple[Kind, str, str]] = {
    "08": _UNREACHABLE,
    "57": _UNREACHABLE,  # it is shutting down or starting
    "25P03": _UNREACHABLE,
    "25P04": _UNREACHABLE,
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
    "40": ("locked", "{shown} is busy: {text}", "try again in a moment"),
    "22012": ("stale", "{shown} has a row that was changed meanwhile", "make the call again"),
    "26000": ("stale", *_POOLED),  # the session has no such prepared statement
    "pooled": ("denied", *_POOLED),
}


def by_state(state: str, database: Server, text: str = "") -> UnusableServerError:
    kind, what, hint = _STATES[state]
    return UnusableServerError(kind, what.format(shown=database.shown, schema=database.schema, text=text), hint)
