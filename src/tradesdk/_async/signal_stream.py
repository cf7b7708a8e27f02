"""The live stream of signals."""

from __future__ import annotations

import logging
import math
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import ref

from .._http.response import failure_of
from .._http.retry import Operation, Retries
from .._httpx import Place
from .._stream.checkpoint import CheckpointFile, CheckpointState
from .._stream.events import unix
from .._stream.state_machine import Do, Follower
from ..errors import APIError, APITimeoutError, InvalidArgumentError, StreamError, TradeError
from ..models.stream import StreamItem, StreamSignal, StreamStats
from .concurrency import AsyncGate, AsyncSlots, Interrupted, surely
from .stream_backfill import AsyncLookBack
from .stream_connection import AsyncStreamLink

if TYPE_CHECKING:
    from .._stream.options import Asked
    from .session import AsyncCalls

ItemT = TypeVar("ItemT", bound=StreamItem)

logger = logging.getLogger("tradesdk")


class AsyncSignalStream(Generic[ItemT]):
    """Signals of a chain as they are generated: a context manager, and an iterator for one consumer.

    `client.signals.stream` makes it. Entering connects. It reconnects by itself, reads what was missed from the
    history, yields nothing twice, and goes on until it is closed or an error ends it.

    Attributes:
        chain: 8453 (Base) or 56 (BNB Chain).

    Raises:
        APIStatusError: the service refuses (401, 403 and others that another try cannot help).
        StreamError: what was opened is no stream of events.
        StreamEndedError: the service ended it for good.
        CheckpointError: the checkpoint cannot be read or written. One that cannot be written ends nothing: ask for the
            next signal and it is tried again.

    Example:
        ```python
        async with client.signals.stream(chain=8453) as stream:
            async for signal in stream:
                print(signal.direction, signal.token_symbol)
        ```
    """

    def __init__(self, calls: AsyncCalls, asked: Asked, checkpoint: CheckpointFile | None) -> None:
        self.chain = asked.chain
        self._asked = asked
        self._gate = AsyncGate()
        self._calls = calls.for_stream(self._gate.watch, self._gate.trace)
        clock = calls.clock
        self._follower = Follower(asked, calls.policy, mono=clock.monotonic(), local=clock.now())
        self._items = self._follower.items
        self._link = AsyncStreamLink(self._calls, self._gate, asked.chain)
        self._look_back = AsyncLookBack(self._calls, self._gate, self._follower, asked.chain, asked.recovery_timeout)
        self._checkpoint = checkpoint
        self._saving = AsyncSlots(1)
        self._taken: StreamSignal | None = None  # what the consumer has got and is perhaps not done with
        self._unsaved = False  # whether the checkpoint lacks an acknowledgement
        self._kept_from = -math.inf  # where the stream begins, as saved in the checkpoint
        self._begun = self._opened = self._entered = False
        self._over: Exception | None = None

    # what it has seen

    @property
    def stats(self) -> StreamStats:
        """What it has seen so far."""
        return self._follower.stats

    @property
    def catching_up(self) -> bool:
        """Whether it is not connected, or still reads from the history what it missed: more may follow at any time."""
        return self._follower.catching_up

    async def ack(self, signal: StreamSignal) -> None:
        """The signal is dealt with: after a restart it does not come again.

        When this returns it is in the file, so killing the process does not undo it. The file is synced about once a
        second: after a power cut the last signals may come again. Signals may be acknowledged in any order, also while
        another task waits for the next. Doing it again does nothing.

        Raises:
            CheckpointError: it cannot be written; it will be with the next one that can.
            InvalidArgumentError: the stream has no checkpoint.
        """
        if self._checkpoint is None:
            raise InvalidArgumentError("nothing remembers what was acknowledged: give the stream a checkpoint=")
        await self._acknowledge(self._checkpoint, signal)

    async def _acknowledge(self, checkpoint: CheckpointFile, signal: StreamSignal) -> None:
        place = Place()
        await self._saving.take(None, ref(place))
        try:
            behind = self._unsaved  # an earlier one failed, or was interrupted
            self._unsaved |= self._follower.acknowledge(signal.id)
            if behind or (self._unsaved and not checkpoint.add(signal.id, unix(signal.timestamp))):
                await self._save_state(checkpoint)
            self._unsaved = False
        finally:
            self._saving.give_back(ref(place))

    async def _save(self, checkpoint: CheckpointFile) -> None:
        place = Place()
        await self._saving.take(None, ref(place))
        try:
            await self._save_state(checkpoint)
        finally:
            self._saving.give_back(ref(place))

    async def _save_state(self, checkpoint: CheckpointFile) -> None:
        state = self._follower.state()
        await surely(lambda: checkpoint.save(state))
        self._kept_from = state.begin

    # iterating

    def __aiter__(self) -> AsyncSignalStream[ItemT]:
        return self

    async def __anext__(self) -> ItemT:
        if self._items and self._checkpoint is None and not self._gate.shut:
            return self._items.popleft()  # type: ignore[return-value] # what was asked for
        if self._gate.foreign:
            raise TradeError("this stream belongs to the process that this one was forked from: open another one here")
        if self._gate.shut and not self._entered:
            raise StopAsyncIteration  # the checkpoint is given back already
        if self._taken is not None:
            await self._acknowledge_taken()
        if self._gate.shut:
            raise StopAsyncIteration
        if not self._items:
            try:
                await self._gate.run(self._advance)
            except Interrupted:
                await self._link.aclose()
                raise StopAsyncIteration from None
        if self._checkpoint is not None and self._follower.replay.begin < self._kept_from:
            await self._save(self._checkpoint)  # the first signal showed that it begins earlier
        item = self._items.popleft()
        if self._checkpoint is not None and not self._asked.manual_ack and isinstance(item, StreamSignal):
            self._taken = item
        return item  # type: ignore[return-value] # what was asked for

    async def _acknowledge_taken(self) -> None:
        if self._taken is not None and self._checkpoint is not None:
            await self._acknowledge(self._checkpoint, self._taken)
            self._taken = None

    async def _advance(self) -> None:
        """Until there is something to yield."""
        follower, items = self._follower, self._items
        if self._over is not None:
            raise TradeError(f"this stream is over: {self._over}")
        try:
            if not self._opened:
                await self._open()
            while True:
                while follower.flowing and not items and not self._gate.shut:
                    await self._read()
                if self._gate.shut:
                    raise Interrupted
                if items:
                    return
                if not await self._step():
                    return
        except Interrupted:
            raise
        except TradeError as error:
            await self._link.aclose()
            self._over = error
            raise
        except BaseException:
            # A cancelled read has cut the connection; what it would have brought is found in the history.
            try:
                await self._link.aclose()
            finally:
                self._follower.interrupted(self._calls.clock.monotonic())
            raise

    async def _step(self) -> bool:
        follower, clock = self._follower, self._calls.clock
        do, seconds = follower.step(clock.monotonic())
        match do:
            case Do.YIELD:
                return False
            case Do.READ:
                await self._read()
            case Do.WAIT:
                await self._gate.sleep(clock, seconds)
            case Do.CONNECT:
                await self._reconnect()
            case Do.LOOK | Do.AUDIT:
                await self._look_back.look(audit=do is Do.AUDIT)
                self._link.watch()
        return True

    async def _read(self) -> None:
        follower, clock = self._follower, self._calls.clock
        if follower.rest:
            follower.go_on()
            return
        silent = False
        began = clock.monotonic()
        try:
            chunk = await self._link.read(follower.vitals.patience)
        except APITimeoutError:
            reason, silent = follower.silence(), True
        except APIError as error:
            reason = error.message
        else:
            if chunk is None:
                reason = "the service closed it"
            else:
                told = follower.feed(chunk, began, clock.monotonic())
                if told is None:
                    return
                reason, silent = told, True
        await self._link.aclose()
        if not follower.disconnected(reason, clock.monotonic(), clock.now(), silent=silent):
            raise StreamError(
                f"given up: {reason}", method="GET", url=self._link.url, retries=follower.vitals.tries - 1
            )

    # opening

    async def _open(self) -> None:
        """For the first time. That keeps to the rules of calls: a few tries, then the error."""
        if self._opened:
            return
        clock, calls = self._calls.clock, self._calls
        if not self._begun:
            await self._begin()
        give_up = clock.monotonic() + calls.deadline
        retries = Retries(calls.policy, calls.budget, Operation.READ)
        while True:
            try:
                await self._connect()
            except APIError as error:
                error.retries = retries.count
                left = give_up - clock.monotonic()
                wait = retries.next(failure_of(error), now=clock.now(), time_left=left)
                if wait is None:
                    raise
                logger.warning("%s; trying again in %.1f s", error, wait)
                await self._gate.sleep(clock, wait)
            else:
                break
        calls.budget.give_back(retries.spent or 1)
        self._opened = True
        if self._checkpoint is not None:
            await self._save(self._checkpoint)

    async def _begin(self) -> None:
        state = None
        if self._checkpoint is not None:
            state = await self._open_checkpoint(self._checkpoint)
        self._follower.begin(state)
        self._begun = True
        if state is None and self._asked.since is None:
            await self._look_back.before()

    async def _open_checkpoint(self, checkpoint: CheckpointFile) -> CheckpointState | None:
        found: CheckpointState | None = None

        def opening() -> None:
            nonlocal found
            checkpoint.close()  # interrupted, this runs twice
            found = checkpoint.open()

        try:
            await surely(opening)
        except BaseException:  # the next try opens it again
            await surely(checkpoint.close)
            raise
        return found

    async def _connect(self) -> None:
        clock = self._calls.clock
        self._follower.connecting(clock.monotonic())
        headers = await self._link.open(self._follower.vitals.limit, self._follower.decoder.last_event_id)
        self._follower.connected(headers, clock.monotonic(), clock.now())

    async def _reconnect(self) -> None:
        follower, clock = self._follower, self._calls.clock
        try:
            await self._connect()
        except StreamError:
            raise
        except APIError as error:
            if not follower.disconnected(str(error), clock.monotonic(), clock.now(), failure=failure_of(error)):
                error.retries = follower.vitals.tries - 1
                raise

    # closing

    async def aclose(self) -> None:
        """End it, from any task: whoever waits for a signal sees the end at once. Doing it again does nothing."""
        try:
            if self._gate.close():
                await self._link.aclose()
        finally:
            if not self._entered:
                await self._release()

    async def _release(self) -> None:
        if self._checkpoint is not None:
            await surely(self._checkpoint.close)

    async def __aenter__(self) -> AsyncSignalStream[ItemT]:
        self._entered = True
        try:
            await self._gate.run(self._open)
        except Interrupted:  # somebody has closed it: there is nothing to iterate
            await self._link.aclose()
        except BaseException:
            try:
                await self._link.aclose()
            finally:
                await self._release()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if exc_type is None:
                await self._acknowledge_taken()
                if self._checkpoint is not None and self._checkpoint.has_lines:
                    await self._save(self._checkpoint)
        finally:
            self._entered = False
            await self.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of chain {self.chain} at {self._calls.base_url}>"
