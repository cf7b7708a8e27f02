"""Ctrl-C while the program starts: nothing is done yet, so the process ends at once."""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from tradesdk_cli.errors import INTERRUPTED


def end_at_once() -> None:
    """Until `raise_again`, Ctrl-C ends the process: what is being imported could swallow or wrap an exception."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """A command runs from now on, and decides itself what Ctrl-C does."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def say_interrupted() -> int:
    """Says so, and returns the exit code. On a terminal the line already holds ^C."""
    with contextlib.suppress(KeyboardInterrupt, OSError):
        print("\ninterrupted" if sys.stderr.isatty() else "interrupted", file=sys.stderr, flush=True)
    return INTERRUPTED


def _end(number: int, frame: object) -> None:
    os._exit(say_interrupted())
