"""One rate limit for all members with the same API key: a row for each key. Blocking.

The rules are those of `RateWindow`. A claim is one statement, because every request needs one. When a response begins
a new window, `RateWindow` itself decides on the locked row.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress

from .._http.log_events import event
from .._http.rate_limit import RateWindow, count
from .._postgres.connection import Connection, Statement
from .._postgres.server import Server
from .._system.clock import Clock, SystemClock
from .._values.http import RateClaim, RateLimit
from .._values.row import Row
from ..errors import FleetError
from .member import LEFT, SEEN, MemberLink

TABLES = (
    # From the last response with a new window: limit and reset as in its header. `remaining`: -1 after a refused claim.
    "CREATE TABLE windows (key TEXT PRIMARY KEY, rate TEXT, reset TEXT, guessed BOOLEAN NOT NULL, remaining BIGINT, "
    "ends DOUBLE PRECISION NOT NULL)",
)
_OVER = "(ends <= $2 AND remaining IS NOT NULL)"
CLAIM = f"""
    UPDATE windows SET
        remaining = CASE
            WHEN remaining IS NULL OR ({_OVER} AND rate IS NULL) THEN NULL
            WHEN {_OVER} THEN greatest(rate::bigint, 1) - 1
            ELSE greatest(remaining - 1, -1) END,
        guessed = guessed OR ({_OVER} AND rate IS NOT NULL),
        ends = CASE WHEN {_OVER} AND rate IS NOT NULL THEN ends + 60 * (1 + floor(($2 - ends) / 60)) ELSE ends END
    WHERE key = $1 RETURNING rate, reset, guessed, remaining, ends
