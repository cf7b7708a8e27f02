"""A stream over real sockets on which everything goes wrong: each signal comes once, in the order of the service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tradesdk import StreamSignal, StreamStats
from tradesdk_mock import MockServer

from ._streamhouse import HISTORY, STREAM, Enough, Publisher, afollow, follow, key_of, server_of

pytestmark = pytest.mark.long

SIGNALS = 500
"""At least; more where many are published while the last faults have yet to come."""
OPTIONS: dict[str, Any] = {"settle": 0.1, "idle_timeout": 0.3}

AT_ONCE = {"X-RateLimit-Reset": ""}  # else a client waits for the end of the minute
# What happens to the connections in turn; each comes behind so many events.
CUTS: list[tuple[str, dict[str, Any]]] = [
    ("drop", {"how": "clean", "after": 25}),
    ("drop", {"how": "close", "after": 10}),
    ("drop", {"how": "reset", "after": 30}),
    ("half_event", {"at": "middle", "after": 20}),
    ("half_event", {"at": "character", "after": 25}),
    ("silence", {"after": 20}),
    ("status", {"status": 503, "retry_after": "", "headers": AT_ONCE}),
    ("reset", {}),
    ("half_event", {"how": "reset", "after": 15}),
    ("drop", {"how": "close", "after": 0}),
    ("status", {"status": 502}),
    ("silence", {"after": 30, "comments": 0.05}),
    ("drop", {"how": "reset", "after": 1}),
    ("bad_chunk", {"after": 4_000}),
    ("half_event", {"after": 40, "at": "character", "how": "reset"}),
]
REFUSALS: list[tuple[str, dict[str, Any]]] = [
    ("status", {"status": 503, "retry_after": "", "headers": AT_ONCE}),
    ("status", {"status": 429, "retry_after": "0", "headers": AT_ONCE}),
    ("reset", {}),
    ("truncate", {}),
    ("status", {"status": 503, "retry_after": "0", "headers": AT_ONCE}),
]


@pytest.fixture
def server() -> Iterator[MockServer]:
    with server_of(8, heartbeat=0) as running:
        for nth, (kind, parameters) in enumerate(CUTS, 1):
            running.add_fault(kind, route=STREAM, nth=nth, **parameters)
        for number, (kind, parameters) in enumerate(REFUSALS):
            running.add_fault(kind, route=HISTORY, nth=3 + 3 * number, **parameters)
        running.add_fault("duplicate", route=STREAM, share=0.05)
        running.add_fault("garbage", route=STREAM, share=0.2)
        yield running


def enough(server: MockServer) -> Enough:
    return lambda got: len(got) >= SIGNALS and all(rule.fired for rule in server.faults())


def judge(server: MockServer, publisher: Publisher, got: list[StreamSignal], stats: StreamStats) -> None:
    assert [rule for rule in server.faults() if not rule.fired] == []
    assert sum(rule.fired for rule in server.faults() if rule.nth is not None) == 20
    assert [signal.id for signal in got] == publisher.ids[: len(got)]
    assert not any(signal.late for signal in got)
    assert (stats.late, stats.gaps, stats.conflicts) == (0, 0, 0)
    assert 50 < sum(signal.replayed for signal in got) < len(got) - 50
    assert stats.duplicates > 5
    assert stats.invalid > 2


def test_five_hundred_signals(server: MockServer) -> None:
    publisher = Publisher(server, every=0.008)
    try:
        judge(server, publisher, *follow(server, enough(server), publisher.start, key=key_of(server), **OPTIONS))
    finally:
        publisher.stop()


@pytest.mark.long
async def test_five_hundred_signals_async(server: MockServer) -> None:
    publisher = Publisher(server, every=0.008)
    try:
        judge(server, publisher, *await afollow(server, enough(server), publisher.start, key=key_of(server), **OPTIONS))
    finally:
        publisher.stop()
