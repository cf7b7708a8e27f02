"""Signals of a fleet in PostgreSQL: a relay stores them, members take them. Blocking; all leases are by server time.

A stored signal has a number (`seq`). Only the relay stores, with its row of `relays` locked, so that numbers become
visible in their order, and who has read up to one has read all before it.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from .._http.log_events import event
from .._system.clock import SystemClock
from ..errors import ConfigError, FleetError
from .blocking import Connection, Link, Statement
from .server import Row, Server

TABLES = (
    # One row for each chain. Who holds the lease stores signals; `fence` counts holders. `trimmed` is the last number
    # that was deleted. Times of the service: `since` when it began, `position` of the last signal, `trimmed_time` of
    # the last one that was deleted.
    "CREATE TABLE relays (chain BIGINT PRIMARY KEY, service TEXT NOT NULL, holder TEXT NOT NULL, "
    "fence BIGINT NOT NULL, lease DOUBLE PRECISION NOT NULL, until TIMESTAMPTZ NOT NULL, "
    "since DOUBLE PRECISION NOT NULL, position DOUBLE PRECISION NOT NULL, trimmed BIGINT NOT NULL, "
    "trimmed_time DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE signals (seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, chain BIGINT NOT NULL, "
    "id TEXT NOT NULL, time DOUBLE PRECISION NOT NULL, body TEXT NOT NULL, stored TIMESTAMPTZ NOT NULL, "
    "UNIQUE (chain, id))",
    "CREATE INDEX signals_in_order ON signals (chain, seq)",
    # Up to which number a group's signals are in `pending`, and the time of the last one.
    "CREATE TABLE groups (chain BIGINT, name TEXT, position BIGINT NOT NULL, time DOUBLE PRECISION NOT NULL, "
    "PRIMARY KEY (chain, name))",
    # What a group has before it, or some member has in hand: `owner` until then.
    "CREATE TABLE pending (chain BIGINT, name TEXT, seq BIGINT NOT NULL, id TEXT, body TEXT NOT NULL, "
    "time DOUBLE PRECISION NOT NULL, owner TEXT NOT NULL, until TIMESTAMPTZ NOT NULL, tries BIGINT NOT NULL, "
    "PRIMARY KEY (chain, name, id))",
    "CREATE INDEX pending_in_order ON pending (chain, name, seq)",
    "CREATE TABLE once (key TEXT PRIMARY KEY, owner TEXT NOT NULL, at TIMESTAMPTZ NOT NULL)",
    "CREATE INDEX once_by_age ON once (at)",
)

OVERLAP = 600.0
"""Seconds that a relay reads again of what an earlier one stored: signals may come out of the order of their times."""
KEPT_ONCE = 90
"""Days that a key of `once` is remembered."""
AT_ONCE = 100
"""Signals that are moved, or read, at once."""
_PART = 1000
"""Signals of the history that are written with one statement: it has to be answered in time."""
POLL = 2.0
"""Seconds after which a member looks again although nothing woke it."""
_BEAT = 15.0
_TRIM = 600.0


class Behind(NamedTuple):
    """What a member or group has missed, because the fleet has deleted it, or had no relay.

    Attributes:
        position: what it was at.
        start, end: Unix seconds of the service.
        taken: up to which time signals were taken, so that the history has to list it; None: there was none.
        trimmed: the number to continue after; 0: nothing was deleted.
    """

    position: int
    start: float
    end: float
    taken: float | None
    trimmed: int

    @property
    def is_nothing(self) -> bool:
        """Whether all of it is there: what came before the first relay ends before `end`."""
        return self.taken is None and (self.start, 0) >= (self.end, self.trimmed)


class Stored(NamedTuple):
    """A signal or gap as it is stored: its JSON. `tries`: how often it was handed to a member of the group before."""

    id: str
    time: float
    body: str
    tries: int = 0


class LeaseLostError(Exception):
    """Another relay has taken over."""


def _channel(place: Server) -> str:
    return f"{place.schema} signals"[:63]


def once(link: Link, key: str) -> bool:
    """Whether this is the first call for a key in the fleet."""
    # An owner of its own for each call: if the answer is lost, the same call made again is still the first.
    statement = (
        "INSERT INTO once VALUES ($1, $2, clock_timestamp()) "
        "ON CONFLICT (key) DO UPDATE SET at = once.at WHERE once.owner = $2 RETURNING TRUE"
    )
    (rows,) = link.run((statement, (key, secrets.token_hex(8))))
    return bool(rows)


# The relay

_TAKE = """
    INSERT INTO relays VALUES ($1, $2, $3, 1, $4, clock_timestamp() + $4 * interval '1 second', $5, $5, 0, $5)
    ON CONFLICT (chain) DO UPDATE SET
        holder = $3, fence = relays.fence + 1, lease = $4, until = clock_timestamp() + $4 * interval '1 second'
    WHERE relays.service = $2 AND (relays.until <= clock_timestamp() OR relays.holder = $3)
    RETURNING fence, greatest(since, position - $6)
