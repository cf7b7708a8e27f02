"""Time that can be moved: one clock for a server's dates, rate windows and records, and its clients."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from weakref import WeakKeyDictionary

from .errors import MockServerError

# The year 5138: later times don't fit the form of an HTTP date. A running clock stops a second before, or where it was
# set to if that is later.
END = 1e11
MAX_SPEED = 10_000.0
# Turns of the event loop that other tasks get before a reader moves the clock on.
_TURNS = 20
HOLD = 0.001
"""Real seconds after which to look again whether the clock is still held."""


class MockClock:
    """Follows real time until told otherwise. Safe to share between threads, and between a server and its clients.

    Times are Unix seconds. `sleep` and `sleep_async` don't wait: they move the clock on, so that whoever shares it
    sees the pause as over.

    Args:
        start: sets the clock to this time and freezes it; without it the clock follows real time.
    """

    def __init__(self, start: float | None = None) -> None:
        self._lock = threading.RLock()
        # What the clock showed when it was last touched, and what real time was then.
        self._shown = self._real = time.time()
        self._mono = self._real_mono = time.monotonic()
        self._speed = 1.0
        self._frozen = False
        self._holds = 0
        self._keepers: list[Callable[[], AbstractContextManager[object]]] = []
        if start is not None:
            self.move(freeze=True, to=start, allow_backwards=True)

    def now(self) -> float:
        """The current time in Unix seconds."""
        with self._lock:
            return self._now_at(time.time())

    def monotonic(self) -> float:
        """Seconds since some fixed point, at the clock's speed; never goes back, whatever is done to the clock."""
        with self._lock:
            return self._mono_at(time.monotonic())

    @property
    def frozen(self) -> bool:
        """Whether it stands still until told to move."""
        return self._frozen

    @property
    def speed(self) -> float:
        """Seconds that it shows for each real second while it runs; 1.0 unless changed by `move`."""
        return self._speed

    def real_seconds_until(self, ts: float) -> float | None:
        """Real seconds until the clock shows `ts`: 0.0 when that is past, None when it never will by itself."""
        with self._lock:
            left = ts - self.now()
            if left <= 0:
                return 0.0
            seconds = left / self._speed
            return None if self._frozen or ts > END - 1 or seconds == float("inf") else seconds

    def freeze(self) -> None:
        """Stop here; the clock moves only when told to."""
        self.move(freeze=True)

    def resume(self) -> None:
        """Go on from the present time of this clock, at its speed."""
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
        speed: float | None = None,
        allow_backwards: bool = False,
    ) -> None:
        """Several changes as one: all of them are made, or none.

        Args:
            freeze: True stops the clock before it is moved, False lets it run after that.
            to: as `set` has it.
            by: as `advance` has it, after `to`.
            speed: seconds to show for each real second from now on, above 0 and at most 10,000. A frozen clock
                keeps it for when it runs.
            allow_backwards: `to` may be in the clock's past.

        Raises:
            ValueError: `to`, `by` or `speed` can't be; nothing is changed.
        """
        with self._changing():
            real, real_mono = time.time(), time.monotonic()
            now = self._now_at(real)
            if to is not None:
                check_time(to)
                if to < now and not allow_backwards:
                    raise ValueError(f"the clock shows {now:.3f}; going back to {to:.3f} needs allow_backwards=True")
            # Both bounds: a sum of floats may be rounded up to END.
            if by is not None and not (0 <= by < END and (now if to is None else to) + by < END):
                raise ValueError(f"can't advance by {by!r} seconds")
            if speed is not None and not 0 < speed <= MAX_SPEED:
                raise ValueError(f"{speed!r} is not a speed: above 0 and at most 10,000")
            self._mono, self._real_mono = self._mono_at(real_mono), real_mono
            self._shown, self._real = now, real
            if to is not None:
                # Exactly: a sum of floats may end just below a whole second.
                self._shown = float(to)
                self._mono += max(0.0, to - now)
            if by is not None:
                self._shown += by
                self._mono += by
            if speed is not None:
                self._speed = float(speed)
            if freeze is not None:
                self._frozen = freeze

    @property
    def held(self) -> bool:
        """Whether somebody is within `hold`."""
        return self._holds > 0

    @contextmanager
    def hold(self) -> Iterator[None]:
        """While it lasts, no read in process moves this clock on: for work that takes real time, as in a thread.

        A clock that stands still is otherwise moved by whoever waits for a stream, and a task that waits for a thread
        meanwhile would find hours gone.
        """
        with self._lock:
            self._holds += 1
        try:
            yield
        finally:
            with self._lock:
                self._holds -= 1

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
        while self.frozen and self.now() < wakes:
            await move_together(self, wakes)
        self.sleep(wakes - self.now())

    def _now_at(self, real: float) -> float:
        if self._frozen:
            return self._shown
        return min(self._shown + (real - self._real) * self._speed, max(self._shown, END - 1))

    def _mono_at(self, real_mono: float) -> float:
        return self._mono if self._frozen else self._mono + (real_mono - self._real_mono) * self._speed

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

    def state(self) -> tuple[float, float, float, bool]:
        """(time that it showed, real time at that moment, speed, frozen)."""
        with self._lock:
            return self._shown, self._real, self._speed, self._frozen

    def restore(self, shown: float, real: float, speed: float, frozen: bool) -> None:
        """Take on a state that `state` gave. Tells no keeper: nothing is new to whoever stored it."""
        with self._lock:
            real_mono = time.monotonic()
            self._mono, self._real_mono = self._mono_at(real_mono), real_mono
            self._shown, self._real, self._speed, self._frozen = shown, real, speed, frozen

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


_waiting: WeakKeyDictionary[MockClock, dict[object, float]] = WeakKeyDictionary()
"""What tasks wait for on clocks that stand still."""


async def move_together(clock: MockClock, target: float, is_over: Callable[[], bool] = lambda: False) -> None:
    """Wait for `target` with all others that wait: the clock moves to what is due first for any of them.

    Returns when it has moved, whoever moved it, or when the wait is over for another reason; who isn't there yet waits
    again.
    """
    import anyio
    from anyio.lowlevel import checkpoint

    waiting = _waiting.setdefault(clock, {})
    me, began = object(), clock.now()
    waiting[me] = target
    try:
        for _ in range(_TURNS):
            await checkpoint()
            if not clock.frozen or clock.now() != began or is_over():
                return
        while clock.held:
            await anyio.sleep(HOLD)
            if is_over():
                return
        if clock.frozen and clock.now() == began:
            move_on(clock, min(list(waiting.values())))
    finally:
        del waiting[me]


def move_on(clock: MockClock, target: float) -> None:
    """Unless somebody else has moved it there already."""
    with suppress(ValueError, MockServerError):
        clock.set(target)
