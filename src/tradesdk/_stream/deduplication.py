"""Deduplication and backfill: which signals are new, which may be missing, and the order to yield them in. No I/O.

All times are Unix seconds of the service. The service cannot resume a stream, so after every reconnect two "looks" read
the history for what came in between, each in one or more `BackfillWindow`s. New signals are yielded oldest first.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import islice, pairwise
from operator import itemgetter

from ..models.signals import Signal
from ..models.stream import MARKS, Gap, StreamItem, StreamSignal
from .checkpoint import CheckpointState
from .events import fingerprint, marked, unix, utc
from .seen_ids import SeenIds
from .server_clock import A_DAY, AHEAD

OVERLAP = 10.0
"""Seconds before the position that every look includes: signals may arrive out of the order of their times."""
AUDITED_PAGES = 20
"""Pages that an audit reads at most, so that it does not use up the rate limit."""
SURELY_KEPT = 30.0
"""Seconds that every history is assumed to keep. On a quiet chain the last signal may be older than the history."""
_MOST_KEPT = 1_000  # ids in a checkpoint, so that the next run can look for what the stream left out
_FIELDS = len(StreamSignal.model_fields)
_SECOND = 1.0  # the service's time comes from dates in whole seconds
MOST_HELD = 10_000
"""Signals that a look holds in memory. A longer one is read in several windows, the oldest first."""


@dataclass
class BackfillWindow:
    """One walk through the history, newest first as the service lists it.

    Attributes:
        start, until: the period; `until` is None for no end.
        cut: signals up to this time are released when the walk is done.
        holds: whether newer ones wait to come live.
        end: the end of the gap if the walk fails.
        anchor: time of a signal that the history must contain unless it was dropped; -inf when none is known.
    """

    start: float
    cut: float
    end: float
    until: float | None = None
    holds: bool = False
    found: deque[tuple[float, Signal]] = field(default_factory=lambda: deque(maxlen=MOST_HELD))
    fresh: int = 0
    marks: list[float] = field(default_factory=list)
    released: int = 0
    fingerprints: dict[str, int] = field(default_factory=dict)
    audit: bool = False
    pages_left: float = math.inf
    oldest: float = math.inf
    anchor: float = -math.inf

    @property
    def begin(self) -> float:
        """Where the walk ends: at the start, or at the anchor if that is older."""
        return self.start if self.anchor == -math.inf else min(self.start, self.anchor)

    @property
    def window(self) -> tuple[int, int | None]:
        """`from` and `to` of the requests, each a second wider: the service may exclude the ends."""
        return max(0, math.floor(self.begin) - 1), None if self.until is None else math.floor(self.until) + 1

    def hold(self, signal: Signal, when: float, fingerprint: int) -> None:
        """Keep a signal that was not seen before."""
        if len(self.fingerprints) >= MOST_HELD:
            self.fingerprints.clear()
        self.fingerprints[signal.id] = fingerprint
        if self.fresh % (MOST_HELD // 2) == 0:
            self.marks.append(when)
        self.fresh += 1
        self.found.append((when, signal))

    @property
    def truncated(self) -> bool:
        """Whether it found more than it holds: the newest were dropped, and another window follows."""
        return self.fresh > len(self.found)

    def windows(self) -> list[float | None]:
        """The ends of the walks that follow, each for about half of what fits; None for the last."""
        left = self.fresh - len(self.found)
        # There is a mark every half load, starting with the newest.
        ends = [mark for place, mark in enumerate(self.marks) if 0 < place * (MOST_HELD // 2) < left]
        return [*reversed(ends), None]


class Deduplicator:
    """Remembers what one stream has seen. Only signals that match `predicate` are yielded."""

    def __init__(
        self, *, settle: float, predicate: Callable[[Signal], bool] | None = None, acknowledging: bool = False
    ) -> None:
        self._settle = settle
        self._predicate = predicate
        self._acknowledging = acknowledging
        self._plain = predicate is None and not acknowledging
        self.begin = self.position = 0.0
        self._through = 0.0  # nothing is missing before
        self._seen = SeenIds()
        self._newest = -math.inf
        self._given = -math.inf  # the latest that was yielded ahead of the position, perhaps by an earlier run
        self._disowned: frozenset[str] = frozenset()  # dated by a wrong clock: nothing is late because of them
        self._heard = -math.inf  # the latest live signal; what is still in buffers, or sent again, is newer
        self._reached = -math.inf  # nothing older can come live, by the heartbeats and the looks
        self._reported = -math.inf  # the end of the last gap
        self.ahead = AHEAD
        self._windows: list[float | None] = []  # ends of the walks that are left of a long look
        self._unaudited: tuple[float, float] | None = None  # an audit that ran out of pages: where to continue, its cut
        self._before: dict[str, float] = {}  # ids in the history before the stream was opened
        self._listed: tuple[float, float] | None = None  # the oldest and the newest of them
        self._guessed = False
        self._waiting: deque[tuple[float, Signal]] = deque()
        self._unacknowledged: dict[str, float] = {}
        self.replayed = self.late = self.duplicates = self.filtered = self.conflicts = self.signals = 0

    # where it begins

    def start(self, begin: float) -> None:
        """Begin with signals from `begin` on."""
        self.begin = self.position = self._through = float(math.floor(begin))

    def start_here(self, now: float, *, synced: bool) -> None:
        """Begin with signals from `now` on. `synced`: `now` is the service's time; else the history's newest counts."""
        self._guessed = True
        self.start(self._listed[1] if self._listed is not None and not synced else now)
        if self._listed is not None and self._listed[0] <= self.begin - OVERLAP:
            # What the history had before is known, so a look may reach back.
            self.begin = max(0.0, self.begin - OVERLAP)

    def without(self, signals: Collection[Signal], *, complete: bool) -> None:
        """Exclude signals that were in the history before the stream was opened, unless they come live.

        `complete`: the history had no others.
        """
        times = [unix(signal.timestamp) for signal in signals]
        self._before = dict(zip((signal.id for signal in signals), times, strict=True))
        oldest = -math.inf if complete else math.inf
        if not complete and all(newer >= older for newer, older in pairwise(times)):
            oldest = min(times, default=math.inf)
        self._listed = oldest, max(times, default=0.0)

    def not_before(self, when: float) -> None:
        """Begin earlier if the first live event is older than a guessed beginning."""
        if not self._guessed or self._heard != -math.inf or not self.begin - A_DAY <= when < self.begin:
            return
        # Not before what the history listed: one late signal must not bring back yesterday's.
        oldest, newest = self._listed or (self.begin, self.begin)
        bound = max(newest - OVERLAP, oldest)
        if bound < self.begin:
            self.start(max(when, bound))

    def not_after(self, now: float, *, away: float | None = None) -> bool:
        """Whether the position was ahead of the service's time. It is put back, because signals before it would be
        skipped. Ten seconds are tolerated, because clocks of servers differ.

        `away`: seconds since the last event; None when there was none yet.
        """
        if self.position <= now + OVERLAP:
            return False
        self.begin = min(self.begin, now)
        self._put_back(self.begin if away is None else max(self.begin, now - away))
        return True

    def _put_back(self, position: float) -> None:
        """Go back to before everything that may not have been seen. Known ids are not yielded again."""
        self.position = self._through = position
        self._newest = self._given = self._heard = self._reached = self._reported = -math.inf
        self._unaudited, self._guessed = None, False
        self._seen.put_back(position, position - OVERLAP - 1)
        self._disowned = frozenset(self._seen.ahead)

    def resume(self, state: CheckpointState) -> bool:
        """Continue from a checkpoint. False when its position cannot be right; the stream then starts over."""
        self.begin = state.begin
        # A signal set the position, and `state` names one that was acknowledged there.
        marks = [when for _, when in state.handled if when > state.begin]
        sound = state.position <= state.begin + OVERLAP or any(when >= state.position - OVERLAP for when in marks)
        self.position = self._through = state.position if sound else state.begin
        self._newest = max((when for when in marks if when <= self.position), default=-math.inf)
        self._seen.forgotten = self.position - OVERLAP - 1
        for signal_id, when in state.handled:
            if when > self.position:
                self._seen.ahead[signal_id] = when
            self._seen.add(signal_id, when, 0, self.position)
        return sound

    # what comes

    def live(self, signal: StreamSignal, now: float, out: deque[StreamItem]) -> bool:
        """Take a signal from the stream. False when its id came before with other content."""
        fields = signal.__dict__  # attributes of a model take five times as long
        if len(fields) > _FIELDS:  # the service sent fields with the names of our marks
            for name in MARKS:
                vars(signal).pop(name, None)
        seen = self._seen
        signal_id = fields["id"]
        known = seen.fingerprints.get(signal_id)
        when = unix(fields["timestamp"])
        if known is not None:
            if self._heard < when <= now + self.ahead:
                self._heard = when
            self.duplicates += 1
            return self._agrees(signal, when, known)
        expected = self._newest <= when <= now + _SECOND and when >= self._given
        if expected and self._plain and not self._waiting and when >= self.begin:
            # The usual case: as below, without the checks that do not apply.
            self._newest = self._heard = when
            position = self.position
            if when > position:
                self.position = position = when
            self.signals += 1
            out.append(signal)
            if seen.add(signal_id, when, fingerprint(signal, when), position):
                seen.forget(position)
            return True
        self.not_before(when)
        if self._heard < when <= now + self.ahead:
            self._heard = when
        agrees = not self._waiting or self._overtake(signal, when, now, out)
        self._take(signal, when, now, out)
        return agrees

    def heartbeat(self, timestamp: float, now: float, out: deque[StreamItem]) -> None:
        """Take a heartbeat: signals before its time will no longer come live."""
        self.not_before(timestamp)
        self._reached = max(self._reached, min(timestamp, now))
        if self._waiting and timestamp <= now + self.ahead:
            self._release(timestamp, now, out)

    # looking back

    def look(self, now: float, *, attached: float | None = None) -> BackfillWindow:
        """The window to read after a reconnect at `attached`; without it, the first of the two looks."""
        given = (when for each, when in self._seen.ahead.items() if each not in self._disowned)
        self._given = max((when for when in given if when <= now + self.ahead), default=self._given)
        settled = now - self._settle - 1
        start = max(self.position - OVERLAP, self.begin)
        cut = settled if attached is None else math.floor(attached)
        until = self._windows[0] if self._windows else None
        return BackfillWindow(start, cut, now, until, holds=attached is not None, anchor=self._anchor(start, settled))

    def _anchor(self, start: float, settled: float) -> float:
        """The time of a signal that a history from `start` on must contain; -inf when there is none."""
        # After a restart the acknowledged ones are in `ahead`, with their times.
        seen = max((when for when in self._seen.ahead.values() if when <= settled), default=-math.inf)
        seen = max(seen, self._newest)
        if seen == -math.inf and self._before and self._listed is not None and self._listed[0] < math.inf:
            return self._listed[1]  # nothing was seen yet, but the history had signals before
        return seen if start <= seen <= settled else -math.inf

    def audit(self, now: float) -> BackfillWindow:
        """The window to read for signals that the stream left out. Continues an audit that ran out of pages."""
        start = max(self._through - OVERLAP, self.begin)
        until, cut = self._unaudited or (None, now - self._settle - 1)
        return BackfillWindow(start, cut, now, until, holds=until is None, audit=True, pages_left=AUDITED_PAGES)

    def add(self, look: BackfillWindow, signals: Collection[Signal]) -> tuple[bool, list[Signal]]:
        """Take a page of the history. Returns whether to read on, and conflicts: two different signals with one id."""
        conflicts = []
        look.pages_left -= 1
        newest = -math.inf
        for signal in signals:
            when = unix(signal.timestamp)
            newest = max(newest, when)
            look.oldest = min(look.oldest, when)
            known = self._seen.fingerprints.get(signal.id)
            if known is not None:
                if not self._agrees(signal, when, known):
                    conflicts.append(signal)
            elif signal.id in look.fingerprints:  # no error by itself: the list grows while it is read
                if look.fingerprints[signal.id] not in (0, fingerprint(signal, when)):
                    look.fingerprints[signal.id] = 0
                    self.conflicts += 1
                    conflicts.append(signal)
            elif (
                look.start <= when <= (math.inf if look.until is None else look.until)
                and when > self._seen.forgotten
                and signal.id not in self._before
            ):
                look.hold(signal, when, fingerprint(signal, when))
        return (not signals or newest >= look.begin) and look.pages_left > 0, conflicts

    def found(self, look: BackfillWindow, now: float, out: deque[StreamItem]) -> Gap | None:
        """Finish a walk. Returns a gap when the history does not reach back to what was seen, or is unordered and too
        long to sort.
        """
        before = self.position
        # An id may come twice in one walk: the list grows while it is read.
        signals = list({signal.id: (when, signal) for when, signal in reversed(look.found)}.values())
        ordered = all(older[0] <= newer[0] for older, newer in pairwise(signals))
        signals.sort(key=itemgetter(0))
        last = look.cut if look.until is None else min(look.cut, look.until)
        if look.pages_left <= 0:
            last = min(last, self.position)  # newer ones would come before what was not read
        place = bisect_right(signals, last, key=itemgetter(0))
        for when, signal in signals[:place]:
            self._take(signal, when, now, out, replayed=True)
        look.released = place
        gap = self._out_of_reach(look, before)
        if look.holds:
            self._reached = max(self._reached, look.cut)
        if look.truncated or (look.until is not None and not look.audit):
            reason = "the history is unordered and too long to sort"
            return gap if ordered else Gap(utc(max(self.begin, look.start)), utc(max(before, look.end)), reason)
        if look.pages_left <= 0:
            self._unaudited = look.oldest, look.cut
            return None
        if look.holds:
            self._hold(signals[place:], now, out)
        # Other looks start at the position, and do not find what the stream left out before it.
        if look.audit or (look.holds and look.start <= self._through):
            self._through = max(self._through, min(look.cut, look.end, self.position))  # min: clocks may be wrong
            self._unaudited = None
        return gap

    def _out_of_reach(self, look: BackfillWindow, position: float) -> Gap | None:
        """The gap when the history has already dropped signals: it has nothing as old as the last one seen."""
        if look.oldest <= look.anchor or look.anchor == -math.inf or not (look.holds or look.released):
            return None
        kept = look.end - SURELY_KEPT
        # A history that is not empty should contain a last signal younger than `kept`.
        if max(look.anchor, self._heard, self._reached) >= kept and (look.oldest == math.inf or look.anchor < kept):
            return None
        start, end = max(position, self._reported), min(look.oldest, look.end)
        if end <= start:
            return None
        self._reported = end
        return Gap(utc(start), utc(end), "the history does not reach back to the last signal seen")

    def _hold(self, signals: list[tuple[float, Signal]], now: float, out: deque[StreamItem]) -> None:
        """Keep signals that may come live. None wait if one is dated in the future: it would block the others."""
        ahead = bool(signals) and signals[-1][0] > now + self.ahead
        self._waiting = deque(() if ahead else signals)
        for when, signal in signals if ahead else ():
            self._take(signal, when, now, out, replayed=True)

    def goes_on(self, look: BackfillWindow) -> bool:
        """Whether another walk belongs to this look, because it found more than it holds."""
        more = look.truncated and look.released > 0
        if look.audit or (look.until is None and not more):
            return False
        if look.until is None:
            self._windows = look.windows()
        elif not more:
            del self._windows[0]
        return True

    def end_look(self) -> None:
        """Drop the walks that are left."""
        self._windows = []

    def failed(self, look: BackfillWindow, reason: str, now: float, out: deque[StreamItem]) -> Gap:
        """Finish a walk that failed: it found the newest part, and before that there is a gap."""
        start, end, through = self.position, look.end, self._through
        newest_first = all(newer[0] >= older[0] for newer, older in pairwise(look.found))
        if look.found and look.until is None and not look.truncated and newest_first:
            end = min(end, look.found[-1][0])
        look.until = None
        unaudited = self._unaudited
        self.found(look, now, out)
        self._unaudited = unaudited
        self._through = through  # an audit will try again
        return Gap(utc(start), utc(max(start, end)), reason)

    @property
    def unaudited(self) -> bool:
        """Whether an audit ran out of pages."""
        return self._unaudited is not None

    @property
    def waiting(self) -> int:
        """The number of signals from the history that may still come live."""
        return len(self._waiting)

    # what was taken

    def acknowledge(self, signal_id: str) -> bool:
        """Mark a signal as done. False when it is unknown or done already."""
        return self._unacknowledged.pop(signal_id, None) is not None

    def state(self) -> CheckpointState:
        """What a restart needs, so that exactly the signals that were not acknowledged come again."""
        position = min(self._unacknowledged.values(), default=self.position)
        # For older ones it is no longer known what was acknowledged.
        position = max(self.begin, min(max(position, self._seen.forgotten + OVERLAP + 1), self.position))
        # The next run audits from the last audit on, unless that takes too many ids.
        unaudited = max(self.begin, min(position, max(self._through, self._seen.forgotten + OVERLAP + 1)))
        if len(list(islice(self._seen.since(unaudited - OVERLAP), _MOST_KEPT + 1))) <= _MOST_KEPT:
            position = unaudited
        handled = self._handled(position)
        if position > self.begin + OVERLAP and not any(when >= position - OVERLAP for _, when in handled):
            # No signal confirms the position: `resume` would not trust it.
            last = next((when for each, when in self._seen.since(-math.inf) if each not in self._unacknowledged), None)
            position = self.begin if last is None else max(self.begin, min(position, last + OVERLAP))
            handled = self._handled(position)
        before = [(signal_id, when) for signal_id, when in self._before.items() if when >= position - OVERLAP]
        return CheckpointState(self.begin, position, (*before, *handled))

    def _handled(self, position: float) -> list[tuple[str, float]]:
        since = self._seen.since(position - OVERLAP)
        return [(each, when) for each, when in since if each not in self._unacknowledged][::-1]

    # inside

    def _take(self, signal: Signal, when: float, now: float, out: deque[StreamItem], *, replayed: bool = False) -> None:
        late = when < self._newest or when < self._given
        if when <= now + self.ahead:  # else it is dated in the future, and tells nothing about the position
            if when > self._newest:
                self._newest = when
            reached = min(when, now + _SECOND)
            if reached > self.position:
                self.position = reached
        if when > self._newest:
            self._seen.ahead[signal.id] = when
        if self._seen.add(signal.id, when, fingerprint(signal, when), max(self.position, self._newest)):
            reached = self.position if self._heard == -math.inf else min(self.position, self._heard)
            self._seen.forget(min(reached, next(iter(self._unacknowledged.values()), reached)))
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

    def _overtake(self, signal: StreamSignal, when: float, now: float, out: deque[StreamItem]) -> bool:
        """Release what the history has before `signal`: it will no longer come live.

        False when the history has `signal` itself with other content.
        """
        place = next((place for place, (_, each) in enumerate(self._waiting) if each.id == signal.id), None)
        if place is not None:
            for _ in range(place):
                self._take_waiting(now, out)
            same, other = self._waiting.popleft()
            if fingerprint(other, same) != fingerprint(signal, when):
                self.conflicts += 1
                return False
        elif when <= now + self.ahead:
            self._release(when, now, out)
        return True

    def _release(self, before: float, now: float, out: deque[StreamItem]) -> None:
        while self._waiting and self._waiting[0][0] < before:
            self._take_waiting(now, out)

    def _take_waiting(self, now: float, out: deque[StreamItem]) -> None:
        when, signal = self._waiting.popleft()
        if signal.id not in self._seen.fingerprints:  # another look may have released it
            self._take(signal, when, now, out, replayed=True)

    def _agrees(self, signal: Signal, when: float, known: int) -> bool:
        if not known or known == fingerprint(signal, when):
            return True
        self.conflicts += 1
        self._seen.fingerprints[signal.id] = 0  # report a conflict once
        return False
