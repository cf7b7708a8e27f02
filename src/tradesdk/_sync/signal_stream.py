# Generated from src/tradesdk/_async/signal_stream.py by scripts/unasync.py: change that file instead.
"""The live stream of signals."""

from __future__ import annotations

import math
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import ref

from .._http.log_events import log_retry
from .._http.response import failure_of
from .._http.retry import Operation, Retries
from .._httpx import Place
from .._stream.checkpoint import CheckpointFile, CheckpointState
from .._stream.events import unix
from .._stream.state_machine import NextAction, StreamState
from ..errors import APIError, APITimeoutError, InvalidArgumentError, StreamError, TradeError
from ..models.stream import StreamItem, StreamSignal, StreamStats
from .concurrency import Interrupted, Interruptible, Semaphore, run_uninterrupted
from .stream_backfill import Backfill
from .stream_connection import StreamConnection

if TYPE_CHECKING:
    from .._stream.options import StreamOptions
    from .session import Session

ItemT = TypeVar("ItemT", bound=StreamItem)


class SignalStream(Generic[ItemT]):
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
        with client.signals.stream(chain=8453) as stream:
            for signal in stream:
                print(signal.direction, signal.token_symbol)
        ```
    """

    def __init__(self, session: Session, asked: StreamOptions, checkpoint: CheckpointFile | None) -> None:
        self.chain = asked.chain
        self._asked = asked
        self._interruptible = Interruptible()
        self._session = session.for_stream(self._interruptible.watch, self._interruptible.trace)
        clock = session.clock
        self._state = StreamState(asked, session.policy, mono=clock.monotonic(), local=clock.now())
        self._items = self._state.items
        self._connection = StreamConnection(self._session, self._interruptible, asked.chain)
        self._backfill = Backfill(self._session, self._interruptible, self._state, asked.chain, asked.recovery_timeout)
        self._checkpoint = checkpoint
        self._saving = Semaphore(1)
        self._taken: StreamSignal | None = None  # what the consumer has got and is perhaps not done with
        self._unsaved = False  # whether the checkpoint lacks an acknowledgement
        self._kept_from = -math.inf  # where the stream begins, as saved in the checkpoint
        self._begun = self._opened = self._entered = False
        self._over: Exception | None = None

    # what it has seen

    @property
    def stats(self) -> StreamStats:
        """What it has seen so far."""
        return self._state.stats

    @property
    def catching_up(self) -> bool:
        """Whether it is not connected, or still reads from the history what it missed: more may follow at any time."""
        return self._state.catching_up

    def ack(self, signal: StreamSignal) -> None:
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
        self._acknowledge(self._checkpoint, signal)

    def _acknowledge(self, checkpoint: CheckpointFile, signal: StreamSignal) -> None:
        place = Place()
        self._saving.take(None, ref(place))
        try:
            behind = self._unsaved  # an earlier one failed, or was interrupted
            self._unsaved |= self._state.acknowledge(signal.id)
            if behind or (self._unsaved and not checkpoint.add(signal.id, unix(signal.timestamp))):
                self._save_state(checkpoint)
            self._unsaved = False
        finally:
            self._saving.give_back(ref(place))

    def _save(self, checkpoint: CheckpointFile) -> None:
        place = Place()
        self._saving.take(None, ref(place))
        try:
            self._save_state(checkpoint)
        finally:
            self._saving.give_back(ref(place))

    def _save_state(self, checkpoint: CheckpointFile) -> None:
        state = self._state.state()
        run_uninterrupted(lambda: checkpoint.save(state))
        self._kept_from = state.begin

    # iterating

    def __iter__(self) -> SignalStream[ItemT]:
        return self

    def __next__(self) -> ItemT:
        if self._items and self._checkpoint is None and not self._interruptible.shut:
            return self._items.popleft()  # type: ignore[return-value] # what was asked for
        if self._interruptible.foreign:
            raise TradeError("this stream belongs to the process that this one was forked from: open another one here")
        if self._interruptible.shut and not self._entered:
            raise StopIteration  # the checkpoint is given back already
        if self._taken is not None:
            self._acknowledge_taken()
        if self._interruptible.shut:
            raise StopIteration
        if not self._items:
            try:
                self._interruptible.run(self._advance)
            except Interrupted:
                self._connection.close()
                raise StopIteration from None
        if self._checkpoint is not None and self._state.replay.begin < self._kept_from:
            self._save(self._checkpoint)  # the first signal showed that it begins earlier
        item = self._items.popleft()
        if self._checkpoint is not None and not self._asked.manual_ack and isinstance(item, StreamSignal):
            self._taken = item
        return item  # type: ignore[return-value] # what was asked for

    def _acknowledge_taken(self) -> None:
        if self._taken is not None and self._checkpoint is not None:
            self._acknowledge(self._checkpoint, self._taken)
            self._taken = None

    def _advance(self) -> None:
        """Until there is something to yield."""
        state, items = self._state, self._items
        if self._over is not None:
            raise TradeError(f"this stream is over: {self._over}")
        try:
            if not self._opened:
                self._open()
            while True:
                while state.flowing and not items and not self._interruptible.shut:
                    self._read()
                if self._interruptible.shut:
                    raise Interrupted
                if items:
                    return
                if not self._step():
                    return
        except Interrupted:
            raise
        except TradeError as error:
            self._connection.close()
            self._over = error
            raise
        except BaseException:
            # A cancelled read has cut the connection; what it would have brought is found in the history.
            try:
                self._connection.close()
            finally:
                self._state.interrupted(self._session.clock.monotonic())
            raise

    def _step(self) -> bool:
        state, clock = self._state, self._session.clock
        do, seconds = state.step(clock.monotonic())
        match do:
            case NextAction.YIELD:
                return False
            case NextAction.READ:
                self._read()
            case NextAction.WAIT:
                self._interruptible.sleep(clock, seconds)
            case NextAction.CONNECT:
                self._reconnect()
            case NextAction.LOOK | NextAction.AUDIT:
                self._backfill.look(audit=do is NextAction.AUDIT)
                self._connection.watch()
        return True

    def _read(self) -> None:
        state, clock = self._state, self._session.clock
        if state.rest:
            state.go_on()
            return
        silent = False
        began = clock.monotonic()
        try:
            chunk = self._connection.read(state.vitals.patience)
        except APITimeoutError:
            reason, silent = state.silence(), True
        except APIError as error:
            reason = error.message
        else:
            if chunk is None:
                reason = "the service closed it"
            else:
                told = state.feed(chunk, began, clock.monotonic())
                if told is None:
                    return
                reason, silent = told, True
        self._connection.close()
        if not state.disconnected(reason, clock.monotonic(), clock.now(), silent=silent):
            raise StreamError(
                f"given up: {reason}",
                method="GET",
                url=self._connection.url,
                code="stream_lost",
                retries=state.vitals.tries - 1,
            )

    # opening

    def _open(self) -> None:
        """For the first time. That keeps to the rules of calls: a few tries, then the error."""
        if self._opened:
            return
        clock, session = self._session.clock, self._session
        if not self._begun:
            self._begin()
        give_up = clock.monotonic() + session.deadline
        retries = Retries(session.policy, session.budget, Operation.READ)
        while True:
            try:
                self._connect()
            except APIError as error:
                error.retries = retries.count
                left = give_up - clock.monotonic()
                wait = retries.next(failure_of(error), now=clock.now(), time_left=left)
                if wait is None:
                    raise
                log_retry(error, wait)
                self._interruptible.sleep(clock, wait)
            else:
                break
        session.budget.give_back(retries.spent or 1)
        self._opened = True
        if self._checkpoint is not None:
            self._save(self._checkpoint)

    def _begin(self) -> None:
        state = None
        if self._checkpoint is not None:
            state = self._open_checkpoint(self._checkpoint)
        self._state.begin(state)
        self._begun = True
        if state is None and self._asked.since is None:
            self._backfill.before()

    def _open_checkpoint(self, checkpoint: CheckpointFile) -> CheckpointState | None:
        found: CheckpointState | None = None

        def opening() -> None:
            nonlocal found
            checkpoint.close()  # interrupted, this runs twice
            found = checkpoint.open()

        try:
            run_uninterrupted(opening)
        except BaseException:  # the next try opens it again
            run_uninterrupted(checkpoint.close)
            raise
        return found

    def _connect(self) -> None:
        clock = self._session.clock
        self._state.connecting(clock.monotonic())
        headers = self._connection.open(self._state.vitals.limit, self._state.decoder.last_event_id)
        self._state.connected(headers, clock.monotonic(), clock.now())

    def _reconnect(self) -> None:
        state, clock = self._state, self._session.clock
        try:
            self._connect()
        except StreamError:
            raise
        except APIError as error:
            if not state.disconnected(error.headline, clock.monotonic(), clock.now(), failure=failure_of(error)):
                error.retries = state.vitals.tries - 1
                raise

    # closing

    def close(self) -> None:
        """End it, from any task: whoever waits for a signal sees the end at once. Doing it again does nothing."""
        try:
            if self._interruptible.close():
                self._connection.close()
        finally:
            if not self._entered:
                self._release()

    def _release(self) -> None:
        if self._checkpoint is not None:
            run_uninterrupted(self._checkpoint.close)

    def __enter__(self) -> SignalStream[ItemT]:
        self._entered = True
        try:
            self._interruptible.run(self._open)
        except Interrupted:  # somebody has closed it: there is nothing to iterate
            self._connection.close()
        except BaseException:
            try:
                self._connection.close()
            finally:
                self._release()
            raise
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if exc_type is None:
                self._acknowledge_taken()
                if self._checkpoint is not None and self._checkpoint.has_lines:
                    self._save(self._checkpoint)
        finally:
            self._entered = False
            self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of chain {self.chain} at {self._session.base_url}>"
