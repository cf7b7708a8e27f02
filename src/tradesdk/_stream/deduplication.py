"""Which signals were seen, which may be missing, what to ask the history for and in which order to yield. No I/O.

All times are Unix seconds of the service. A stream gives no place to go on from, so every time it is opened again the
history is asked for what came in between: a `BackfillWindow`. What it finds and was not seen is released oldest first.
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
"""Seconds that every look reaches back behind the position: signals needn't arrive in the order of their times."""
AUDITED_PAGES = 20
"""Pages that an audit reads at most: it must not use up the rate limit where there are very many signals."""
SURELY_KEPT = 30.0
"""Seconds that every history is taken to keep: on a quiet chain the last signal may be older than all that it has."""
_MOST_KEPT = 1_000  # ids that a checkpoint names so that the next run can look for what the stream left out
_FIELDS = len(StreamSignal.model_fields)
_SECOND = 1.0  # the time of the service is known from dates without fractions
MOST_HELD = 10_000
"""Signals that a look holds at once. A longer one is read in several windows, the oldest first."""


@dataclass
class BackfillWindow:
    """One walk through the history, newest first as the service lists it.

    Attributes:
        start: from when on; `until`: up to when, None for no end.
        cut: what is not newer than this is released when the walk is done.
        holds: whether it waits for the rest to come live.
        end: until when something may be missing if the walk fails.
        anchor: when a signal was that the history must have, unless it keeps too little; -inf: nothing is known of one.
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
    prints: dict[str, int] = field(default_factory=dict)
    audit: bool = False
    pages_left: float = math.inf
    oldest: float = math.inf
    anchor: float = -math.inf

    @property
    def begin(self) -> float:
        """How far it walks: to the anchor, if that is older than what it looks for."""
        return self.start if self.anchor == -math.inf else min(self.start, self.anchor)

    @property
    def window(self) -> tuple[int, int | None]:
        """`from` and `to` of the requests, each a second further: the service may mean it without its ends."""
        return max(0, math.floor(self.begin) - 1), None if self.until is None else math.floor(self.until) + 1

    def hold(self, signal: Signal, when: float, print_: int) -> None:
        """Found, and not seen before."""
        if len(self.prints) >= MOST_HELD:
            self.prints.clear()
        self.prints[signal.id] = print_
        if self.fresh % (MOST_HELD // 2) == 0:
            self.marks.append(when)
        self.fresh += 1
        self.found.append((when, signal))

    @property
    def truncated(self) -> bool:
        """Whether it found more than it holds; then the newest were let go, and another window follows."""
        return self.fresh > len(self.found)

    def windows(self) -> list[float | None]:
        """Where the walks end that follow it, each for about half of what fits; the last has no end."""
        left = self.fresh - len(self.found)
        # Marks stand every half a load, from the newest on.
        ends = [mark for place, mark in enumerate(self.marks) if 0 < place * (MOST_HELD // 2) < left]
        return [*reversed(ends), None]


class Deduplicator:
    """What one stream has seen. `wanted` keeps back signals that nobody asked for."""

    def __init__(
        self, *, settle: float, wanted: Callable[[Signal], bool] | None = None, acknowledging: bool = False
    ) -> None:
        self._settle = settle
        self._wanted = wanted
        self._acknowledging = acknowledging
        self._plain = wanted is None and not acknowledging
        self.begin = self.position = 0.0
        self._through = 0.0  # nothing is missing before
        self._seen = SeenIds()
        self._newest = -math.inf
        self._heard = -math.inf  # the latest signal that came live: what lies in buffers, or is sent again, is newer
        self._reached = -math.inf  # up to when the stream has brought everything, by its heartbeats and our looks
        self._told = -math.inf  # up to when it was said that signals may be missing
        self.ahead = AHEAD
        self._windows: list[float | None] = []  # where the walks of a long look end that are still to come
        self._unaudited: tuple[float, float] | None = None  # up to when, of an audit up to when
        self._before: dict[str, float] = {}
        self._listed: tuple[float, float] | None = None  # the oldest and the newest of them
        self._guessed = False
        self._waiting: deque[tuple[float, Signal]] = deque()
        self._unacknowledged: dict[str, float] = {}
        self.replayed = self.late = self.duplicates = self.filtered = self.conflicts = self.signals = 0

    # where it begins

    def start(self, begin: float) -> None:
        """Signals are wanted from `begin` on."""
        self.begin = self.position = self._through = float(math.floor(begin))

    def start_here(self, now: float, *, told: bool) -> None:
        """Signals are wanted from now on. `told`: the service has told the time; else the history may do so."""
        self._guessed = True
        self.start(self._listed[1] if self._listed is not None and not told else now)
        if self._listed is not None and self._listed[0] <= self.begin - OVERLAP:
            # What the history had before is known, so that a look may reach back.
            self.begin = max(0.0, self.begin - OVERLAP)

    def without(self, signals: Collection[Signal], *, complete: bool) -> None:
        """These were in the history before the stream was opened. They count only if they come live.

        `complete`: there were no others.
        """
        times = [unix(signal.timestamp) for signal in signals]
        self._before = dict(zip((signal.id for signal in signals), times, strict=True))
        oldest = -math.inf if complete else math.inf
        if not complete and all(newer >= older for newer, older in pairwise(times)):
            oldest = min(times, default=math.inf)
        self._listed = oldest, max(times, default=0.0)

    def not_before(self, when: float) -> None:
        """The first that comes live shows how late it is, if the place to begin was only guessed."""
        if not self._guessed or self._heard != -math.inf or not self.begin - A_DAY <= when < self.begin:
            return
        # What was listed before the stream was opened bounds it: a single late one must not bring yesterday's back.
        oldest, newest = self._listed or (self.begin, self.begin)
        bound = max(newest - OVERLAP, oldest)
        if bound < self.begin:
            self.start(max(when, bound))

    def not_after(self, now: float, *, away: float | None = None) -> bool:
        """Whether the position was ahead of the service's time. It is put back: what lies before it would be passed
        over. Ten seconds are allowed, because the clocks of several servers differ.

        `away`: seconds since the last event; None when there was none yet.
        """
        if self.position <= now + OVERLAP:
            return False
        self.begin = min(self.begin, now)
        self._put_back(self.begin if away is None else max(self.begin, now - away))
        return True

    def _put_back(self, position: float) -> None:
        """To before everything that may not have been seen. What is known by its id does not come again."""
        self.position = self._through = position
        self._newest = self._heard = self._reached = self._told = -math.inf
        self._unaudited, self._guessed = None, False
        self._seen.put_back(position, position - OVERLAP - 1)

    def resume(self, state: CheckpointState) -> bool:
        """Go on where a checkpoint stands. False when its position cannot be right: it begins again then."""
        self.begin = state.begin
        # A position was reached by a signal, and `state` names one that was acknowledged there.
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
        """A signal of the stream. False when its id was there before, with other content."""
        fields = signal.__dict__  # to ask a model for an attribute takes five times as long
        if len(fields) > _FIELDS:  # the service has sent marks of ours
            for name in MARKS:
                vars(signal).pop(name, None)
        seen = self._seen
        signal_id = fields["id"]
        known = seen.prints.get(signal_id)
        when = unix(fields["timestamp"])
        if known is not None:
            if self._heard < when <= now + self.ahead:
                self._heard = when
            self.duplicates += 1
            return self._agrees(signal, when, known)
        if self._plain and not self._waiting and self._newest <= when <= now + _SECOND and when >= self.begin:
            # Nearly always. The same as below, without asking for what is not there.
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
        """The stream has reached this time: what should have come before will not come any more."""
        self.not_before(timestamp)
        self._reached = max(self._reached, min(timestamp, now))
        if self._waiting and timestamp <= now + self.ahead:
            self._release(timestamp, now, out)

    # looking back

    def look(self, now: float, *, attached: float | None = None) -> BackfillWindow:
        """After the stream was opened again at `attached`; without it, the first of the two looks."""
        settled = now - self._settle - 1
        start = max(self.position - OVERLAP, self.begin)
        cut = settled if attached is None else math.floor(attached)
        until = self._windows[0] if self._windows else None
        return BackfillWindow(start, cut, now, until, holds=attached is not None, anchor=self._anchor(start, settled))

    def _anchor(self, start: float, settled: float) -> float:
        """The time of a signal that a history from `start` on must have; -inf when there is none."""
        # After a restart those that were acknowledged stand in `ahead`, with their times.
        seen = max((when for when in self._seen.ahead.values() if when <= settled), default=-math.inf)
        seen = max(seen, self._newest)
        if seen == -math.inf and self._before and self._listed is not None and self._listed[0] < math.inf:
            return self._listed[1]  # nothing was seen yet, but something was there before
        return seen if start <= seen <= settled else -math.inf

    def audit(self, now: float) -> BackfillWindow:
        """For what the stream left out without a word. One that ran out of pages is gone on with."""
        start = max(self._through - OVERLAP, self.begin)
        until, cut = self._unaudited or (None, now - self._settle - 1)
        return BackfillWindow(start, cut, now, until, holds=until is None, audit=True, pages_left=AUDITED_PAGES)

    def add(self, look: BackfillWindow, signals: Collection[Signal]) -> tuple[bool, list[Signal]]:
        """A page of the history. Whether to read on, and what comes again with other content."""
        conflicts = []
        look.pages_left -= 1
        newest = -math.inf
        for signal in signals:
            when = unix(signal.timestamp)
            newest = max(newest, when)
            look.oldest = min(look.oldest, when)
            known = self._seen.prints.get(signal.id)
            if known is not None:
                if not self._agrees(signal, when, known):
                    conflicts.append(signal)
            elif signal.id in look.prints:  # no fault by itself: the list grows while it is read
                if look.prints[signal.id] not in (0, fingerprint(signal, when)):
                    look.prints[signal.id] = 0
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
        """The walk is done. A gap when the history does not reach back to what was seen, or is in no order and too
        long to be sorted here.
        """
        before = self.position
        # An id that comes twice in one walk is no fault: the list grows while it is read.
        signals = list({signal.id: (when, signal) for when, signal in reversed(look.found)}.values())
        ordered = all(older[0] <= newer[0] for older, newer in pairwise(signals))
        signals.sort(key=itemgetter(0))
        last = look.cut if look.until is None else min(look.cut, look.until)
        if look.pages_left <= 0:
            last = min(last, self.position)  # what is newer would overtake what was not read
        place = bisect_right(signals, last, key=itemgetter(0))
        for when, signal in signals[:place]:
            self._take(signal, when, now, out, replayed=True)
        look.released = place
        gap = self._out_of_reach(look, before)
        if look.holds:
            self._reached = max(self._reached, look.cut)
        if look.truncated or (look.until is not None and not look.audit):
            reason = "the history is in no order, and too long to be sorted"
            return gap if ordered else Gap(utc(max(self.begin, look.start)), utc(max(before, look.end)), reason)
        if look.pages_left <= 0:
            self._unaudited = look.oldest, look.cut
            return None
        if look.holds:
            self._hold(signals[place:], now, out)
        # Other looks begin where the stream stood, and know nothing of what it left out before.
        if look.audit or (look.holds and look.start <= self._through):
            self._through = max(self._through, min(look.cut, look.end, self.position))  # clocks may be wrong
            self._unaudited = None
        return gap

    def _out_of_reach(self, look: BackfillWindow, position: float) -> Gap | None:
        """What the history has let go already: it shows nothing as old as what was seen last."""
        if look.oldest <= look.anchor or look.anchor == -math.inf or not (look.holds or look.released):
            return None
        kept = look.end - SURELY_KEPT
        # Where something is shown, a last signal that is younger than that should be, too.
        if max(look.anchor, self._heard, self._reached) >= kept and (look.oldest == math.inf or look.anchor < kept):
            return None
        start, end = max(position, self._told), min(look.oldest, look.end)
        if end <= start:
            return None
        self._told = end
        return Gap(utc(start), utc(end), "the history does not reach back to the last signal before")

    def _hold(self, signals: list[tuple[float, Signal]], now: float, out: deque[StreamItem]) -> None:
        """These will probably come live. Those dated in a time to come would wait for ever, and others behind them."""
        ahead = bool(signals) and signals[-1][0] > now + self.ahead
        self._waiting = deque(() if ahead else signals)
        for when, signal in signals if ahead else ():
            self._take(signal, when, now, out, replayed=True)

    def goes_on(self, look: BackfillWindow) -> bool:
        """Whether another walk belongs to this look, because there is more than is held at once."""
        more = look.truncated and look.released > 0
        if look.audit or (look.until is None and not more):
            return False
        if look.until is None:
            self._windows = look.windows()
        elif not more:
            del self._windows[0]
        return True

    def end_look(self) -> None:
        """It is over, or cannot be gone on with."""
        self._windows = []

    def failed(self, look: BackfillWindow, reason: str, now: float, out: deque[StreamItem]) -> Gap:
        """The walk broke off: what it has found is the newest part, and before that there is a gap."""
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
        """Signals that the history has and the stream will perhaps still bring."""
        return len(self._waiting)

    # what was taken

    def acknowledge(self, signal_id: str) -> bool:
        """The consumer is done with it. False when it was not waited for."""
        return self._unacknowledged.pop(signal_id, None) is not None

    def state(self) -> CheckpointState:
        """Where a restart goes on: everything that was not acknowledged comes again, and nothing else."""
        position = min(self._unacknowledged.values(), default=self.position)
        # Of what is older nobody knows any more what was acknowledged.
        position = max(self.begin, min(max(position, self._seen.forgotten + OVERLAP + 1), self.position))
        # What the stream has left out since the last audit is looked for by the next run, unless that is very much.
        unaudited = max(self.begin, min(position, max(self._through, self._seen.forgotten + OVERLAP + 1)))
        if len(list(islice(self._seen.since(unaudited - OVERLAP), _MOST_KEPT + 1))) <= _MOST_KEPT:
            position = unaudited
        handled = self._handled(position)
        if position > self.begin + OVERLAP and not any(when >= position - OVERLAP for _, when in handled):
            # Nothing bears the position out: `resume` would not trust it.
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
        late = when < self._newest
        if when <= now + self.ahead:  # else it is dated in a time to come, and says nothing about where we are
            if not late:
                self._newest = when
            reached = min(when, now + _SECOND)
            if reached > self.position:
                self.position = reached
        if when > self._newest:
            self._seen.ahead[signal.id] = when
        if self._seen.add(signal.id, when, fingerprint(signal, when), max(self.position, self._newest)):
            reached = self.position if self._heard == -math.inf else min(self.position, self._heard)
            self._seen.forget(min(reached, next(iter(self._unacknowledged.values()), reached)))
        if self._wanted is not None and not self._wanted(signal):
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
            out.append(signal)  # type: ignore[arg-type] # it came live

    def _overtake(self, signal: StreamSignal, when: float, now: float, out: deque[StreamItem]) -> bool:
        """What the history has before `signal`, and did not come before it, will not come any more.

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
        if signal.id not in self._seen.prints:  # another look may have released it
            self._take(signal, when, now, out, replayed=True)

    def _agrees(self, signal: Signal, when: float, known: int) -> bool:
        if not known or known == fingerprint(signal, when):
            return True
        self.conflicts += 1
        self._seen.prints[signal.id] = 0  # said once
        return False
