"""A thread that ends a stream: `--duration`, `--until-idle`, or a closed pipe."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from typing import TYPE_CHECKING

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
        *,
        duration: float | None = None,
        idle: float | None = None,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """Times are in seconds. While `busy` returns True, the stream does not count as idle."""
        self.reason: str | None = None
        self._stop, self._stdout, self._idle, self._busy = stop, stdout, idle, busy
        self._end = None if duration is None else time.monotonic() + duration
        self._idle_end: float | None = None
        self._busy_end = 0.0
        self._over = threading.Event()
        self._every = _EVERY if idle is None else min(_EVERY, idle)

    def __enter__(self) -> Watchdog:
        self._thread = threading.Thread(target=self._run, name="trade-watch", daemon=True)
        self._wake, self._waker = os.pipe()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        os.close(self._waker)
        self._thread.join()
        os.close(self._wake)

    def working(self) -> None:
        """Inside, the stream does not count as idle: a signal is handled, or there is no connection."""
        self._idle_end = None

    def idle(self) -> None:
        """Ends the thread without stopping the stream."""
        self._idle_end = None if self._idle is None else time.monotonic() + self._idle

    def _no_more(self, now: float) -> float | None:
        """The time at which it will have been idle long enough."""
        if self._idle is None:
            return None
        if self._busy():
            self._busy_end = now + self._idle
        end = self._idle_end
        return None if end is None else max(end, self._busy_end)

    def _run(self) -> None:
        unread = self._poller()
        while not self._over.is_set():
            now = time.monotonic()
            ends = {"duration": self._end, "idle": self._no_more(now)}
            for reason, end in ends.items():
                if end is not None and now >= end:
                    self._stop_for(reason)
                    return
            left = min((end - now for end in ends.values() if end is not None), default=_EVERY)
            if unread(min(left, self._every)):
                self._stop_for("unread")
                return

    def _stop_for(self, reason: str) -> None:
        if not self._over.is_set():
            self.reason = reason
            self._stop()

    def _poller(self) -> Callable[[float], bool]:
        """A function that waits up to some seconds, and returns whether the reader of the output has gone."""

        def wait(seconds: float) -> bool:
            self._over.wait(seconds)
            return False

        try:
            poller, out = select.poll(), self._stdout.fileno()
            poller.register(self._wake, select.POLLIN)
            poller.register(out, 0)
        except (AttributeError, OSError, ValueError):  # the system has no poll, or this is no real stream
            return wait

        def poll(seconds: float) -> bool:
            found = dict(poller.poll(max(1, seconds * 1000)))
            if found.get(out, 0) & select.POLLNVAL:  # poll fails on terminals of some systems
                with contextlib.suppress(KeyError):
                    poller.unregister(out)
            return bool(found.get(out, 0) & (select.POLLERR | select.POLLHUP))

        return poll
