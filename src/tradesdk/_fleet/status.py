"""The state of a fleet, as its server shows it: who is there, and how far each has read."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from .._postgres.server import Server
from .._system.clock import SystemClock
from ..errors import FleetError
from .member import MemberLink
from .tables import MISSING, TABLES, check, names_of


@dataclass(frozen=True, slots=True)
class RelayStatus:
    """The relay of a chain.

    Attributes:
        chain: 8453 or 56.
        service: where its signals come from.
        holder: who has the lease, or had it last: host, process and a random part.
        is_working: whether the lease is in force.
        signals: how many signals are stored.
        newest: time of the newest one, by the service.
    """

    chain: int
    service: str
    holder: str
    is_working: bool
    signals: int
    newest: datetime | None


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group of members.

    Attributes:
        chain: 8453 or 56.
        service: where its signals come from.
        name: its name.
        waiting: signals that no member has yet.
        in_hand: signals that a member has, within its lease.
        late: signals whose member let its lease end: they are delivered again.
        oldest: time of the oldest signal that is not done.
        position: time of the newest signal that the group has reached.
    """

    chain: int
    service: str
    name: str
    waiting: int
    in_hand: int
    late: int
    oldest: datetime | None
    position: datetime | None


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """A member that was seen in the last minute.

    Attributes:
        name: host, process and a random part.
        uses: `signals/CHAIN/GROUP`, `signals/CHAIN`, `relay/CHAIN` or `rate`.
        seen: seconds since it was last seen.
    """

    name: str
    uses: str
    seen: float


@dataclass(frozen=True, slots=True)
class WindowStatus:
    """The rate limit of an API key.

    Attributes:
        key: a fingerprint of the key.
        limit: requests per minute, as the service says.
        remaining: requests left until `resets`; None if unknown.
        resets: when the limit starts again.
    """

    key: str
    limit: int | None
    remaining: int | None
    resets: datetime | None


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """A fleet, as far as its user may read it.

    Attributes:
        server: the server's name, without user and password.
        version: of PostgreSQL, such as `18.1`.
        ahead: seconds that its clock is ahead of this machine's.
        unread: what this user may not read, and what the server says to that: by `relays`, `groups`, and so on.
    """

    server: str
    version: str
    ahead: float
    relays: tuple[RelayStatus, ...] = ()
    groups: tuple[GroupStatus, ...] = ()
    members: tuple[MemberStatus, ...] = ()
    windows: tuple[WindowStatus, ...] = ()
    unread: dict[str, str] = field(default_factory=dict)


_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8, split_part(current_setting('server_version'), ' ', 1)"
# Each part: its statement, and how a row is read.
_PARTS = {
    "relays": (
        RelayStatus,
        """
        SELECT split_part(source, ' ', 1)::bigint, split_part(source, ' ', 2), holder, until > clock_timestamp(),
            (SELECT count(*) FROM signals s WHERE s.source = r.source),
            (SELECT to_timestamp(max(time)) FROM signals s WHERE s.source = r.source)
        FROM relays r ORDER BY 1, 2
        """,
    ),
    "groups": (
        GroupStatus,
        """
        SELECT split_part(source, ' ', 1)::bigint, split_part(source, ' ', 2), g.name,
            (SELECT count(*) FROM signals s WHERE s.source = g.source AND s.seq > g.position)
                + count(p.id) FILTER (WHERE p.owner = ''),
            count(p.id) FILTER (WHERE p.owner <> '' AND p.until > clock_timestamp()),
            count(p.id) FILTER (WHERE p.owner <> '' AND p.until <= clock_timestamp()),
            to_timestamp(least(min(p.time), (
                SELECT min(time) FROM signals s WHERE s.source = g.source AND s.seq > g.position
            ))),
            to_timestamp(nullif(g.time, 0))
        FROM groups g LEFT JOIN pending p USING (source, name) WHERE g.owner = ''
        GROUP BY source, g.source, g.name, g.position, g.time ORDER BY 1, 2, 3
        """,
    ),
    "members": (
        MemberStatus,
        """
        SELECT member, CASE WHEN key ~ '^(signals|relay)/' THEN key ELSE 'rate' END,
            extract(epoch FROM clock_timestamp() - max(seen))::float8
        FROM members WHERE seen > clock_timestamp() - interval '1 minute' GROUP BY 1, 2 ORDER BY 2, 1
        """,
    ),
    "windows": (
        WindowStatus,
        """
        SELECT left(key, 12), rate::bigint, greatest(remaining, 0), to_timestamp(nullif(ends, 0))
        FROM windows ORDER BY key
        """,
    ),
}


def status(database: Server) -> FleetStatus:
    """Read the status, each part by itself."""
    with closing(MemberLink(database)) as link:
        link.run((_NOW, ()))  # connects
        began = SystemClock().now()
        ((now, version),), missing = link.run((_NOW, ()), (MISSING, (names_of(TABLES), f'"{database.schema}"')))
        check(database, missing)
        ahead = now - (began + SystemClock().now()) / 2
        found: dict[str, Any] = {}
        unread: dict[str, str] = {}
        for name, (made, statement) in _PARTS.items():
            try:
                (rows,) = link.run((statement, ()))
            except FleetError as error:
                if error.code != "fleet_denied":
                    raise
                unread[name] = error.message
            else:
                found[name] = tuple(made(*row) for row in rows)
    return FleetStatus(database.shown, version, ahead, **found, unread=unread)
