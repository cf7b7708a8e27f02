"""Signals of a fleet in PostgreSQL: a relay stores them, members take them.

Blocking; `_async` calls it in threads. All leases are by the server's time.

Who may write: only the relay that holds the lease writes `relays` and `signals`. Each of its writes checks its `fence`,
so one that has lost the lease writes nothing. Members write `groups` and `pending`; a signal in `pending` belongs to
its `owner` until its lease ends (`until`).

What is read: a stored signal has a number (`seq`). The relay stores with its row of `relays` locked, so numbers become
visible in order: a member that has read up to one has read all before it.

Who waits: members, for a notification (`Member.descriptor`) or `Member.wait` seconds; relays without the lease, as
long as `Relay.take` says.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterable
from contextlib import closing
from datetime import datetime

from .._http.log_events import event
from .._postgres.connection import Connection, Statement
from .._postgres.server import Server
from .._postgres.session import UNLIMITED
from .._system.clock import SystemClock
from .._values.row import Row
from ..errors import FleetError
from .bodies import Behind, LeaseLostError, Stored
from .member import LEFT, SEEN, MemberLink

TABLES = (
    # One row for each source: a chain of a service. The holder of the lease stores signals; `fence` counts holders.
    # `trimmed` is the last number that was deleted. Times are the service's: `since` is when it began, `position` is of
    # the last signal, `trimmed_time` of the last deleted one.
    "CREATE TABLE relays (source TEXT PRIMARY KEY, holder TEXT NOT NULL, fence BIGINT NOT NULL, "
    "lease DOUBLE PRECISION NOT NULL, until TIMESTAMPTZ NOT NULL, "
    "since DOUBLE PRECISION NOT NULL, position DOUBLE PRECISION NOT NULL, trimmed BIGINT NOT NULL, "
    "trimmed_time DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE signals (seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, source TEXT NOT NULL, "
    "id TEXT NOT NULL, time DOUBLE PRECISION NOT NULL, body TEXT NOT NULL, stored TIMESTAMPTZ NOT NULL, "
    "UNIQUE (source, id))",
    "CREATE INDEX signals_in_order ON signals (source, seq)",
    # `position` and `time` are of the last signal that was moved to `pending`. `owner`: the member that the group ends
    # with.
    "CREATE TABLE groups (source TEXT, name TEXT, owner TEXT NOT NULL, position BIGINT NOT NULL, "
    "time DOUBLE PRECISION NOT NULL, PRIMARY KEY (source, name))",
    # Signals that a group has still to take, or a member holds: its `owner` until then.
    "CREATE TABLE pending (source TEXT, name TEXT, seq BIGINT NOT NULL, id TEXT, body TEXT NOT NULL, "
    "time DOUBLE PRECISION NOT NULL, owner TEXT NOT NULL, until TIMESTAMPTZ NOT NULL, tries BIGINT NOT NULL, "
    "PRIMARY KEY (source, name, id))",
    "CREATE INDEX pending_in_order ON pending (source, name, seq)",
    "CREATE TABLE once (key TEXT PRIMARY KEY, owner TEXT NOT NULL, at TIMESTAMPTZ NOT NULL)",
    "CREATE INDEX once_by_age ON once (at)",
)

OVERLAP = 600.0
"""Seconds of signals that a new relay reads again: signals may come out of order."""
KEPT_ONCE = 90
"""Days for which a key of `once` is remembered."""
AT_ONCE = 100
"""The most signals that are moved, or read, at once."""
_PART = 1000
"""The most signals of the history in one statement, which must end in time."""
POLL = 2.0
"""Seconds after which a member looks again without a notification."""
_BEAT = 15.0
_TRIM = 600.0


def _source(chain: int, service: str) -> str:
    return f"{chain} {service}"


def _channel(database: Server) -> str:
    return f"{database.schema} signals"[:63]


def once(link: MemberLink, key: str) -> bool:
    """Whether this is the first call for a key in the fleet."""
    # A new owner for each call: if the response is lost, the repeated statement still finds the call to be the first.
    statement = (
        "INSERT INTO once VALUES ($1, $2, clock_timestamp()) "
        "ON CONFLICT (key) DO UPDATE SET at = once.at WHERE once.owner = $2 RETURNING TRUE"
    )
    (rows,) = link.run((statement, (key, secrets.token_hex(8))))
    return bool(rows)


# The relay.

_TAKE = """
    INSERT INTO relays VALUES ($1, $2, 1, $3, clock_timestamp() + $3 * interval '1 second', $4, $4, 0, $4)
    ON CONFLICT (source) DO UPDATE SET
        holder = $2, fence = relays.fence + 1, lease = $3, until = clock_timestamp() + $3 * interval '1 second'
    WHERE relays.until <= clock_timestamp() OR relays.holder = $2
    RETURNING fence, greatest(since, position - $5)
