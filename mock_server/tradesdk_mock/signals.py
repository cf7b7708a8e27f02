"""Signals as they are published: those of the market when their time has come, and those that somebody emits."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from . import emission
from .emission import MockSignal, Wish
from .identity import Dice
from .slots import CHAINS, COLUMNS, Row, followed, past

if TYPE_CHECKING:
    from .world import World

__all__ = ["FIELDS", "MockSignal", "catch_up", "emit", "is_behind", "last_seq", "newer", "next_due", "prompt"]

FIELDS = ("id", "token_address", "token_symbol", "chain_id", "direction", "confidence", "price_usd", "timestamp")
"""What a signal is on the wire."""
# Seconds of the market that are held in memory at a time.
_WINDOW = 6 * 3_600
# Seconds of the market that are published at a time where others wait for their turn: some hundredths of a second.
SLICE = 2 * 3_600
_INTO = f"({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
_values = attrgetter("published_at", *FIELDS)


def catch_up(world: World, *, at_most: float = math.inf) -> int:
    """Publish what is due, in the order of time; how many that were. Costs next to nothing when nothing is.

    `at_most`: so many seconds of the market at a time; whoever asks again gets on.
    """
    if world.due is not None and world.now() < world.due:
        return 0
    with world.transaction():
        now = world.now()
        if world.due is not None and now < world.due:
            return 0
        upto, count = _begun(world, now)
        start = max(upto, now - world.catch_up_limit) if world.market == "live" else now
        now = min(now, start + at_most)
        scheduled = deque[Row](
            world.store.all(
                f"SELECT {', '.join(COLUMNS)} FROM scheduled WHERE published_at <= ?"  # noqa: S608 - our own names
                " ORDER BY published_at, seq",
                (now,),
            )
        )
        if scheduled:
            world.store.run("DELETE FROM scheduled WHERE published_at <= ?", (now,))
        for rows in _in_order(world.seed, start, now, scheduled):
            world.store.run_many(f"INSERT INTO signals {_INTO}", rows)
            count += len(rows)
        upto = max(upto, now)
        world.store.set_meta("signals_upto", repr(upto))
        world.due = _next(world, upto)
        if count:
            world.announce()
        return count


def is_behind(world: World, goal: float) -> bool:
    """Publish a slice of what is due; whether more of it was due at `goal`. Of a fast clock there is always more."""
    catch_up(world, at_most=SLICE)
    return world.due is not None and world.due <= min(goal, world.now())


def _begun(world: World, now: float) -> tuple[float, int]:
    """(time up to which there are signals, number of signals made): the first time, those of the days before."""
    kept = world.store.get_meta("signals_upto")
    if kept is not None:
        return float(kept), 0
    born = _born(world, now)
    world.store.set_meta("born", repr(born))
    rows = past(world.seed, born)
    world.store.run_many(f"INSERT INTO signals {_INTO}", rows)
    return born, len(rows)


def _born(world: World, now: float) -> float:
    """When the world was made. One that nobody has looked at before its clock was set back begins there."""
    return min(now, float(world.store.get_meta("born") or now))


def _in_order(seed: int, start: float, end: float, scheduled: deque[Row]) -> Iterator[list[Row]]:
    """The market's signals with start < time <= end and the scheduled ones, a window of time at a time."""
    while start < end:
        until = min(start + _WINDOW, end)
        rows = [row for chain_id in CHAINS for row in followed(seed, chain_id).between(start, until)]
        while scheduled and scheduled[0][0] <= until:
            rows.append(scheduled.popleft())
        rows.sort(key=itemgetter(0))
        yield rows
        start = until
    if scheduled:
        yield list(scheduled)


def _next(world: World, upto: float) -> float:
    """When the next signal comes; infinity for never."""
    planned = world.store.value("SELECT min(published_at) FROM scheduled")
    times = [math.inf if planned is None else float(planned)]
    if world.market == "live":
        times += [followed(world.seed, chain_id).next_after(upto) for chain_id in CHAINS]
    return min(times)


