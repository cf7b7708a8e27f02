"""A stream of signals that the members of a fleet share."""

from __future__ import annotations

import secrets
from collections import deque
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import ValidationError

from ..._fleet.streams import MISSING, WAITED_FOR, AnotherRun, Entry, Keys, MissedPeriod, backoff, entries, text
from ..._http.log_events import log_fields, logger
from ..._http.retry import with_jitter
from ..._stream.deduplication import OVERLAP
from ..._stream.events import explained, signal_reader, unix, utc
from ..._stream.seen_ids import SeenIds
from ..._stream.state_machine import StreamReporter, StreamState
from ...errors import FleetError, InvalidArgumentError, TradeError
from ...models.stream import Gap, InvalidEvent, StreamItem, StreamSignal, StreamStats
from ..concurrency import AsyncBackground, AsyncInterruptible, Interrupted, require_asyncio, run_to_completion
from ..stream_backfill import AsyncBackfill
from .once import AsyncOnce
from .pinned_connection import AsyncPinnedConnection

if TYPE_CHECKING:
    from ..._stream.options import StreamOptions
    from ..session import AsyncSession

ItemT = TypeVar("ItemT", bound=StreamItem)

_LONGEST_BLOCK = 2.0  # seconds; shorter than the timeout of a reply


class AsyncSharedStream(Generic[ItemT]):
    """A chain's signals, shared by the members of a fleet: a context manager, and an iterator for one consumer.

    `client.signals.shared` makes it. A relay (`client.signals.relay`) has to run somewhere in the fleet. While the
    fleet's server is away it waits, logs so, and continues; then a signal may come again, marked `redelivered`.

    Attributes:
        chain: 8453 (Base) or 56 (BNB Chain).
        group: the name of the group; None when every member gets every signal.
        member: the name of this member.

    Raises:
        FleetError: the fleet's server refuses, and waiting cannot help.
        AuthenticationError: missed signals were to be read from the service's history, and it refuses the key.

    Example:
        ```python
        async with client.signals.shared(chain=8453, group="bots") as stream:
            async for signal in stream:
                print(signal.direction, signal.token_symbol)
        ```
    """

    def __init__(
        self,
        session: AsyncSession,
        options: StreamOptions,
        keys: Keys,
        url: str | None,
        *,
        group: str | None,
        member: str,
        lease: float,
        keeps_position: bool,
    ) -> None:
        self.chain = options.chain
        self.group = group
        self.member = member
        self._options = options
        self._keys = keys
        self._lease = lease
        self._destroy = group is None and not keeps_position
        # A member that gets every signal is a group of one.
        self._group = f"{'anonymous' if self._destroy else 'member'}/{member}" if group is None else group
        self._me = f"{self._group}/{member}"
        self._token = secrets.token_hex(8)
        self._connection = AsyncPinnedConnection(url)
        self._once = AsyncOnce(url, keys)
        self._interruptible = AsyncInterruptible()
        self._session = session.for_stream(self._interruptible.watch)
        self._renewing = AsyncBackground(f"tradesdk lease of {member}")
        self._items: deque[StreamItem] = deque()
        self._reports = StreamReporter(options.chain, options.reports, self._items)
        self._stats = StreamStats()
        self._held: dict[str, Entry] = {}  # what was yielded, or is about to be, by the signal's id
        self._acks: list[tuple[int, str]] = []  # to be sent with the next step
        self._seen = SeenIds()
        self._reached = 0.0  # by the server's clock
        self._position: float | None = None
        self._incarnation = ""
        self._suspect, self._changed = 0, 0  # the last entry when the server changed, and the time of that
        self._here = self._connected = self._entered = False
        self._fresh = True  # what is pending at first is left by an earlier process of this name
        self._drain = True
        self._tries = 0
        self._taken: StreamSignal | None = None
        self._over: Exception | None = None

    @property
    def stats(self) -> StreamStats:
        """Counts and times of the stream so far. `connects` counts connections to the fleet's server."""
        counted, reported = self._stats, self._reports.stats
        return replace(
            counted,
            connects=reported.connects,
            invalid=reported.invalid,
            gaps=reported.gaps,
            position=None if self._position is None else utc(self._position),
        )

    @property
    def catching_up(self) -> bool:
        """Whether it is not connected to the fleet's server."""
        return not self._connected

    async def ack(self, signal: StreamSignal) -> None:
        """Acknowledge a signal: it goes to no other member.

        Needed with `manual_ack=True` only. Signals may be acknowledged in any order. Acknowledging again does nothing.
        When another member has claimed it meanwhile, because this one did not renew its lease, that is logged.

        Raises:
            FleetError: the server cannot be used; the next successful step includes it.
        """
        if not self._options.manual_ack:
            raise InvalidArgumentError("ack needs manual_ack=True: pass it to signals.shared")
        self._done(signal)
        if self._acks and self._incarnation:
            with suppress(AnotherRun):  # then what was delivered is read again
                await self._step("ack")

    async def once(self, action: str, *, keep: float = 7 * 86_400.0) -> bool:
        """True for one caller in the whole fleet: see `relay.once`."""
        return await self._once.first(action, keep=keep)

    # iterating

    def __aiter__(self) -> AsyncSharedStream[ItemT]:
        return self

    async def __anext__(self) -> ItemT:
        if self._interruptible.foreign:
            raise TradeError("this stream belongs to the parent process: open another one in this process")
        if self._interruptible.shut and not self._entered:
            raise StopAsyncIteration
        if self._taken is not None:
            self._done(self._taken)
            self._taken = None
        if not self._items and not self._interruptible.shut:
            try:
                await self._interruptible.run(self._advance)
            except Interrupted:
                raise StopAsyncIteration from None
        if self._interruptible.shut:
            raise StopAsyncIteration
        item = self._items.popleft()
        if isinstance(item, StreamSignal) and not self._options.manual_ack:
            self._taken = item
        return item  # type: ignore[return-value] # the options decide what comes

    def _done(self, signal: StreamSignal) -> None:
        entry = self._held.pop(signal.id, None)
        if entry is None:
            return
        entry.left -= 1
        if not entry.left and entry.incarnation == self._incarnation:
            self._acks.append((entry.which, entry.id))

    async def _advance(self) -> None:
        """Run until there is something to yield."""
        if self._over is not None:
            raise TradeError(f"this stream has failed: {self._over}")
        try:
            while not self._items:
                if self._interruptible.shut:
                    raise Interrupted
                await self._go_on()
        except Interrupted:
            raise
        except TradeError as error:
            self._over = error
            raise

    async def _go_on(self) -> None:
        self._interruptible.watch(self._connection.sockets)
        try:
            if not self._incarnation:
                await self._join()
            reply = await self._step("drain" if self._drain else "next")
            if reply is None:
                return
            left = self._drain and self._fresh
            _, found, last, last_missing, _ = reply
            if found:
                await self._take(entries(found, self._incarnation), left=left)
            if self._drain:
                self._drain = self._fresh = False
            elif not found and not self._items:
                await self._wait(text(last), text(last_missing))
        except AnotherRun:
            self._incarnation = ""
            await self._connection.adopt()
        except FleetError as error:
            if error.code not in WAITED_FOR:
                raise
            await self._lost(error)

    async def _lost(self, error: FleetError) -> None:
        """Wait for the server. What it was about to deliver is read again first."""
        self._drain = True
        self._tries += 1
        wait = backoff(self._tries)
        self._connected = False
        self._reports.disconnected(error.message, wait, self._tries)
        with suppress(FleetError):
            await self._connection.drop()
        if self._interruptible.shut:
            raise Interrupted
        await self._interruptible.sleep(self._session.clock, with_jitter(wait))

    async def _join(self) -> None:
        run = await self._connection.run_of_server()
        since = "" if self._position is None else max(0.0, self._position - OVERLAP)
        reply = await self._connection.run(
            "stream_join",
            self._keys.of_members,
            [run, secrets.token_hex(8), self._me, self._token, self._group, int(self._here), since],
        )
        self._incarnation, self._suspect, self._changed = text(reply[0]), int(reply[1]), int(reply[2])
        self._acks.clear()  # their entries were those of another incarnation, or are read again
        self._drain = True
        if self._here and self._position is not None:
            start = max(0.0, self._position - OVERLAP)
            self._reports.position_reset(self._position, start, "the fleet's server was restarted or replaced")
        self._here = True

    async def _step(self, mode: str) -> Any:
        """One run of the script; None when this member has to join again."""
        acks = list(self._acks)
        self._drain = self._drain or mode == "next"  # until the reply is here
        reply = await self._connection.run(
            "stream_next",
            self._keys.of_members,
            [
                *(self._incarnation, self._me, self._token, self._group, self.member),
                *(int(self._lease * 1000), mode, len(self._held)),
                *(part for ack in acks for part in ack),
            ],
        )
        status = text(reply[0])
        if status == "changed":
            self._incarnation = ""
            return None
        if status == "replaced":
            raise FleetError(
                f"another process has joined as member {self.member!r}",
                code="member_replaced",
                hint="give each process its own member=",
            )
        del self._acks[: len(acks)]
        if mode == "next":
            self._drain = False
        for entry_id in reply[4]:
            reason = "its lease was overrun, and another member has claimed it"
            extra = log_fields("lease_overrun", chain=self.chain, reason=reason)
            logger.warning("entry %s of chain %d: %s", text(entry_id), self.chain, reason, extra=extra)
        self._tries = 0
        if not self._connected:
            self._connected = True
            self._reports.connected()
        return reply

    async def _wait(self, last: str, last_missing: str) -> None:
        """Wait for an entry; not for long, because a member may have died."""
        block = min(self._lease / 3, _LONGEST_BLOCK)
        await self._connection.command(
            *("XREAD", "COUNT", 1, "BLOCK", max(1, int(block * 1000))),
            *("STREAMS", self._keys.stream, self._keys.missing, last, last_missing),
        )

    # what comes

    async def _take(self, found: list[Entry], *, left: bool) -> None:
        """Take entries. `left`: an earlier process of this name may have had them."""
        in_hand = {(entry.which, entry.id) for entry in self._held.values() if entry.incarnation == self._incarnation}
        for entry in found:
            if (entry.which, entry.id) in in_hand:
                continue
            again = left or entry.deliveries > 1
            if entry.which == MISSING:
                await self._recover(entry, again=again)
            else:
                self._take_entry(entry, again=again or entry.number <= self._suspect)
            if not entry.left:
                self._acks.append((entry.which, entry.id))

    def _take_entry(self, entry: Entry, *, again: bool) -> None:
        try:
            if entry.kind == "gap":
                self._gap(entry.gap())
            else:
                self._add(signal_reader()(entry.payload), entry, again=again)
        except ValidationError as error:
            self._reports.invalid(InvalidEvent(explained(error), entry.payload))
        except (ValueError, KeyError, TypeError):
            self._reports.invalid(InvalidEvent("it is not an entry of a relay", entry.payload))

    def _gap(self, gap: Gap) -> None:
        self._reports.gap(gap)
        if self._options.reports:
            self._items.rotate(-1)  # it comes after what waits

    def _add(self, signal: StreamSignal, entry: Entry, *, again: bool) -> None:
        """Yield a signal, unless this member had it."""
        stats, when = self._stats, unix(signal.timestamp)
        held = self._held.get(signal.id)
        if held is not None:  # it is in the consumer's hands
            if held.incarnation != entry.incarnation:
                self._held[signal.id] = entry
                entry.left += 1
            return
        if signal.id in self._seen.fingerprints:
            self._stats = replace(stats, duplicates=stats.duplicates + 1)
            return
        self._reached = max(self._reached, entry.at)
        if self._seen.add(signal.id, self._reached, 0, self._reached):
            self._seen.forget(self._reached)
        if when <= entry.at + OVERLAP:  # else it is dated in the future
            self._position = max(when, self._position or 0.0)
        matches = self._options.predicate
        if matches is not None and not matches(signal):
            self._stats = replace(stats, filtered=stats.filtered + 1)
            return
        again = again or signal.redelivered or when <= self._changed
        if again and not signal.redelivered:
            signal = signal.marked(replayed=signal.replayed, late=signal.late, redelivered=True)
        self._stats = replace(
            stats,
            signals=stats.signals + 1,
            replayed=stats.replayed + signal.replayed,
            late=stats.late + signal.late,
            redelivered=stats.redelivered + again,
            lag=max(0.0, self._session.clock.now() - when),
        )
        self._held[signal.id] = entry
        entry.left += 1
        self._items.append(signal)

    async def _recover(self, entry: Entry, *, again: bool) -> None:
        """Read a period that the group has missed from the service's history."""
        period = MissedPeriod.of(entry.fields)
        self._gap(period.gap)
        start, end = period.searched
        options = replace(
            self._options, since=int(start), predicate=None, reports=False, checkpointed=False, manual_ack=False
        )
        clock = self._session.clock
        state = StreamState(options, self._session.policy, mono=clock.monotonic(), local=clock.now())
        state.begin(None)
        backfill = AsyncBackfill(self._session, self._interruptible, state, self.chain, self._options.recovery_timeout)
        reason = await backfill.period(start, end)
        self._interruptible.watch(self._connection.sockets)
        if reason is not None:
            self._reports.history_unread(reason)
        found = [item for item in state.items if isinstance(item, StreamSignal)]
        position = float(await self._connection.command("HGET", self._keys.meta, "position") or 0)
        numbers = await self._connection.command("HMGET", self._keys.seen, "", *(signal.id for signal in found))
        for signal, number in zip(found, numbers[1:], strict=True):
            when = unix(signal.timestamp)
            if period.has(None if number is None else int(number), when, position):
                unsure = period.why != "trimmed" or (number is None and when <= period.start)
                self._add(signal.marked(replayed=True, late=signal.late), entry, again=again or unsure)

    # the lease

    async def _renew(self) -> None:
        while not await self._renewing.pause(self._lease / 3):
            with suppress(AnotherRun, FleetError):  # the consumer's own steps report it
                if self._incarnation:
                    await self._connection.run(
                        "stream_renew",
                        self._keys.of_members,
                        [self._incarnation, self._me, self._token, self._group, self.member],
                    )

    # opening and closing

    async def aclose(self) -> None:
        """End the stream, from any task: a waiting consumer ends at once. Closing again does nothing."""
        self._interruptible.close()
        if not self._entered:
            await self._release()

    async def _release(self) -> None:
        self._renewing.stop()
        self._connection.sockets.close()  # it may wait for a reply
        await self._renewing.wait()
        await self._connection.aclose()
        await self._once.aclose()

    async def __aenter__(self) -> AsyncSharedStream[ItemT]:
        require_asyncio("a shared stream")
        self._entered = True
        try:
            await self._interruptible.run(self._open)
        except Interrupted:  # it was closed meanwhile: iterating ends at once
            pass
        except BaseException:
            self._entered = False
            await run_to_completion(self._release)
            raise
        self._renewing.start(self._renew)
        return self

    async def _open(self) -> None:
        signal_reader()  # builds it now, not at the first event
        while not self._incarnation:
            if self._interruptible.shut:
                raise Interrupted
            self._interruptible.watch(self._connection.sockets)
            try:
                await self._join()
            except AnotherRun:
                await self._connection.adopt()
            except FleetError as error:
                if error.code not in WAITED_FOR:
                    raise
                await self._lost(error)

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if exc_type is None and self._taken is not None:
                self._done(self._taken)
            self._interruptible.close()
            self._renewing.stop()
            await run_to_completion(self._leave)
        finally:
            self._entered = False
            await run_to_completion(self._release)

    async def _leave(self) -> None:
        """Acknowledge what is done, and let others claim the rest at once. If that fails, they do after the lease."""
        with suppress(FleetError, AnotherRun):
            if self._incarnation and self._over is None:
                if self._acks:
                    await self._step("ack")
                await self._connection.run(
                    "stream_leave",
                    self._keys.of_members,
                    [
                        *(self._incarnation, self._me, self._token, self._group, self.member),
                        *(int(self._lease * 1000), int(self._destroy)),
                    ],
                )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of chain {self.chain}, group {self.group}, at {self._connection.address}>"
