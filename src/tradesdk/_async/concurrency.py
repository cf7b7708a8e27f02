"""Semaphore, sleep, interruption and threads for async code. The blocking twin is written by hand."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, TypeVar, cast
from weakref import ReferenceType, WeakValueDictionary

import anyio
import anyio.to_thread
from anyio.lowlevel import current_token

from .._http import request
from .._system.clock import Clock
from .._system.forks import bind
from ..errors import TradeError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def argument_called(right: str, *, not_: str) -> Callable[[F], F]:
    """`request.argument_called` for a method; a coroutine function stays one."""

    def named(method: F) -> F:
        checked = request.argument_called(right, not_=not_)(method)

        @wraps(method)
        async def awaited(*args: Any, **given: Any) -> Any:
            return await checked(*args, **given)

        return cast(F, awaited) if iscoroutinefunction(method) else checked

    return named


class Place:
    """A held place: a connection slot, a lock, a create in progress. It is free once this object is gone.

    A weak reference stands for it, because a signal handler may interrupt even a call's clean-up.
    """

    __slots__ = ("__weakref__",)


class AsyncSemaphore:
    """A semaphore; `take` waits for a free place."""

    def __init__(self, places: int) -> None:
        self._free = anyio.Semaphore(places, max_value=places)
        self._taken: set[ReferenceType[Place]] = set()

    async def take(self, timeout: float | None, place: ReferenceType[Place]) -> bool:
        """Take a place; False when none became free within `timeout` seconds."""
        try:
            self._free.acquire_nowait()
        except anyio.WouldBlock:
            with anyio.move_on_after(timeout):
                await self._free.acquire()
                self._taken.add(place)
                return True
            return False
        self._taken.add(place)
        return True

    def give_back(self, place: ReferenceType[Place]) -> None:
        """Free a place. Does nothing if it is not taken."""
        if place in self._taken:
            self._taken.remove(place)
            self._free.release()


async def sleep(clock: Clock, seconds: float) -> None:
    await clock.sleep_async(seconds)


class Interrupted(Exception):
    """The `Interruptible` was closed."""


class AsyncInterruptible:
    """Runs one step at a time, and can interrupt it wherever it waits."""

    def __init__(self) -> None:
        self.shut = self.foreign = False
        bind(self)
        self._inside: anyio.CancelScope | None = None
        self._scope: Callable[[], anyio.CancelScope] | None = None

    async def run(self, step: Callable[[], Awaitable[T]]) -> T:
        """Do `step`. Raises `Interrupted` when this is closed meanwhile."""
        if self._inside is not None:
            raise TradeError("a stream has one consumer at a time, and another one is reading it")
        if self.shut:
            raise Interrupted
        if self._scope is None:  # `anyio.CancelScope` itself looks for the event loop's library every time
            self._scope = type(anyio.CancelScope())
        with self._scope() as self._inside:
            try:
                return await step()
            finally:
                self._inside = None
        raise Interrupted

    async def sleep(self, clock: Clock, seconds: float) -> None:
        await clock.sleep_async(seconds)

    def watch(self, reading: object) -> None:
        """Do nothing: closing cancels the step, whatever it reads from."""

    def forked(self) -> None:
        """Close it in a forked process: the connection belongs to the parent."""
        self.shut = self.foreign = True
        self._inside = None

    def close(self) -> bool:
        """Close it. False when a step is running: it is interrupted."""
        self.shut = True
        if self._inside is None:
            return True
        self._inside.cancel()
        return False


class AsyncLoopBinding:
    """Binds connections to one event loop."""

    def __init__(self) -> None:
        self._loop: object = None

    def is_new(self) -> bool:
        """Always False; a second event loop is refused, because connections cannot move."""
        loop = current_token()
        if self._loop is None:
            self._loop = loop
        elif self._loop != loop:
            raise TradeError("this client belongs to another event loop: make a client inside each asyncio.run()")
        return False


def shielded() -> AbstractContextManager[object]:
    """A scope for clean-up: nothing inside is canceled."""
    return anyio.CancelScope(shield=True)


async def run_to_completion(step: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Run `step` to its end, even when canceled meanwhile; then raise the cancellation."""
    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await step()
        return
    cancelled: BaseException | None = None
    task = asyncio.create_task(step())  # scopes do not shield from `task.cancel()`, a separate task does
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        raise cancelled from None if task.cancelled() else task.exception()
    task.result()


async def in_thread(function: Callable[[], T]) -> T:
    """Run a blocking function in a thread. It always runs to its end, even if the caller is canceled meanwhile."""
    return await anyio.to_thread.run_sync(function)


async def ledger_step(function: Callable[[], T]) -> T:
    """Run a step of the ledger in a thread, to its end even when canceled meanwhile; then raise the cancellation."""
    return await run_uninterrupted(function)


async def run_uninterrupted(function: Callable[[], T]) -> T:
    """Run a blocking function to its end, even when canceled meanwhile; then raise the cancellation.

    There is no await between the end of the function and the return.
    """
    result, cancelled = await _ended(function)
    if cancelled is not None:
        raise cancelled
    return result


async def _ended(function: Callable[[], T]) -> tuple[T, BaseException | None]:
    lock = threading.Lock()
    begun = False
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        nonlocal begun
        with lock:
            if begun:
                return
            begun = True
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    cancelled: BaseException | None = None
    with anyio.CancelScope(shield=True):
        while not results and not errors:
            try:
                # Scopes do not shield from `task.cancel()`. The thread continues, and the loop waits for it again.
                await anyio.to_thread.run_sync(run)
                if not results and not errors:
                    await anyio.sleep(0.002)
            except anyio.get_cancelled_exc_class() as error:
                cancelled = error
    if errors:
        raise errors[0]
    return results[0], cancelled


class AsyncKeyedLock:
    """A lock for each key."""

    def __init__(self) -> None:
        self._of: WeakValueDictionary[str, AsyncSemaphore] = WeakValueDictionary()

    def of(self, key: str) -> AsyncSemaphore:
        """The lock of a key."""
        return self._of.get(key) or self._of.setdefault(key, AsyncSemaphore(1))
