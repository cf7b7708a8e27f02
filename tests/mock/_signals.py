"""What the tests of published signals share."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tradesdk_mock import MockClock, MockSignal
from tradesdk_mock.market.indicators import past_signals
from tradesdk_mock.state.world import World
from tradesdk_mock.trading import signal_feed

from ._support import START

BASE, BNB = 8453, 56
HOUR, DAY = 3_600, 86_400


def world(kind: str = "scripted", **options: Any) -> World:
    """A world of frozen time whose past has been published."""
    made = World(seed=7, clock=MockClock(START), market=kind, **options)
    signal_feed.catch_up(made)
    return made


def before(made: World) -> int:
    """How many signals a world had when it was made."""
    return len(past_signals(made.prices, made.created_at))


def wire(signal: MockSignal) -> dict[str, Any]:
    """The record that is sent."""
    found = asdict(signal)
    del found["published_at"]
    return found


def new(made: World, chain_id: int = BASE, after: int | None = None) -> list[dict[str, Any]]:
    """A chain's records after a place in the row of signals, by default after the world's past."""
    signal_feed.catch_up(made)
    place = before(made) if after is None else after
    return [record for _, _, record in signal_feed.newer(made, chain_id, place, 10_000)]