"""
_LEFT_OF_LEASE = "SELECT extract(epoch FROM until - clock_timestamp())::float8 FROM relays WHERE source = $1"
_RENEW = (
    "UPDATE relays SET until = clock_timestamp() + lease * interval '1 second' WHERE source = $1 AND fence = $2 "
    "RETURNING TRUE"
)
# A signal dated in the future must not move the position there.
_ADD = """
    WITH mine AS (
        UPDATE relays SET
            until = clock_timestamp() + lease * interval '1 second',
            position = greatest(position, least($4, extract(epoch FROM clock_timestamp())::float8))
        WHERE source = $1 AND fence = $2 RETURNING source
    ), added AS (
        INSERT INTO signals (source, id, time, body, stored)
        SELECT source, $3, $4, $5, clock_timestamp() FROM mine ON CONFLICT (source, id) DO NOTHING RETURNING seq
    )
    SELECT (SELECT count(*) FROM added), pg_notify($6, '') FROM mine
"""
# All before the first that is kept. Signals that the next relay reads again are kept, so that it knows them; but one
# dated far in the future must not keep all others.
_TRIM_SIGNALS = """
    WITH last AS (
        SELECT max(seq) AS seq FROM signals WHERE source = $1 AND seq < coalesce((
            SELECT min(seq) FROM signals JOIN relays USING (source) WHERE source = $1 AND (
                stored > clock_timestamp() - $3 * interval '1 second' OR time BETWEEN position - $4 AND position + $3
            )
        ), 9223372036854775807)
    ), mine AS (
        UPDATE relays SET trimmed = greatest(trimmed, last.seq), trimmed_time = greatest(trimmed_time, (
            SELECT max(least(s.time, position)) FROM signals s WHERE s.source = $1 AND s.seq <= last.seq
        ))
        FROM last WHERE source = $1 AND fence = $2 RETURNING trimmed
    )
    DELETE FROM signals USING mine WHERE source = $1 AND seq <= mine.trimmed
"""
_DELETE_PENDING = "DELETE FROM pending USING gone WHERE pending.source = gone.source AND pending.name = gone.name"
# Groups of members that were killed: not seen for an hour.
_TRIM_GROUPS = f"""
    WITH gone AS (
        DELETE FROM groups WHERE owner <> '' AND NOT EXISTS (SELECT FROM members WHERE member = owner)
        RETURNING source, name
    ) {_DELETE_PENDING}
