"""Waiting for a body's next piece without a socket: in real time, or by moving a frozen clock."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable
from typing import Any

from ..core.clock import END, MockClock, Timeout, make_up, move_on, move_together
from ..core.subscribers import Notifier


class Wait:
    """A wait until the first of these: one of `timeouts` ends, the clock shows `until`, `notifier` is notified.

    `poll`: real seconds after which to check again anyway. `end` ends the wait from any thread.
    """

    def __init__(
        self,
        clock: MockClock,
        timeouts: tuple[Timeout, ...],
        until: float | None = None,
        notifier: Notifier | None = None,
        poll: float | None = None,
    ) -> None:
        self._clock = clock
        self._timeouts = timeouts
        self._until = until
        self._notifier = notifier or Notifier()
        self._poll = poll
        self._ended = False
        self._wake: Callable[[], object] = lambda: None

    def end(self) -> None:
        self._ended = True
        self._wake()

    def wait(self) -> None:
        """Block this thread."""
        clock, notifier = self._clock, self._notifier
        target, seconds = self._plan()
        if target is not None:
            if not (self._ended or notifier.take()):
                move_on(clock, target)
            return
        event = threading.Event()
        self._wake = event.set
        notifier.listen(event.set)
        began = clock.now()
        try:
            if not self._ended and not event.wait(seconds):
                make_up(clock, began, seconds)
        finally:
            notifier.listen(None)
        notifier.take()

    async def wait_async(self) -> None:
        """Let other tasks run. Tasks that wait on a frozen clock wait together: it moves to the earliest time that any
        of them waits for, after some turns of the others."""
        import anyio
        from anyio.lowlevel import current_token

        clock, notifier = self._clock, self._notifier
        target, seconds = self._plan()
        if target is not None:
            if not (self._ended or notifier.take()):
                await move_together(clock, target, lambda: self._ended or notifier.take())
            return
        event = anyio.Event()
        token: Any = current_token()
        token = getattr(token, "native_token", token)
        soon = getattr(token, "call_soon_threadsafe", None) or token.run_sync_soon  # of asyncio, of trio

        def wake_up() -> None:
            # From any thread, at any time: the loop may have ended.
            with contextlib.suppress(RuntimeError):
                soon(event.set)

        self._wake = wake_up
        notifier.listen(wake_up)
        began = clock.now()
        timer = threading.Timer(seconds or 0, wake_up)  # not the event loop's timer: a test may freeze its time
        timer.daemon = True
        try:
            if not self._ended:
                if seconds is not None:
                    timer.start()
                await event.wait()
        finally:
            notifier.listen(None)
            timer.cancel()
        if not (notifier.take() or self._ended):
            make_up(clock, began, seconds)

    def _plan(self) -> tuple[float | None, float | None]:
        """(the time to move the clock to, or None if the clock runs or nothing is ever due;
        otherwise the real seconds to wait, or None for no limit)
        """
        clock, limit, until = self._clock, math.inf, self._until
        if clock.frozen:
            for timeout in self._timeouts:
                limit = min(limit, timeout.ends())
            if until is not None and until < END:
                limit = min(limit, until)
            return (None, self._poll) if limit == math.inf else (limit, None)
        for timeout in self._timeouts:
            limit = min(limit, timeout.left())
        for seconds in (None if until is None else clock.real_seconds_until(until), self._poll):
            if seconds is not None:
                limit = min(limit, seconds)
        # Threads and event loops have a longest wait.
        return None, None if limit == math.inf else min(limit, threading.TIMEOUT_MAX)
