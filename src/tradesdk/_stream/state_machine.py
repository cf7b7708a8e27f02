"""A live stream as a value: it is fed with bytes and answers, and says what to do next and what to yield. No I/O."""

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
"""Seconds until one that was too long for one time is gone on with."""
_AUDIT_SOON = 30.0
_SLOW = 1.0  # seconds that a first connection may take without anything being missed meanwhile

HEALTHY = 60.0
"""Seconds of life after which failures are counted from the beginning again."""
_TIMES = 3
_LEAST, _MOST = 10.0, 600.0  # seconds of silence that are never too many, and always
_LEAST_READ = 0.1  # seconds
_LEARNED_FROM = 8  # intervals
_LONGEST_NAMED = 3_600.0  # seconds that the service may ask for; beyond that it is an error, not a wait
_HOPELESS_IN_A_ROW = 10
_READY = 0.005  # seconds that a read takes for which everything was there


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
        self.caught_up = ended - began > _READY

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


class Reports:
    """`wanted`: whether reports are yielded too, among the `items`."""

    def __init__(self, chain: int, wanted: bool, items: deque[StreamItem]) -> None:
        self._chain = chain
        self._wanted = wanted
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
        logger.info("the stream sent an event of the unknown kind %.60r", item.type, extra=extra)

    def invalid(self, item: InvalidEvent) -> None:
        self.stats = replace(self.stats, invalid=self.stats.invalid + 1)
        extra = log_fields("stream_invalid_event", chain=self._chain, source=item.source, reason=item.reason)
        logger.warning(
            "%s of chain %d sent what cannot be read: %s", item.source, self._chain, item.reason, extra=extra
        )
        self._report(item)

    def gap(self, gap: Gap) -> None:
        """It comes before what was found behind it; nothing else waits to be yielded."""
        self.stats = replace(self.stats, gaps=self.stats.gaps + 1)
        chain, start, end = self._chain, gap.start, gap.end
        extra = log_fields("stream_gap", chain=chain, start=start, end=end, reason=gap.reason)
        logger.warning(
            "signals of chain %d may be missing from %s to %s: %s", chain, start, end, gap.reason, extra=extra
        )
        if self._wanted:
            self._items.appendleft(gap)

    def put_back(self, position: float, start: float, reason: str) -> None:
        item = PositionReset(utc(position), utc(start), reason)
        extra = log_fields(
            "stream_position_reset", chain=self._chain, position=item.position, start=item.start, reason=reason
        )
        logger.warning(
            "chain %d: the position %s was put back to %s: %s",
            self._chain,
            item.position,
            item.start,
            reason,
            extra=extra,
        )
        self._report(item)

    def audited(self) -> None:
        self.stats = replace(self.stats, audits=self.stats.audits + 1)

    def not_looked(self, reason: str) -> None:
        """The history could not be read, and will be asked again."""
        extra = log_fields("history_unread", chain=self._chain, reason=reason)
        logger.warning("chain %d: %s", self._chain, reason, extra=extra)

    def _report(self, item: Report) -> None:
        if self._wanted:
            self._items.append(item)


class NextAction(Enum):
    """What a stream needs next."""

    YIELD = "yield"
    """Hand out what is there."""
    CONNECT = "connect"
    WAIT = "wait"
    LOOK = "look"
    """Read the history since the connection broke off."""
    AUDIT = "audit"
    """Read the history for what the stream left out."""
    READ = "read"


