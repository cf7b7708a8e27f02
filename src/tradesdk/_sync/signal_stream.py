# Generated from src/tradesdk/_async/signal_stream.py by scripts/unasync.py: change that file instead.
"""The live stream of signals: the driver of `_stream.state_machine`, which decides and yields.

One consumer runs everything: there is no background task, so nothing is read while the consumer works. `__next__`
returns the next of `_items`; if there is none, `_advance` does the action that `StreamState.step` names (connect, read,
wait, read the history) until there is one. Entering, or the first call, opens the stream, with the retries of a call.

Who waits: only the consumer, in `_interruptible.run`. `close`, from any task, interrupts it there, and iterating ends.
`ack` may be called from any task. Checkpoints are written in threads.

A signal is acknowledged when the consumer asks for the next item (`_handed_out`), or by `ack`. A `TradeError` ends the
stream. A cancellation closes the connection; the next call reconnects and reads what was missed from the history.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar

from .._http import log_events
from .._http.arguments import MAX_PAGE
from .._http.log_events import NO_SPAN, Span, event, log_retry
from .._http.repeated_pages import Repeats
from .._http.request import endpoint, request
from .._http.response import failure_of
from .._http.retry import FailureCause, Operation, Retries
from .._stream.checkpoint import CheckpointFile
from .._stream.deduplication import HistoryWalk
from .._stream.events import HistoryPage, decode_history, signal_reader
from .._stream.state_machine import NextAction, StreamState
from ..errors import (
    APIError,
    APITimeoutError,
    AuthenticationError,
    CheckpointError,
    InvalidArgumentError,
    StreamError,
    TradeError,
)
from ..models.stream import StreamItem, StreamSignal, StreamStats
from .concurrency import Interrupted, Interruptible
from .stream_connection import StreamConnection

if TYPE_CHECKING:
    from .._stream.options import StreamOptions
    from .session import Session

ItemT = TypeVar("ItemT", bound=StreamItem)

_UNREADABLE = 2  # retries after unreadable responses and 500s
_SHORT_PATIENCE = 30.0  # seconds; the stream is not read meanwhile


class SignalStream(Generic[ItemT]):
    """A live stream of a chain's signals: a context manager, and an iterator for one consumer.

    `client.signals.stream` makes it. Entering connects. It reconnects by itself, reads missed signals from the
    history, yields nothing twice, and continues until it is closed or an error ends it.

    Attributes:
        chain: 8453 (Base) or 56 (BNB Chain).

    Raises:
        APIStatusError: the service refuses, and another attempt cannot help (401, 403 and others).
        StreamError: the response is not a stream of events.
        StreamEndedError: the service ended the stream for good.
        CheckpointError: the checkpoint cannot be read or written. A failed write does not end the stream: asking for
            the next signal writes again.

    Example:
        ```python
        with client.signals.stream(chain=8453) as stream:
            for signal in stream:
                print(signal.direction, signal.token_symbol)
        ```
    """

    def __init__(self, session: Session, options: StreamOptions) -> None:
        self.chain = options.chain
        self._options = options
        self._interruptible = Interruptible()
        self._session = session.for_stream(self._interruptible)
        clock = session.clock
        self._state = StreamState(options, session.policy, mono=clock.monotonic(), local=clock.now())
        self._items = self._state.items
        self._connection = StreamConnection(self._session, self._interruptible, options.chain)
        self._checkpoint = options.checkpoint_file(session.base_url, session.key)
        self._saved_begin = -math.inf  # where the stream begins, as saved in the checkpoint
        self._handed_out: StreamSignal | None = None  # the consumer has it and may not be done with it
        self._begun = self._opened = self._entered = False
        self._error: Exception | None = None
        self._span: Span = NO_SPAN  # the span of the connection

    @property
    def stats(self) -> StreamStats:
        """Counts and times of the stream so far."""
        return self._state.stats

    @property
    def catching_up(self) -> bool:
        """Whether it is not connected, or still reads missed signals from the history."""
        return self._state.catching_up

    @property
    def last_event_id(self) -> str:
        """The id of the last event, if the service gives events ids; empty otherwise."""
        return self._state.decoder.last_event_id

    def ack(self, signal: StreamSignal) -> None:
        """Acknowledge a signal: it does not come again after a restart.

        The checkpoint is written and synced at once, but at most twice a second, and when the stream is left: after a
        crash, signals that were acknowledged in the last half second may come again. Signals may be acknowledged in any
        order, also while another task waits for the next. Acknowledging again does nothing.

        Raises:
            CheckpointError: it cannot be written; the next successful write includes it.
            InvalidArgumentError: the stream has no checkpoint.
        """
        if self._checkpoint is None:
            raise InvalidArgumentError("ack needs a checkpoint", hint="pass checkpoint=True to signals.stream")
        self._acknowledge(self._checkpoint, signal)

    def _acknowledge(self, checkpoint: CheckpointFile, signal: StreamSignal) -> None:
        new = self._state.acknowledge(signal.id)
        if (new or checkpoint.behind) and not checkpoint.save_soon(self._state.state):
            self._save(checkpoint)

    def _save(self, checkpoint: CheckpointFile) -> None:
        begin = self._state.deduplicator.begin
        checkpoint.save(self._state.state)
        self._saved_begin = begin

    # Iterating.

    def __iter__(self) -> SignalStream[ItemT]:
        return self

    def __next__(self) -> ItemT:
        if self._items and self._checkpoint is None and not self._interruptible.shut:
            return self._items.popleft()  # type: ignore[return-value] # the options decide what comes
        if self._interruptible.foreign:
            raise TradeError("this stream belongs to the parent process: open another one in this process")
        if self._interruptible.shut and not self._entered:
            raise StopIteration  # the checkpoint is already closed
        if self._handed_out is not None:
            self._acknowledge_handed_out()
        if self._interruptible.shut:
            raise StopIteration
        if not self._items:
            self._connection.home.check()
            try:
                self._interruptible.run(self._advance)
            except Interrupted:
                self._connection.close()
                raise StopIteration from None
        if self._checkpoint is not None and self._state.deduplicator.begin < self._saved_begin:
            self._save(self._checkpoint)  # the first signal moved the beginning back
        item = self._items.popleft()
        if self._checkpoint is not None and not self._options.manual_ack and isinstance(item, StreamSignal):
            self._handed_out = item
        return item  # type: ignore[return-value] # the options decide what comes

    def _acknowledge_handed_out(self) -> None:
        if self._handed_out is not None and self._checkpoint is not None:
            self._acknowledge(self._checkpoint, self._handed_out)
            self._handed_out = None

    def _advance(self) -> None:
        if self._error is not None:
            raise TradeError(f"this stream has failed: {self._error}")
        clock = self._session.clock
        try:
            if not self._opened:
                self._open()
            while True:
                if self._interruptible.shut:
                    raise Interrupted
                if self._items:
                    return
                if self._span is NO_SPAN:
                    do = self._work()
                else:
                    with self._span:
                        do = self._work()
                if do is NextAction.CONNECT:  # it has its own span
                    self._reconnect()
        except Interrupted:
            raise
        except TradeError as error:
            self._connection.close()
            self._error = error
            raise
        except BaseException:
            # A canceled read has closed the connection; the history has what it would have read.
            try:
                self._connection.close()
            finally:
                self._state.interrupted(clock.monotonic())
            raise

    def _work(self) -> NextAction:
        """Do what comes next, but for connecting."""
        clock = self._session.clock
        now = clock.monotonic()
        do, seconds = self._state.step(now)
        match do:
            case NextAction.READ:
                self._read(now)
            case NextAction.WAIT:
                self._interruptible.sleep(clock, seconds)
            case NextAction.BACKFILL | NextAction.AUDIT:
                self._walk(audit=do is NextAction.AUDIT)
                self._connection.watch()
        return do

    def _read(self, began: float) -> None:
        state, clock = self._state, self._session.clock
        silent = False
        try:
            chunk = self._connection.read(state.watchdog.patience)
        except APITimeoutError:
            reason, silent = state.silence(), True
        except APIError as error:
            reason = error.message
        else:
            if chunk is None:
                reason = "the service closed it"
            else:
                problem = state.feed(chunk, began, clock.monotonic())
                if problem is None:
                    return
                reason, silent = problem, True
        self._connection.close()
        if not state.disconnected(reason, clock.monotonic(), clock.now(), silent=silent):
            message, url = f"gave up reconnecting: {reason}", self._connection.url
            lost = StreamError(message, method="GET", url=url, code="stream_lost")
            lost.retries = state.watchdog.tries - 1
            raise lost

    # Opening.

    def _open(self) -> None:
        """Open the stream for the first time, with the retries of a call."""
        if self._opened:
            return
        signal_reader()  # build it now, not at the first event
        clock, session = self._session.clock, self._session
        give_up = clock.monotonic() + session.deadline
        if not self._begun:
            self._begin()
        retries = Retries(session.policy, session.retry_budget, Operation.READ)
        while True:
            try:
                self._connect(give_up)
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
        session.retry_budget.refund(retries.spent or 1)
        self._opened = True
        if self._checkpoint is not None:
            self._save(self._checkpoint)

    def _begin(self) -> None:
        state = None
        if self._checkpoint is not None:
            try:
                state = self._checkpoint.open()
            except BaseException:  # the next attempt opens it again
                self._close_checkpoint()
                raise
        self._state.begin(state)
        self._begun = True
        if state is None and self._options.begin is None:
            self._look_back()

    def _connect(self, give_up: float) -> None:
        self._span.end()
        listener, url = log_events.listener, self._connection.url
        self._span = NO_SPAN if listener is None else listener.begin("connection", stream=self, url=url)
        with self._span:
            clock = self._session.clock
            now = clock.monotonic()
            self._state.connecting(now)
            give_up = min(give_up, now + self._state.watchdog.limit)
            headers = self._connection.open(give_up, self._state.decoder.last_event_id)
            self._state.connected(headers, clock.monotonic(), clock.now())

    def _reconnect(self) -> None:
        state, clock = self._state, self._session.clock
        try:
            self._connect(math.inf)
        except StreamError:
            raise
        except APIError as error:
            if not state.disconnected(error.headline, clock.monotonic(), clock.now(), failure=failure_of(error)):
                error.retries = state.watchdog.tries - 1
                raise

    # The history.

    def _look_back(self) -> None:
        """Learn which signals came before the stream: they are not wanted, and a history without them has a gap."""
        session = self._session
        most = min(_SHORT_PATIENCE, session.deadline / 2)  # the other half is for opening the stream
        try:
            page = self._read_page({"chain": self.chain, "limit": MAX_PAGE}, session.clock.monotonic() + most, most)
        except APIError as error:  # nothing is lost yet, and opening the stream will show what is wrong
            text = "the history of chain %(chain)d could not be read before the stream: %(reason)s"
            event("history_unread", text, error, level=logging.INFO, chain=self.chain)
        else:
            self._state.before(page, session.clock.monotonic(), session.clock.now())

    def _walk(self, *, audit: bool) -> None:
        session, state = self._session, self._state
        walk = state.begin_walk(session.clock.monotonic(), audit=audit)
        again = audit or state.will_read_again  # a failure is then not yet a gap
        most = max(self._options.recovery_timeout, 1.0)  # at least one request
        reason = self._read_walk(walk, min(most, _SHORT_PATIENCE) if again else most, most)
        ended = session.clock.monotonic()
        if reason is None:
            state.walked(walk, ended, audit=audit)
        else:
            state.walk_failed(walk, reason, ended, audit=audit)

    def _read_walk(self, walk: HistoryWalk, patience: float, most: float) -> str | None:
        """Read all pages. Returns why that failed, or None.

        `patience`: seconds to keep trying for one page. `most`: for all of them.
        """
        session, state = self._session, self._state
        now = session.clock.monotonic()
        end, give_up = now + most, now + patience
        cursor: str | None = None
        cursors: set[str] = set()
        repeats = Repeats()
        tries = odd = 0
        while True:
            query = {"chain": self.chain, "from": walk.first, "limit": MAX_PAGE, "cursor": cursor}
            try:
                page = self._read_page(query, end, patience)
            except AuthenticationError:
                raise
            except APIError as error:
                failure = failure_of(error)
                tries += 1
                if failure.cause is FailureCause.HOPELESS or failure.status == 500:
                    odd += 1
                now = session.clock.monotonic()
                wait = session.policy.wait(tries, failure, now=session.clock.now()).seconds
                # Refused: retrying cannot help.
                final = failure.cause is FailureCause.STATUS and 300 <= failure.status < 500 and failure.status != 429
                if odd > _UNREADABLE or final or now + wait > give_up:
                    return f"the history cannot be read: {error.headline} ({error.method} {error.url})"
                if self._interruptible.shut:
                    raise Interrupted from None  # closing caused this error
                log_retry(error, wait)
                self._interruptible.sleep(session.clock, wait)
                continue
            now = session.clock.monotonic()
            tries, give_up = 0, min(now + patience, end)
            more = state.add(walk, page, now, session.clock.now())
            if not more or page.next_cursor is None:
                return None
            cursor = page.next_cursor
            if cursor in cursors:
                return "the history repeats a cursor, so it would never end"
            if repeats.nothing_new([signal.id for signal in page.signals]):
                return "the history has new cursors and no new items, so it would never end"
            if now >= end:
                return f"the history was not read to its end within {most:g} s"
            cursors.add(cursor)

    def _read_page(self, query: Mapping[str, object], end: float, patience: float) -> HistoryPage:
        """Wait for the rate limit until `end` at most, then read a page within `patience` seconds."""
        session = self._session
        page = request("GET", endpoint("signals", "history"), partial(decode_history, self.chain), query=query)
        claim = session.claim(page, end)
        return session.attempt(page, min(session.clock.monotonic() + patience, end), claim)

    # Closing.

    def close(self) -> None:
        """End the stream, from any task: a waiting consumer ends at once. Closing again does nothing."""
        self._span.end()  # before the interruption, which is not an error
        try:
            if self._interruptible.close():
                self._connection.close()
        finally:
            if not self._entered:
                self._close_checkpoint()

    def _close_checkpoint(self) -> None:
        if self._checkpoint is not None:
            self._checkpoint.close()

    def __enter__(self) -> SignalStream[ItemT]:
        self._entered = True
        try:
            self._interruptible.run(self._open)
        except Interrupted:  # closed meanwhile: iterating ends at once
            self._connection.close()
        except BaseException:
            try:
                self._connection.close()
            finally:
                self._close_checkpoint()
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
                self._acknowledge_handed_out()
            if self._checkpoint is not None and self._checkpoint.behind:
                self._save(self._checkpoint)
        except CheckpointError:
            if exc_type is None:  # otherwise the error that ends the block says more
                raise
        finally:
            self._entered = False
            self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of chain {self.chain} at {self._session.base_url}>"
