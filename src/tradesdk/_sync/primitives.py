"""What waiting is made of. Its twin in `_async` is written by hand as well, because the two have nothing in common."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

from .._clock import Clock

T = TypeVar("T")


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


def in_thread(function: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
    """Run what blocks: nothing else waits for this thread."""
    return function()


def to_the_end(function: Callable[[], T]) -> T:
    """Run what blocks: a thread is not cancelled."""
    return function()


def surely(function: Callable[[], object]) -> None:
    """Run what blocks, once more when a signal interrupts it. Twice does no harm."""
    _, interrupted = _ended(function)
    if interrupted is not None:
        raise interrupted


def _ended(function: Callable[[], T]) -> tuple[T, BaseException | None]:
    try:
        return function(), None
    except Exception:
        raise
    except BaseException as interrupt:
        return function(), interrupt


class Turns:
    """One at a time for each key."""

    def __init__(self) -> None:
        # By process: in a forked one nobody would give those of the parent back.
        self._of: dict[int, tuple[threading.Lock, dict[str, tuple[threading.Lock, int]]]] = {}

    @contextmanager
    def of(self, key: str, timeout: float) -> Iterator[bool]:
        """The turn, or False when it did not come within `timeout` seconds."""
        guard, locks = self._of.setdefault(os.getpid(), (threading.Lock(), {}))
        with guard:
            lock, users = locks.get(key) or (threading.Lock(), 0)
            locks[key] = (lock, users + 1)
        try:
            mine = lock.acquire(timeout=min(max(timeout, 0.0), threading.TIMEOUT_MAX))
            try:
                yield mine
            finally:
                if mine:
                    lock.release()
        finally:
            with guard:
                lock, users = locks[key]
                if users == 1:
                    del locks[key]
                else:
                    locks[key] = (lock, users - 1)