"""
_HELD = "SELECT service, holder, extract(epoch FROM until - clock_timestamp())::float8 FROM relays WHERE chain = $1"
_RENEW = (
    "UPDATE relays SET until = clock_timestamp() + lease * interval '1 second' WHERE chain = $1 AND fence = $2 "
    "RETURNING TRUE"
)
# A signal that is dated in the future must not move the position there.
_ADD = """
    WITH mine AS (
        UPDATE relays SET
            until = clock_timestamp() + lease * interval '1 second',
            position = greatest(position, least($4, extract(epoch FROM clock_timestamp())::float8))
        WHERE chain = $1 AND fence = $2 RETURNING chain
    ), added AS (
        INSERT INTO signals (chain, id, time, body, stored)
        SELECT chain, $3, $4, $5, clock_timestamp() FROM mine ON CONFLICT (chain, id) DO NOTHING RETURNING seq
    )
    SELECT (SELECT count(*) FROM added), pg_notify($6, '') FROM mine
"""
# All before the first that is kept. What the next relay reads again is kept, so that it is known then; but not what
# is dated in the future.
_TRIM_SIGNALS = """
    WITH last AS (
        SELECT max(seq) AS seq FROM signals WHERE chain = $1 AND seq < coalesce((
            SELECT min(seq) FROM signals JOIN relays USING (chain) WHERE chain = $1 AND (
                stored > clock_timestamp() - $3 * interval '1 second' OR time BETWEEN position - $4 AND position + $4
            )
        ), 9223372036854775807)
    ), mine AS (
        UPDATE relays SET trimmed = greatest(trimmed, last.seq), trimmed_time = greatest(trimmed_time, (
            SELECT max(least(s.time, position)) FROM signals s WHERE s.chain = $1 AND s.seq <= last.seq
        ))
        FROM last WHERE chain = $1 AND fence = $2 RETURNING trimmed
    )
    DELETE FROM signals USING mine WHERE chain = $1 AND seq <= mine.trimmed
