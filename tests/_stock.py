"""What a mock has built before it first shows data about trades: restoring it takes a tenth of building it."""

from __future__ import annotations

from functools import cache

from tradesdk_mock import MockClock, MockService


@cache
def stock(at: float | None = None) -> bytes:
    """A snapshot of a scripted market with its trades; `at`: the time at which its clock stands still."""
    clock = None if at is None else MockClock(at)
    with MockService(seed=7, clock=clock, signals="scripted") as made:
        made.populate("house")
        return made.snapshot()
