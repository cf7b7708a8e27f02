"""Semaphore, sleep and interruption for blocking code. The twin in `_async` is also written by hand."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import zip_longest
from typing import Any, TypeVar

from .._http.transport_errors import transport_error
from .._system.clock import Clock, SystemClock
from .._system.forks import bind
from .._system.interrupts import failures
from .._system.semaphore import KeyedLock as KeyedLock
from .._system.semaphore import Semaphore as Semaphore
from .._system.sockets import cut_off
from ..errors import TradeError

T = TypeVar("T")
_SHARE = 0.25  # seconds; anyio tries the next address after as many
_SLICE = 0.2  # seconds; closing a socket in another thread would not end a `select`


def connect(backend: Any, host: str, port: int, timeout: float | None) -> Any:
    """Open a connection to a host, whichever of its addresses answers.

    An address may swallow what is sent to it: each gets 0.25 seconds, then twice as many, and so on.
    """
    import httpcore

    try:
        found = [(one[0], str(one[4][0])) for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except OSError as error:
        raise httpcore.ConnectError(str(error)) from error
    families = [[address for family, address in found if (family == found[0][0]) is first] for first in (True, False)]
    addresses = [address for pair in zip_longest(*families) for address in pair if address is not None]
    end = None if timeout is None else SystemClock.monotonic() + timeout
    share, failure = _SHARE, httpcore.ConnectError("the host has no address")
    while addresses:
        silent = []
        for address in addresses:
            left = None if end is None else end - SystemClock.monotonic()
            if left is not None and left <= 0:
                raise httpcore.ConnectTimeout("no address has answered")
            if len(addresses) > 1:
                left = share if left is None else min(left, share)
            try:
                return backend.connect_tcp(address, port, left)
            except (httpcore.ConnectTimeout, httpcore.ConnectError) as error:
                if not transport_error(error):  # a caller's time limit
                    raise
                if isinstance(error, httpcore.ConnectTimeout):
                    silent.append(address)
                else:
                    failure = error
        addresses, share = silent, 2 * share
    try:
        raise failure
    finally:
        del failure  # its traceback has this frame


def close_now(stream: Any) -> None:
    """Close a network stream."""
    stream.close()


def holds_bytes(tls: Any) -> bool:
    """Whether TLS has bytes of an idle connection: no, it reads what is wanted, and leaves the rest in the socket."""
    return False


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
        except failures(Exception):
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

    def readable(self, descriptor: int, seconds: float) -> None:
        """Wait until a socket has something to read, at most so many seconds; below 0: not at all."""
        if descriptor < 0:
            return
        end = SystemClock.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while (left := end - SystemClock.monotonic()) > 0:
                if self.shut:
                    raise Interrupted
                if selector.select(min(left, _SLICE)):
                    return

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
    def check(self) -> None:
        """Do nothing: there is no event loop."""


def run_to_completion(step: Callable[[], T]) -> T:
    """Run `step`: a thread is not canceled."""
    return step()


def require_asyncio(what: str) -> None:
    """Do nothing: there is no event loop."""


@contextmanager
def repeated(step: Callable[[], object], every: float, failed: Callable[[], object]) -> Iterator[None]:
    """Run a step every so many seconds beside the block. Its error ends the block by `failed`, and is raised."""
    over = threading.Event()
    errors: list[Exception] = []

    def run() -> None:
        try:
            while not over.wait(every):
                step()
        except Exception as error:
            errors.append(error)
            failed()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    for error in errors:
        raise error
