"""The state machine of a live stream: takes bytes and answers, decides the next action and what to yield. No I/O."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum

from pydantic import ValidationError

from .._http.log_events import log_fields, logger
from .._http.retry import Failure, FailureCause, RetryPolicy
from .._values.text import printable
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
from .deduplication import BackfillWindow, Deduplicator
from .events import Event, HistoryPage, conflict, of_another_chain, read_other, signal_reader, unix, utc
from .options import StreamOptions
from .server_clock import A_DAY, ServerClock
from .sse import SSEDecoder

AUDIT_EVERY = 300.0
_AT_ONCE = 64  # events
AUDIT_AGAIN = 60.0
"""Seconds until an audit that ran out of pages continues."""
_AUDIT_SOON = 30.0
_SLOW = 1.0  # seconds; if the first connection takes longer, signals may have been missed

HEALTHY = 60.0
"""Seconds of life after which failures are counted from zero."""
_TIMES = 3
_LEAST, _MOST = 10.0, 600.0  # bounds of the silence limit, in seconds
_LEAST_READ = 0.1  # seconds
_LEARNED_FROM = 8  # intervals
_LONGEST_NAMED = 3_600.0  # seconds; a longer wait named by the service is an error
_HOPELESS_IN_A_ROW = 10
_READY = 0.005  # seconds; a read that took longer had to wait for data


class Watchdog:
    """Detects dead connections and counts failures, over all connections of one stream.

    Only events count as life, not bytes: a proxy can send comments forever.
    """

    def __init__(
        self, policy: RetryPolicy, idle_timeout: float, *, random: Callable[[], float] = random.random
    ) -> None:
        self._policy = policy
        self._idle_timeout = idle_timeout
        self._random = random
        self.limit = idle_timeout
        """Seconds without an event after which a connection counts as dead."""
        self._intervals: deque[float] = deque(maxlen=_LEARNED_FROM)
        self._silent = 0  # connections in a row that ended in silence without a single heartbeat
        self._hopeless = 0
        self._opened: float | None = None
        self.alive = 0.0
        """When the last event came, or the connection was opened."""
        self._silent_from = 0.0  # the same, plus the time in which nothing was being read
        self._read_at = 0.0
        self._heartbeat: float | None = None
        self._had_heartbeat = False
        self.tries = 0
        self.caught_up = False
        """Whether the last read had to wait, so the buffers were empty."""

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
        """Record a readable event other than a heartbeat."""
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
        """Record the end of a connection. `silent`: because no event came."""
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
        elif not _temporary(failure):
            return None
        wait = self._policy.wait(self.tries, failure, now=now, random=self._random)
        if wait.server > _LONGEST_NAMED:
            return None
        return max(wait.seconds, min(floor, self._policy.cap))


def _temporary(failure: Failure) -> bool:
    return failure.cause is not FailureCause.STATUS or failure.status in (429, 502, 503, 504) or failure.status > 505


class StreamReporter:
    """Logs and counts what happens to a stream. If `enabled`, reports are also yielded, among the `items`."""

    def __init__(self, chain: int, enabled: bool, items: deque[StreamItem]) -> None:
        self._chain = chain
        self._enabled = enabled
        self._items = items
        self.stats = StreamStats()

    def connected(self) -> None:
        self.stats = replace(self.stats, connects=self.stats.connects + 1)
        extra = log_fields("stream_connected", chain=self._chain)
        logger.info("the stream of chain %d is open", self._chain, extra=extra)
        self._report(Connected(self.stats.connects))

    def disconnected(self, reason: str, wait: float, tries: int) -> None:
        extra = log_fields("stream_disconnected", chain=self._chain, reason=reason, wait=wait, tries=tries)
        logger.warning("the stream of chain %d: %s; trying again in %.1f s", self._chain, reason, wait, extra=extra)
        self._report(Disconnected(reason, wait, tries))

    def heartbeat(self, lag: float) -> None:
        self.stats = replace(self.stats, heartbeats=self.stats.heartbeats + 1, heartbeat_lag=lag)

    def unknown(self, item: UnknownEvent) -> None:
        self.stats = replace(self.stats, unknown=self.stats.unknown + 1)
        extra = log_fields("stream_unknown_event", chain=self._chain, type=printable(item.type, 60))
        logger.info("the stream sent an event of unknown type %.60r", item.type, extra=extra)

    def invalid(self, item: InvalidEvent) -> None:
        self.stats = replace(self.stats, invalid=self.stats.invalid + 1)
        extra = log_fields("stream_invalid_event", chain=self._chain, source=item.source, reason=item.reason)
        logger.warning("%s of chain %d sent an invalid event: %s", item.source, self._chain, item.reason, extra=extra)
        self._report(item)

    def gap(self, gap: Gap) -> None:
        """Report a gap before the items that follow it; no earlier item is waiting."""
        self.stats = replace(self.stats, gaps=self.stats.gaps + 1)
        chain, start, end = self._chain, gap.start, gap.end
        extra = log_fields("stream_gap", chain=chain, start=start, end=end, reason=gap.reason)
        logger.warning(
            "signals of chain %d may be missing from %s to %s: %s", chain, start, end, gap.reason, extra=extra
        )
        if self._enabled:
            self._items.appendleft(gap)

    def position_reset(self, position: float, start: float, reason: str) -> None:
        item = PositionReset(utc(position), utc(start), reason)
        extra = log_fields(
            "stream_position_reset", chain=self._chain, position=item.position, start=item.start, reason=reason
        )
        logger.warning(
            "chain %d: the position %s was reset to %s: %s",
            self._chain,
            item.position,
            item.start,
            reason,
            extra=extra,
        )
        self._report(item)

    def since_ignored(self, position: float) -> None:
        where = utc(position)
        extra = log_fields("stream_since_ignored", chain=self._chain, position=where)
        logger.info("chain %d: since= is ignored: the checkpoint continues at %s", self._chain, where, extra=extra)

    def audited(self) -> None:
        self.stats = replace(self.stats, audits=self.stats.audits + 1)

    def history_unread(self, reason: str) -> None:
        """Log that the history could not be read and will be read again."""
        extra = log_fields("history_unread", chain=self._chain, reason=reason)
        logger.warning("chain %d: %s", self._chain, reason, extra=extra)

    def _report(self, item: Report) -> None:
        if self._enabled:
            self._items.append(item)


class NextAction(Enum):
    """What a stream needs next."""

    YIELD = "yield"
    """Yield the items."""
    CONNECT = "connect"
    WAIT = "wait"
    BACKFILL = "backfill"
    """Read the history since the connection broke off."""
    AUDIT = "audit"
    """Read the history for what the stream left out."""
    READ = "read"


class StreamState:
    """One stream over all its connections. `mono` is a monotonic time, `local` the local wall clock's."""

    def __init__(self, options: StreamOptions, policy: RetryPolicy, *, mono: float, local: float) -> None:
        self._options = options
        self._lock = threading.Lock()  # signals may be acknowledged from other threads
        self.items: deque[StreamItem] = deque()
        self.replay = Deduplicator(
            settle=options.settle, predicate=options.predicate, acknowledging=options.checkpointed
        )
        self.watchdog = Watchdog(policy, options.idle_timeout)
        self.decoder = SSEDecoder()
        self.attached = False
        self.clock = ServerClock(mono=mono, local=local)
        self._due = mono
        self._attached_at = 0.0
        self._settle_at: float | None = None
        self._lag = 0.0  # of the last heartbeat of this connection
        self._first_look = False
        self._audit_at = mono + AUDIT_EVERY
        self._reported: set[int] = set()  # hashes of the history's invalid items
        self._reports = StreamReporter(options.chain, options.reports, self.items)
        self._last: tuple[StreamSignal, float] | None = None  # the last live signal, and when it came
        self.rest: list[bytes] = []
        """Events that were read but not processed yet, the last one first."""
        self._fed_at = mono
        self.flowing = False
        """True when reading is the only thing to do; if False, `step` decides."""
        self._looks_at_start = False
        self._first_attempt_at: float | None = None
        self._attempted_again = False

    def sync_clock(self, headers: Mapping[str, str], mono: float, local: float) -> None:
        """Set the service's clock by an answer."""
        self.clock.answered(headers, mono, local)
        self.replay.ahead = self.clock.tolerance

    # where it begins

    def begin(self, state: CheckpointState | None) -> None:
        """Set where to begin, before the first connection. With neither checkpoint nor `since`: when it is open."""
        if state is not None:
            if self._options.since is not None:
                self._reports.since_ignored(state.position)
            if not self.replay.resume(state):
                self._reports.position_reset(state.position, self.replay.position, "no signal was acknowledged there")
        elif self._options.since is not None:
            self.replay.start(self._options.since)
        self._looks_at_start = state is not None or self._options.since is not None

    # what to do

    def step(self, mono: float) -> tuple[NextAction, float]:
        """The next action and, for a wait, its seconds."""
        if self.items:
            return NextAction.YIELD, 0.0
        if self.rest:
            return NextAction.READ, 0.0
        if not self.attached:
            return (NextAction.WAIT, self._due - mono) if self._due > mono else (NextAction.CONNECT, 0.0)
        if self._first_look:
            return NextAction.BACKFILL, 0.0
        if self._settle_at is not None:
            return (NextAction.WAIT, self._settle_at - mono) if self._settle_at > mono else (NextAction.BACKFILL, 0.0)
        # Buffered events first: an audit would take them for left out.
        if mono >= self._audit_at and (self.watchdog.caught_up or self._is_up_to_date(mono)):
            return NextAction.AUDIT, 0.0
        self.flowing = True
        return NextAction.READ, 0.0

    def _is_up_to_date(self, mono: float) -> bool:
        """Whether the last signal is recent. On a busy stream no read has to wait, so times decide."""
        return self._last is not None and self.clock.now(mono) - unix(self._last[0].timestamp) < self._options.settle

    # the connection

    def connecting(self, mono: float) -> None:
        """Record an attempt to connect. Signals count from the first attempt on."""
        self._attempted_again = self._first_attempt_at is not None
        if self._first_attempt_at is None:
            self._first_attempt_at = mono

    def connected(self, headers: Mapping[str, str], mono: float, local: float) -> None:
        """Record that the stream is open."""
        self.sync_clock(headers, mono, local)
        first = self._reports.stats.connects == 0
        away = None if first else mono - self.watchdog.alive
        self.watchdog.opened(mono)
        last_id, retry = self.decoder.last_event_id, self.decoder.retry
        self.decoder = SSEDecoder()
        self.decoder.last_event_id, self.decoder.retry = last_id, retry
        self._attached_at = self.clock.now(mono)
        self._reports.connected()
        replay, position = self.replay, self.replay.position
        if first and not self._looks_at_start:
            start = self._attached_at if self._first_attempt_at is None else self.clock.now(self._first_attempt_at)
            replay.start_here(start, synced=self.clock.synced)
            self._looks_at_start = self._attempted_again or self._attached_at - start > _SLOW
        elif self.clock.synced and replay.not_after(self._attached_at, away=away):
            self._reports.position_reset(position, replay.position, "it is ahead of the service's time")
        if not first or self._looks_at_start:
            self._first_look = True
            self._settle_at = mono + self._options.settle
        self._lag = 0.0
        self.attached = True

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
            # No wait the first time; repeated cancellations must not open a stream every second.
            self._due = mono + (self.watchdog.wait(None, now=0.0) or 0.0) if self.watchdog.tries else mono
            self.watchdog.tries = max(1, self.watchdog.tries)

    def _detach(self, *, silent: bool = False) -> None:
        self.attached = self.flowing = False
        self.rest = []
        self.replay.end_look()
        self.watchdog.broke_off(silent=silent)
        self.decoder.close()

    # what comes

    def feed(self, chunk: bytes, began: float, mono: float) -> str | None:
        """Take bytes from a read that began at `began` and ended at `mono`. Returns why to disconnect, or None."""
        watchdog = self.watchdog
        watchdog.read(began, mono)
        self._fed_at = mono
        events = self.decoder.feed(chunk)
        if mono >= self._audit_at:
            self.flowing = False
        if len(events) > _AT_ONCE and self.decoder.error is None and not watchdog.stalled(mono):
            events.reverse()
            self.rest = events
            self.go_on()
            return None
        if not self._take_in(events) and watchdog.stalled(mono):
            return self.silence("bytes, but no event")
        if self.decoder.error is not None:
            self._reports.invalid(InvalidEvent(str(self.decoder.error), self.decoder.error.head))
            return str(self.decoder.error)
        return None

    def silence(self, what: str = "nothing came") -> str:
        """Why the connection counts as dead."""
        if self._is_stale:
            return f"the heartbeats are {self._lag:.0f} s old, which is more than {self.watchdog.limit:.0f} s"
        return f"{what} for {self.watchdog.limit:.0f} s"

    @property
    def _is_stale(self) -> bool:
        """Whether the last heartbeat was delayed. One that is a day old has a wrong time instead."""
        return self.watchdog.limit < self._lag < A_DAY

    def go_on(self) -> None:
        """Process some of the `rest`: small portions do not trigger the garbage collector."""
        events = self.rest[: -_AT_ONCE - 1 : -1]
        del self.rest[-_AT_ONCE:]
        self._take_in(events)

    def _take_in(self, events: list[bytes]) -> bool:
        """Process events. Returns whether there was a signal."""
        mono = self._fed_at
        now = self.clock.now(mono)
        chain, live, read, items = self._options.chain, self.replay.live, signal_reader(), self.items
        last: StreamSignal | None = None
        with self._lock:
            for data in events:
                try:
                    signal = read(data)
                except ValidationError as error:
                    self._other(read_other(data, error), mono, data)
                    continue
                if signal.__dict__["chain_id"] != chain:
                    self._other(of_another_chain(signal, data), mono, data)
                    continue
                last = signal
                if not live(signal, now, items):
                    self._reports.invalid(conflict(signal, data))
        if last is None:
            return False
        if not self.clock.synced:
            self.clock.event(unix(last.timestamp), mono)
        self.watchdog.event(mono)
        self._last = last, now
        return True

    def _other(self, item: Event, mono: float, raw: bytes) -> None:
        if isinstance(item, StreamSignal):  # it had bytes that are not UTF-8
            self.watchdog.event(mono)
            if item.chain_id != self._options.chain:
                self._reports.invalid(of_another_chain(item, raw))
            elif not self.replay.live(item, self.clock.now(mono), self.items):
                self._reports.invalid(conflict(item, raw))
        elif isinstance(item, Heartbeat):
            when = item.timestamp.timestamp()
            self.clock.event(when, mono)
            now = self.clock.now(mono)
            self._lag = now - when
            if not self._is_stale:
                self.watchdog.heartbeat(mono, when)
            self.replay.heartbeat(when, now, self.items)
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

    # the history

    @property
    def looks_again(self) -> bool:
        """Whether the next look is the first of two."""
        return self._first_look

    @property
    def catching_up(self) -> bool:
        """Whether the history may have signals that were not read yet."""
        return (
            self._first_look or self._settle_at is not None or (not self.attached and self._reports.stats.connects > 0)
        )

    def begin_look(self, mono: float, *, audit: bool = False) -> BackfillWindow:
        """The window of the history to read."""
        now = self.clock.now(mono)
        if audit:
            return self.replay.audit(now)
        return self.replay.look(now, attached=None if self._first_look else self._attached_at)

    def add(self, look: BackfillWindow, page: HistoryPage, mono: float, local: float) -> bool:
        """Take a page of the history. Returns whether to read on."""
        self.sync_clock(page.headers, mono, local)
        with self._lock:
            more, conflicts = self.replay.add(look, page.signals)
        for signal in conflicts:
            self._reports.invalid(conflict(signal))
        for invalid in page.invalid:
            if hash(invalid.raw) not in self._reported and len(self._reported) < 10_000:  # every look finds it again
                self._reported.add(hash(invalid.raw))
                self._reports.invalid(invalid)
        return more and page.next_cursor is not None

    def looked(self, look: BackfillWindow, mono: float, *, audit: bool = False) -> None:
        """Finish a walk. If it found more than it holds, another walk follows once the items are yielded."""
        with self._lock:
            gap = self.replay.found(look, self.clock.now(mono), self.items)
        if gap is not None:
            self._reports.gap(gap)
        if not self.replay.goes_on(look):
            self._look_is_over(mono, audit=audit)

    def look_failed(self, look: BackfillWindow, reason: str, mono: float, *, audit: bool = False) -> None:
        """Finish a walk that could not read the history."""
        if audit or self._first_look:
            self._reports.history_unread(reason)  # no gap yet: a later look reads the same period
        else:
            with self._lock:
                gap = self.replay.failed(look, reason, self.clock.now(mono), self.items)
            self._reports.gap(gap)
        self._look_is_over(mono, audit=audit)

    def _look_is_over(self, mono: float, *, audit: bool) -> None:
        self.replay.end_look()
        if audit:
            self._audit_at = mono + (AUDIT_AGAIN if self.replay.unaudited else AUDIT_EVERY)
            self._reports.audited()
        elif self._first_look:
            self._first_look = False
        else:
            self._settle_at = None
        if self.replay.waiting:
            self._audit_at = min(self._audit_at, mono + _AUDIT_SOON)

    # what goes out

    def acknowledge(self, signal_id: str) -> bool:
        """Mark a signal as done. False when it is unknown or done already."""
        with self._lock:
            return self.replay.acknowledge(signal_id)

    def state(self) -> CheckpointState:
        """The state that a checkpoint stores."""
        with self._lock:
            return self.replay.state()

    @property
    def stats(self) -> StreamStats:
        replay = self.replay
        return replace(
            self._reports.stats,
            signals=replay.signals,
            replayed=replay.replayed,
            late=replay.late,
            duplicates=replay.duplicates,
            filtered=replay.filtered,
            conflicts=replay.conflicts,
            lag=self._last and max(0.0, self._last[1] - unix(self._last[0].timestamp)),
            position=utc(replay.position) if replay.signals else None,
        )