"""  # noqa: S608 # constants
_RETURN = (
    "UPDATE windows SET remaining = greatest(remaining, 0) + 1 "
    "WHERE key = $1 AND (rate IS NULL OR remaining < rate::bigint)"
)
_LOWER = (
    "UPDATE windows SET remaining = $2 "
    "WHERE key = $1 AND reset = $3 AND rate IS NOT DISTINCT FROM $4 AND NOT guessed AND remaining > $2"
)
_ADD = "INSERT INTO windows VALUES ($1, NULL, NULL, FALSE, NULL, 0) ON CONFLICT (key) DO NOTHING"
_LOCK = "SELECT rate, reset, guessed, remaining, ends FROM windows WHERE key = $1 FOR UPDATE"
_SAVE = "UPDATE windows SET rate = $2, reset = $3, guessed = $4, remaining = $5, ends = $6 WHERE key = $1"
_COUNT = "SELECT count(*) FROM members WHERE key = $1 AND seen > clock_timestamp() - interval '1 minute'"

_UNSYNCED = "SELECT set_config('synchronous_commit', 'off', false), extract(epoch FROM clock_timestamp())"

_UNKNOWN = Row((None, None, False, None, 0.0))
"""A window before any response."""
AWAY = 5.0
"""Seconds until a server that did not respond is asked again."""
_BEAT = 15.0


class SharedWindow:
    """The rate limits of a fleet, by key. Threads may share it; each process has one connection.

    The server's time is read when it connects and continues by the monotonic clock, unless a test has its own clock.
    """

    def __init__(self, server: Server, clock: Clock, *, alone: bool = True) -> None:
        self._link = MemberLink(server, self._began)
        self._clock = clock
        self._continues_alone = alone
        self._offset = clock.now() - clock.monotonic()
        self._latest = RateWindow()
        self._known: dict[str, Row] = {}
        self._beaten: dict[str, float] = {}
        self._members = 1
        self._alone: dict[str, RateWindow] = {}
        self._away: FleetError | None = None
        self._ask_again = 0.0

    @property
    def rate_limit(self) -> RateLimit | None:
        """The rate limit in the last response to this member."""
        return self._latest.rate_limit

    def claim(self, key: str) -> RateClaim:
        """Take one request from the window of a key."""
        with self._link.lock:
            try:
                wait = self._claim(key)
            except FleetError as error:
                if not self._continues_alone:
                    raise
                wait = self._claim_alone(key, error)
        return RateClaim(wait=wait, name=key, id="" if wait else "granted")

    def answered(self, claim: RateClaim, headers: Mapping[str, str]) -> None:
        """Read the rate limit in a response."""
        monotonic = self._clock.monotonic()
        self._latest.observe(headers, now=self._clock.now, monotonic=monotonic)
        with self._link.lock, suppress(FleetError):  # the next claim raises it
            if claim.name in self._alone:
                self._alone[claim.name].observe(self._part(headers), now=self._clock.now, monotonic=monotonic)
            self._observe(claim.name, headers)

    def failed(self, claim: RateClaim, *, sent: bool) -> None:
        """Return a claim whose request was not sent."""
        if claim.id and not sent:
            with self._link.lock, suppress(FleetError):
                self._known.pop(claim.name, None)
                if claim.name in self._alone:
                    self._alone[claim.name].release()
                    return
                self._run([(_RETURN, (claim.name,))])

    def close(self) -> None:
        """Close the connection and leave the fleet. The next use opens another one."""
        if self._link.db is not None:
            with suppress(FleetError):
                self._link.run((LEFT, (self._link.member,)))
        self._beaten.clear()
        self._link.close()

    def _claim(self, key: str) -> float:
        now = self._now()
        statements: list[Statement] = [(CLAIM, (key, now))]
        if is_due := now - self._beaten.get(key, 0.0) >= _BEAT:
            statements += [
                (_ADD, (key,)),
                (SEEN, (key, self._link.member)),
                (_COUNT, (key,)),
            ]
        rows, *more = self._run(statements)
        if self._away is not None:
            self._away = None
            self._alone.clear()
            text = f"{self._link.server.shown} can be used again"
            event("fleet_again", "%(reason)s", level=logging.INFO, reason=text)
        if is_due:
            # If the server was paused between two statements, the count may be 0.
            self._beaten[key], self._members = now, max(1, more[-1][0][0])
        if not rows:
            return 0.0  # no response has named a limit yet
        self._known[key] = rows[0]
        *_, remaining, ends = rows[0]
        return 0.0 if remaining is None or remaining >= 0 else max(0.001, float(ends) - now)

    def _claim_alone(self, key: str, error: FleetError) -> float:
        if key not in self._alone:
            limit, reset, guessed, remaining, ends = self._known.get(key, _UNKNOWN)
            share = None if limit is None else self._share(int(limit))
            left = None if remaining is None else max(0, remaining) // self._members
            self._alone[key] = RateWindow.restored(
                None if share is None else str(share), reset, guessed, left, ends - self._offset
            )
            some = "as many requests as the service allows" if share is None else f"{share} requests a minute"
            event("fleet_alone", f"%(reason)s; each member continues alone, this one with {some}", error)
        return self._alone[key].claim(self._clock.monotonic())

    def _share(self, limit: int) -> int:
        return max(1, limit // self._members)

    def _part(self, headers: Mapping[str, str]) -> dict[str, str]:
        """This member's share of the rate limit in a response."""
        limit, left = (count(headers.get(f"x-ratelimit-{name}")) for name in ("limit", "remaining"))
        of_limit = {} if limit is None else {"x-ratelimit-limit": str(self._share(limit))}
        of_left = {} if left is None else {"x-ratelimit-remaining": str(left // self._members)}
        return {**headers, **of_limit, **of_left}

    def _observe(self, key: str, headers: Mapping[str, str]) -> None:
        left, reset, limit = (headers.get(f"x-ratelimit-{name}") for name in ("remaining", "reset", "limit"))
        if not key or left is None or reset is None or not (left.isascii() and left.isdigit() and len(left) < 10):
            return
        known = self._known.get(key)
        if known is not None and (limit, reset) == tuple(known[:2]):
            if not known[2] and known[3] is not None and int(left) < known[3]:  # other programs use the key too
                self._run([(_LOWER, (key, int(left), reset, limit))])
            return
        _, _, (row,) = self._run([("BEGIN", ()), (_ADD, (key,)), (_LOCK, (key,))])
        limit, reset, guessed, remaining, ends = row
        window = RateWindow.restored(limit, reset, guessed, None if remaining is None else max(0, remaining), ends)
        window.observe(headers, now=self._clock.now, monotonic=self._now())
        after = window.state()
        self._run([(_SAVE, (key, *after)), ("COMMIT", ())])
        self._known[key] = Row(after)

    def _now(self) -> float:
        return self._clock.monotonic() + self._offset

    def _run(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run as `Link.run`; fail at once if the server did not respond a moment ago."""
        if self._away is not None and self._clock.monotonic() < self._ask_again:
            raise self._away.with_traceback(None)
        try:
            return self._link.run(*statements)
        except FleetError as error:
            self._ask_again = self._clock.monotonic() + AWAY
            self._away = error
            raise

    def _began(self, db: Connection) -> None:
        # A window is not money: after a crash of the server, the next responses restore it.
        ((row,),) = db.run([(_UNSYNCED, ())])
        if isinstance(self._clock, SystemClock):
            self._offset = float(row[1]) - self._clock.monotonic()
