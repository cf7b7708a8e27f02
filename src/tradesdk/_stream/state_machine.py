"""The state machine of a live stream: takes bytes and pages, decides the next action and what to yield. No I/O.

`_async.signal_stream` drives it: while `items` is empty, it does what `step` returns and reports the result:

| action           | result                                                           |
|------------------|------------------------------------------------------------------|
| CONNECT          | `connecting`, then `connected` or `disconnected`                 |
| WAIT             | none: it waits that long                                         |
| READ             | `feed`, or `disconnected`                                        |
| BACKFILL, AUDIT  | `begin_walk`, `add` for each page, then `walked` or `walk_failed` |

Nothing here waits. One consumer calls all of it, except for `acknowledge` and `state`, which other threads may call
too: `_lock` guards what they share. The order of `items` is the order in which they are yielded.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum

from pydantic import ValidationError

from .._http.log_events import event
from .._http.retry import Failure, RetryPolicy
from .._http.service_time import A_DAY, ServiceClock
from .._values.text import printable
from ..models.signals import Signal
from ..models.stream import (
    Connected,
    Disconnected,
    Gap,
    Heartbeat,
    InvalidEvent,
    PositionReset,
    Report,
    StreamItem,
    StreamSignal,
    StreamStats,
    UnknownEvent,
)
from .checkpoint import CheckpointState
from .deduplication import Deduplicator, HistoryWalk
from .events import Event, HistoryPage, conflict, of_another_chain, read_other, signal_reader, unix, utc
from .options import StreamOptions
from .sse import SSEDecoder
from .watchdog import Watchdog

AUDIT_EVERY = 300.0
_AUDIT_SOON = 30.0
_SLOW = 1.0  # seconds; if the first connection takes longer, signals may have been missed
_MOST_REPORTED = 10_000


class StreamReporter:
    """Logs and counts what happens to a stream. If `enabled`, reports are also yielded, among the `items`."""

    def __init__(self, chain: int, enabled: bool, items: deque[StreamItem]) -> None:
        self._chain = chain
        self._enabled = enabled
        self._items = items
        self._known: set[int] = set()  # hashes of events that every walk through the history finds again
        self.stats = StreamStats()

    def connected(self) -> None:
        self.stats = replace(self.stats, connects=self.stats.connects + 1)
        event("stream_connected", "the stream of chain %(chain)d is open", level=logging.INFO, chain=self._chain)
        self._report(Connected(self.stats.connects))

    def disconnected(self, reason: str, wait: float, tries: int) -> None:
        text = "the stream of chain %(chain)d: %(reason)s; trying again in %(wait).1f s"
        event("stream_disconnected", text, chain=self._chain, reason=reason, wait=wait, tries=tries)
        self._report(Disconnected(reason, wait, tries))

    def heartbeat(self, lag: float) -> None:
        self.stats = replace(self.stats, heartbeats=self.stats.heartbeats + 1, heartbeat_lag=lag)

    def unknown(self, item: UnknownEvent) -> None:
        self.stats = replace(self.stats, unknown=self.stats.unknown + 1)
        text = "the stream of chain %(chain)d sent an event of unknown type '%(type)s'"
        event("stream_unknown_event", text, level=logging.INFO, chain=self._chain, type=printable(item.type, 60))

    def invalid(self, item: InvalidEvent) -> None:
        self.stats = replace(self.stats, invalid=self.stats.invalid + 1)
        text = "the %(source)s of chain %(chain)d sent an invalid event: %(reason)s"
        event("stream_invalid_event", text, chain=self._chain, source=item.source, reason=item.reason)
        self._report(item)

    def invalid_once(self, item: InvalidEvent) -> bool:
        """Report it unless it was reported before. Returns whether it was."""
        new = hash(item.raw) not in self._known and len(self._known) < _MOST_REPORTED
        if new:
            self._known.add(hash(item.raw))
            self.invalid(item)
        return new

    def conflict(self, signal: Signal, raw: bytes | None = None) -> None:
        if self.invalid_once(conflict(signal, raw)):
            self.stats = replace(self.stats, conflicts=self.stats.conflicts + 1)

    def gap(self, gap: Gap) -> None:
        """Report a gap before the items that follow it; no earlier item is waiting."""
        self.stats = replace(self.stats, gaps=self.stats.gaps + 1)
        text = "signals of chain %(chain)d may be missing from %(start)s to %(end)s: %(reason)s"
        event("stream_gap", text, chain=self._chain, start=gap.start, end=gap.end, reason=gap.reason)
        if self._enabled:
            self._items.appendleft(gap)

    def position_reset(self, position: float, start: float, reason: str) -> None:
        item = PositionReset(utc(position), utc(start), reason)
        text = "chain %(chain)d: the position %(position)s was reset to %(start)s: %(reason)s"
        event("stream_position_reset", text, chain=self._chain, position=item.position, start=item.start, reason=reason)
        self._report(item)

    def since_ignored(self, position: float) -> None:
        text = "chain %(chain)d: since= is ignored: the checkpoint continues at %(position)s"
        event("stream_since_ignored", text, level=logging.INFO, chain=self._chain, position=utc(position))

    def history_unread(self, reason: str) -> None:
        event("history_unread", "chain %(chain)d: %(reason)s", chain=self._chain, reason=reason)

    def _report(self, item: Report) -> None:
        if self._enabled:
            self._items.append(item)


class NextAction(Enum):
    CONNECT = "connect"
    WAIT = "wait"
    BACKFILL = "backfill"
    """Read the history since the connection was lost."""
    AUDIT = "audit"
    """Read the history for signals that the stream left out."""
    READ = "read"


class StreamState:
    """One stream over all its connections. `mono` is a monotonic time, `local` the local wall clock's."""

    def __init__(self, options: StreamOptions, policy: RetryPolicy, *, mono: float, local: float) -> None:
        self._options = options
        self._lock = threading.Lock()  # signals may be acknowledged, and states saved, in other threads
        self.items: deque[StreamItem] = deque()
        self.deduplicator = Deduplicator(
            settle=options.settle, predicate=options.predicate, acknowledging=options.checkpoint is not False
        )
        self.watchdog = Watchdog(policy, options.idle_timeout)
        self.decoder = SSEDecoder()
        self.attached = False
        self.clock = ServiceClock(now=local, monotonic=mono)
        self._due = mono
        self._attached_at = 0.0
        self._backfills: list[float] = []  # when the walks that close a gap are due
        self._audit_at = mono + AUDIT_EVERY
        self._lag = 0.0  # of the last heartbeat of this connection
        self._last: tuple[StreamSignal, float] | None = None  # the last live signal, and when it came
        self._reports = StreamReporter(options.chain, options.reports, self.items)
        self._begins_now = True
        self._first_attempt: float | None = None  # when it first tried to connect

    def sync_clock(self, headers: Mapping[str, str], mono: float, local: float) -> None:
        self.clock.observe(headers, now=local, monotonic=mono)
        self.deduplicator.ahead = self.clock.tolerance

    # Where it begins.

    def begin(self, state: CheckpointState | None) -> None:
        """Set where to begin, before the first connection. With neither checkpoint nor `since`: when it is open."""
        since = self._options.begin
        if state is not None:
            if since is not None:
                self._reports.since_ignored(state.position)
            if not self.deduplicator.resume(state):
                self._reports.position_reset(
                    state.position, self.deduplicator.position, "no signal was acknowledged there"
                )
        elif since is not None:
            self.deduplicator.start(since)
        self._begins_now = state is None and since is None

    # What to do.

    def step(self, mono: float) -> tuple[NextAction, float]:
        """The next action when there are no items to yield; for a wait, its seconds."""
        if not self.attached:
            return (NextAction.WAIT, self._due - mono) if self._due > mono else (NextAction.CONNECT, 0.0)
        if self._backfills:
            due = self._backfills[0]
            return (NextAction.WAIT, due - mono) if due > mono else (NextAction.BACKFILL, 0.0)
        # First read buffered events: an audit would report them as left out.
        if mono >= self._audit_at and (self.watchdog.caught_up or self._is_up_to_date(mono)):
            return NextAction.AUDIT, 0.0
        return NextAction.READ, 0.0

    def _is_up_to_date(self, mono: float) -> bool:
        """Whether the last signal is recent. On a busy stream no read has to wait, so times decide."""
        return self._last is not None and self.clock.at(mono) - unix(self._last[0].timestamp) < self._options.settle

    # The connection.

    def connecting(self, mono: float) -> None:
        """Record an attempt to connect. Signals are wanted from the first attempt on."""
        self._first_attempt = mono if self._first_attempt is None else self._first_attempt

    def connected(self, headers: Mapping[str, str], mono: float, local: float) -> None:
        self.sync_clock(headers, mono, local)
        first = self._reports.stats.connects == 0
        away = None if first else mono - self.watchdog.alive
        self.watchdog.opened(mono)
        last_id, retry = self.decoder.last_event_id, self.decoder.retry
        self.decoder = SSEDecoder()
        self.decoder.last_event_id, self.decoder.retry = last_id, retry
        self._attached_at = self.clock.at(mono)
        self._lag = 0.0
        self.attached = True
        self._reports.connected()
        deduplicator, position = self.deduplicator, self.deduplicator.position
        self._backfills = [mono, mono + self._options.settle]
        if first and self._begins_now:
            began = mono if self._first_attempt is None else self._first_attempt
            listed = deduplicator.listed  # without a `Date`, only signals tell the service's time
            deduplicator.start(listed if listed > 0 and not self.clock.is_known else self.clock.at(began))
            if mono - began <= _SLOW:
                self._backfills = []
        elif self.clock.is_known and deduplicator.not_after(self._attached_at, away=away):
            self._reports.position_reset(position, deduplicator.position, "it is ahead of the service's time")

    def disconnected(
        self, reason: str, mono: float, local: float, *, failure: Failure | None = None, silent: bool = False
    ) -> bool:
        """Record a lost or failed connection. False when it should not be opened again.

        `failure`: why it could not be opened. `silent`: it was open, but no event came.
        """
        self._detach(silent=silent)
        wait = self.watchdog.wait(failure, now=local, floor=(self.decoder.retry or 0) / 1000)
        most = self._options.max_reconnects
        if wait is None or (most is not None and self.watchdog.tries > most):
            return False
        self._due = mono + wait
        self._reports.disconnected(reason, wait, self.watchdog.tries)
        return True

    def interrupted(self, mono: float) -> None:
        """Record that the consumer was canceled while reading, which closed the connection."""
        if self.attached:
            self._detach()
            # The first time without a wait; but repeated cancellations must not open a stream every second.
            self._due = mono + (self.watchdog.wait(None, now=0.0) or 0.0) if self.watchdog.tries else mono
            self.watchdog.tries = max(1, self.watchdog.tries)

    def _detach(self, *, silent: bool = False) -> None:
        self.attached = False
        self.watchdog.broke_off(silent=silent)

    # What comes.

    def feed(self, chunk: bytes, began: float, mono: float) -> str | None:
        """Take bytes from a read that began at `began` and ended at `mono`. Returns why to disconnect, or None."""
        self.watchdog.read(began, mono)
        read, live, chain = signal_reader(), self.deduplicator.live, self._options.chain
        now, last = self.clock.at(mono), None
        with self._lock:
            for data in self.decoder.feed(chunk):
                try:
                    item: Event = read(data)
                except ValidationError:
                    item = read_other(data)
                if not isinstance(item, StreamSignal) or item.chain_id != chain:
                    self._read_other(item, data, mono)
                    now = self.clock.at(mono)
                    continue
                if not self.clock.is_known:
                    self.clock.observe_event(unix(item.timestamp), mono)
                    now = self.clock.at(mono)
                last = item
                if not live(item, now, self.items):
                    self._reports.conflict(item, data)
        if last is not None:
            self.watchdog.event(mono)
            self._last = last, now
        if self.watchdog.stalled(mono):
            return self.silence("bytes, but no event")
        if self.decoder.error is not None:
            self._reports.invalid(InvalidEvent(str(self.decoder.error), self.decoder.error.head))
            return str(self.decoder.error)
        return None

    def _read_other(self, item: Event, raw: bytes, mono: float) -> None:
        if isinstance(item, StreamSignal):
            self._reports.invalid(of_another_chain(item, raw))
        elif isinstance(item, Heartbeat):
            when = unix(item.timestamp)
            self.clock.observe_event(when, mono)
            now = self.clock.at(mono)
            self._lag = now - when
            if not self._is_stale:
                self.watchdog.heartbeat(mono, when)
            self.deduplicator.heartbeat(when, now, self.items)
            self._reports.heartbeat(max(0.0, self._lag))
            if self._options.heartbeats:
                self.items.append(item)
        elif isinstance(item, UnknownEvent):
            self.watchdog.event(mono)
            self._reports.unknown(item)
            if self._options.unknown_events:
                self.items.append(item)
        else:
            self._reports.invalid(item)

    def silence(self, what: str = "nothing came") -> str:
        """Why the connection is given up."""
        if self._is_stale:
            return f"the heartbeats are {self._lag:.0f} s old, which is more than {self.watchdog.limit:.0f} s"
        return f"{what} for {self.watchdog.limit:.0f} s"

    @property
    def _is_stale(self) -> bool:
        """Whether the last heartbeat was delayed. One that is a day old has a wrong time instead."""
        return self.watchdog.limit < self._lag < A_DAY

    # The history.

    @property
    def catching_up(self) -> bool:
        """Whether the history may have signals that were not read yet."""
        return bool(self._backfills) or (not self.attached and self._reports.stats.connects > 0)

    @property
    def will_read_again(self) -> bool:
        """Whether the due walk is the first of two."""
        return len(self._backfills) == 2

    def before(self, page: HistoryPage, mono: float, local: float) -> None:
        self.sync_clock(page.headers, mono, local)
        self.deduplicator.before(page.signals, self.clock.at(mono))

    def begin_walk(self, mono: float, *, audit: bool = False) -> HistoryWalk:
        now = self.clock.at(mono)
        if audit:
            return self.deduplicator.audit(now)
        return self.deduplicator.backfill(now, attached=None if self.will_read_again else self._attached_at)

    def add(self, walk: HistoryWalk, page: HistoryPage, mono: float, local: float) -> bool:
        """Take a page of the history. Returns whether to read on."""
        self.sync_clock(page.headers, mono, local)
        with self._lock:
            more, conflicts = self.deduplicator.add(walk, page.signals)
        for signal in conflicts:
            self._reports.conflict(signal)
        for item in page.invalid:
            self._reports.invalid_once(item)
        return more and page.next_cursor is not None

    def walked(self, walk: HistoryWalk, mono: float, *, audit: bool = False) -> None:
        """Finish a walk. If it found more than it holds, another one follows once the items are yielded."""
        with self._lock:
            gap, more = self.deduplicator.found(walk, self.clock.at(mono), self.items)
        if gap is not None:
            self._reports.gap(gap)
        if not more:
            self._end_walk(mono, audit=audit)

    def walk_failed(self, walk: HistoryWalk, reason: str, mono: float, *, audit: bool = False) -> None:
        if audit or self.will_read_again:
            self._reports.history_unread(reason)  # no gap yet: a later walk reads the same period
        else:
            with self._lock:
                gap = self.deduplicator.failed(walk, reason, self.clock.at(mono), self.items)
            self._reports.gap(gap)
        self._end_walk(mono, audit=audit)

    def _end_walk(self, mono: float, *, audit: bool) -> None:
        if audit:
            self._audit_at = mono + AUDIT_EVERY
        else:
            del self._backfills[0]
        if self.deduplicator.waiting:
            self._audit_at = min(self._audit_at, mono + _AUDIT_SOON)

    # What goes out.

    def acknowledge(self, signal_id: str) -> bool:
        """Mark a signal as done. False when it is unknown or done already."""
        with self._lock:
            return self.deduplicator.acknowledge(signal_id)

    def state(self) -> CheckpointState:
        with self._lock:
            return self.deduplicator.state()

    @property
    def stats(self) -> StreamStats:
        found = self.deduplicator
        return replace(
            self._reports.stats,
            signals=found.signals,
            replayed=found.replayed,
            late=found.late,
            duplicates=found.duplicates,
            filtered=found.filtered,
            lag=self._last and max(0.0, self._last[1] - unix(self._last[0].timestamp)),
            position=utc(found.position) if found.signals else None,
        )
