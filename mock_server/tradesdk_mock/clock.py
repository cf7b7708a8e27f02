"""Time that can be moved: one clock for a server's dates, rate windows and records, and its clients."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

# The year 5138: later times don't fit the form of an HTTP date.
_END = 1e11


class MockClock:
    """Follows real time until told otherwise. Safe to share between threads, and between a server and its clients.

    Times are Unix seconds. `sleep` and `sleep_async` don't wait: they move the clock on, so that whoever shares it
    sees the pause as over.
    """

    def __init__(self, start: float | None = None) -> None:
        """`start` sets the clock to that time and freezes it; without it the clock follows real time."""
        self._lock = threading.RLock()
        self._offset = 0.0
        self._frozen_at: float | None = None
        self._mono_offset = 0.0
        self._mono_frozen_at = 0.0
        self._listeners: list[Callable[[], None]] = []
        if start is not None:
            self.freeze()
            self.set(start, allow_backwards=True)

    def now(self) -> float:
        """The current time in Unix seconds."""
        with self._lock:
            return time.time() + self._offset if self._frozen_at is None else self._frozen_at

    def monotonic(self) -> float:
        """Seconds since some fixed point; never goes back, whatever is done to the clock."""
        with self._lock:
            return time.monotonic() + self._mono_offset if self._frozen_at is None else self._mono_frozen_at

    @property
    def frozen(self) -> bool:
        return self._frozen_at is not None

    def freeze(self) -> None:
        """Stop here; the clock moves only when told to."""
        with self._lock:
            if self._frozen_at is None:
                mono = self.monotonic()
                self._frozen_at = self.now()
                self._mono_frozen_at = mono
        self._changed()

    def resume(self) -> None:
        """Go on from the present time of this clock, at the pace of real time."""
        with self._lock:
            if self._frozen_at is not None:
                self._offset = self._frozen_at - time.time()
                self._mono_offset = self._mono_frozen_at - time.monotonic()
                self._frozen_at = None
        self._changed()

    def set(self, ts: float, *, allow_backwards: bool = False) -> None:
        """Jump to `ts`. ValueError when that is in the clock's past, unless `allow_backwards`."""
        if not 0 <= ts < _END:
            raise ValueError(f"{ts!r} is not a time in Unix seconds")
        with self._lock:
            step = ts - self.now()
            if step < 0 and not allow_backwards:
                raise ValueError(f"the clock shows {self.now():.3f}; going back to {ts:.3f} needs allow_backwards=True")
            self._step(step)
            if self._frozen_at is not None:
                # Exactly: a sum of floats may end just below a whole second.
                self._frozen_at = float(ts)
        self._changed()

    def advance(self, seconds: float) -> None:
        """Move on by `seconds`. ValueError for a negative or unbounded step."""
        with self._lock:
            if not 0 <= seconds < _END - self.now():
                raise ValueError(f"can't advance by {seconds!r} seconds")
            self._step(seconds)
        self._changed()

    def sleep(self, seconds: float) -> None:
        """Move on by `seconds` instead of waiting; nothing for zero or less."""
        if seconds > 0:
            self.advance(seconds)

    async def sleep_async(self, seconds: float) -> None:
        """Like `sleep`, but tasks that sleep at the same time do so together: their waits don't add up."""
        # Loaded here: only async clients need it, and a server's start stays cheap.
        from anyio.lowlevel import checkpoint

        wakes = self.now() + seconds
        await checkpoint()
        self.sleep(wakes - self.now())

    def _step(self, step: float) -> None:
        if self._frozen_at is None:
            self._offset += step
            self._mono_offset += max(0.0, step)
        else:
            self._frozen_at += step
            self._mono_frozen_at += max(0.0, step)

    # What a state file keeps of a clock.

    def state(self) -> tuple[float, float | None]:
        """(offset from real time, frozen time or None)."""
        with self._lock:
            return self._offset, self._frozen_at

    def restore(self, offset: float, frozen_at: float | None) -> None:
        """Take on a state that `state` gave. Tells no listener: nothing is new to whoever stored it."""
        with self._lock:
            mono = self.monotonic()
            self._offset = offset
            self._frozen_at = frozen_at
            self._mono_offset = mono - time.monotonic()
            self._mono_frozen_at = mono

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after every change; the returned function ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _changed(self) -> None:
        for listener in list(self._listeners):
            listener()
