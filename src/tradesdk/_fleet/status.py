"""What a fleet looks like from its server: who is there, and how far each is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import psycopg

from .._system.clock import SystemClock
from .blocking import connect
from .server import Row, Server, UnusableServerError, fleet_error, problem


@dataclass(frozen=True, slots=True)
class RelayStatus:
    """The relay of a chain.

    Attributes:
        chain: 8453 or 56.
        service: where its signals come from.
        holder: who has, or had, the lease: host, process and a random part.
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
        name: its name.
        waiting: signals that no member has yet.
        in_hand: signals that a member has, within its lease.
        late: signals whose member has let its lease pass: they come again.
        oldest: time of the oldest signal that is not done.
        position: time of the newest signal that the group has come to.
    """

    chain: int
    name: str
    waiting: int
    in_hand: int
    late: int
    oldest: datetime | None
    position: datetime | None


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """A member that was heard of in the last minute.

    Attributes:
        name: host, process and a random part.
        uses: `signals/CHAIN/GROUP`, `signals/CHAIN`, `relay/CHAIN` or `rate`.
        seen: seconds since it was heard of.
    """

    name: str
    uses: str
    seen: float


@dataclass(frozen=True, slots=True)
class WindowStatus:
    """The rate limit of an API key.

    Attributes:
        key: a fingerprint of the key.
        limit: requests a minute, as the service says.
        remaining: requests that are left until `resets`; None: not known.
        resets: when it starts again.
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


_PARTS = {
    "relays": """
        SELECT chain, service, holder, until > clock_timestamp(),
            (SELECT count(*) FROM signals s WHERE s.chain = r.chain),
            (SELECT max(time) FROM signals s WHERE s.chain = r.chain)
        FROM relays r ORDER BY chain
    """,
    "groups": """
        SELECT g.chain, g.name, (SELECT count(*) FROM signals s WHERE s.chain = g.chain AND s.seq > g.position)
            + count(p.id) FILTER (WHERE p.owner = ''),
            count(p.id) FILTER (WHERE p.owner <> '' AND p.until > clock_timestamp()),
            count(p.id) FILTER (WHERE p.owner <> '' AND p.until <= clock_timestamp()),
            least(min(p.time), (SELECT min(time) FROM signals s WHERE s.chain = g.chain AND s.seq > g.position)),
            nullif(g.time, 0)
        FROM groups g LEFT JOIN pending p USING (chain, name) GROUP BY g.chain, g.name, g.position, g.time ORDER BY 1, 2
    """,
    "members": """
        SELECT member, CASE WHEN key ~ '^(signals|relay)/' THEN key ELSE 'rate' END,
            extract(epoch FROM clock_timestamp())::float8 - max(seen) AS ago
        FROM members WHERE seen > extract(epoch FROM clock_timestamp()) - 60 GROUP BY 1, 2 ORDER BY 2, 1
    """,
    "windows": "SELECT left(key, 12), rate::bigint, greatest(remaining, 0), nullif(ends, 0) FROM windows ORDER BY key",
}
_MADE: dict[str, Callable[[Any], Any]] = {
    "relays": lambda row: RelayStatus(row[0], row[1], row[2], row[3], row[4], _utc(row[5])),
    "groups": lambda row: GroupStatus(row[0], row[1], row[2], row[3], row[4], _utc(row[5]), _utc(row[6])),
    "members": lambda row: MemberStatus(row[0], row[1], max(0.0, row[2])),
    "windows": lambda row: WindowStatus(row[0], row[1], row[2], _utc(row[3])),
}


def status(place: Server) -> FleetStatus:
    """Read it, each part by itself.

    Raises:
        FleetError: the server cannot be used, or has no tables.
    """
    try:
        with closing(connect(place)) as db:
            began = SystemClock().now()
            ((now, exists),) = db.run([(_NOW, (place.schema,))])[0]
            if not exists:
                raise psycopg.errors.UndefinedTable("")
            took = SystemClock().now() - began
            version = f"{db.info.server_version // 10_000}.{db.info.server_version % 10_000}"
            found: dict[str, Any] = {}
            unread: dict[str, str] = {}
            for name, statement in _PARTS.items():
                try:
                    rows: list[Row] = db.run([(statement, ())])[0]
                except psycopg.errors.InsufficientPrivilege as error:
                    unread[name] = problem(error, place).what
                else:
                    found[name] = tuple(_MADE[name](row) for row in rows)
            ahead = now - (began + took / 2)
            return FleetStatus(place.shown, version, ahead, **found, unread=unread)
    except UnusableServerError as error:
        seen = error.problem
    except psycopg.Error as error:
        seen = problem(error, place)
    raise fleet_error(seen)


_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8, to_regclass($1 || '.relays') IS NOT NULL"


def _utc(moment: float | None) -> datetime | None:
    return None if moment is None else datetime.fromtimestamp(moment, UTC)