"""
_TRIM_ONCE = f"DELETE FROM once WHERE at < clock_timestamp() - interval '{KEPT_ONCE} days'"  # noqa: S608
_TRIM_MEMBERS = (
    "DELETE FROM members WHERE key ~ '^(signals|relay)/' AND seen < extract(epoch FROM clock_timestamp()) - 3600"
)
_RELEASE = "UPDATE relays SET until = clock_timestamp() WHERE chain = $1 AND fence = $2"


class Relay:
    """One that stores the signals of a chain while it holds the lease, or waits for it."""

    def __init__(self, place: Server, chain: int, service: str, *, lease: float, keep: float) -> None:
        self.link = Link(place, lambda _: None)
        self.fence: int | None = None
        self.since = 0.0
        """Where its stream has to begin."""
        self.holder = ""
        self._place, self._chain, self._service = place, chain, service
        self._lease, self._keep = lease, keep
        self._trim_at = 0.0

    def take(self, now: float) -> float:
        """Take the lease: 0, or seconds until it is worth another try. `now`: where the first relay begins.

        Raises:
            ConfigError: the signals in this schema are those of another service.
        """
        who = (self._chain, self._service, self.link.member)
        rows, held, _ = self.link.run(
            (_TAKE, (*who, self._lease, now, OVERLAP)),
            (_HELD, (self._chain,)),
            (_SEEN, (f"relay/{self._chain}", self.link.member)),
        )
        ((service, self.holder, left),) = held
        if service != self._service:
            what = f"the signals of chain {self._chain} in {self._place.shown} come from {service}"
            how = f"pass schema=: {self._service} needs a schema of its own"
            raise ConfigError(what, code="invalid_setting", hint=how)
        if not rows:
            self.fence = None
            return max(0.05, min(float(left), self._lease / 3))
        self.fence, self.since = rows[0]
        return 0.0

    def renew(self) -> None:
        """Keep the lease, and delete old rows now and then.

        Raises:
            LeaseLostError: another one has it.
        """
        (rows,) = self.link.run((_RENEW, (self._chain, self.fence)))
        if not rows:
            raise LeaseLostError
        if SystemClock.monotonic() >= self._trim_at:
            self._trim_at = SystemClock.monotonic() + _TRIM
            try:
                self.trim()
            except FleetError as error:  # what is old may stay for a while
                event("fleet_untrimmed", "old signals cannot be deleted: %(reason)s", error, chain=self._chain)

    def trim(self) -> None:
        """Delete what is older than is kept."""
        values = (self._chain, self.fence, self._keep, OVERLAP)
        self.link.run((_TRIM_SIGNALS, values), (_TRIM_ONCE, ()), (_TRIM_MEMBERS, ()))

    def add(self, item: Stored) -> bool:
        """Store a signal or gap, with the position and the lease. False when it was stored before.

        Raises:
            LeaseLostError: another one has the lease, and nothing was stored.
        """
        values = (self._chain, self.fence, item.id, item.time, item.body, _channel(self._place))
        (rows,) = self.link.run((_ADD, values))
        if not rows:
            raise LeaseLostError
        return bool(rows[0][0])

    def release(self) -> None:
        """Let another relay take over at once. Without a connection, its lease ends by itself."""
        fence, self.fence = self.fence, None
        if self.link.db is not None:
            me = f"relay/{self._chain}", self.link.member
            self.link.run((_RELEASE, (self._chain, fence)), (_LEFT, me))


# Members

# Where to begin: after what is stored, or before the first signal since a time; -1: before what was deleted.
_BEGIN = """
    SELECT CASE
        WHEN $2::float8 IS NULL
            THEN greatest(coalesce(max(seq), 0), coalesce((SELECT trimmed FROM relays WHERE chain = $1), 0))
        WHEN coalesce((SELECT trimmed_time FROM relays WHERE chain = $1) >= $2, TRUE) THEN -1
        ELSE coalesce(min(seq) FILTER (WHERE time >= $2) - 1, max(seq), (SELECT trimmed FROM relays WHERE chain = $1))
        END,
        coalesce($2, (SELECT position FROM relays WHERE chain = $1), 0)
    FROM signals WHERE chain = $1
"""
_RELAY = """
    SELECT trimmed, since, trimmed_time, clock_timestamp() > until + lease * interval '1 second'
    FROM relays WHERE chain = $1
