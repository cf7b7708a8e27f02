"""What waiting is made of. Its blocking twin is written by hand, because the two have nothing in common."""

from __future__ import annotations

import anyio

from .._clock import Clock


class AsyncSlots:
    """A number of places; `take` waits for a free one."""

    def __init__(self, places: int) -> None:
        self._free = anyio.Semaphore(places, max_value=places)

    async def take(self, timeout: float | None) -> bool:
        """Take a place; False when none became free within `timeout` seconds."""
        try:
            self._free.acquire_nowait()
        except anyio.WouldBlock:
            with anyio.move_on_after(timeout):
                await self._free.acquire()
                return True
            return False
        return True

    def give_back(self) -> None:
        self._free.release()


async def sleep(clock: Clock, seconds: float) -> None:
    await clock.sleep_async(seconds)
