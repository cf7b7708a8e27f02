"""A clock that moves only when somebody waits, and remembers who waited how long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from email.utils import formatdate

START = 1_760_000_000


class VirtualClock:
    """Waiting moves it on instead of taking time. What waits together ends together, as it does in real time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._passed = 0.0
        self.waits: list[float] = []

    def now(self) -> float:
        return START + self._passed

    def monotonic(self) -> float:
        return 500.0 + self._passed

    def advance(self, seconds: float) -> None:
        with self._lock:
            self._passed += seconds

    def sleep(self, seconds: float) -> None:
        self._reach(self._note(seconds))

    async def sleep_async(self, seconds: float) -> None:
        from anyio.lowlevel import checkpoint

        end = self._note(seconds)
        await checkpoint()
        self._reach(end)

    def _note(self, seconds: float) -> float:
        with self._lock:
            self.waits.append(seconds)
            return self._passed + seconds

    def _reach(self, end: float) -> None:
        with self._lock:
            self._passed = max(self._passed, end)


class SharedClock(VirtualClock):
    """Moves on only while all who `join` wait, to the first end of a wait: as in real time, nobody is overtaken.

    `follow` is called with the seconds that it moves on.
    """

    def __init__(self, follow: Callable[[float], object] | None = None) -> None:
        super().__init__()
        self._follow = follow
        self._joined = 0
        self._ends: list[float] = []

    def join(self) -> None:
        with self._lock:
            self._joined += 1

    def leave(self) -> None:
        with self._lock:
            self._joined -= 1

    def sleep(self, seconds: float) -> None:
        end = self._begin(seconds)
        while not self._is_over(end):
            time.sleep(0.0005)  # others work meanwhile, and some with real servers

    async def sleep_async(self, seconds: float) -> None:
        import anyio

        end = self._begin(seconds)
        for _ in iter(lambda: self._is_over(end), True):  # another one moves it, in a thread maybe
            await anyio.sleep(0.0005)

    def _begin(self, seconds: float) -> float:
        end = self._note(seconds)
        with self._lock:
            self._ends.append(end)
        return end

    def _is_over(self, end: float) -> bool:
        with self._lock:
            if len(self._ends) >= self._joined and (more := min(self._ends) - self._passed) > 0:
                self._passed += more
                if self._follow is not None:
                    self._follow(more)
            if end > self._passed + 1e-6:  # sums of floats differ
                return False
            self._ends.remove(end)
            return True


class named:
    """Equals a wait that the service named: never shorter, and longer by its jitter at most."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __eq__(self, wait: object) -> bool:
        spread = max(0.25, min(self._seconds / 10, 1))
        return isinstance(wait, int | float) and 0 <= wait - self._seconds <= spread

    def __hash__(self) -> int:
        raise TypeError

    def __repr__(self) -> str:
        return f"named({self._seconds})"


def http_date(seconds: float) -> str:
    return formatdate(seconds, usegmt=True)
