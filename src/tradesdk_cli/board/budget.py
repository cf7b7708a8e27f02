"""What is read next, and when: in turn, and never more than a third of what the plan allows. Pure: told the time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from tradesdk_cli.board.state import Limit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

WINDOW = 60.0
_UNKNOWN_LIMIT = 60
_ONCE = 1e12
_NEW_AGENT, _ROOM = 1.5, 2.0
_SHARE = 3
_RESERVE = 10
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 60.0
_EVERY = {"agents": 20.0, "trades": 60.0, "usage": 120.0, "account": 600.0, "agent": 60.0}


@dataclass
class _Job:
    every: float
    last: float | None = None


class RequestBudget:
    """Decides what to read. At most a third of the rate limit in any minute; a burst at the beginning is part of it.

    Every kind of data has a time after which it should be read again. Where the allowance is too small for all of
    them, everything comes less often, in the same proportion.
    """

    def __init__(self, interval: float, chains: Iterable[int] = ()) -> None:
        """`interval`: seconds after which positions should be read again; nothing else is read more often.

        The latest signals of `chains` are read once: from then on the streams bring them.
        """
        self._interval = interval
        self._jobs = {"positions": _Job(interval)}
        for kind in ("agents", "trades", "usage", "account"):
            self._jobs[kind] = _Job(max(interval, _EVERY[kind]))
        for chain in chains:
            self._jobs[f"signals {chain}"] = _Job(_ONCE)
        self._limit = _UNKNOWN_LIMIT
        self._tokens = self._burst
        self._filled: float | None = None
        self._sent: deque[float] = deque()
        self._not_before = 0.0
        self._failures = 0

    @property
    def per_minute(self) -> int:
        """How many requests may be sent in any 60 seconds."""
        return max(1, self._limit // _SHARE)

    @property
    def _burst(self) -> float:
        # What stands ready at once and what flows in within a minute are a third together.
        return max(1.0, self.per_minute * 0.3)

    def agents(self, ids: list[str]) -> None:
        """These agents are to be read one by one as well."""
        wanted = dict.fromkeys(f"agent {one}" for one in ids)
        for name in [name for name in self._jobs if name.startswith("agent ") and name not in wanted]:
            del self._jobs[name]
        for name in wanted:
            self._jobs.setdefault(name, _Job(max(self._interval, _EVERY["agent"])))

    def learn(self, limit: Limit, *, wall: float, now: float) -> None:
        """What an answer said of the rate limit. When others have nearly used it up, it is left to them."""
        if limit.limit is not None and limit.limit > 0:
            self._limit = limit.limit
            self._tokens = min(self._tokens, self._burst)
        if limit.remaining is not None and limit.reset is not None and limit.remaining * _RESERVE < self._limit:
            away = limit.reset - wall
            if 0 < away <= WINDOW + 5:
                self._not_before = max(self._not_before, now + away)

    def failed(self, now: float, retry_after: float | None = None) -> float:
        """A read failed: nothing is read for a while, longer each time. Returns that time in seconds."""
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0**self._failures)
        self._failures = min(self._failures + 1, 10)
        pause = max(pause, min(retry_after or 0.0, 10 * _LONGEST_PAUSE))
        self._not_before = max(self._not_before, now + pause)
        return pause

    def worked(self) -> None:
        """A read worked."""
        self._failures = 0

    def next(self, now: float) -> str | None:
        """What to read now: `positions`, `agents`, `agent ID` …; None when nothing is due or it is too early."""
        if self.wait(now) > 0:
            return None
        name = self._most_due(now)
        self._jobs[name].last = now
        self._sent_one(now)
        return name

    def also_sent(self, now: float) -> None:
        """A read took one more request: for another page."""
        self._sent_one(now)

    def wait(self, now: float) -> float:
        """Seconds until there is something to read; 0 when there is."""
        self._fill(now)
        waits = [self._not_before - now, min(self._due_in(name, now) for name in self._jobs)]
        if self._tokens < 1:
            waits.append((1 - self._tokens) / self._flow)
        while self._sent and self._sent[0] <= now - WINDOW:
            self._sent.popleft()
        if len(self._sent) >= self.per_minute:
            waits.append(self._sent[-self.per_minute] + WINDOW - now)
        return max(0.0, *waits)

    @property
    def _flow(self) -> float:
        return max(0.5, self.per_minute - self._burst) / WINDOW

    def _fill(self, now: float) -> None:
        if self._filled is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._flow)
        self._filled = now

    def _sent_one(self, now: float) -> None:
        self._tokens -= 1
        self._sent.append(now)

    def _most_due(self, now: float) -> str:
        due = [name for name in self._jobs if self._due_in(name, now) <= 0]
        return max(due or self._jobs, key=lambda name: self._urgency(name, now))

    def _urgency(self, name: str, now: float) -> float:
        """How much later than wanted, as a multiple. What comes often has to leave room for the rest."""
        job = self._jobs[name]
        if job.last is None:
            # Many agents must not hold up what is read of all of them at once.
            return _NEW_AGENT if name.startswith("agent ") else float("inf")
        return (now - job.last) / max(job.every, _ROOM / self._flow)

    def _due_in(self, name: str, now: float) -> float:
        job = self._jobs[name]
        return 0.0 if job.last is None else job.last + job.every - now