"""  # noqa: S608 # constants
_TRIM_ONCE = f"DELETE FROM once WHERE at < clock_timestamp() - interval '{KEPT_ONCE} days'"  # noqa: S608
_RELEASE = "UPDATE relays SET until = clock_timestamp() WHERE source = $1 AND fence = $2"


class Relay:
    """Stores the signals of a chain while it holds the lease, or waits for the lease."""

    def __init__(self, database: Server, chain: int, service: str, *, lease: float, keep: float) -> None:
        self.link = MemberLink(database, self._began)
        self.fence: int | None = None
        self.since = 0.0
        """Where its stream has to begin, by the service's time."""
        self._database, self._chain, self._source = database, chain, _source(chain, service)
        self._lease, self._keep = lease, keep
        self._trim_at = 0.0

    def _began(self, db: Connection) -> None:
        if self.fence is not None:  # the server may now be a standby or a backup without all of its writes
            self.fence = None
            raise LeaseLostError

    def take(self, now: float) -> float:
        """Take the lease. Returns 0, or seconds until the next try. `now`: where the first relay begins."""
        self.fence = None
        rows, ((left,),), _ = self.link.run(
            (_TAKE, (self._source, self.link.member, self._lease, now, OVERLAP)),
            (_LEFT_OF_LEASE, (self._source,)),
            (SEEN, (f"relay/{self._chain}", self.link.member)),
        )
        if not rows:
            return max(0.05, min(float(left), self._lease / 3))
        self.fence, self.since = rows[0]
        return 0.0

    def renew(self) -> None:
        """Keep the lease, or raise `LeaseLostError`; now and then, delete old rows."""
        (rows,) = self.link.run((_RENEW, (self._source, self.fence)))
        if not rows:
            raise LeaseLostError
        if SystemClock.monotonic() >= self._trim_at:
            self._trim_at = SystemClock.monotonic() + _TRIM
            try:
                self.trim()
            except FleetError as error:  # old signals may stay for a while
                event("fleet_untrimmed", "old signals cannot be deleted: %(reason)s", error, chain=self._chain)

    def trim(self) -> None:
        """Delete old rows, on a connection of its own: signals are stored meanwhile."""
        with closing(MemberLink(self._database)) as link:
            values = (self._source, self.fence, self._keep, OVERLAP)
            link.run((_TRIM_SIGNALS, values), (_TRIM_GROUPS, ()), (_TRIM_ONCE, ()))

    def add(self, item: Stored) -> bool:
        """Store a signal or gap, or raise `LeaseLostError`. False if it was already stored."""
        values = (self._source, self.fence, item.id, item.time, item.body, _channel(self._database))
        (rows,) = self.link.run((_ADD, values))
        if not rows:
            raise LeaseLostError
        return bool(rows[0][0])

    def release(self) -> None:
        """Let another relay take over at once. Without a connection, the lease ends by itself."""
        fence, self.fence = self.fence, None
        if self.link.db is not None:
            self.link.run((_RELEASE, (self._source, fence)), (LEFT, (self.link.member,)))


# Members.

