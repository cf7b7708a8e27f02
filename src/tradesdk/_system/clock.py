"""The clock of the clients. Tests and dry runs pass another one, so that waiting takes no time."""

from __future__ import annotations

import time
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """What a client needs of a clock. Both flavors use it, so it waits in both ways."""

    def now(self) -> float:
        """Seconds since 1970 (UTC)."""
        ...

    def monotonic(self) -> float:
        """Seconds since any fixed point; never goes backwards."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait, blocking the thread."""
        ...

    async def sleep_async(self, seconds: float) -> None:
        """Wait, and let other tasks run."""
        ...


class SystemClock:
    """The computer's own clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        import anyio  # only where a call really waits

        await anyio.sleep(seconds)
