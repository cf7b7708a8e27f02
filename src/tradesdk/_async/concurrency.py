"""Semaphore, sleep, interruption and threads for async code. The blocking twin is written by hand."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, ParamSpec, TypeVar
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread
from anyio.lowlevel import checkpoint_if_cancelled, current_token

from .._system.clock import Clock
from .._system.forks import bind
from ..errors import TradeError

T = TypeVar("T")
P = ParamSpec("P")


class AsyncSemaphore:
    """A semaphore whose `acquire` waits for at most `timeout` seconds."""

    def __init__(self, value: int) -> None:
        self._inner = anyio.Semaphore(value)

    async def acquire(self, timeout: float | None) -> bool:
        """Acquire it. False if it was not free in time."""
        try:
            self._inner.acquire_nowait()  # `acquire` alone would always give control to the event loop
        except anyio.WouldBlock:
            with anyio.move_on_after(timeout):
                await self._inner.acquire()
                return True
            return False
        return True

    def release(self) -> None:
        self._inner.release()


async def connect(backend: Any, *where: Any) -> Any:
    """Open a connection to any of a host's addresses."""
    return await backend.connect_tcp(*where)


async def close_now(stream: Any) -> None:
    """Close a network stream, also in a scope that is canceled."""
    with anyio.CancelScope(shield=True):
        await stream.aclose()


def holds_bytes(tls: ssl.SSLObject) -> bool:
    """Whether TLS has bytes of an idle connection, or its end, that were read from the socket with what was wanted."""
    try:
        tls.read(1)
    except ssl.SSLWantReadError:
        return False
    except ssl.SSLError:
        pass
    return True


async def sleep(clock: Clock, seconds: float) -> None:
    await clock.sleep_async(seconds)


class Interrupted(Exception):
    """The `Interruptible` was closed."""


class AsyncInterruptible:
    """Runs one step at a time, and can interrupt it while it waits."""

    def __init__(self) -> None:
        self.shut = self.foreign = False
        bind(self)
        self._inside: anyio.CancelScope | None = None
        self._scope: Callable[[], anyio.CancelScope] | None = None

    async def run(self, step: Callable[[], Awaitable[T]]) -> T:
        """Run `step`. Raises `Interrupted` when this is closed meanwhile."""
        if self._inside is not None:
            raise TradeError("a stream has one consumer at a time, and another one is reading it")
        if self.shut:
            raise Interrupted
        if self._scope is None:  # creating an `anyio.CancelScope` looks up the event loop's library each time
            self._scope = type(anyio.CancelScope())
        with self._scope() as self._inside:
            try:
                return await step()
            finally:
                self._inside = None
        raise Interrupted

    async def sleep(self, clock: Clock, seconds: float) -> None:
        await clock.sleep_async(seconds)

    async def readable(self, descriptor: int, seconds: float) -> None:
        """Wait until a socket has something to read, at most `seconds` seconds; below 0: do not wait."""
        if descriptor >= 0:
            with anyio.move_on_after(seconds):
                await anyio.wait_readable(descriptor)

    def watch(self, reading: object) -> None:
        """Do nothing: closing cancels the step, whatever it reads from."""

    def forked(self) -> None:
        """Close it in a forked process: the connection belongs to the parent."""
        self.shut = self.foreign = True
        self._inside = None

    def close(self) -> bool:
        """Close it. False if a step is running: that step is interrupted."""
        self.shut = True
        if self._inside is None:
            return True
        self._inside.cancel()
        return False


class AsyncLoopBinding:
    """Binds connections to one event loop."""

    def __init__(self) -> None:
        self._loop: object = None

    def check(self) -> None:
        """Refuse a second event loop: connections cannot be moved."""
        try:
            loop: object = asyncio.get_running_loop()  # `current_token` would look up the event loop's library first
        except RuntimeError:
            loop = current_token()
        if self._loop is None:
            self._loop = loop
        elif self._loop != loop:
            raise TradeError("this client belongs to another event loop: make a client inside each asyncio.run()")


async def shielded(step: Callable[[], Coroutine[Any, Any, T]], canceled: list[BaseException]) -> T:
    """Run `step` to its end, even if canceled meanwhile, but not beyond the end of the event loop.

    A `task.cancel()` of asyncio is added to `canceled`; any other cancellation is raised by the next wait.
    """
    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        results: list[T] = []
        with anyio.CancelScope(shield=True):
            results.append(await step())
        return results[0]
    task = asyncio.create_task(step())  # cancel scopes do not shield from `task.cancel()`; a separate task does
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                canceled.append(error)
    return task.result()


