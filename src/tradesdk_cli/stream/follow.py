"""A live stream from start to end, its messages on stderr, and the exit of the command."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from tradesdk import (
    CheckpointError,
    Connected,
    Disconnected,
    StreamEndedError,
    StreamError,
    StreamSignal,
)
from tradesdk_cli.choices import CHAIN_NAMES
from tradesdk_cli.errors import SERVER, STREAM_ENDED, CliError, ClosedPipe, ConfigProblem, Interrupted
from tradesdk_cli.explain import next_step
from tradesdk_cli.interrupts import deferring, exit_code_of
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
    stats: StreamStats | None = None
    reason = None
    end = _End(back, bookmark.goes_on)
    out.log = "events"
    try:
        with deferring(end.comes) as deferral:
            try:
                with _explained(), bookmark.opened(open_stream) as stream:
                    end.stream = stream
                    try:
                        reason = _deliver(out, delivery, bookmark, stream, end, deferral, duration, idle)
                    finally:
                        stats, end.stream = stream.stats, None
            except KeyboardInterrupt as interrupt:
                out.after_ctrl_c()
                raise Interrupted(exit_code_of(interrupt)) from None
    except ClosedPipe:
        raise
    except BaseException as error:
        if stats is not None or isinstance(error, Interrupted):  # else there is only the error
            _summary(delivery, stats, end)
        raise
    if reason == "unread":
        raise ClosedPipe
    _summary(delivery, stats, end)
    delivery.finish()


class _End:
    """The state of the stream when it was stopped.

    Attributes:
        stream: the running stream; after disconnecting, it always has something to catch up.
        back: past signals are needed: it begins there, or the connection was lost.
        catching_up: requested or missed signals may not be read yet.
        how: how to get them, for people.
    """

    def __init__(self, back: bool, goes_on: str) -> None:
        self.stream: Stream | None = None
        self.catching_up = False
        self.back = back
        self.how = f"{goes_on} continues there"

    def comes(self) -> None:
        """Stops it. May be called from any thread, and by a signal handler."""
        stream = self.stream
        if stream is not None and self.back and stream.catching_up:
            self.catching_up = True


def _deliver(
    out: Output,
    delivery: Delivery,
    bookmark: Bookmark,
    stream: Stream,
    end: _End,
    deferral: DeferInterrupt,
    duration: float | None,
    idle: float | None,
) -> str | None:
    """Why it ended: as `Watchdog.reason`, or None after the requested number."""

    def stop() -> None:
        end.comes()
        out.log = "none"  # what breaks off now is our doing
        stream.close()

    delivery.begin()
    with Watchdog(stop, out.stdout, duration=duration, idle=idle, busy=lambda: stream.catching_up) as watch:
        watch.idle()
        for item in stream:
            if isinstance(item, StreamSignal):
                watch.working()
                with deferral.shut():  # an exception within the model's code would become another error
                    event = wire_of(item)
                # A signal written to a file is always acknowledged, even at Ctrl-C: else it would be written twice.
                with deferral.shut() if delivery.into_file else nullcontext():
                    delivery.signal(event)
                    bookmark.ack(stream, item)
                if delivery.complete:
                    break
                watch.idle()
            elif watch.reason is None:  # a later disconnect is ours
                if isinstance(item, Disconnected):
                    end.back = True
                    watch.working()
                elif isinstance(item, Connected):
                    watch.idle()
    return watch.reason


def wire_of(signal: StreamSignal) -> dict[str, Any]:
    """A signal as the service sent it, with `replayed` and `late` at the end."""
    return {"type": signal.type} | signal.model_dump(mode="json", exclude_unset=True)


def _summary(delivery: Delivery, stats: StreamStats | None, end: _End) -> None:
    if stats is None:
        delivery.summary("never connected", connects=0)
        return
    counts = {
        "connects": stats.connects,
        "duplicates": stats.duplicates,
        "filtered": stats.filtered,
        "invalid": stats.invalid,
        "gaps": stats.gaps,
        "catching_up": end.catching_up,
    }
    parts = (
        (f"connected {stats.connects} times", stats.connects > 1),
        (plural(stats.duplicates, "duplicates") + " dropped", stats.duplicates),
        (f"{stats.invalid} unreadable", stats.invalid),
        (plural(stats.gaps, "gaps"), stats.gaps),
        (f"ended before all that was missed was read from the history; {end.how}", end.catching_up),
    )
    delivery.summary(*(text for text, there in parts if there), **counts)


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
