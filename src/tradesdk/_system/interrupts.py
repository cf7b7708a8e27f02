"""Exceptions that a signal handler raised in other code."""

from __future__ import annotations

import contextlib
import sys
from traceback import walk_tb
from types import TracebackType
from typing import TypeVar

E = TypeVar("E", bound=BaseException)


def raised_by_handler(error: BaseException | None) -> bool:
    """Whether a signal handler raised it: then it is the caller's, and the interrupted code has not failed.

    Only a handler is called with the frame that it interrupted.
    """
    for frame, _ in walk_tb(None if error is None else error.__traceback__):
        for value in frame.f_locals.values() if frame.f_back is not None else ():
            if any(each is frame.f_back for each in (value if type(value) is tuple else (value,))):
                return True
    return False


def failures(*kinds: type[E]) -> tuple[type[E], ...]:
    """For `except`: errors of these kinds, except those of a signal handler, such as a caller's time limit."""
    return () if raised_by_handler(sys.exc_info()[1]) else kinds


class suppress(contextlib.suppress):  # named like the one that it replaces
    """As contextlib's, except for errors of a signal handler."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return not raised_by_handler(error) and super().__exit__(kind, error, trace)
