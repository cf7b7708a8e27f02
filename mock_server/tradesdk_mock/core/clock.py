"""Time that can be moved: one clock for a server's dates, rate windows and records, and for its clients."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from numbers import Real
from weakref import WeakKeyDictionary

from .errors import MockServerError
from .units import Moment, Seconds

# The year 5138: later times don't fit an HTTP date. A running clock stops a second earlier, or at the time that it was
# set to, if that is later.
END = 1e11
MAX_SPEED = 10_000.0
# Turns of the event loop for other tasks before a reader moves the clock.
_TURNS = 20
# Times in Unix seconds are at least this exact.
_TICK = 1e-6


class RealTime:
    """The machine's time. If a test freezes time (freezegun), `now` is frozen and `monotonic` is not."""

    # freezegun replaces it in modules, but not in classes. If it were frozen, a timeout would never end, or at once.
    monotonic = staticmethod(time.monotonic)

    @staticmethod
    def now() -> float:
        # Not time.time(): in threads, freezegun's is real or frozen, depending on the number of calls in between.
        return datetime.now(UTC).timestamp()


class MockClock:
    """Follows real time until it is set or frozen. Safe to share between threads, and between a server and its clients.

    Times are Unix seconds. `sleep` and `sleep_async` don't wait: they move the clock, for everyone who shares it.

    Args:
        start: sets the clock to this time and freezes it; without it the clock follows real time.
    """

    def __init__(self, start: float | None = None) -> None:
        self._lock = threading.RLock()
        # What the clock showed at its last change, and real time then.
        self._shown = self._real = RealTime.now()
        self._mono = self._real_mono = RealTime.monotonic()
        self._speed = 1.0
        self._frozen = False
        self._hooks: list[Callable[[], AbstractContextManager[object]]] = []
        if start is not None:
            self.move(freeze=True, set=start, allow_backwards=True)

    def __repr__(self) -> str:
        return f"<MockClock at {self.now():.3f}{', frozen' * self._frozen}>"

    def now(self) -> float:
        """The current time in Unix seconds."""
        with self._lock:
            return self._now_at(RealTime.now())

    def monotonic(self) -> float:
        """Seconds since a fixed point, at the clock's speed; never goes backwards."""
        with self._lock:
            return self._mono_at(RealTime.monotonic())

    @property
    def frozen(self) -> bool:
        """Whether only `set`, `advance`, `move` and `sleep` move it."""
        return self._frozen

    @property
    def speed(self) -> float:
        """Seconds that it shows for each real second while it runs; 1.0 unless changed by `move`."""
        return self._speed

    def real_seconds_until(self, ts: float) -> float | None:
        """Real seconds until the clock shows `ts`: 0.0 if that is past, None if it never will by itself."""
        with self._lock:
            left = ts - self.now()
            if left <= 0:
                return 0.0
            seconds = left / self._speed
            return None if self._frozen or ts > END - 1 or seconds == float("inf") else seconds

    def freeze(self) -> None:
        """Stop the clock: from now on it moves only by `set`, `advance`, `move` and `sleep`."""
        self.move(freeze=True)

    def resume(self) -> None:
        """Let the clock run again from its present time, at its speed."""
        self.move(freeze=False)

    def set(self, ts: float, *, allow_backwards: bool = False) -> None:
        """Jump to `ts`.

        Raises:
            ValueError: `ts` is in the clock's past and `allow_backwards` is not set, or is not a valid time.
        """
        self.move(set=ts, allow_backwards=allow_backwards)

    def advance(self, seconds: float) -> None:
        """Move on by `seconds`.

        Raises:
            ValueError: the step is negative or infinite.
        """
        self.move(advance=seconds)

    def move(
        self,
        *,
        freeze: bool | None = None,
        set: Moment | None = None,
        advance: Seconds | None = None,
        speed: float | None = None,
        allow_backwards: bool = False,
    ) -> None:
        """Show, move, stop or speed up the clock.

        All changes are made, or none.

        Args:
            freeze: stop the clock before it is moved, or let it run again after that.
            set: the time to jump to, in Unix seconds.
            advance: seconds to move forward after that.
            speed: seconds to show for each real second from now on, above 0 and at most 10,000. A frozen clock
                keeps it for when it runs.
            allow_backwards: the time may be in the clock's past.

        Raises:
            ValueError: an invalid value; nothing is changed.
        """
        if allow_backwards and set is None:
            raise ValueError("allow_backwards=True needs a time to set")
        for value in (advance, speed):
            if value is not None and not isinstance(value, Real):
                raise ValueError(f"{value!r} is not a number")
        with self._changing():
            real, real_mono = RealTime.now(), RealTime.monotonic()
            now = self._now_at(real)
            if set is not None:
                check_time(set)
                if set < now and not allow_backwards:
                    raise ValueError(f"the clock shows {now:.3f}; going back to {set:.3f} needs allow_backwards=True")
            # Both bounds: a sum of floats may be rounded up to END.
            if advance is not None and not (0 <= advance < END and (now if set is None else set) + advance < END):
                raise ValueError(f"can't advance by {advance!r} seconds")
            if speed is not None and not 0 < speed <= MAX_SPEED:
                raise ValueError(f"{speed!r} is not a speed: above 0 and at most 10,000")
            self._mono, self._real_mono = self._mono_at(real_mono), real_mono
            self._shown, self._real = now, real
            if set is not None:
                # Exactly: a sum of floats may end just below a whole second.
                self._shown = float(set)
                self._mono += max(0.0, set - now)
            if advance is not None:
                self._shown += advance
                self._mono += advance
            if speed is not None:
                self._speed = float(speed)
            if freeze is not None:
                self._frozen = freeze

    def sleep(self, seconds: float) -> None:
        """Move on by `seconds` instead of waiting; nothing for zero or less."""
        if seconds > 0:
            self.advance(seconds)

    async def sleep_async(self, seconds: float) -> None:
        """Like `sleep`, but tasks that sleep at the same time sleep together: their waits don't add up."""
        # Loaded here: only async clients need it, and a server's start stays cheap.
        from anyio.lowlevel import checkpoint

        now = self.now()
        # A wait shorter than the resolution of the time moves the clock by that resolution. Otherwise a client that
        # waits for the rest of a period would wait forever.
        wakes = max(now + seconds, math.nextafter(now, math.inf)) if seconds > 0 else now
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
        first, *others = self._hooks or [nullcontext]
        # The hook's lock first, then our own: requests take them in this order.
        with first(), self._lock:
            yield
        # Not nested: two hooks may lock the same file.
        for hook in others:
            with hook():
                pass

    # The clock's data in a state file.

    def state(self) -> tuple[float, float, float, bool]:
        """(time that it showed, real time at that moment, speed, frozen)."""
        with self._lock:
            return self._shown, self._real, self._speed, self._frozen

    def restore(self, shown: float, real: float, speed: float, frozen: bool) -> None:
        """Restore a state from `state`. Hooks aren't called, as the state comes from one."""
        with self._lock:
            real_mono = RealTime.monotonic()
            self._mono, self._real_mono = self._mono_at(real_mono), real_mono
            self._shown, self._real, self._speed, self._frozen = shown, real, speed, frozen

    def on_change(self, hook: Callable[[], AbstractContextManager[object]]) -> Callable[[], None]:
        """Wrap every change in `hook()`, which may load the clock's state before the change and store it afterwards.

        The returned function removes it.
        """
        self._hooks = [*self._hooks, hook]

        def remove() -> None:
            self._hooks = [each for each in self._hooks if each != hook]

        return remove


