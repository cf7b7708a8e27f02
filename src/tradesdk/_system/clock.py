"""The clock of the clients. Tests and dry runs pass another one, so that waiting takes no time."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """What a client needs of a clock. Blocking and async clients use the same one, so it can wait in both ways."""

    def now(self) -> float:
        """Seconds since 1970 (UTC)."""
        ...

    def monotonic(self) -> float:
        """Seconds since a fixed point; never goes backwards."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait, blocking the thread."""
        ...

    async def sleep_async(self, seconds: float) -> None:
        """Wait, and let other tasks run."""
        ...


class SystemClock:
    """The computer's own clock. If a test freezes time (freezegun), `now` is frozen and `monotonic` is not."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def now(self) -> float:
        # Not time.time(): in threads, freezegun's is real or frozen, depending on the number of calls in between.
        return datetime.now(UTC).timestamp()

    # freezegun replaces it in modules, and not in classes: a deadline in frozen time never comes, or has passed.
    monotonic = staticmethod(time.monotonic)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        import anyio  # only for calls that really wait

        await anyio.sleep(seconds)
