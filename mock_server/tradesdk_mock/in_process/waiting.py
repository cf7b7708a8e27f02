"""Waiting for a body's next piece without a socket: in real time, or by moving on a clock that stands still."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from ..core.clock import END, HOLD, MockClock, move_on, move_together
from ..core.messages import Notifier

# Times in Unix seconds are this exact, or a little more.
_TICK = 1e-6


class Timeout:
    """Seconds from now on: real ones, or the clock's while it stands still."""

    def __init__(self, clock: MockClock, seconds: float | None) -> None:
        self._clock = clock
        self._seconds = math.inf if seconds is None else seconds
        self._real = time.monotonic()
        self._mono = clock.monotonic()

    def left(self) -> float:
        clock = self._clock
        if not clock.frozen:
            return max(0.0, self._seconds - (time.monotonic() - self._real))
        left = self._seconds - (clock.monotonic() - self._mono)
        # Nothing can be waited for beyond the clock's end.
        beyond = left < math.inf and clock.now() + left >= END
        return 0.0 if left < _TICK or beyond else left

    def end_if_late(self) -> bool:
        late = time.monotonic() - self._real >= self._seconds
        if late:
            self._seconds = 0.0
        return late


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Nothing can be read before the first of these: one of `timeouts` is over, the clock shows `until`, `wake` rings.

    `poll`: real seconds after which to look again all the same.
    """

    clock: MockClock
    timeouts: tuple[Timeout, ...]
    until: float | None = None
    notifier: Notifier | None = None
    poll: float | None = None

    def target(self) -> float | None:
        """The time to move a frozen clock to; None when nothing is ever due."""
        now = self.clock.now()
        times = [now + left for left in self._left()]
        if self.until is not None and self.until < END:
            times.append(self.until)
        return min(times, default=None)

    def seconds(self) -> float | None:
        """How long to wait in real time; None: forever."""
        until = None if self.until is None else self.clock.real_seconds_until(self.until)
        limits = [*self._left(), *(limit for limit in (until, self.poll) if limit is not None)]
        # Threads and event loops have a longest wait.
        return min(*limits, threading.TIMEOUT_MAX) if limits else None

    def notified(self) -> bool:
        return self.notifier is not None and self.notifier.take()

    def listen(self, callback: Callable[[], object] | None) -> None:
        if self.notifier is not None:
            self.notifier.listen(callback)

    def is_late(self) -> bool:
        """Whether one of the timeouts is over in real time while the clock is held; that ends it."""
        return self.clock.held and any(timeout.end_if_late() for timeout in self.timeouts)

    def _left(self) -> list[float]:
        return [left for left in (timeout.left() for timeout in self.timeouts) if left < math.inf]


class Waiter:
    """Waits for one reader, in a thread or in a task. `end` ends this wait and all later ones, from any thread."""

    def __init__(self) -> None:
        self._ended = False
        self._stir: Callable[[], object] = lambda: None

    def end(self) -> None:
        self._ended = True
        self._stir()

    def wait(self, wait: WaitFor) -> None:
        """Block this thread."""
        if self._ended or wait.notified():
            return
        frozen = wait.clock.frozen
        target = wait.target() if frozen else None
        if target is not None:
            while wait.clock.held and not self._ended and not wait.is_late():
                if wait.notified():
                    return
                time.sleep(HOLD)
            if wait.clock.frozen and not (wait.clock.held or self._ended or wait.notified()):
                move_on(wait.clock, target)
            return
        event = threading.Event()
        self._stir = event.set
        wait.listen(event.set)
        try:
            if not self._ended:
                event.wait(wait.poll if frozen else wait.seconds())
        finally:
            wait.listen(None)
        wait.notified()

    async def wait_async(self, wait: WaitFor) -> None:
        """Let other tasks run. Tasks that wait on a frozen clock wait together: it moves to the earliest time that any
        of them waits for, after some turns of the others and once the clock isn't held."""
        import anyio
        from anyio.lowlevel import current_token

        if self._ended or wait.notified():
            return
        clock = wait.clock
        frozen = clock.frozen
        target = wait.target() if frozen else None
        if target is not None:
            await move_together(clock, target, lambda: self._ended or wait.notified() or wait.is_late())
            return
        event = anyio.Event()
        soon = _soon(current_token())

        def wake_up() -> None:
            # From any thread, at any time: the loop may have ended.
            with contextlib.suppress(RuntimeError):
                soon(event.set)

        self._stir = wake_up
        wait.listen(wake_up)
        try:
            if not self._ended:
                with anyio.move_on_after(wait.poll if frozen else wait.seconds()):
                    await event.wait()
        finally:
            wait.listen(None)
        wait.notified()


def _soon(token: Any) -> Callable[[Callable[[], object]], object]:
    """How to call something in an event loop from another thread: asyncio and trio have different names for it."""
    native = getattr(token, "native_token", token)
    soon = getattr(native, "call_soon_threadsafe", None) or native.run_sync_soon
    return cast(Callable[[Callable[[], object]], object], soon)
