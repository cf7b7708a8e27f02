"""Time as the clients see it. Tests and rehearsals hand in another one, so that waiting costs nothing."""

from __future__ import annotations

import time
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """What a client needs of time. It serves both flavours, so it can wait in both ways."""

    def now(self) -> float:
        """Seconds since 1970, as the wall shows them."""
        ...

    def monotonic(self) -> float:
        """Seconds from any fixed point; never runs backwards."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait, blocking the thread."""
        ...

    async def sleep_async(self, seconds: float) -> None:
        """Wait, letting other tasks run."""
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
        import anyio  # only where something really waits

        await anyio.sleep(seconds)
