"""Time that can be moved: one clock for a server's dates, rate windows and records, and its clients."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

# The year 5138: later times don't fit the form of an HTTP date.
END = 1e11


class MockClock:
    """Follows real time until told otherwise. Safe to share between threads, and between a server and its clients.

    Times are Unix seconds. `sleep` and `sleep_async` don't wait: they move the clock on, so that whoever shares it
    sees the pause as over.

    Args:
        start: sets the clock to this time and freezes it; without it the clock follows real time.
    """

    def __init__(self, start: float | None = None) -> None:
        self._lock = threading.RLock()
        self._offset = 0.0
        self._frozen_at: float | None = None
        self._mono_offset = 0.0
        self._mono_frozen_at = 0.0
        self._keepers: list[Callable[[], AbstractContextManager[object]]] = []
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
        """Whether it stands still until told to move."""
        return self._frozen_at is not None

    def freeze(self) -> None:
        """Stop here; the clock moves only when told to."""
        self.move(freeze=True)

    def resume(self) -> None:
        """Go on from the present time of this clock, at the pace of real time."""
        self.move(freeze=False)

    def set(self, ts: float, *, allow_backwards: bool = False) -> None:
        """Jump to `ts`.

        Raises:
            ValueError: `ts` is in the clock's past and `allow_backwards` is not set, or it is no time.
        """
        self.move(to=ts, allow_backwards=allow_backwards)

    def advance(self, seconds: float) -> None:
        """Move on by `seconds`.

        Raises:
            ValueError: the step is negative or has no end.
        """
        self.move(by=seconds)

    def move(
        self,
        *,
        freeze: bool | None = None,
        to: float | None = None,
        by: float | None = None,
        allow_backwards: bool = False,
    ) -> None:
        """Several changes as one: all of them are made, or none.

        Args:
            freeze: True stops the clock before it is moved, False lets it run after that.
            to: as `set` has it.
            by: as `advance` has it, after `to`.
            allow_backwards: `to` may be in the clock's past.

        Raises:
            ValueError: `to` or `by` can't be; nothing is changed.
        """
        with self._changing():
            now = self.now()
            if to is not None:
                check_time(to)
                if to < now and not allow_backwards:
                    raise ValueError(f"the clock shows {now:.3f}; going back to {to:.3f} needs allow_backwards=True")
            if by is not None and not 0 <= by < END - (now if to is None else to):
                raise ValueError(f"can't advance by {by!r} seconds")
            if freeze is True:
                self._freeze()
            if to is not None:
                self._step(to - self.now())
                if self._frozen_at is not None:
                    # Exactly: a sum of floats may end just below a whole second.
                    self._frozen_at = float(to)
            if by is not None:
                self._step(by)
            if freeze is False:
                self._resume()

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

    def _freeze(self) -> None:
        if self._frozen_at is None:
            mono = self.monotonic()
            self._frozen_at = self.now()
            self._mono_frozen_at = mono

    def _resume(self) -> None:
        if self._frozen_at is not None:
            self._offset = self._frozen_at - time.time()
            self._mono_offset = self._mono_frozen_at - time.monotonic()
            self._frozen_at = None

    def _step(self, step: float) -> None:
        if self._frozen_at is None:
            self._offset += step
            self._mono_offset += max(0.0, step)
        else:
            self._frozen_at += step
            self._mono_frozen_at += max(0.0, step)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        first, *others = self._keepers or [nullcontext]
        # The keeper before our own lock: requests take them in this order.
        with first(), self._lock:
            yield
        # Keepers aren't nested: two of them may hold the same file, which only one can at a time.
        for keeper in others:
            with keeper():
                pass

    # What a state file keeps of a clock.

    def state(self) -> tuple[float, float | None]:
        """(offset from real time, frozen time or None)."""
        with self._lock:
            return self._offset, self._frozen_at

    def restore(self, offset: float, frozen_at: float | None) -> None:
        """Take on a state that `state` gave. Tells no keeper: nothing is new to whoever stored it."""
        with self._lock:
            mono = self.monotonic()
            self._offset = offset
            self._frozen_at = frozen_at
            self._mono_offset = mono - time.monotonic()
            self._mono_frozen_at = mono

    def on_change(self, keeper: Callable[[], AbstractContextManager[object]]) -> Callable[[], None]:
        """Make every change within `keeper()`: it may bring the clock up to date before, and store it afterwards.

        The returned function ends that.
        """
        self._keepers = [*self._keepers, keeper]

        def leave() -> None:
            self._keepers = [kept for kept in self._keepers if kept != keeper]

        return leave


def check_time(ts: float) -> None:
    """ValueError for what is no time in Unix seconds that this service may show."""
    if not 0 <= ts < END:
        raise ValueError(f"{ts!r} is not a time in Unix seconds")