"""
_SEEN = (
    "INSERT INTO members VALUES ($1, $2, extract(epoch FROM clock_timestamp())::float8) "
    "ON CONFLICT (key, member) DO UPDATE SET seen = excluded.seen"
)
_LEFT = "DELETE FROM members WHERE key = $1 AND member = $2"


class Member:
    """One that gets every signal, by position.

    Attributes:
        items: what it has to yield.
        behind: what it has missed, which has to be read elsewhere first.
        wait: seconds until it is worth to look again.
        unrelayed: whether no relay works, or has worked a moment ago.
    """

    def __init__(self, place: Server, chain: int, *, since: float | None) -> None:
        self.link = Link(place, self._began)
        self.items: deque[Stored] = deque()
        self.behind: Behind | None = None
        self.wait = 0.0
        self.unrelayed = False
        self._place, self._chain, self._since = place, chain, since
        self._position, self._joined = 0, False
        self._time = 0.0
        self._recent: deque[str] = deque(maxlen=10 * AT_ONCE)
        self._woken = False
        self._beat_at = 0.0

    def _began(self, db: Connection) -> None:
        db.add_notify_handler(lambda _: self._wake())
        db.run([(f'LISTEN "{_channel(self._place)}"', ())])

    def _wake(self) -> None:
        self._woken = True

    @property
    def key(self) -> str:
        """What the members of its kind have in common."""
        return f"signals/{self._chain}"

    @property
    def descriptor(self) -> int:
        """What becomes readable when there is something new; -1: look at once."""
        db = self.link.db
        return -1 if db is None or db.closed or self._woken else db.fileno()

    def look(self) -> None:
        """Get what there is into `items`."""
        self._woken = False
        if not self._joined:
            (((self._position, self._time),),) = self.link.run((_BEGIN, (self._chain, self._since)))
            self._joined = True
        read = "SELECT seq, id, time, body FROM signals WHERE chain = $1 AND seq > $2 ORDER BY seq LIMIT $3"
        relay, rows, *_ = self.link.run(
            (_RELAY, (self._chain,)), (read, (self._chain, self._position, AT_ONCE)), *self._beat()
        )
        self._notice(relay, self._position, self._time)
        if self.behind is None and relay:
            for seq, *item in rows:
                self.items.append(Stored(*item))
                self._position, self._time = seq, max(self._time, item[1])
                self._recent.append(item[0])
        self.wait = POLL

    def _beat(self) -> list[Statement]:
        if SystemClock.monotonic() < self._beat_at:
            return []
        self._beat_at = SystemClock.monotonic() + _BEAT
        return [(_SEEN, (self.key, self.link.member))]

    def _notice(self, relay: list[Row], position: int, time: float) -> None:
        self.behind, self.unrelayed = None, not relay
        if relay:
            trimmed, since, end, self.unrelayed = relay[0]
            if position < trimmed:
                if position < 0:  # it has taken nothing, and asked for what is after `time`
                    start, taken = time, None
                else:
                    taken = max(min(time, end), since)
                    start = max(taken - OVERLAP, since)
                self.behind = Behind(position, start, end, taken, trimmed)

    def recovered(self, behind: Behind, found: Iterable[Stored]) -> None:
        """Continue after what was read elsewhere, oldest first."""
        missed = {item.id: item for item in found}
        (rows,) = self.link.run(
            ("SELECT id FROM signals WHERE chain = $1 AND id = ANY($2)", (self._chain, list(missed)))
        )
        for (stored,) in rows:
            del missed[stored]
        for known in self._recent:
            missed.pop(known, None)
        self.items += missed.values()
        self._recent.extend(missed)
        self._position, self._time, self.behind = behind.trimmed, max(self._time, behind.end), None

    def done(self, item_id: str) -> bool:
        """Mark a signal as done. False when it was not held."""
        return True

    def done_later(self, item_id: str) -> None:
        """Mark a signal as done with the next `look`."""

    def leave(self) -> None:
        """Give back what is held. Without a connection, its lease ends by itself."""
        if self.link.db is not None:
            self.link.run(*self._leaving(), (_LEFT, (self.key, self.link.member)))

    def _leaving(self) -> list[Statement]:
        return []


_JOIN = f"INSERT INTO groups SELECT $1, $3, * FROM ({_BEGIN}) begin ON CONFLICT (chain, name) DO NOTHING"  # noqa: S608
_DONE = "DELETE FROM pending WHERE chain = $1 AND name = $2 AND owner = $3 AND id = ANY($4) RETURNING id"
# What this member owns and does not know of was claimed by an answer that was lost.
_CLAIM = """
    UPDATE pending SET owner = $3, until = clock_timestamp() + $5 * interval '1 second', tries = tries + 1
    WHERE (chain, name, id) = (
        SELECT chain, name, id FROM pending
        WHERE chain = $1 AND name = $2 AND (until <= clock_timestamp() OR owner = $3 AND NOT id = ANY($4))
        ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED
    ) RETURNING id, time, body, tries - 1
"""
_LOCK = "SELECT position, time FROM groups WHERE chain = $1 AND name = $2 FOR UPDATE"
_MOVE = """
    WITH more AS (
        INSERT INTO pending
        SELECT s.chain, g.name, s.seq, s.id, s.body, s.time, '', 'epoch', 0
        FROM groups g JOIN relays r USING (chain) JOIN signals s USING (chain)
        WHERE g.chain = $1 AND g.name = $2 AND r.trimmed <= g.position AND s.seq > g.position
        ORDER BY s.seq LIMIT $3
        ON CONFLICT (chain, name, id) DO NOTHING RETURNING seq, time
    )
    UPDATE groups SET position = (SELECT max(seq) FROM more), time = greatest(time, (SELECT max(time) FROM more))
    WHERE chain = $1 AND name = $2 AND EXISTS (SELECT FROM more) RETURNING TRUE
