"""The settings of a session: set when it begins, and checked when money is written."""

from __future__ import annotations

from .._values.row import Row
from .problems import UnusableServerError, by_state
from .server import Server

OLDEST = 14
NAME = "{session}"
"""In a statement: the name of the connection's session."""

UNLIMITED = (
    "SELECT CASE WHEN current_setting('server_version_num')::int >= 170000 "
    "THEN set_config('transaction_timeout', '0', true) END"
)
"""A statement: the transaction may take long, whose limit is 10 s."""

# One round trip after connecting. An open transaction of a stopped program must not block all others.
BEGIN = (
    "SELECT set_config('search_path', $1, false), set_config('lock_timeout', '1s', false), "
    "set_config('idle_in_transaction_session_timeout', '5s', false), "
    # For a member that is cut off, or stops reading, in the middle of a round trip: it is not idle.
    "set_config('tcp_keepalives_idle', '3', false), set_config('tcp_keepalives_interval', '2', false), "
    "set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', '5s', false), "
    "CASE WHEN current_setting('server_version_num')::int >= 170000 "
    "THEN set_config('transaction_timeout', '10s', false) END, "
    "set_config('TimeZone', 'UTC', false), set_config('default_transaction_isolation', 'read committed', false), "
    f"set_config('tradesdk.session', '{NAME}', false), "
    "current_setting('server_encoding'), pg_is_in_recovery(), "
    "to_regnamespace($1) IS NULL OR has_schema_privilege(to_regnamespace($1), 'USAGE'), "
    "current_setting('fsync'), current_setting('synchronous_commit')"
)


def is_ours(schema: str) -> str:
    """A condition: the session is the one that the connection began, and what it commits is on disk.

    A reload may have changed the settings since, and a pooler may give each transaction another session.
    """
    return (
        "current_setting('fsync') = 'on' AND current_setting('synchronous_commit') <> 'off' "
        f"AND current_schema() = '{schema}' AND current_setting('tradesdk.session', true) = '{NAME}'"
    )


def check_version(database: Server, version: int) -> None:
    if version < OLDEST * 10_000:
        what = f"{database.shown} is PostgreSQL {version // 10_000}, and a fleet needs {OLDEST} or newer"
        raise UnusableServerError("version", what, "upgrade that server, or set another URL")


def check(database: Server, answer: Row) -> None:
    """Check the row of `BEGIN`: whether the server can be trusted with payments."""
    *_, encoding, in_recovery, may_use, fsync, synchronous = answer
    if in_recovery:
        raise by_state("25006", database)
    for setting, value in (("fsync", fsync), ("synchronous_commit", synchronous)):
        if value == "off":
            what = f"{database.shown} has {setting} = off, so it may lose payments that it acknowledged"
            how = "ALTER SYSTEM SET fsync = on, and reload it" if setting == "fsync" else "remove that setting"
            raise UnusableServerError("not_durable", what, f"set {setting} = on at the server: {how}")
    if encoding != "UTF8":
        what = f"{database.shown} is a database in {encoding}, and a fleet needs UTF8"
        how = "create one: CREATE DATABASE fleet ENCODING 'UTF8' TEMPLATE template0"
        raise UnusableServerError("encoding", what, how)
    if not may_use:
        raise by_state("42501", database, f"this user may not use the schema {database.schema}")
