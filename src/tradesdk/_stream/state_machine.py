"""A live stream as a value: it is fed with bytes and answers, and says what to do next and what to yield. No I/O."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum

from pydantic import ValidationError

from .._http.retry import Failure, RetryPolicy
from ..models.stream import Heartbeat, InvalidEvent, StreamItem, StreamSignal, StreamStats, UnknownEvent
from .backfill_window import BackfillWindow
from .checkpoint import CheckpointState
from .deduplication import Deduplicator
from .events import Event, HistoryPage, conflict, of_another_chain, read_other, signal_reader, unix, utc
from .options import StreamOptions
from .reports import Reports
from .server_clock import A_DAY, ServerClock
from .sse import SSEDecoder
from .watchdog import Watchdog

AUDIT_EVERY = 300.0
_AT_ONCE = 64  # events
AUDIT_AGAIN = 60.0
"""Seconds until one that was too long for one time is gone on with."""
_AUDIT_SOON = 30.0
_SLOW = 1.0  # seconds that a first connection may take without anything being missed meanwhile


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