"""
_NEXT = "SELECT extract(epoch FROM min(until) - clock_timestamp())::float8 FROM pending WHERE chain = $1 AND name = $2"
_PUT = """
    INSERT INTO pending
    SELECT $1, $2, $3 + number, id, body, time, '', 'epoch', tries
    FROM unnest($4::text[], $5::float8[], $6::text[], $7::bigint[]) WITH ORDINALITY
        AS u (id, time, body, tries, number)
    WHERE NOT EXISTS (SELECT FROM signals s WHERE s.chain = $1 AND s.id = u.id)
    ON CONFLICT (chain, name, id) DO NOTHING
"""
# One member of those that have read the same does it.
_MOVE_ON = """
    UPDATE groups SET position = $4, time = greatest(time, $5)
    WHERE chain = $1 AND name = $2 AND position = $3 RETURNING TRUE
"""
_GIVE_BACK = "UPDATE pending SET until = 'epoch' WHERE chain = $1 AND name = $2 AND owner = $3"


class GroupMember(Member):
    """One of a group, of which one gets each signal."""

    def __init__(self, place: Server, chain: int, group: str, *, since: float | None, lease: float) -> None:
        super().__init__(place, chain, since=since)
        self._group, self._lease = group, lease
        self._who = (chain, group)
        self._held: set[str] = set()
        self._done: set[str] = set()

    @property
    def key(self) -> str:
        return f"signals/{self._chain}/{self._group}"

    def look(self) -> None:
        self._woken = False
        if not self._joined:
            self.link.run((_JOIN, (self._chain, self._since, self._group)))
            self._joined = True
        if self._claim():
            return
        begin, end = ("BEGIN", ()), ("COMMIT", ())
        _, ((position, time),), moved, relay, ((left,),), *_ = self.link.run(
            *(begin, (_LOCK, self._who), (_MOVE, (*self._who, AT_ONCE)), (_RELAY, (self._chain,)), (_NEXT, self._who)),
            *(*self._beat(), end),
        )
        self._notice(relay, position, time)
        if not (moved and self._claim()):
            self.wait = POLL if left is None else max(0.05, min(POLL, left))

    def _claim(self) -> bool:
        me, done = self.link.member, list(self._done)
        *_, rows, _ = self.link.run(
            ("BEGIN", ()),
            *([(_DONE, (*self._who, me, done))] if done else []),
            (_CLAIM, (*self._who, me, list(self._held), self._lease)),
            ("COMMIT", ()),
        )
        self._held.difference_update(done)
        self._done.difference_update(done)
        for row in rows:
            self._held.add(row[0])
            self.items.append(Stored(*row))
        return bool(rows)

    def recovered(self, behind: Behind, found: Iterable[Stored]) -> None:
        missed = list(found)
        with self.link.lock:  # `once` of another thread must not get into this transaction
            try:
                self.link.run(("BEGIN", ()))
                for first in range(0, len(missed), _PART):
                    columns = [list(column) for column in zip(*missed[first : first + _PART], strict=True)]
                    self.link.run((_PUT, (*self._who, behind.trimmed - len(missed) + first, *columns)))
                (moved,) = self.link.run((_MOVE_ON, (*self._who, behind.position, behind.trimmed, behind.end)))
                self.link.run(("COMMIT" if moved else "ROLLBACK", ()))
            except BaseException:
                self.link.close()
                raise
        self.behind = None

    def done(self, item_id: str) -> bool:
        (rows,) = self.link.run((_DONE, (*self._who, self.link.member, [item_id])))
        self._held.discard(item_id)
        return bool(rows)

    def done_later(self, item_id: str) -> None:
        self._done.add(item_id)

    def _leaving(self) -> list[Statement]:
        me = (*self._who, self.link.member)
        return [(_DONE, (*me, list(self._done))), (_GIVE_BACK, me)]
