"""A thread that ends a stream: `--duration`, `--until-idle`, or a closed pipe."""

from __future__ import annotations

import select
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

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
