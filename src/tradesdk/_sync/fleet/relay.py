# Generated from src/tradesdk/_async/fleet/relay.py by scripts/unasync.py: change that file instead.
"""The relay of a fleet: one member reads the service's stream, and writes it to the fleet's server for all."""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..._fleet.streams import (
    WAITED_FOR,
    AnotherRun,
    Keys,
    Published,
    RelayCheckpoint,
    Tail,
    backoff,
    publish_arguments,
    text,
)
from ..._http.log_events import log_fields, logger
from ..._http.retry import with_jitter
from ..._stream.checkpoint import CheckpointState
from ..._stream.deduplication import OVERLAP
from ..._stream.seen_ids import SeenIds
from ...errors import APIConnectionError, APIError, APIStatusError, FleetError, StreamError, TradeError
from ...models.stream import Gap, RelayStats, StreamItem, StreamSignal
from ..concurrency import Background, require_asyncio, run_to_completion
from ..signal_stream import SignalStream
from .once import Once
from .pinned_connection import PinnedConnection

if TYPE_CHECKING:
    from ..._stream.options import StreamOptions
    from ..session import Session

_AT_ONCE = 256  # items that one script writes at most
_LOOK_AGAIN = 1.0  # seconds
_LONGEST_WAIT = 30.0  # seconds until the service is tried again


class _Ended(Exception):
    """This member relays no longer: it lost the lease, or the server has changed."""


@dataclass
class _Term:
    """A time in which this member has the lease."""

    fence: int
    incarnation: str
    checkpoint: RelayCheckpoint


