"""Ctrl-C, SIGTERM and SIGHUP: exit at once during startup, raise, or wait for the end of a step."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tradesdk_cli.errors import Interrupted

_STOPPING = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))


def end_at_once() -> None:
    """Until `raise_again`, Ctrl-C ends the process: an import could swallow or wrap an exception."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """Ends the startup: from now on Ctrl-C raises, and the command handles it."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def say_interrupted(interrupt: KeyboardInterrupt | None = None) -> int:
    """Prints a message, and returns the exit code. On a terminal the line already has ^C."""
    with contextlib.suppress(KeyboardInterrupt, OSError):
        print("\ninterrupted" if sys.stderr.isatty() else "interrupted", file=sys.stderr, flush=True)
    return Interrupted(interrupt).exit_code


def _end(number: int, frame: object) -> None:
    os._exit(say_interrupted())


class DeferInterrupt:
    """Defers Ctrl-C, SIGTERM and SIGHUP: they are raised only within `open`."""

    def __init__(self, noticed: Callable[[], object] = lambda: None) -> None:
        """`noticed` is called on a signal, before anything is raised."""
        self._noticed = noticed
        self._pending: StopRequested | None = None
        self._raises = True

    @contextmanager
    def open(self) -> Iterator[None]:
        """Inside, a signal is raised as `StopRequested` at once; a waiting one is raised here."""
        self._raises = True
        try:
            if self._pending is not None:
                raise self._pending
            yield
        finally:
            self._raises = False

    @contextmanager
    def shut(self) -> Iterator[None]:
        """Inside, a signal waits; it is raised at the end."""
        self._raises = False
        try:
            yield
        finally:
            self._raises = True
        if self._pending is not None:
            raise self._pending

    def over(self) -> None:
        """Signals no longer matter: the work is complete. A waiting one is dropped."""
        self._pending = None
        self._raises = True

    def handle(self, number: int) -> bool:
        """Handles a signal."""
        self._noticed()
        stop = StopRequested(number)
        if self._raises:
            raise stop
        self._pending = stop
        return False


@contextmanager
def deferring(noticed: Callable[[], object] = lambda: None) -> Iterator[DeferInterrupt]:
    """Inside, the first of these signals goes to the `DeferInterrupt`; the second ends the process at once."""
    deferral = DeferInterrupt(noticed)
    with on_signal(deferral.handle):
        yield deferral


class StopRequested(KeyboardInterrupt):
    """Ctrl-C, SIGTERM or SIGHUP; `number` is the signal."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def on_signal(handle: Callable[[int], bool]) -> Iterator[None]:
    """Inside, the first Ctrl-C, SIGTERM or SIGHUP calls `handle` with its number.

    If that returns True, the next one calls it again; else the next one ends the process at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can set handlers
        return
    numbers = [number for number in _STOPPING if signal.getsignal(number) is not signal.SIG_IGN]

    def handler(number: int, frame: Any) -> None:
        again = False
        try:
            again = handle(number)
        finally:
            if not again:
                for each in numbers:
                    signal.signal(each, signal.SIG_DFL)

    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, signal.SIG_DFL if was is None else was)  # None: a handler that Python did not set
