"""What waiting is made of. Its twin in `_async` is written by hand as well, because the two have nothing in common."""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager, nullcontext

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


class Home:
    """The process that connections belong to."""

    def __init__(self) -> None:
        self._process = os.getpid()

    def is_new(self) -> bool:
        """Whether this process was forked since the last time."""
        process = os.getpid()
        new = process != self._process
        self._process = process
        return new


def shielded() -> AbstractContextManager[object]:
    """Nothing to shield from: a thread is not cancelled."""
    return nullcontext()
