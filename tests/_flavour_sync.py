"""What tests of the two flavours do differently. Its twin in `_async` is written by hand as well."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Start all of them together, each in a thread; their results in order. The first error is raised."""
    with ThreadPoolExecutor(len(calls)) as threads:
        return [future.result() for future in [threads.submit(call) for call in calls]]


def until(event: threading.Event) -> None:
    """Wait for something that happens in a thread."""
    assert event.wait(60)


def soon(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Whether it holds before so many seconds are over."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True
