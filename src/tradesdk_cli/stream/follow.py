"""A live stream from start to end, what ends it, its messages on stderr, and the exit of the command."""

from __future__ import annotations

import select
import threading
import time
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer

from tradesdk import CheckpointError, Connected, Disconnected, StreamEndedError, StreamError, StreamSignal
from tradesdk_cli.choices import CHAIN_NAMES
from tradesdk_cli.errors import OTHER, SERVER, STREAM_ENDED, CliError, ClosedPipe, ConfigProblem, Interrupted
from tradesdk_cli.explain import next_step
from tradesdk_cli.interrupts import deferring
from tradesdk_cli.stream.bookmark import Bookmark
from tradesdk_cli.stream.deliver import Delivery
from tradesdk_cli.text import one_line, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import TextIO

    from tradesdk import StreamStats
    from tradesdk_cli.interrupts import DeferInterrupt
    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.stream.bookmark import Stream


_EVERY = 0.5


class Watchdog:
    """A thread that calls `stop` after a duration, after an idle time, or when the reader of the output has gone.

    Attributes:
        reason: why it did: `duration`, `idle` or `unread`; None before.
    """

    def __init__(
        self,
        stop: Callable[[], object],
        stdout: TextIO,
        duration: float | None,
        idle: float | None,
        busy: Callable[[], bool],
    ) -> None:
        """Times are in seconds. While `busy` returns True, the stream does not count as idle."""
        self.reason: str | None = None
        self._stop, self._stdout, self._idle, self._busy = stop, stdout, idle, busy
        self._end = None if duration is None else time.monotonic() + duration
        self._idle_end: float | None = None
        self._busy_end = 0.0
        self._over = threading.Event()

    def __enter__(self) -> Watchdog:
        threading.Thread(target=self._run, name="trade-watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def working(self) -> None:
        """The stream does not count as idle: a signal is handled, or there is no connection."""
        self._idle_end = None

    def idle(self) -> None:
        """The stream is idle from now on."""
        self._idle_end = None if self._idle is None else time.monotonic() + self._idle

    def _run(self) -> None:
        poller: Any = None
        with suppress(AttributeError, OSError, ValueError):  # the system has no poll, or this is no real stream
            found = select.poll()
            found.register(self._stdout.fileno(), 0)
            poller = found
        while not self._over.is_set():
            now, end = time.monotonic(), self._idle_end
            if self._idle is not None and self._busy():
                self._busy_end = now + self._idle
            ends = {"duration": self._end, "idle": None if end is None else max(end, self._busy_end)}
            reason = next((name for name, at in ends.items() if at is not None and now >= at), None)
            wait = min([_EVERY, self._idle or _EVERY, *(at - now for at in ends.values() if at is not None)])
            if poller is None:
                self._over.wait(0 if reason else wait)
            elif reason is None:
                events = sum(event for _, event in poller.poll(max(1, wait * 1000)))
                if events & select.POLLNVAL:  # poll fails on terminals of some systems
                    poller = None
                elif events & (select.POLLERR | select.POLLHUP):
                    reason = "unread"
            if reason is not None and not self._over.is_set():
                self.reason = reason
                self._stop()
                return


SETTLE = 3.0
"""Seconds after connecting until the history is read again."""
_EARLY = "ended before all that was missed was read from the history"


@dataclass
class Following:
    """A stream, followed to its end.

    Attributes:
        open_stream: opens it, given its checkpoint.
        back: past signals are needed: it begins there, or the connection was lost.
        duration: the maximum time, in seconds.
        idle: seconds without a signal after which it ends.
        stream: None before, and after the end, when it always has something to catch up.
        stats: its sums, at the end.
        catching_up: when it was stopped, requested or missed signals were perhaps not read yet.
    """

    out: Output
    delivery: Delivery
    bookmark: Bookmark
    open_stream: Callable[..., AbstractContextManager[Stream]]
    back: bool
    duration: float | None
    idle: float | None
    stream: Stream | None = field(default=None, init=False)
    stats: StreamStats | None = field(default=None, init=False)
    catching_up: bool = field(default=False, init=False)

    def run(self) -> None:
        """Delivers its signals until the end, and prints the sum."""
        self.out.log = "events"
        reason = None
        try:
            with deferring(self._ends) as deferral:
                try:
                    with _explained(), self.bookmark.opened(self.open_stream) as self.stream:
                        try:
                            reason = self._deliver(self.stream, deferral)
                        finally:
                            self.stats, self.stream = self.stream.stats, None
                except KeyboardInterrupt as interrupt:
                    self.out.after_ctrl_c()
                    raise Interrupted(interrupt) from None
        except ClosedPipe:
            raise
        except BaseException as error:
            if self.stats is not None or isinstance(error, Interrupted):  # else there is only the error
                self._summary()
            raise
        if reason == "unread":
            raise ClosedPipe
        self._summary()
        if self.delivery.commands_failed:
            raise typer.Exit(OTHER)

    def _ends(self) -> None:
        """It is about to end. May be called from any thread, and by a signal handler."""
        stream = self.stream
        if stream is not None and self.back and stream.catching_up:
            self.catching_up = True

    def _deliver(self, stream: Stream, deferral: DeferInterrupt) -> str | None:
        """Why it ended: as `Watchdog.reason`, or None after the requested number."""
        out, delivery = self.out, self.delivery

        def stop() -> None:
            self._ends()
            out.log = "none"  # from now on, it is we who disconnect
            stream.close()

        delivery.begin()
        with Watchdog(stop, out.stdout, self.duration, self.idle, busy=lambda: stream.catching_up) as watch:
            watch.idle()
            for item in stream:
                if isinstance(item, StreamSignal):
                    watch.working()
                    with deferral.shut():  # an exception within the model's code would become another error
                        event = {"type": item.type} | item.model_dump(mode="json", exclude_unset=True)
                    # A signal written to a file is always acknowledged, even at Ctrl-C: else it would be written twice.
                    quick = out.file is not None and not delivery.commands
                    with deferral.shut() if quick else nullcontext():
                        delivery.signal(event)
                        self.bookmark.ack(stream, item)
                    if delivery.signals == delivery.count:
                        break
                    watch.idle()
                elif watch.reason is None and isinstance(item, Disconnected):  # a later one is ours
                    self.back = True
                    watch.working()
                elif watch.reason is None and isinstance(item, Connected):
                    watch.idle()
        return watch.reason

    def _summary(self) -> None:
        stats = self.stats
        if stats is None:
            self.delivery.summary("never connected", connects=0)
            return
        parts = (
            (f"connected {stats.connects} times", stats.connects > 1),
            (plural(stats.duplicates, "duplicates") + " dropped", stats.duplicates),
            (f"{stats.invalid} unreadable", stats.invalid),
            (plural(stats.gaps, "gaps"), stats.gaps),
            (f"{_EARLY}; {self.bookmark.goes_on} continues there", self.catching_up),
        )
        counts = {name: getattr(stats, name) for name in ("connects", "duplicates", "filtered", "invalid", "gaps")}
        self.delivery.summary(*(text for text, there in parts if there), **counts, catching_up=self.catching_up)


@contextmanager
def _explained() -> Iterator[None]:
    """Converts the stream's errors to those of the terminal."""
    try:
        yield
    except StreamEndedError as error:
        chain = CHAIN_NAMES[int(error.url.rpartition("chain=")[2])]
        message, hint = "the service ended the stream for good", next_step(error, chain=chain)
        raise CliError(message, hint, code="stream_ended", exit_code=STREAM_ENDED, status=204) from None
    except StreamError as error:
        raise CliError(one_line(str(error)), next_step(error), code="bad_response", exit_code=SERVER) from None
    except CheckpointError as error:
        raise ConfigProblem(one_line(str(error)), next_step(error), code="checkpoint") from None