class Timeout:
    """Seconds from now on: real ones, or the clock's while it is frozen."""

    def __init__(self, clock: MockClock, seconds: float | None) -> None:
        self._clock = clock
        self._seconds = math.inf if seconds is None else seconds
        self._real = RealTime.monotonic()
        self._mono = clock.monotonic()

    def left(self) -> float:
        clock = self._clock
        if not clock.frozen:
            return max(0.0, self._seconds - (RealTime.monotonic() - self._real))
        left = self._seconds - (clock.monotonic() - self._mono)
        # Nothing can be waited for beyond the clock's end.
        beyond = left < math.inf and clock.now() + left >= END
        return 0.0 if left < _TICK or beyond else left

    def ends(self) -> float:
        """The clock's time at its end; infinity if there is none."""
        return self._clock.now() + self.left()


def check_time(ts: float) -> None:
    """ValueError unless `ts` is a time in Unix seconds that the service may show."""
    if not (isinstance(ts, Real) and 0 <= ts < END):
        raise ValueError(f"{ts!r} is not a time in Unix seconds, such as datetime.timestamp() returns")


_waiting: WeakKeyDictionary[MockClock, dict[object, float]] = WeakKeyDictionary()
"""The times that tasks wait for on frozen clocks."""


async def move_together(clock: MockClock, target: float, has_ended: Callable[[], bool] = lambda: False) -> None:
    """Wait for `target` together with other tasks: the clock moves to the earliest time that any of them waits for.

    Returns when the clock has moved for any reason, or when `has_ended` is true; a caller whose time hasn't come waits
    again.
    """
    from anyio.lowlevel import checkpoint

    waiting = _waiting.setdefault(clock, {})
    me, began = object(), clock.now()
    waiting[me] = target
    try:
        for _ in range(_TURNS):
            await checkpoint()
            if not clock.frozen or clock.now() != began or has_ended():
                return
        if clock.now() == began:
            move_on(clock, min(list(waiting.values())))
    finally:
        del waiting[me]


def move_on(clock: MockClock, target: float) -> None:
    """Move a frozen clock forward to `target`."""
    if clock.frozen:
        with suppress(ValueError, MockServerError):
            clock.set(target)


def make_up(clock: MockClock, began: float, seconds: float | None) -> None:
    """After a wait of real `seconds`: move on a running clock that still shows `began`.

    A test has frozen the machine's time, so the awaited time would never come.
    """
    if seconds and not clock.frozen and clock.now() == began:
        with suppress(ValueError, MockServerError):
            clock.advance(seconds * clock.speed)