async def run_to_completion(step: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run `step` to its end, even if canceled meanwhile; then raise the cancellation."""
    canceled: list[BaseException] = []
    try:
        return await shielded(step, canceled)
    finally:
        if canceled:
            raise canceled[0]


async def shielded_within(
    step: Callable[[], Coroutine[Any, Any, T]], seconds: float, canceled: list[BaseException]
) -> T:
    """As `shielded`. Raises `TimeoutError` if it takes longer than `seconds` seconds."""

    async def in_time() -> T:
        results: list[T] = []
        with anyio.fail_after(seconds):
            results.append(await step())
        return results[0]

    return await shielded(in_time, canceled)


async def note_cancellation(canceled: list[BaseException]) -> None:
    """Add the cancellation of a scope to `canceled`, if there is one, without waiting."""
    try:
        await checkpoint_if_cancelled()
    except BaseException as error:
        canceled.append(error)


class AsyncUnderWay:
    """Work in progress, which others can wait for."""

    def __init__(self) -> None:
        self._ends: set[anyio.Event] = set()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count the block as work in progress."""
        end = anyio.Event()
        self._ends.add(end)
        try:
            yield
        finally:
            self._ends.discard(end)
            end.set()

    async def over(self) -> None:
        """Wait until all work in progress has ended."""
        for end in tuple(self._ends):
            await end.wait()


async def in_thread(function: Callable[P, T], *args: P.args, **given: P.kwargs) -> T:
    """Call a blocking function in a thread, to its end even if canceled meanwhile; then raise the cancellation.

    The blocking twin calls it directly: `scripts/unasync.py` removes this and the next four functions.
    """
    await checkpoint_if_cancelled()
    return await always_in_thread(function, *args, **given)


async def always_in_thread(function: Callable[P, T], *args: P.args, **given: P.kwargs) -> T:
    """As `in_thread`, also if canceled before: for what must be written down."""
    return await run_to_completion(partial(anyio.to_thread.run_sync, partial(function, *args, **given)))


async def in_own_thread(function: Callable[P, T], *args: P.args, **given: P.kwargs) -> T:
    """As `always_in_thread`, in a thread beyond anyio's limit: the threads within it may all be busy for long."""
    return await run_to_completion(partial(_in_own_thread, partial(function, *args, **given)))


async def completed(blocks: bool, canceled: list[BaseException], function: Callable[..., T], *args: object) -> T:
    """As `in_thread_if`. A cancellation is not raised: a `task.cancel()` is added to `canceled`."""
    if not blocks:
        return function(*args)
    return await shielded(partial(_in_own_thread, partial(function, *args)), canceled)


async def _in_own_thread(step: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(step, limiter=anyio.CapacityLimiter(1))


async def in_thread_if(blocks: bool, function: Callable[P, T], *args: P.args, **given: P.kwargs) -> T:
    """As `in_own_thread` if `function` blocks; else call it here: a thread takes longer than a short function."""
    if blocks:
        return await in_own_thread(function, *args, **given)
    return function(*args, **given)


def require_asyncio(what: str) -> None:
    """Refuse an event loop other than asyncio's, such as trio's."""
    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        raise TradeError(f"{what} needs asyncio: run it with asyncio.run()")


@asynccontextmanager
async def repeated(
    step: Callable[[], object], every: float, failed: Callable[[], Awaitable[object]]
) -> AsyncIterator[None]:
    """Run `step` in a thread every `every` seconds, beside the block. An error calls `failed`, and is raised."""
    errors: list[Exception] = []

    async def run() -> None:
        try:
            while True:
                await asyncio.sleep(every)
                await always_in_thread(step)
        except Exception as error:
            errors.append(error)
            await failed()

    task = asyncio.create_task(run())
    try:
        yield
    finally:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
    for error in errors:
        raise error


class AsyncKeyedLock:
    def __init__(self) -> None:
        self._of: WeakValueDictionary[str, AsyncSemaphore] = WeakValueDictionary()

    def of(self, key: str) -> AsyncSemaphore:
        return self._of.get(key) or self._of.setdefault(key, AsyncSemaphore(1))
