"""What waiting is made of. Its blocking twin is written by hand, because the two have nothing in common."""

from __future__ import annotations

from contextlib import AbstractContextManager

import anyio
from anyio.lowlevel import current_token

from .._clock import Clock
from ..errors import TradeError


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


class AsyncHome:
    """The event loop that connections belong to."""

    def __init__(self) -> None:
        self._loop: object = None

    def is_new(self) -> bool:
        """False always; a second event loop is refused, because connections cannot move."""
        loop = current_token()
        if self._loop is None:
            self._loop = loop
        elif self._loop != loop:
            raise TradeError("this client belongs to another event loop: make one inside each asyncio.run()")
        return False


def shielded() -> AbstractContextManager[object]:
    """For cleaning up: what waits inside is not cancelled."""
    return anyio.CancelScope(shield=True)
