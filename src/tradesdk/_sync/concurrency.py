"""What waiting is made of. Its twin in `_async` is written by hand as well, because the two have nothing in common."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from queue import Empty, SimpleQueue
from typing import TypeVar
from weakref import ReferenceType, WeakValueDictionary

from .._system.clock import Clock, SystemClock
from .._system.forks import bind
from .._system.sockets import cut_off
from ..errors import TradeError

T = TypeVar("T")

_LOOK_AGAIN = 0.05  # seconds; a holder that is gone tells nobody


class Place:
    """A place among the connections, in a queue, among the creates under way. It is free once this is gone.

    For calls that a signal's handler may interrupt anywhere, even where they clean up.
    """

    __slots__ = ("__weakref__",)


class Semaphore:
    """A number of places; `take` waits for a free one.

    A signal's handler may raise between any two steps, and so before anything is given back. Therefore nothing here
    holds a lock, and the places taken are not counted: they are those whose holders are still alive.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._taken: set[ReferenceType[Place]] = set()
        self._freed: SimpleQueue[None] = SimpleQueue()  # for those who wait: look again

    def take(self, timeout: float | None, place: ReferenceType[Place]) -> bool:
        """Take a place; False when none became free within `timeout` seconds."""
        end = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            while len(self._taken) < self._places:
                self._taken.add(place)
                if len(self._taken) <= self._places:
                    return True
                self._taken.discard(place)  # two threads at once
            left = end - time.monotonic()
            try:
                self._freed.get(timeout=min(max(left, 0.0), _LOOK_AGAIN))
            except Empty:
                gone = [other for other in list(self._taken) if other() is None]
                self._taken.difference_update(gone)
                if left <= 0 and not gone:
                    return False

    def give_back(self, place: ReferenceType[Place]) -> None:
        """Let somebody else have it. Twice does no harm, nor without having taken it."""
        self._taken.discard(place)
        if self._freed.qsize() < self._places:
            self._freed.put(None)


def sleep(clock: Clock, seconds: float) -> None:
    clock.sleep(seconds)


class Interrupted(Exception):
    """Somebody has shut the gate behind which this waited."""


class Interruptible:
    """Lets one consumer in at a time, and can send it away from whatever it waits for."""

    def __init__(self) -> None:
        self.shut = self.foreign = False
        bind(self)
        self._inside = False
        # Both may be wanted by a signal's handler that interrupts this very thread: an Event would wait for itself.
        self._lock = threading.RLock()
        self._wake = threading.Lock()  # held until the gate is shut
        self._wake.acquire()
        self._reading: object = None

    def run(self, step: Callable[[], T]) -> T:
        """Do `step`. Raises `Interrupted` when the gate is shut meanwhile."""
        if self._inside:
            raise TradeError("a stream belongs to one consumer: another one is reading it")
        self._inside = True  # before looking at `shut`, as `close` does it the other way round
        try:
            if self.shut:
                raise Interrupted
            return step()
        except Exception:
            if self.shut:  # its connection was taken away
                raise Interrupted from None
            raise
        finally:
            self._inside = False

    def sleep(self, clock: Clock, seconds: float) -> None:
        if not isinstance(clock, SystemClock):
            clock.sleep(seconds)
        elif self._wake.acquire(timeout=min(seconds, threading.TIMEOUT_MAX)):
            self._wake.release()
            raise Interrupted

    def watch(self, reading: object) -> None:
        """What is read from here on: a connection, its network stream, or something with `close`; None: nothing."""
        with self._lock:
            self._reading = reading
            if not self.shut:
                return
        cut_off(reading)

    def forked(self) -> None:
        """What is read here belongs to the parent."""
        self.shut = self.foreign = True
        self._lock, self._reading, self._inside = threading.RLock(), None, False

    def close(self) -> bool:
        """Shut it. False when somebody is inside, who will see it."""
        with self._lock:
            first, self.shut = not self.shut, True
            reading, inside = self._reading, self._inside
        if first:
            with suppress(RuntimeError):  # a signal's handler was here in between
                self._wake.release()
        if inside:
            cut_off(reading)
        return not inside


class LoopBinding:
    """The process that connections belong to."""

    def __init__(self) -> None:
        self._process = os.getpid()

    def is_new(self) -> bool:
        """Whether this process was forked since this was made."""
        return os.getpid() != self._process


def shielded() -> AbstractContextManager[object]:
    """Nothing to shield from: a thread is not cancelled."""
    return nullcontext()


def run_to_completion(step: Callable[[], object]) -> None:
    """Clean up: a thread is not cancelled."""
    step()


def in_thread(function: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
    """Run what blocks: nothing else waits for this thread. When a signal keeps the result back, `undo` gets it."""
    results: list[T] = []
    try:
        results.append(function())
        return results[0]
    except BaseException:
        if results and undo is not None:
            undo(results[0])
        raise


def run_uninterrupted(function: Callable[[], T]) -> T:
    """Run what blocks, once more when a signal interrupts it. Twice does no harm."""
    result, interrupted = _ended(function)
    if interrupted is not None:
        raise interrupted
    return result


def _ended(function: Callable[[], T]) -> tuple[T, BaseException | None]:
    try:
        return function(), None
    except Exception:
        raise
    except BaseException as interrupt:
        return function(), interrupt


class KeyedLock:
    """One at a time for each key."""

    def __init__(self) -> None:
        # By process: in a forked one nobody would give those of the parent back.
        self._of: dict[int, tuple[threading.Lock, WeakValueDictionary[str, Semaphore]]] = {}

    def of(self, key: str) -> Semaphore:
        """The one place that there is for this key."""
        guard, turns = self._of.setdefault(os.getpid(), (threading.Lock(), WeakValueDictionary()))
        with guard:
            return turns.get(key) or turns.setdefault(key, Semaphore(1))