class SignalRelay:
    """Offers to relay a chain's signals to a fleet: a context manager that works beside your code.

    `client.signals.relay` makes it. Of all members that offer to, one has a lease and the only stream of the service;
    what that yields goes to the fleet's server, each signal once. When it dies, or is paused beyond its lease, another
    continues from its checkpoint. Members read with `client.signals.shared`.

    Attributes:
        chain: 8453 (Base) or 56 (BNB Chain).
        member: the name of this member.

    Example:
        ```python
        with client.signals.relay(chain=8453) as relay:
            relay.wait()  # until it is closed
        ```
    """

    def __init__(
        self,
        session: Session,
        options: StreamOptions,
        keys: Keys,
        url: str | None,
        *,
        member: str,
        lease: float,
        keep: int,
        topic: str,
    ) -> None:
        self.chain = options.chain
        self.member = member
        self._session = session
        self._options = options
        self._keys = keys
        self._lease = lease
        self._keep = keep
        self._topic = topic
        self._owner = f"{member} {secrets.token_hex(8)}"
        self._connection = PinnedConnection(url)
        self._once = Once(url, keys)
        self._working = Background(f"tradesdk relay of {member}")
        self._renewing = Background(f"tradesdk relay lease of {member}")
        self._incarnation = ""
        self._term: _Term | None = None
        self._upstream: SignalStream[StreamItem] | None = None
        self._tail = Tail()
        self._known = SeenIds()
        self._newest = 0.0
        self._last: CheckpointState | None = None  # for a server that lost its own
        self._went_back = False  # what is in the tail may be missing on the server
        self._tries = 0
        self._owned_by = ""
        self._published = self._duplicates = self._terms = 0

    @property
    def stats(self) -> RelayStats:
        """What it does, and did so far."""
        upstream = self._upstream
        stream = None if upstream is None else upstream.stats
        return RelayStats(
            relaying=self._term is not None and stream is not None and stream.connects > 0,
            relayed_by=self._owned_by or None,
            published=self._published,
            duplicates=self._duplicates,
            terms=self._terms,
            stream=stream,
        )

    def once(self, action: str, *, keep: float = 7 * 86_400.0) -> bool:
        """True for one caller in the whole fleet: for what must not be done twice, such as a trade for a signal.

        Every other caller with the same `action` gets False, on any machine. It cannot tell whether the one that got
        True has done it: after a crash in between, nobody does. A server that lost its last writes in a failover says
        True again.

        Args:
            action: what is to be done, such as `signal.id`.
            keep: seconds for which it is remembered.

        Raises:
            FleetError: the server cannot be used, so it is not known.
        """
        return self._once.first(action, keep=keep)

    def wait(self) -> None:
        """Wait until it is closed, or ended by an error that waiting cannot mend.

        Raises:
            APIStatusError: the service refuses (401, 403 and others).
            StreamEndedError: the service ended the stream for good.
            FleetError: the fleet's server refuses.
        """
        self._working.wait()

    # the work

    def _work(self) -> None:
        try:
            while not self._working.stopping:
                self._attempt()
        except TradeError as error:
            self._log_end(str(error))
            raise
        finally:
            run_to_completion(self._give_back)

    def _attempt(self) -> None:
        """Relay until something ends it."""
        try:
            term = self._take_lease()
            if term is not None:
                self._relay(term)
        except _Ended as ended:
            self._term = None
            if not self._working.stopping:
                self._log_end(str(ended))
        except AnotherRun:
            self._server_changed()
        except FleetError as failed:
            if failed.code not in WAITED_FOR:
                raise
            self._say(failed, backoff(self._next_try()))
        except APIError as failed:
            if not _temporary(failed):
                raise
            self._give_back()  # others may reach the service
            self._say(failed, min(_LONGEST_WAIT, 2.0 ** min(self._next_try(), 10)))
        finally:
            self._upstream = None

    def _next_try(self) -> int:
        self._tries += 1
        return self._tries

    def _log_end(self, reason: str) -> None:
        extra = log_fields("relay_ended", chain=self.chain, reason=reason)
        logger.warning("chain %d is no longer relayed by %s: %s", self.chain, self.member, reason, extra=extra)

    def _say(self, error: TradeError, wait: float) -> None:
        wait = with_jitter(wait)
        extra = log_fields("fleet_waiting", error, chain=self.chain, wait=wait, tries=self._tries)
        logger.warning("the relay of chain %d waits %.1f s: %s", self.chain, wait, error, extra=extra)
        if isinstance(error, FleetError):
            with suppress(FleetError):
                self._connection.drop()
        self._working.pause(wait)

    def _server_changed(self) -> None:
        """The server may lack the last writes: take it as it is, and write again what may be missing."""
        self._connection.adopt()
        self._incarnation, self._went_back = "", True
        if self._term is not None:
            self._term = None
            self._log_end("the fleet's server was restarted or replaced")

    def _take_lease(self) -> _Term | None:
        """Take the lease, or wait a while for it."""
        if not self._incarnation:
            run = self._connection.run_of_server()
            reply = self._connection.run(
                "stream_join", self._keys.of_members, [run, secrets.token_hex(8), "", "", "", int(self._terms > 0), ""]
            )
            self._incarnation = text(reply[0])
        reply = self._ask(0)
        status = text(reply[0])
        if status == "changed":
            self._incarnation, self._went_back = "", True
            return None
        if status == "other":
            self._owned_by = text(reply[1]).partition(" ")[0]
            self._tries = 0
            # The lease may be given back before it ends.
            self._working.pause(min(int(reply[2]) / 1000, self._lease / 3, _LOOK_AGAIN))
            return None
        fence, begin, position, wanted = int(reply[1]), text(reply[2]), text(reply[3]), text(reply[4])
        self._owned_by = self.member
        state = self._state(begin, position, wanted)
        self._term = _Term(fence, self._incarnation, RelayCheckpoint(state, stored=bool(position)))
        self._terms += 1
        return self._term

    def _ask(self, fence: int, *, release: bool = False) -> list[Any]:
        reply: list[Any] = self._connection.run(
            "relay_lease",
            [self._keys.meta, self._keys.stream],
            [self._incarnation, self._owner, int(self._lease * 1000), fence, int(release)],
        )
        return reply

    def _state(self, begin: str, position: str, wanted: str) -> CheckpointState | None:
        """Where to begin: at the server's checkpoint, at ours if it has none, or where its members want it to."""
        if not position:
            if self._last is not None:
                return CheckpointState(self._last.begin, self._last.position, self._last.handled)
            return CheckpointState(float(wanted), float(wanted)) if wanted else None
        start = float(position)
        pairs = self._connection.command("ZRANGEBYSCORE", self._keys.times, start - OVERLAP - 1, "+inf", "WITHSCORES")
        handled = [(text(pairs[at]), float(pairs[at + 1])) for at in range(0, len(pairs), 2)]
        signals = tuple(pair for pair in handled if not pair[0].startswith("\0"))
        for signal_id, when in signals:
            self._know(signal_id, when)
        return CheckpointState(float(begin), start, signals)

    def _relay(self, term: _Term) -> None:
        if self._went_back and self._tail.items:
            self._publish_tail(term)
        self._went_back = False
        stream: SignalStream[StreamItem] = SignalStream(self._session, self._options, term.checkpoint)
        self._upstream = stream
        if self._working.stopping:  # it was closed before there was a stream to close
            return
        extra = log_fields("relay_started", chain=self.chain)
        logger.info("chain %d is relayed by %s", self.chain, self.member, extra=extra)
        with stream:
            self._tries = 0
            if term.checkpoint.unsent()[0] is not None:
                self._publish(term, [])  # the next relay begins here, even if nothing comes until then
            for item in stream:
                signals = [item] if isinstance(item, StreamSignal) else []
                batch = self._entry_of(item)
                while stream.ready and len(batch) < _AT_ONCE:
                    more = next(stream, None)
                    if more is None:  # it was closed
                        break
                    if isinstance(more, StreamSignal):
                        signals.append(more)
                    batch += self._entry_of(more)
                if batch:
                    self._publish(term, batch)
                for signal in signals:
                    stream.ack(signal)
        if self._working.stopping:
            return
        if self._went_back:
            raise AnotherRun
        raise _Ended("another member has the lease")  # the stream was closed because of it

    def _publish_tail(self, term: _Term) -> None:
        again = self._tail.again()
        self._tail = Tail()
        at = 0
        try:
            while at < len(again):
                batch, at = again[at : at + _AT_ONCE], at + _AT_ONCE
                self._publish(term, batch, moves=False)
        finally:
            self._tail.unknown(again[at:])

    def _publish(self, term: _Term, batch: list[Published], *, moves: bool = True) -> None:
        """Write a batch. While the server is away it is tried again: the stream of the service stays open."""
        while True:
            arguments, state = publish_arguments(self._keep, self._topic, term.checkpoint, batch, moves=moves)
            try:
                reply = self._connection.run(
                    "relay_publish",
                    self._keys.of_relay,
                    [term.incarnation, self._owner, term.fence, int(self._lease * 1000), *arguments],
                )
            except FleetError as error:
                if error.code not in WAITED_FOR:
                    raise
                self._say(error, backoff(self._next_try()))
                if self._working.stopping:
                    raise _Ended("it was closed") from None
                continue
            except AnotherRun:
                self._tail.unknown(batch)
                raise
            status = text(reply[0])
            if status == "changed":
                self._tail.unknown(batch)
                raise AnotherRun
            if status == "lost":
                raise _Ended("another member has the lease")
            break
        self._tries = 0
        term.checkpoint.sent(state)
        self._last = term.checkpoint.state
        self._published += int(reply[1])
        self._duplicates += len(batch) - int(reply[1])
        self._tail.add(reply[2], batch)
        for item in batch:
            self._know(item.id, item.when)

    def _know(self, signal_id: str, when: float) -> None:
        """Remember that it was written: if it comes again, the server has lost it."""
        if signal_id not in self._known.fingerprints:
            self._newest = max(self._newest, min(when, self._session.clock.now()))
            if self._known.add(signal_id, self._newest, 0, self._newest):
                self._known.forget(self._newest)

    def _entry_of(self, item: StreamItem) -> list[Published]:
        if isinstance(item, StreamSignal):
            entry = Published.signal(item)
            return [entry.again() if item.id in self._known.fingerprints else entry]
        return [Published.gap(item)] if isinstance(item, Gap) else []

    def _renew(self) -> None:
        """Keep the lease, also while the stream is silent. Without it, the stream is closed."""
        tries = 0
        while not self._renewing.pause(self._lease / 3):
            term = self._term
            if term is None:
                continue
            reply: list[Any] = []
            try:
                reply = self._ask(term.fence)
            except AnotherRun:
                pass
            except FleetError as error:
                tries += 1
                if tries == 1:  # it may take long until the next writing reports it
                    extra = log_fields("fleet_waiting", error, chain=self.chain, wait=self._lease / 3, tries=tries)
                    logger.warning("the relay of chain %d cannot renew its lease: %s", self.chain, error, extra=extra)
                continue
            tries = 0
            status = text(reply[0]) if reply else "changed"
            if status == "held":
                self._tail.through(int(reply[5]))
            elif self._term is term and self._upstream is not None:
                self._went_back = self._went_back or status == "changed"
                self._upstream.close()

    def _give_back(self) -> None:
        term, self._term = self._term, None
        if term is not None:
            with suppress(FleetError, AnotherRun):
                self._ask(term.fence, release=True)

    # opening and closing

    def __enter__(self) -> SignalRelay:
        require_asyncio("a relay")
        self._working.start(self._work)
        self._renewing.start(self._renew)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        run_to_completion(self.close)

    def close(self) -> None:
        """End it and give the lease back: another member takes over at once. Closing again does nothing.

        What ended it before is raised by `wait`.
        """
        self._working.stop()
        self._renewing.stop()
        self._connection.sockets.close()  # they may wait for replies
        if self._upstream is not None:
            self._upstream.close()
        with suppress(Exception):
            self._working.wait()
        self._renewing.wait()
        self._connection.close()
        self._once.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of chain {self.chain} at {self._connection.address}>"


def _temporary(error: APIError) -> bool:
    """Whether the service may answer later."""
    if isinstance(error, StreamError):
        return error.code == "stream_lost"
    if isinstance(error, APIStatusError):
        return error.status == 429 or error.status >= 500
    return isinstance(error, APIConnectionError)
