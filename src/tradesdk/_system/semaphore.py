"""Semaphores that are always released, even if a signal handler raises."""

from __future__ import annotations

from functools import partial
from queue import Empty, SimpleQueue
from threading import TIMEOUT_MAX, Lock
from weakref import WeakValueDictionary

from .forks import bind


class Semaphore:
    """A semaphore whose `acquire` waits for at most `timeout` seconds.

    A handler may raise after any call, but not within one in C, and not where a function returns. So it is certainly
    released if `try` directly follows `acquire`, and `finally` begins with `release`.
    """

    def __init__(self, value: int) -> None:
        self._free: SimpleQueue[None] = SimpleQueue()
        self.release = partial(self._free.put, None)
        for _ in range(value):
            self.release()

    def acquire(self, timeout: float | None = None) -> bool:
        """Acquire it. False if it was not free in time."""
        taken: list[None] = []
        try:  # taken, and marked as taken, in one call
            taken.extend(map(self._free.get, (True,), (None if timeout is None else min(timeout, TIMEOUT_MAX),)))
        except BaseException as error:
            if taken:
                self._free.put(None)
            elif isinstance(error, Empty):
                return False
            raise
        return True


class KeyedLock:
    """A lock for each key."""

    def __init__(self) -> None:
        bind(self)
        self.forked()

    def forked(self) -> None:
        """Start over in a forked process: the parent's locks would never be released."""
        self._guard = Lock()
        self._of: WeakValueDictionary[str, Semaphore] = WeakValueDictionary()

    def of(self, key: str) -> Semaphore:
        """The lock of a key."""
        with self._guard:
            return self._of.get(key) or self._of.setdefault(key, Semaphore(1))