def next_due(world: World) -> float | None:
    """Service time at which the next signal is published; None in a scripted market with nothing scheduled."""
    due = world.due
    if due is None:
        with world.transaction():
            kept, now = world.store.get_meta("signals_upto"), world.now()
            due = _next(world, _born(world, now) if kept is None else float(kept))
            if kept is not None:
                world.due = due
    return None if due == math.inf else due


def prompt(world: World, chain_id: int) -> bool:
    """For whoever opens a stream: schedule a signal within `world.first_within` seconds, unless one is due by then.

    Whether one was scheduled.
    """
    within = world.first_within
    if within is None or world.market != "live":
        return False
    with world.transaction():
        catch_up(world)
        now = world.now()
        upto = float(world.store.get_meta("signals_upto") or now)
        if followed(world.seed, chain_id).next_after(upto) <= now + within:
            return False
        coming = "SELECT 1 FROM scheduled WHERE chain_id = ? AND published_at <= ?"
        if world.store.value(coming, (chain_id, now + within)):
            return False
        ordinal = world.store.next("", "prompt")
        soon = now + within * Dice(world.seed, "prompt time", ordinal, rolls=1).between(0.5, 1.0)
        _add(world, *emission.signal(world.seed, "prompt", ordinal, Wish(chain_id), soon))
        return True


def emit(
    world: World,
    *,
    chain_id: int = 8453,
    token: str | None = None,
    direction: str | None = None,
    confidence: float | None = None,
    price_usd: float | None = None,
    timestamp: int | None = None,
    at: float | None = None,
    asked: float | None = None,
) -> MockSignal:
    """Publish a signal. What is left out follows from the seed and how many were emitted before.

    Args:
        chain_id: 8453 or 56.
        token: symbol or address, in any case; one that the market doesn't have is made up.
        direction: `BUY` or `SELL`.
        confidence: 0.0 to 1.0.
        price_usd: USD for one token, above 0.
        timestamp: the date in the record, Unix seconds; any, also a wrong one. By default when it is published.
        at: when it is published, on the service's clock; without it, now.
        asked: since when the caller means `at`; by default now. A fast clock may have passed it meanwhile.

    Raises:
        ValueError: one of them can't be; the message begins with its name.
    """
    wish = Wish(chain_id, token, direction, confidence, price_usd, timestamp, at)
    with world.transaction():
        catch_up(world)
        now = world.now()
        when = wish.when(now, now if asked is None else min(asked, now))
        signal, green = emission.signal(world.seed, "emit", world.store.next("", "signal"), wish, when)
        _add(world, signal, green)
        return signal


def _add(world: World, signal: MockSignal, green: int) -> None:
    """Publish a signal, or keep it until its time comes."""
    later = signal.published_at > world.now()
    row = (*_values(signal), "Emitted on request.", None, None, 0, green)
    world.store.run(f"INSERT INTO {'scheduled' if later else 'signals'} {_INTO}", row)
    if later and world.due is not None:
        world.due = min(world.due, signal.published_at)
    world.announce()


def newer(world: World, chain_id: int, seq: int, limit: int) -> list[tuple[int, float, dict[str, Any]]]:
    """(seq, time of publication, what is sent) of a chain's signals after a place, oldest first; at most `limit`."""
    # In the order of the table itself: an index of the chain would have all of its signals sorted.
    rows = world.store.all(
        f"SELECT seq, published_at, {', '.join(FIELDS)} FROM signals NOT INDEXED"  # noqa: S608 - our own names
        " WHERE seq > ? AND chain_id = ? ORDER BY seq LIMIT ?",
        (seq, chain_id, limit),
    )
    return [(place, published_at, dict(zip(FIELDS, wire, strict=True))) for place, published_at, *wire in rows]


def last_seq(world: World) -> int:
    """The place of the signal that was published last, 0 without one."""
    return int(world.store.value("SELECT max(seq) FROM signals") or 0)
