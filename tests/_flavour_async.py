"""What tests of the two flavours do differently. Its blocking twin is written by hand."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")


async def at_once(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Start all of them together; their results in order. The first error ends it."""
    results: dict[int, T] = {}

    async def run(place: int, call: Callable[[], Awaitable[T]]) -> None:
        results[place] = await call()

    async with anyio.create_task_group() as group:
        for place, call in enumerate(calls):
            group.start_soon(run, place, call)
    return [results[place] for place in range(len(calls))]


async def until(event: threading.Event) -> None:
    """Wait for something that happens in a thread."""
    assert await anyio.to_thread.run_sync(event.wait, 60)


async def soon(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Whether it holds before so many seconds are over."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        await anyio.sleep(0.005)
    return True