class StreamState:
    """One stream over all its connections. `mono` is a monotonic time, `local` the local wall's."""

    def __init__(self, asked: StreamOptions, policy: RetryPolicy, *, mono: float, local: float) -> None:
        self._asked = asked
        self._lock = threading.Lock()  # signals may be acknowledged from other threads
        self.items: deque[StreamItem] = deque()
        self.replay = Deduplicator(settle=asked.settle, wanted=asked.wanted, acknowledging=asked.checkpointed)
        self.vitals = Watchdog(policy, asked.idle_timeout)
        self.decoder = SSEDecoder()
        self.attached = False
        self.clock = ServerClock(mono=mono, local=local)
        self._due = mono
        self._attached_at = 0.0
        self._settle_at: float | None = None
        self._lag = 0.0  # of the last heartbeat of this connection
        self._first_look = False
        self._audit_at = mono + AUDIT_EVERY
        self._said: set[int] = set()
        self._reports = Reports(asked.chain, asked.reports, self.items)
        self._last: tuple[StreamSignal, float] | None = None  # that came live, and when
        self.rest: list[bytes] = []
        """Events that have come and were not taken in yet, the last one first."""
        self._fed_at = mono
        self.flowing = False
        """Whether there is nothing to do but to read. False also when that has to be found out by `step`."""
        self._looks_at_start = False
        self._asked_at: float | None = None  # when it was asked for the first time
        self._asked_again = False

    def told_time(self, headers: Mapping[str, str], mono: float, local: float) -> None:
        """An answer tells the service's time."""
        self.clock.answered(headers, mono, local)
        self.replay.ahead = self.clock.tolerance

    # where it begins

    def begin(self, state: CheckpointState | None) -> None:
        """Before it is opened for the first time; without a time to go on from it begins when it is open."""
        if state is not None:
            if not self.replay.resume(state):
                self._reports.put_back(state.position, self.replay.position, "no signal was acknowledged there")
        elif self._asked.since is not None:
            self.replay.start(self._asked.since)
        self._looks_at_start = state is not None or self._asked.since is not None

    # what to do

    def step(self, mono: float) -> tuple[NextAction, float]:
        """What is needed now; for a wait, the seconds."""
        if self.items:
            return NextAction.YIELD, 0.0
        if self.rest:
            return NextAction.READ, 0.0
        if not self.attached:
            return (NextAction.WAIT, self._due - mono) if self._due > mono else (NextAction.CONNECT, 0.0)
        if self._first_look:
            return NextAction.LOOK, 0.0
        if self._settle_at is not None:
            return (NextAction.WAIT, self._settle_at - mono) if self._settle_at > mono else (NextAction.LOOK, 0.0)
        # What lies in a buffer comes before an audit: it would be taken for left out.
        if mono >= self._audit_at and (self.vitals.caught_up or self._is_up_to_date(mono)):
            return NextAction.AUDIT, 0.0
        self.flowing = True
        return NextAction.READ, 0.0

    def _is_up_to_date(self, mono: float) -> bool:
        """Where signals never stop coming, no read has to wait; their times show how far it is."""
        return self._last is not None and self.clock.now(mono) - unix(self._last[0].timestamp) < self._asked.settle

    # the connection

    def connecting(self, mono: float) -> None:
        """It is being opened. What is published from the first time on is wanted, however many tries it takes."""
        self._asked_again = self._asked_at is not None
        if self._asked_at is None:
            self._asked_at = mono

    def connected(self, headers: Mapping[str, str], mono: float, local: float) -> None:
        """It is open."""
        self.told_time(headers, mono, local)
        first = self._reports.stats.connects == 0
        away = None if first else mono - self.vitals.alive
        self.vitals.opened(mono)
        self.vitals.succeeded()
        last_id, retry = self.decoder.last_event_id, self.decoder.retry
        self.decoder = SSEDecoder()
        self.decoder.last_event_id, self.decoder.retry = last_id, retry
        self._attached_at = self.clock.now(mono)
        self._reports.connected()
        replay, position = self.replay, self.replay.position
        if first and not self._looks_at_start:
            asked = self._attached_at if self._asked_at is None else self.clock.now(self._asked_at)
            replay.start_here(asked, told=self.clock.told)
            self._looks_at_start = self._asked_again or self._attached_at - asked > _SLOW
        elif self.clock.told and replay.not_after(self._attached_at, away=away):
            self._reports.put_back(position, replay.position, "it is ahead of the service's time")
        if not first or self._looks_at_start:
            self._first_look = True
            self._settle_at = mono + self._asked.settle
        self._lag = 0.0
        self.attached = True

    def disconnected(
        self, reason: str, mono: float, local: float, *, failure: Failure | None = None, silent: bool = False
    ) -> bool:
        """It is not, or no longer. False when it should not be opened again.

        `failure`: why it could not be opened; `silent`: it was open, and nothing came.
        """
        self._detach(mono, silent=silent)
        wait = self.vitals.wait(failure, now=local, floor=(self.decoder.retry or 0) / 1000)
        most = self._asked.max_reconnects
        if wait is None or (most is not None and self.vitals.tries > most):
            return False
        self._due = mono + wait
        self._reports.disconnected(reason, wait, self.vitals.tries)
        return True

    def interrupted(self, mono: float) -> None:
        """The consumer was cancelled while it read: the connection is lost with it."""
        if self.attached:
            self._detach(mono)
            # The first one costs nothing; who does it all the time must not open a stream every second.
            self._due = mono + (self.vitals.wait(None, now=0.0) or 0.0) if self.vitals.tries else mono
            self.vitals.tries = max(1, self.vitals.tries)

    def _detach(self, mono: float, *, silent: bool = False) -> None:
        self.attached = self.flowing = False
        self.rest = []
        self.replay.end_look()
        self.vitals.broke_off(mono, silent=silent)
        self.decoder.close()

    # what comes

    def feed(self, chunk: bytes, began: float, mono: float) -> str | None:
        """Bytes of the stream, from a read that `began` then and has ended. A reason when it cannot be read on."""
        vitals = self.vitals
        vitals.read(began, mono)
        self._fed_at = mono
        events = self.decoder.data(chunk)
        if mono >= self._audit_at:
            self.flowing = False
        if len(events) > _AT_ONCE and self.decoder.error is None and not vitals.stalled(mono):
            events.reverse()
            self.rest = events
            self.go_on()
            return None
        if not self._take_in(events) and vitals.stalled(mono):
            return self.silence("bytes, but no event")
        if self.decoder.error is not None:
            self._reports.invalid(InvalidEvent(str(self.decoder.error), self.decoder.error.head))
            return str(self.decoder.error)
        return None

    def silence(self, what: str = "nothing came") -> str:
        """Why it counts as dead."""
        if self._is_stale:
            return f"the heartbeats are {self._lag:.0f} s old, which is more than {self.vitals.limit:.0f} s"
        return f"{what} for {self.vitals.limit:.0f} s"

    @property
    def _is_stale(self) -> bool:
        """Whether the last heartbeat has lain somewhere. One of another day has no time to believe."""
        return self.vitals.limit < self._lag < A_DAY

    def go_on(self) -> None:
        """Take in some of the `rest`: with few at a time the garbage collector finds nothing to do."""
        events = self.rest[: -_AT_ONCE - 1 : -1]
        del self.rest[-_AT_ONCE:]
        self._take_in(events)

    def _take_in(self, events: list[bytes]) -> bool:
        """Whether a signal was among them."""
        mono = self._fed_at
        now = self.clock.now(mono)
        chain, live, read, items = self._asked.chain, self.replay.live, signal_reader(), self.items
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
        if not self.clock.told:
            self.clock.event(unix(last.timestamp), mono)
        self.vitals.event(mono)
        self._last = last, now
        return True

    def _other(self, item: Event, mono: float, raw: bytes) -> None:
        if isinstance(item, StreamSignal):  # with bytes in it that had to be replaced
            self.vitals.event(mono)
            if item.chain_id != self._asked.chain:
                self._reports.invalid(of_another_chain(item, raw))
            elif not self.replay.live(item, self.clock.now(mono), self.items):
                self._reports.invalid(conflict(item, raw))
        elif isinstance(item, Heartbeat):
            when = item.timestamp.timestamp()
            self.clock.event(when, mono)
            now = self.clock.now(mono)
            self._lag = now - when
            if not self._is_stale:
                self.vitals.heartbeat(mono, when)
            self.replay.heartbeat(when, now, self.items)
            self._reports.heartbeat(max(0.0, self._lag))
            if self._asked.heartbeats:
                self.items.append(item)
        elif isinstance(item, UnknownEvent):
            self.vitals.event(mono)
            self._reports.unknown(item)
            if self._asked.unknown_events:
                self.items.append(item)
        else:
            self._reports.invalid(item)

    # the history

    @property
    def looks_again(self) -> bool:
        """Whether the look that is due is the first of two."""
        return self._first_look

    @property
    def catching_up(self) -> bool:
        """Whether there may be signals that are not read yet from the history."""
        return (
            self._first_look or self._settle_at is not None or (not self.attached and self._reports.stats.connects > 0)
        )

    def begin_look(self, mono: float, *, audit: bool = False) -> BackfillWindow:
        """What to ask the history for."""
        now = self.clock.now(mono)
        if audit:
            return self.replay.audit(now)
        attached = None if self._first_look else self._attached_at
        return self.replay.look(now, attached=attached)

    def add(self, look: BackfillWindow, page: HistoryPage, mono: float, local: float) -> bool:
        """A page of it. Whether to read on."""
        self.told_time(page.headers, mono, local)
        with self._lock:
            more, conflicts = self.replay.add(look, page.signals)
        for signal in conflicts:
            self._reports.invalid(conflict(signal))
        for invalid in page.invalid:
            if hash(invalid.raw) not in self._said and len(self._said) < 10_000:  # every look finds it again
                self._said.add(hash(invalid.raw))
                self._reports.invalid(invalid)
        return more and page.next_cursor is not None

    def looked(self, look: BackfillWindow, mono: float, *, audit: bool = False) -> None:
        """The walk is done. One that found too much at once goes on after that has been handed out."""
        with self._lock:
            gap = self.replay.found(look, self.clock.now(mono), self.items)
        if gap is not None:
            self._reports.gap(gap)
        if not self.replay.goes_on(look):
            self._look_is_over(mono, audit=audit)

    def look_failed(self, look: BackfillWindow, reason: str, mono: float, *, audit: bool = False) -> None:
        """The history could not be read."""
        if audit or self._first_look:
            self._reports.not_looked(reason)  # the second look will find what this would have
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
        """The consumer is done with it. False when it was not waited for."""
        with self._lock:
            return self.replay.acknowledge(signal_id)

    def state(self) -> CheckpointState:
        """What a checkpoint has to keep."""
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
