"""Semaphore, sleep and interruption for blocking code. The twin in `_async` is also written by hand."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar
from weakref import ReferenceType, WeakValueDictionary

from .._http import request
from .._system.clock import Clock, SystemClock
from .._system.forks import bind
from .._system.sockets import cut_off
from ..errors import TradeError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def argument_called(right: str, *, not_: str) -> Callable[[F], F]:
    """`request.argument_called`: a blocking method is an ordinary function."""
    return request.argument_called(right, not_=not_)


_LOOK_AGAIN = 0.05  # seconds; there is no notice when a holder is gone


class Place:
    """A held place: a connection slot, a lock, a create in progress. It is free once this object is gone.

    A weak reference stands for it, because a signal handler may interrupt even a call's clean-up.
    """

    __slots__ = ("__weakref__",)


class Semaphore:
    """A semaphore; `take` waits for a free place.

    A signal handler may raise between any two steps, so a place may never be given back. Therefore nothing here holds a
    lock, and there is no counter: a place is taken while its holder is alive.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._taken: set[ReferenceType[Place]] = set()
        self._freed: SimpleQueue[None] = SimpleQueue()  # wakes waiting threads

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
        """Free a place. Does nothing if it is not taken."""
        self._taken.discard(place)
        if self._freed.qsize() < self._places:
            self._freed.put(None)


def sleep(clock: Clock, seconds: float) -> None:
    clock.sleep(seconds)


class Interrupted(Exception):
    """The `Interruptible` was closed."""


class Interruptible:
    """Runs one step at a time, and can interrupt it wherever it waits."""

    def __init__(self) -> None:
        self.shut = self.foreign = False
        bind(self)
        self._inside = False
        # A signal handler in this same thread may need both: an Event would deadlock.
        self._lock = threading.RLock()
        self._wake = threading.Lock()  # held until this is closed
        self._wake.acquire()
        self._reading: object = None

    def run(self, step: Callable[[], T]) -> T:
        """Do `step`. Raises `Interrupted` when this is closed meanwhile."""
        if self._inside:
            raise TradeError("a stream has one consumer at a time, and another one is reading it")
        self._inside = True  # before reading `shut`: `close` does both in the other order
        try:
            if self.shut:
                raise Interrupted
            return step()
        except Exception:
            if self.shut:  # `close` cut off its connection
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
        """Set what `close` cuts off: a connection, a network stream or anything with `close`; None for nothing."""
        with self._lock:
            self._reading = reading
            if not self.shut:
                return
        cut_off(reading)

    def forked(self) -> None:
        """Close it in a forked process: the connection belongs to the parent."""
        self.shut = self.foreign = True
        self._lock, self._reading, self._inside = threading.RLock(), None, False

    def close(self) -> bool:
        """Close it. False when a step is running: it is interrupted."""
        with self._lock:
            first, self.shut = not self.shut, True
            reading, inside = self._reading, self._inside
        if first:
            with suppress(RuntimeError):  # a signal handler has closed it in between
                self._wake.release()
        if inside:
            cut_off(reading)
        return not inside


class LoopBinding:
    """Binds connections to one process."""

    def __init__(self) -> None:
        self._process = os.getpid()

    def is_new(self) -> bool:
        """Whether this process was forked since this was made."""
        return os.getpid() != self._process


def shielded() -> AbstractContextManager[object]:
    """Do nothing: a thread is not canceled."""
    return nullcontext()


def run_to_completion(step: Callable[[], object]) -> None:
    """Run `step`: a thread is not canceled."""
    step()


def in_thread(function: Callable[[], T]) -> T:
    """Run a blocking function."""
    return function()


def ledger_step(function: Callable[[], T]) -> T:
    """Run a step of the ledger. If a signal interrupts it, it is done or not done."""
    return function()


def run_uninterrupted(function: Callable[[], T]) -> T:
    """Run a blocking function, and again when a signal interrupts it. It must be safe to run twice."""
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
    """A lock for each key."""

    def __init__(self) -> None:
        # By process: in a forked process the parent's locks would never be released.
        self._of: dict[int, tuple[threading.Lock, WeakValueDictionary[str, Semaphore]]] = {}

    def of(self, key: str) -> Semaphore:
        """The lock of a key."""
        guard, turns = self._of.setdefault(os.getpid(), (threading.Lock(), WeakValueDictionary()))
        with guard:
            return turns.get(key) or turns.setdefault(key, Semaphore(1))