# Where to begin: after what is stored, or before the first signal since a time; -1: before what was deleted.
_BEGIN = """
    SELECT CASE
        WHEN $2::float8 IS NULL
            THEN greatest(coalesce(max(seq), 0), coalesce((SELECT trimmed FROM relays WHERE source = $1), 0))
        WHEN coalesce((SELECT trimmed_time FROM relays WHERE source = $1) >= $2, TRUE) THEN -1
        ELSE coalesce(min(seq) FILTER (WHERE time >= $2) - 1, max(seq), (SELECT trimmed FROM relays WHERE source = $1))
        END,
        coalesce($2, (SELECT position FROM relays WHERE source = $1), 0)
    FROM signals WHERE source = $1
"""
_RELAY = """
    SELECT trimmed, since, trimmed_time, clock_timestamp() > until + lease * interval '1 second'
    FROM relays WHERE source = $1
"""
_JOIN = f"INSERT INTO groups SELECT $1, $3, $4, * FROM ({_BEGIN}) begin ON CONFLICT (source, name) DO NOTHING"  # noqa: S608
_DONE = "DELETE FROM pending WHERE source = $1 AND name = $2 AND owner = $3 AND id = ANY($4) RETURNING id"
# Signals that this member owns but does not know: the response to its claim was lost.
_CLAIM = """
    WITH next AS MATERIALIZED (
        SELECT source, name, id FROM pending
        WHERE source = $1 AND name = $2 AND (until <= clock_timestamp() OR owner = $3 AND NOT id = ANY($4))
        ORDER BY seq LIMIT $6 FOR UPDATE SKIP LOCKED
    )
    UPDATE pending p SET owner = $3, until = clock_timestamp() + $5 * interval '1 second', tries = tries + 1
    FROM next WHERE (p.source, p.name, p.id) = (next.source, next.name, next.id)
    RETURNING p.seq, p.id, p.time, p.body, p.tries - 1, p.until
"""
_LOCK = "SELECT position, time FROM groups WHERE source = $1 AND name = $2 FOR UPDATE"
_MOVE = """
    WITH more AS (
        INSERT INTO pending
        SELECT s.source, g.name, s.seq, s.id, s.body, s.time, '', 'epoch', 0
        FROM groups g JOIN relays r USING (source) JOIN signals s USING (source)
        WHERE g.source = $1 AND g.name = $2 AND r.trimmed <= g.position AND s.seq > g.position
        ORDER BY s.seq LIMIT $3
        ON CONFLICT (source, name, id) DO NOTHING RETURNING seq, time
    ), last AS (
        SELECT max(more.seq) AS seq, max(least(more.time, r.position)) AS time FROM more, relays r WHERE source = $1
    )
    UPDATE groups g SET position = last.seq, time = greatest(g.time, last.time)
    FROM last WHERE source = $1 AND name = $2 AND last.seq IS NOT NULL RETURNING g.time
"""
_NEXT = "SELECT extract(epoch FROM min(until) - clock_timestamp())::float8 FROM pending WHERE source = $1 AND name = $2"
_PUT = """
    INSERT INTO pending
    SELECT $1, $2, $3 + number, id, body, time, '', 'epoch', tries
    FROM unnest($4::text[], $5::float8[], $6::text[], $7::bigint[]) WITH ORDINALITY
        AS u (id, time, body, tries, number)
    WHERE NOT EXISTS (SELECT FROM signals s WHERE s.source = $1 AND s.id = u.id)
    ON CONFLICT (source, name, id) DO NOTHING
"""
# Of all members that have read the same, one does it.
_MOVE_ON = """
    UPDATE groups SET position = $4, time = greatest(time, $5)
    WHERE source = $1 AND name = $2 AND position = $3 RETURNING TRUE
"""
# Within its lease no other member had it. So if it is gone, a call whose response was lost has deleted it.
_WAS_DONE = """
    SELECT clock_timestamp() < $4
        AND NOT EXISTS (SELECT FROM pending WHERE source = $1 AND name = $2 AND id = $3)
"""
_GIVE_BACK = "UPDATE pending SET until = 'epoch' WHERE source = $1 AND name = $2 AND owner = $3"


# What a member holds ends with its group, if the group is its own.
_END = f"""
    WITH gone AS (DELETE FROM groups WHERE source = $1 AND name = $2 AND owner = $3 RETURNING source, name)
    {_DELETE_PENDING}
"""  # noqa: S608 # constants


