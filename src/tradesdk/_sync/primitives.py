"""What waiting is made of. Its twin in `_async` is written by hand as well, because the two have nothing in common."""

from __future__ import annotations

import threading

from .._clock import Clock


class Slots:
    """A number of places; `take` waits for a free one."""

    def __init__(self, places: int) -> None:
        self._free = threading.BoundedSemaphore(places)

    def take(self, timeout: float | None) -> bool:
        """Take a place; False when none became free within `timeout` seconds."""
        return self._free.acquire(timeout=timeout)

    def give_back(self) -> None:
        self._free.release()


def sleep(clock: Clock, seconds: float) -> None:
    clock.sleep(seconds)
