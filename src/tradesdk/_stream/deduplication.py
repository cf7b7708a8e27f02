"""Deduplication and backfill: which signals are new, which may be missing, and the order to yield them in. No I/O.

All times are Unix seconds of the service. The service cannot resume a stream, so after every reconnect two walks
through the history find what came in between: one at once, and one after the settle time, when late signals are listed
too. An audit is a walk for signals that the stream left out while it was connected.

`Deduplicator` gets live signals (`live`), heartbeats and pages of a walk (`add`), and appends what the stream yields to
`items`. It is not safe for threads: `StreamState` has the lock.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import itemgetter

from .._http.service_time import A_DAY, AHEAD
from ..models.signals import Signal
from ..models.stream import MARKS, Gap, StreamItem, StreamSignal
from .checkpoint import CheckpointState
from .events import content_hash, marked, unix, utc

OVERLAP = 10.0
"""Seconds before the position that every walk includes: signals may arrive out of the order of their times."""
REMEMBERED = 900.0
"""Seconds for which ids are remembered, counted back from the position, or from older live signals."""
MOST_REMEMBERED = 50_000
"""Ids. If there are more, only the newer half is kept."""
MOST_HELD = 10_000
"""Signals of a walk that are held in memory. If there are more, the oldest are yielded, and another walk follows."""
SURELY_KEPT = 30.0
"""Seconds that every history is assumed to keep. On a quiet chain the last signal may be older than the history."""
_MOST_KEPT = 1_000  # ids in a checkpoint that the stream may have left out since the last audit
_FEW = 64  # ids
_FIELDS = len(StreamSignal.model_fields)
_SECOND = 1.0  # the service's time comes from dates in whole seconds


@dataclass
class HistoryWalk:
    """A walk through the history, page by page, newest first as the service lists it."""

    start: float  # signals from this time on are wanted
    cut: float  # signals up to this time are yielded when it ends
    began: float
    waits: bool = False  # whether newer signals wait to come live
    anchor: float = -math.inf  # the time of a signal that the history must contain, unless it was dropped
    found: dict[str, tuple[float, Signal]] = field(default_factory=dict)  # the oldest new signals, by id
    truncated: bool = False
    oldest: float = math.inf  # the time of the oldest signal listed

    @property
    def first(self) -> int:
        """`from` of the requests, a second earlier: the service may exclude it."""
        start = self.start if self.anchor == -math.inf else min(self.start, self.anchor)
        return max(0, math.floor(start) - 1)


class Deduplicator:
    """Remembers what one stream has seen. Only signals that match `predicate` are yielded."""

    def __init__(
        self, *, settle: float, predicate: Callable[[Signal], bool] | None = None, acknowledging: bool = False
    ) -> None:
        self._settle = settle
        self._predicate = predicate
        self._acknowledging = acknowledging
        self.begin = self.position = 0.0
        self.ahead = A_DAY
        """Seconds that an event may be ahead of the service's time and still be believed."""
        self._audited = 0.0  # until this time, the stream left out nothing
        self._resumed = 0.0  # older signals are of an earlier run
        self._newest = -math.inf  # the time of the latest signal, unless it is dated in the future
        self._before: dict[str, float] = {}  # the newest signals that the history had before the stream
        self.listed = -math.inf
        """The time of the latest of them."""
        self._complete = -math.inf  # no older signal can still come live, or be missed without a report
        # By id, numbers only: thousands of other objects would keep the garbage collector busy.
        self._seen: dict[str, float] = {}  # the signal's time, or that of the newest signal before it if it was late
        self._contents: dict[str, int] = {}
        self._forget_at = _FEW
        self._forgotten = -math.inf  # before this time it is no longer known what was seen
        self._waiting: list[tuple[float, Signal]] = []  # listed in the history, and may still come live
        self._unacknowledged: dict[str, float] = {}
        self.replayed = self.late = self.duplicates = self.filtered = self.signals = 0

    # Where it begins.

    def start(self, begin: float) -> None:
        self.begin = self.position = self._audited = self._resumed = float(math.floor(begin))

    def before(self, signals: Iterable[Signal], now: float) -> None:
        """Note the signals that the history had before the stream: they are not wanted, unless they come live."""
        self._before = {signal.id: unix(signal.timestamp) for signal in signals}
        self.listed = max((when for when in self._before.values() if when <= now + self.ahead), default=-math.inf)

    def resume(self, state: CheckpointState) -> bool:
        """Continue from a checkpoint. False when its position cannot be right; the stream then starts over."""
        # A signal set the position, and `state` names one that was acknowledged there.
        sound = state.position <= state.begin + OVERLAP or any(
            when >= state.position - OVERLAP for _, when in state.handled
        )
        self.begin = state.begin
        self.position = self._audited = self._resumed = state.position if sound else state.begin
        known = (when for _, when in state.handled if state.begin < when <= self.position + self.ahead)
        self._newest = max(known, default=-math.inf) if sound else -math.inf
        self._forgotten = self.position - OVERLAP - 1
        self._seen = dict(state.handled)
        return sound

    def not_after(self, now: float, *, away: float | None = None) -> bool:
        """Whether the position was ahead of the service's time. If so it is reset, as signals before it would be
        skipped. Ten seconds are tolerated, as clocks of servers differ. Known ids are not yielded again.

        `away`: seconds since the last event; None if there was none yet.
        """
        if self.position <= now + OVERLAP:
            return False
        self.begin = min(self.begin, now)
        self.position = self._audited = self._resumed = self.begin if away is None else max(self.begin, now - away)
        self._newest = self._complete = -math.inf
        self._forgotten = min(self._forgotten, self.position - OVERLAP - 1)
        return True

    # What comes.

    def live(self, signal: StreamSignal, now: float, out: deque[StreamItem]) -> bool:
        """Take a signal from the stream. False when its id came before with other content."""
        fields = signal.__dict__
        if len(fields) > _FIELDS:  # the service sent fields with the names of our marks
            for name in MARKS:
                vars(signal).pop(name, None)
        when = unix(fields["timestamp"])
        signal_id = fields["id"]
        if signal_id in self._seen:
            self.duplicates += 1
            return self._agrees(signal, when)
        if when >= self.listed - AHEAD:  # otherwise it is old, and says nothing about the time
            self._first_event(when, self.ahead)
        if self._complete < when <= now + self.ahead:
            self._complete = when
        agrees = not self._waiting or self._overtake(signal, when, now, out)
        self._take(signal, when, now, out)
        return agrees

    def heartbeat(self, when: float, now: float, out: deque[StreamItem]) -> None:
        """Take a heartbeat: signals before its time will no longer come live."""
        self._first_event(when, A_DAY)
        self._complete = max(self._complete, min(when, now))
        if when <= now + self.ahead:
            self._yield_waiting(bisect_left(self._waiting, when, key=itemgetter(0)), now, out)

    def _first_event(self, when: float, most: float) -> None:
        """Begin at the first event if it is older: the stream lags, or the responses' `Date` is ahead."""
        if self._newest == -math.inf and self.begin - most <= when < self.begin:
            self.start(when)

    # The history.

    def backfill(self, now: float, *, attached: float | None = None) -> HistoryWalk:
        """The walk to do after a reconnect at `attached`; without it, the first of the two."""
        settled = now - self._settle - 1
        start = max(self.position - OVERLAP, self.begin)
        if attached is None:
            self._waiting = []  # the walk finds them again
            cut = settled
        else:
            cut = math.floor(attached)
        last = max(self._newest, self.listed)
        anchor = last if last <= settled else -math.inf
        return HistoryWalk(start, cut, now, waits=attached is not None, anchor=anchor)

    def audit(self, now: float) -> HistoryWalk:
        """The walk to do for signals that the stream left out since the last audit."""
        return HistoryWalk(max(self._audited - OVERLAP, self.begin), now - self._settle - 1, now)

    def add(self, walk: HistoryWalk, signals: Iterable[Signal]) -> tuple[bool, list[Signal]]:
        """Take a page of the history. Returns whether to read on, and signals that came before with other content."""
        conflicts = []
        newest = -math.inf
        for signal in signals:
            when = unix(signal.timestamp)
            newest = max(newest, when)
            walk.oldest = min(walk.oldest, when)
            if signal.id in self._seen:
                if not self._agrees(signal, when):
                    conflicts.append(signal)
            elif signal.id in walk.found:  # alone not an error: the list grows while it is read
                if content_hash(walk.found[signal.id][1], walk.found[signal.id][0]) != content_hash(signal, when):
                    conflicts.append(signal)
            elif when >= walk.start and when > self._forgotten and signal.id not in self._before:
                walk.found[signal.id] = when, signal
        if len(walk.found) > MOST_HELD:
            walk.truncated = True
            newest_first = sorted(walk.found.items(), key=lambda item: item[1][0], reverse=True)
            walk.found = dict(newest_first[-MOST_HELD:])
        return newest >= walk.start or newest == -math.inf, conflicts

    def found(self, walk: HistoryWalk, now: float, out: deque[StreamItem]) -> tuple[Gap | None, bool]:
        """Finish a walk. Returns a gap if the history does not reach back to the last signal seen, and whether another
        walk must follow because this one found more than it holds.
        """
        position = self.position
        yielded = self._yield_found(walk, now, out)
        gap = self._out_of_reach(walk, position) if walk.waits or yielded else None
        if walk.start <= self._audited:
            newest = max(when for when, _ in walk.found.values()) if walk.truncated else math.inf
            self._audited = max(self._audited, min(walk.cut, self.position, newest))  # min: clocks may be wrong
        more = walk.truncated and yielded > 0
        if walk.waits and not more:
            self._complete = max(self._complete, walk.cut)
        return gap, more

    def failed(self, walk: HistoryWalk, reason: str, now: float, out: deque[StreamItem]) -> Gap:
        """Finish a walk that failed. What it found is yielded; an audit will try again."""
        position = self.position
        self._yield_found(walk, now, out)
        return Gap(utc(position), utc(max(position, walk.began)), reason)

    def _yield_found(self, walk: HistoryWalk, now: float, out: deque[StreamItem]) -> int:
        """Yield up to the cut, the oldest first, and what is dated in the future. Returns how many."""
        signals = [*reversed(walk.found.values())]  # keeps equal times in the order of publication
        signals.sort(key=itemgetter(0))
        waiting = [each for each in signals if walk.cut < each[0] <= now + self.ahead]
        for when, signal in signals:
            if not walk.cut < when <= now + self.ahead:
                self._take(signal, when, now, out, replayed=True)
        self._waiting = waiting if walk.waits else [each for each in self._waiting if each[1].id not in self._seen]
        return len(signals) - len(waiting)

    def _out_of_reach(self, walk: HistoryWalk, position: float) -> Gap | None:
        """The gap if the history has already dropped signals: it has nothing as old as the last one seen."""
        if walk.anchor == -math.inf or walk.oldest <= walk.anchor:
            return None
        start, kept = max(position, self._complete), walk.began - SURELY_KEPT
        # A history that is not empty should contain a last signal younger than `kept`.
        if max(start, walk.anchor) >= kept and (walk.oldest == math.inf or walk.anchor < kept):
            return None
        end = min(walk.oldest, walk.began)
        if end <= start:
            return None
        self._complete = end
        return Gap(utc(start), utc(end), "the history does not reach back to the last signal seen")

    @property
    def waiting(self) -> int:
        """The number of signals from the history that may still come live."""
        return len(self._waiting)

    # What was taken.

    def acknowledge(self, signal_id: str) -> bool:
        """Mark a signal as done. False when it is unknown or done already."""
        return self._unacknowledged.pop(signal_id, None) is not None

    def state(self) -> CheckpointState:
        """The state that a restart needs so that exactly the signals that were not acknowledged come again."""
        position = self._acknowledged()
        # The next run audits from the last audit on, unless that takes too many ids.
        audited = max(self.begin, min(position, max(self._audited, self._forgotten + OVERLAP + 1)))
        handled = self._handled(audited)
        if len(handled) <= _MOST_KEPT:
            return CheckpointState(self.begin, audited, handled)
        return CheckpointState(self.begin, position, self._handled(position))

    def _acknowledged(self) -> float:
        """The time of the last acknowledged signal before the first one that is not; where it resumed if none."""
        bound = min((self.position, *self._unacknowledged.values()))
        done = [when for each, when in self._seen.items() if each not in self._unacknowledged and when <= self.position]
        last = max((when for when in done if self._resumed <= when <= bound), default=self._resumed)
        if last - OVERLAP > self._forgotten:
            return last
        # Some acknowledged ids are forgotten, and would come again.
        return min((when for when in done if when - OVERLAP > self._forgotten), default=last)

    def _handled(self, position: float) -> tuple[tuple[str, float], ...]:
        """Acknowledged signals that a walk from `position` on may find."""
        bound = position - OVERLAP
        handled = self._before | self._seen
        return tuple(
            (each, when) for each, when in handled.items() if when >= bound and each not in self._unacknowledged
        )

    # Inside.

    def _take(self, signal: Signal, when: float, now: float, out: deque[StreamItem], *, replayed: bool = False) -> None:
        late = when < self._newest
        if when <= now + self.ahead:  # otherwise it is dated in the future, and says nothing about the position
            if when > self._newest and when >= self.begin:
                self._newest = when
            if when > self.position:
                self.position = max(self.position, min(when, now + _SECOND))
        self._seen[signal.id] = self._newest if late else when
        self._contents[signal.id] = content_hash(signal, when)
        if len(self._seen) > self._forget_at:
            self._forget()
        if self._predicate is not None and not self._predicate(signal):
            self.filtered += 1
            return
        self.signals += 1
        if self._acknowledging:
            self._unacknowledged[signal.id] = min(when, self.position)
        if replayed or late:
            self.replayed += replayed
            self.late += late
            out.append(marked(signal, replayed=replayed, late=late))
        else:
            out.append(signal)  # type: ignore[arg-type] # a live signal is a StreamSignal

    def _forget(self) -> None:
        """Forget ids that no walk can find any more, and the oldest if there are too many."""
        position = self._acknowledged() if self._acknowledging else self.position
        # Signals that an audit found may still come live: a consumer may be behind the connection's buffer.
        bound = min(min(position, self._complete) - REMEMBERED, self._audited - OVERLAP)
        kept = [each for each, when in self._seen.items() if when >= bound][-MOST_REMEMBERED // 2 :]
        gone = self._seen.keys() - kept
        past = (self._seen[each] for each in gone if self._seen[each] <= self._newest)
        self._forgotten = max((self._forgotten, *past))
        self._seen = {each: self._seen[each] for each in kept}
        self._contents = {each: self._contents[each] for each in kept if each in self._contents}
        # Only when there are twice as many, so that the cost per signal stays the same.
        self._forget_at = min(2 * len(kept) + _FEW, MOST_REMEMBERED)

    def _agrees(self, signal: Signal, when: float) -> bool:
        """Whether a signal has the same content as when it was seen, as far as that is known."""
        found = content_hash(signal, when)
        return self._contents.get(signal.id, found) == found

    def _overtake(self, signal: StreamSignal, when: float, now: float, out: deque[StreamItem]) -> bool:
        """Yield what the history lists before `signal`: it will no longer come live.

        False when the history has `signal` itself with other content.
        """
        index = next((index for index, (_, each) in enumerate(self._waiting) if each.id == signal.id), None)
        if index is not None:
            self._yield_waiting(index, now, out)
            listed_at, listed = self._waiting.pop(0)
            return content_hash(listed, listed_at) == content_hash(signal, when)
        if when <= now + self.ahead:
            self._yield_waiting(bisect_left(self._waiting, when, key=itemgetter(0)), now, out)
        return True

    def _yield_waiting(self, count: int, now: float, out: deque[StreamItem]) -> None:
        for when, signal in self._waiting[:count]:
            self._take(signal, when, now, out, replayed=True)
        del self._waiting[:count]
