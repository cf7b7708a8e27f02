"""A live stream from start to end, its messages on stderr, and the exit of the command."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import typer

from tradesdk import (
    CheckpointError,
    Connected,
    Disconnected,
    StreamEndedError,
    StreamError,
    StreamSignal,
)
from tradesdk_cli.choices import CHAIN_NAMES
from tradesdk_cli.errors import OTHER, SERVER, STREAM_ENDED, CliError, ClosedPipe, ConfigProblem, Interrupted
from tradesdk_cli.explain import next_step
from tradesdk_cli.interrupts import deferring
from tradesdk_cli.stream.bookmark import Bookmark
from tradesdk_cli.stream.deliver import Delivery
from tradesdk_cli.stream.watchdog import Watchdog
from tradesdk_cli.text import one_line, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tradesdk import StreamStats
    from tradesdk_cli.interrupts import DeferInterrupt
    from tradesdk_cli.output.printer import Output
    from tradesdk_cli.stream.bookmark import Stream

SETTLE = 3.0
"""Seconds after connecting until the history is read again."""
_EARLY = "ended before all that was missed was read from the history"


def follow(
    out: Output,
    delivery: Delivery,
    bookmark: Bookmark,
    open_stream: Callable[..., AbstractContextManager[Stream]],
    *,
    back: bool,
    duration: float | None,
    idle: float | None,
) -> None:
    """Delivers the signals of a stream until the end, and prints the sum.

    `back`: it begins in the past. `duration` and `idle` are in seconds.
    """
    running = _Running(back)
    out.log = "events"
    reason = None
    try:
        with deferring(running.ends) as deferral:
            try:
                with _explained(), bookmark.opened(open_stream) as running.stream:
                    try:
                        reason = running.deliver(out, delivery, bookmark, deferral, duration, idle)
                    finally:
                        running.stats, running.stream = running.stream.stats, None
            except KeyboardInterrupt as interrupt:
                out.after_ctrl_c()
                raise Interrupted(interrupt) from None
    except ClosedPipe:
        raise
    except BaseException as error:
        if running.stats is not None or isinstance(error, Interrupted):  # else there is only the error
            running.summary(delivery, bookmark.goes_on)
        raise
    if reason == "unread":
        raise ClosedPipe
    running.summary(delivery, bookmark.goes_on)
    if delivery.commands_failed:
        raise typer.Exit(OTHER)


class _Running:
    """A stream while it is followed.

    Attributes:
        stream: the stream; None before, and after the end, when it always has something to catch up.
        stats: its sums, at the end.
        catching_up: when it was stopped, requested or missed signals were perhaps not read yet.
    """

    stream: Stream | None = None
    stats: StreamStats | None = None
    catching_up = False

    def __init__(self, back: bool) -> None:
        """`back`: past signals are needed: it begins there, or the connection was lost."""
        self._back = back

    def ends(self) -> None:
        """It is about to end. May be called from any thread, and by a signal handler."""
        stream = self.stream
        if stream is not None and self._back and stream.catching_up:
            self.catching_up = True

    def deliver(
        self,
        out: Output,
        delivery: Delivery,
        bookmark: Bookmark,
        deferral: DeferInterrupt,
        duration: float | None,
        idle: float | None,
    ) -> str | None:
        """Why it ended: as `Watchdog.reason`, or None after the requested number."""
        stream = self.stream
        assert stream is not None  # noqa: S101  # it was opened

        def stop() -> None:
            self.ends()
            out.log = "none"  # from now on, it is we who disconnect
            stream.close()

        delivery.begin()
        with Watchdog(stop, out.stdout, duration=duration, idle=idle, busy=lambda: stream.catching_up) as watch:
            watch.idle()
            for item in stream:
                if isinstance(item, StreamSignal):
                    watch.working()
                    with deferral.shut():  # an exception within the model's code would become another error
                        event = {"type": item.type} | item.model_dump(mode="json", exclude_unset=True)
                    # A signal written to a file is always acknowledged, even at Ctrl-C: else it would be written twice.
                    quick = out.file is not None and not delivery.wanted.commands
                    with deferral.shut() if quick else nullcontext():
                        delivery.signal(event)
                        bookmark.ack(stream, item)
                    if delivery.signals == delivery.wanted.count:
                        break
                    watch.idle()
                elif watch.reason is None and isinstance(item, Disconnected):  # a later one is ours
                    self._back = True
                    watch.working()
                elif watch.reason is None and isinstance(item, Connected):
                    watch.idle()
        return watch.reason

    def summary(self, delivery: Delivery, goes_on: str) -> None:
        """Prints the sum; `goes_on` is the command that continues, for people."""
        stats = self.stats
        if stats is None:
            delivery.summary("never connected", connects=0)
            return
        parts = (
            (f"connected {stats.connects} times", stats.connects > 1),
            (plural(stats.duplicates, "duplicates") + " dropped", stats.duplicates),
            (f"{stats.invalid} unreadable", stats.invalid),
            (plural(stats.gaps, "gaps"), stats.gaps),
            (f"{_EARLY}; {goes_on} continues there", self.catching_up),
        )
        counts = {name: getattr(stats, name) for name in ("connects", "duplicates", "filtered", "invalid", "gaps")}
        delivery.summary(*(text for text, there in parts if there), **counts, catching_up=self.catching_up)


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
