"""Whether a connection of a stream is alive, and when to open the next one. No I/O."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from .._http.retry import Failure, FailureCause, RetryPolicy

HEALTHY = 60.0
"""Seconds of connection after which failures are counted from zero."""
_TIMES = 3
_LEAST, _MOST = 10.0, 600.0  # bounds of the silence limit, in seconds
_LEAST_READ = 0.1  # seconds
_LEARNED_FROM = 8  # intervals
_LONGEST_NAMED = 3_600.0  # seconds; a longer wait named by the service is an error
_HOPELESS_IN_A_ROW = 10
_TEMPORARY = (429, 502, 503, 504)
_READY = 0.005  # seconds; a read that took longer had to wait for data


class Watchdog:
    """Detects dead connections and counts failures, over all connections of one stream.

    Only events show that a connection is alive, not bytes: a proxy can send comments forever.
    """

    def __init__(
        self, policy: RetryPolicy, idle_timeout: float, *, random: Callable[[], float] = random.random
    ) -> None:
        self._policy = policy
        self._idle_timeout = idle_timeout
        self._random = random
        self.limit = idle_timeout
        """Seconds without an event after which a connection is given up."""
        self._intervals: deque[float] = deque(maxlen=_LEARNED_FROM)
        self._silent = 0  # connections in a row that ended in silence without a single heartbeat
        self._hopeless = 0
        self._opened: float | None = None
        self.alive = 0.0
        """When the last event came, or the connection was opened."""
        self._silent_from = 0.0  # the same, later by the time in which nothing was read
        self._read_at = 0.0
        self._heartbeat: float | None = None
        self._had_heartbeat = False
        self.tries = 0
        self.caught_up = False
        """Whether the last read had to wait, so that the buffers were empty."""

    @property
    def patience(self) -> float:
        """Seconds that the next read may take: what is left of the limit."""
        return max(_LEAST_READ, self.limit - (self._read_at - self._silent_from))

    def opened(self, now: float) -> None:
        self._opened = self.alive = self._silent_from = self._read_at = now
        self._hopeless = 0
        self._heartbeat = None
        self._had_heartbeat = self.caught_up = False

    def read(self, began: float, ended: float) -> None:
        """Record a read. Time between reads does not count as silence of the service."""
        self._silent_from += began - self._read_at
        self._read_at = ended
        self.caught_up = ended - began > _READY

    def event(self, now: float) -> None:
        self.alive = self._silent_from = now

    def heartbeat(self, now: float, timestamp: float) -> None:
        """Record a heartbeat. The interval comes from their timestamps: heartbeats may wait in a buffer."""
        self.alive = self._silent_from = now
        self._silent = 0
        self._had_heartbeat = True
        if self._heartbeat is not None and 1.0 <= timestamp - self._heartbeat <= _MOST:
            self._intervals.append(timestamp - self._heartbeat)
        self._heartbeat = timestamp
        self._set_limit()

    def stalled(self, now: float) -> bool:
        """Whether no event came for too long, even if bytes did."""
        return now - self._silent_from > self.limit

    def broke_off(self, *, silent: bool = False) -> None:
        """Record the end of a connection. `silent`: no event came in time."""
        if self._opened is not None and self.alive - self._opened >= HEALTHY:
            self.tries = 0
        if silent and not self._had_heartbeat:
            self._silent += 1
            self._set_limit()
        self._opened = None

    def _set_limit(self) -> None:
        base = max(_LEAST, _TIMES * max(self._intervals)) if self._intervals else self._idle_timeout
        self.limit = min(max(_MOST, self._idle_timeout), base * 2.0 ** min(self._silent, 10))

    def wait(self, failure: Failure | None, *, now: float, floor: float = 0.0) -> float | None:
        """Seconds until the next attempt; None to give up.

        `failure`: why opening failed; None when an open connection ended. `now`: the local time. `floor`: seconds that
        the service named in the stream (`retry:`).
        """
        self.tries += 1
        failure = failure or Failure(FailureCause.LOST)
        if failure.cause is FailureCause.HOPELESS or failure.status == 500:
            self._hopeless += 1
            if self._hopeless >= _HOPELESS_IN_A_ROW:
                return None
        elif failure.cause is FailureCause.STATUS and failure.status < 506 and failure.status not in _TEMPORARY:
            return None
        wait = self._policy.wait(self.tries, failure, now=now, random=self._random)
        if wait.server > _LONGEST_NAMED:
            return None
        return max(wait.seconds, min(floor, self._policy.cap))