class Member:
    """A member of a group; each signal goes to one member. Without a group, it has its own, which ends with it.

    Attributes:
        items: signals and gaps to yield.
        behind: what it has missed, and must first be read elsewhere.
        wait: seconds until the next look.
        unrelayed: whether no relay is working, or was working a moment ago.
    """

    def __init__(
        self, database: Server, chain: int, service: str, group: str | None, *, since: float | None, lease: float
    ) -> None:
        self.link = MemberLink(database, self._began)
        self.items: deque[Stored] = deque()
        self.behind: Behind | None = None
        self.wait = 0.0
        self.unrelayed = False
        self._database, self._source, self._since, self._lease = database, _source(chain, service), since, lease
        self._owner, self._at_once = ("", 1) if group else (self.link.member, AT_ONCE)
        self._who = (self._source, group or self.link.member)
        self._key = f"signals/{chain}/{group}" if group else f"signals/{chain}"
        self._joined = False
        self._time = self._before = self._beat_at = 0.0
        self._held: dict[str, datetime] = {}
        self._done: set[str] = set()
        self._recent: deque[str] = deque(maxlen=10 * AT_ONCE)

    def _began(self, db: Connection) -> None:
        db.run([(f'LISTEN "{_channel(self._database)}"', ())])

    @property
    def descriptor(self) -> int:
        """The socket that becomes readable when there is something new; -1: look at once."""
        return -1 if self.link.db is None else self.link.db.descriptor

    def look(self) -> None:
        """Take what there is into `items`."""
        self.wait = 0.0
        if self.link.db is not None:
            self.link.db.is_notified = False
        if not self._joined:
            joining = (self._source, self._since, self._who[1], self._owner)
            self.link.run((SEEN, (self._key, self.link.member)), (_JOIN, joining))
            self._joined = True
        if self._claim():
            return
        found, moved, relay, ((left,),), *_ = self.link.run(
            (_LOCK, self._who),
            (_MOVE, (*self._who, AT_ONCE)),
            (_RELAY, (self._source,)),
            (_NEXT, self._who),
            *self._beat(),
        )
        if not found:
            # The database was restored from a backup, or is a standby: some signals come again.
            if self._time:
                self._since, self._before = self._time - OVERLAP, self._time
            self._joined = False
            return
        ((position, time),) = found
        self._time = moved[0][0] if moved else time
        self._notice(relay, position, time)
        if not (moved and self._claim()):
            self.wait = POLL if left is None else max(0.05, min(POLL, left))

    def _claim(self) -> bool:
        me, done = self.link.member, list(self._done)
        *_, rows = self.link.run(
            *([(_DONE, (*self._who, me, done))] if done else []),
            (_CLAIM, (*self._who, me, list(self._held), self._lease, self._at_once)),
        )
        self._done.difference_update(done)
        for each in done:
            self._held.pop(each, None)
        for _, item_id, time, body, tries, until in sorted(rows):
            self._held[item_id] = until
            if self._has_had(item_id):
                self._done.add(item_id)
            else:
                self.items.append(Stored(item_id, time, body, tries + (time <= self._before)))
                self._recent.append(item_id)
        return bool(rows)

    def _has_had(self, item_id: str) -> bool:
        """Whether the only member of a group has had it: a restored database or the history repeats signals."""
        return bool(self._owner) and item_id in self._recent

    def _beat(self) -> list[Statement]:
        if SystemClock.monotonic() < self._beat_at:
            return []
        self._beat_at = SystemClock.monotonic() + _BEAT
        return [(SEEN, (self._key, self.link.member))]

    def _notice(self, relay: list[Row], position: int, time: float) -> None:
        self.behind, self.unrelayed = None, not relay
        if relay:
            trimmed, since, end, self.unrelayed = relay[0]
            if position < trimmed:
                if position < 0:  # it has taken nothing, and wants what is after `time`
                    start, taken = time, None
                else:
                    taken = max(min(time, end), since)
                    start = max(taken - OVERLAP, since)
                self.behind = Behind(position, start, end, taken, trimmed)

    def recovered(self, behind: Behind, found: Iterable[Stored]) -> None:
        """Continue after what was read elsewhere; `found` has the oldest first."""
        missed = [item for item in found if not self._has_had(item.id)]
        with self.link.lock:  # keeps `once` of another thread out of this transaction
            try:
                self.link.run(("BEGIN", ()), (UNLIMITED, ()))  # no other transaction waits for this one
                for first in range(0, len(missed), _PART):
                    columns = [list(column) for column in zip(*missed[first : first + _PART], strict=True)]
                    self.link.run((_PUT, (*self._who, behind.trimmed - len(missed) + first, *columns)))
                (moved,) = self.link.run((_MOVE_ON, (*self._who, behind.position, behind.trimmed, behind.end)))
                if moved:
                    self.link.run(("COMMIT", ()))
            finally:
                if self.link.in_transaction:
                    self.link.close()
        self.behind = None

    def done(self, item_id: str) -> bool:
        """Mark a signal as done. False if this member did not hold it."""
        until = self._held.get(item_id)
        rows, ((was_done,),) = self.link.run(
            (_DONE, (*self._who, self.link.member, [item_id])), (_WAS_DONE, (*self._who, item_id, until))
        )
        self._held.pop(item_id, None)
        return bool(rows or was_done)

    def done_later(self, item_id: str) -> None:
        """Mark a signal as done with the next `look`."""
        self._done.add(item_id)

    def leave(self) -> None:
        """Give back what is held. Without a connection, the leases end by themselves."""
        if self.link.db is not None:
            me = (*self._who, self.link.member)
            self._held.clear()
            self.link.run((_DONE, (*me, list(self._done))), (_GIVE_BACK, me), (_END, me), (LEFT, (self.link.member,)))
