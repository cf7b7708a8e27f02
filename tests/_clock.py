"""A clock that moves only when somebody waits, and remembers who waited how long."""

from __future__ import annotations

import threading
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
