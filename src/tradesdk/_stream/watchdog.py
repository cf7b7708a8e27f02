"""Whether a stream is alive, and when to open it again. No I/O; all times are a monotonic clock's seconds."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from .._http.retry import Failure, FailureCause, RetryPolicy

HEALTHY = 60.0
"""Seconds of life after which failures are counted from the beginning again."""
_TIMES = 3
_LEAST, _MOST = 10.0, 600.0  # seconds of silence that are never too many, and always
_LEAST_READ = 0.1  # seconds
_LEARNED_FROM = 8  # intervals
_LONGEST_NAMED = 3_600.0  # seconds that the service may ask for; beyond that it is an error, not a wait
_HOPELESS_IN_A_ROW = 10
_AT_ONCE = 0.005  # seconds that a read takes for which everything was there


class Watchdog:
    """The life of one stream over all its connections.

    Only events count as life, not bytes: a proxy can send comments for ever.
    """

    def __init__(
        self, policy: RetryPolicy, idle_timeout: float, *, random: Callable[[], float] = random.random
    ) -> None:
        self._policy = policy
        self._idle_timeout = idle_timeout
        self._random = random
        self._intervals: deque[float] = deque(maxlen=_LEARNED_FROM)
        self._silent = 0  # connections in a row that ended in silence without a single heartbeat
        self._hopeless = 0
        self._opened: float | None = None
        self.alive = 0.0
        """When the last event came, or the connection was opened."""
        self._silent_from = 0.0  # the same, but for the time in which nobody was reading
        self._read_at = 0.0
        self._heartbeat: float | None = None
        self._had_heartbeat = False
        self.tries = 0
        self.caught_up = False
        """Whether the last read had to wait, so that nothing more lay in the buffers."""

    @property
    def limit(self) -> float:
        """Seconds without an event after which a connection counts as dead."""
        base = max(_LEAST, _TIMES * max(self._intervals)) if self._intervals else self._idle_timeout
        return min(max(_MOST, self._idle_timeout), base * 2.0 ** min(self._silent, 10))

    @property
    def patience(self) -> float:
        """Seconds that the next read may take: what is left of the limit after the silence so far."""
        return max(_LEAST_READ, self.limit - (self._read_at - self._silent_from))

    def opened(self, now: float) -> None:
        self._opened = self.alive = self._silent_from = self._read_at = now
        self._heartbeat = None
        self._had_heartbeat = self.caught_up = False

    def read(self, began: float, ended: float) -> None:
        """Somebody has read. Between two reads nobody was listening, so that was no silence of the service."""
        self._silent_from += began - self._read_at
        self._read_at = ended
        self.caught_up = ended - began > _AT_ONCE

    def event(self, now: float) -> None:
        """A signal, or another event that could be read."""
        self.alive = self._silent_from = now

    def heartbeat(self, now: float, timestamp: float) -> None:
        """A heartbeat. The interval is learned from what they say themselves: they may have lain in a buffer."""
        self.alive = self._silent_from = now
        self._silent = 0
        self._had_heartbeat = True
        if self._heartbeat is not None and 1.0 <= timestamp - self._heartbeat <= _MOST:
            self._intervals.append(timestamp - self._heartbeat)
        self._heartbeat = timestamp

    def stalled(self, now: float) -> bool:
        """Whether it has been silent too long, whatever bytes came."""
        return now - self._silent_from > self.limit

    def broke_off(self, now: float, *, silent: bool = False) -> None:
        """The connection is over."""
        if self._opened is not None and self.alive - self._opened >= HEALTHY:
            self.tries = 0
        if silent and not self._had_heartbeat:
            self._silent += 1
        self._opened = None

    def succeeded(self) -> None:
        """It could be opened."""
        self._hopeless = 0

    def wait(self, failure: Failure | None, *, now: float, floor: float = 0.0) -> float | None:
        """Seconds until the next try; None when there is to be none.

        `failure`: why opening it failed; None when a connection that was open has ended. `now`: the local time.
        `floor`: seconds that the service has asked for on the stream.
        """
        self.tries += 1
        failure = failure or Failure(FailureCause.LOST)
        if failure.cause is FailureCause.HOPELESS or failure.status == 500:
            self._hopeless += 1
            if self._hopeless >= _HOPELESS_IN_A_ROW:
                return None
        elif not _passing(failure):
            return None
        wait = self._policy.wait(self.tries, failure, now=now, random=self._random)
        if wait.server > _LONGEST_NAMED:
            return None
        return max(wait.seconds, min(floor, self._policy.cap))


def _passing(failure: Failure) -> bool:
    """Whether another try may help."""
    return failure.cause is not FailureCause.STATUS or failure.status in (429, 502, 503, 504) or failure.status > 505
