"""Publishes signals: those of the market when they are due, and those that a test emits.

Nothing publishes in the background: signals are published when a request, a stream or an operation needs them
(`publish`, in the caller's transaction). Each process on a state file may do it: because of the transaction, and the
time in the file (`signals_upto`), each signal is published once.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from ..core.errors import ApiError
from ..core.seeding import SeededRandom
from ..market import emitted_signals
from ..market.emitted_signals import EmitRequest, MockSignal
from ..market.indicators import CHAINS, COLUMNS, Row, crossover_series, past_signals
from ..market.price_model import Prices
from . import engine

if TYPE_CHECKING:
    from ..state.world import World

Record = dict[str, Any]
FIELDS = ("id", "token_address", "token_symbol", "chain_id", "direction", "confidence", "price_usd", "timestamp")
"""Fields of a signal on the wire."""
# Seconds of the market in memory at a time.
_WINDOW = 6 * 3_600
# The most that one request publishes: some seconds of work.
_LONGEST = 10 * 86_400
# Signals read at a time.
_AT_ONCE = 5_000
# Signals that a stream gets at a time.
_STREAM_BATCH = 500
_INTO = f"({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
_values = attrgetter("published_at", *FIELDS)
_log = logging.getLogger("tradesdk_mock")


def catch_up(world: World) -> int:
    """Run `publish` when no transaction is open. It begins none if nothing is due."""
    if _is_quiet(world, world.now()):
        return 0
    with world.transaction() as now:
        return publish(world, now)


def publish(world: World, now: float, *, most: float = math.inf) -> int:
    """Publish what is due, in the order of time. Returns the number of signals. Almost free if nothing is due.

    Within the caller's transaction, at its time. `most`: seconds of a live market to publish; the next call continues.
    """
    if _is_quiet(world, now):
        return 0
    upto, count = _published_until(world, now)
    start = max(upto, now - world.catch_up_limit) if world.market == "live" else now
    until = min(now, start + most)
    scheduled = deque[Row](
        world.store.all(
            f"SELECT {', '.join(COLUMNS)} FROM scheduled WHERE published_at <= ?"  # noqa: S608 - our own names
            " ORDER BY published_at, seq",
            (until,),
        )
    )
    planned, prices = bool(scheduled), world.prices
    trading = _engine(world)
    for rows, end in _in_order(prices, start, until, scheduled):
        world.store.run_many(f"INSERT INTO signals {_INTO}", rows)
        count += len(rows)
        trading.advance(rows, end, now)
    if planned:
        world.store.run("DELETE FROM scheduled WHERE published_at <= ?", (until,))
    upto = max(upto, until)
    trading.advance((), until, now)
    trading.flush()
    world.store.set_meta("signals_upto", repr(upto))
    world.due = _next(world, prices, upto)
    if count:
        world.notify_streams()
    return count


def _engine(world: World) -> engine.TradingEngine:
    """The world's trading engine, made when there is none."""
    found = world.trading
    if not isinstance(found, engine.TradingEngine):
        found = world.trading = engine.TradingEngine(world)
    return found


def _is_quiet(world: World, now: float) -> bool:
    """Whether nothing is due. False when that is unknown."""
    # Read once: other threads may change both while no transaction is open.
    due, trading = world.due, world.trading
    return due is not None and trading is not None and now < min(due, trading.next_exit)


def up_to_date(world: World, now: float, *, signals: bool = False) -> None:
    """Let agents trade up to now, within the caller's transaction. Without running agents, signals can wait.

    `signals`: publish the signals even so.

    Raises:
        ApiError: 503: ten days are published, and more is due.
    """
    if _is_quiet(world, now) or not (signals or not _engine(world).empty):
        return
    publish(world, now, most=_LONGEST)
    until = float(world.store.get_meta("signals_upto") or now)
    if until < now and not _is_quiet(world, now):
        reached, shown = (datetime.fromtimestamp(when, UTC).isoformat(" ", "seconds") for when in (until, now))
        _log.warning("catching up after a jump of the clock: signals until %s are published, it is %s", reached, shown)
        text = f"Signals are published until {reached}, and the clock shows {shown}; try again to continue."
        raise ApiError(503, "service_unavailable", text, [(b"retry-after", b"1")])


def replay(world: World, tenant: str, start: float) -> None:
    """Let a tenant's agents, created as of `start`, trade on the signals published since."""
    upto = world.store.get_meta("signals_upto")
    if upto is not None and float(upto) > start:
        trading, now, seq = engine.TradingEngine(world, " AND tenant = ?", tenant), world.now(), 0
        # In the order of `seq`, which is that of time: the time of publication has no index.
        columns = f"SELECT {', '.join(COLUMNS)}, seq FROM signals WHERE seq > ? ORDER BY seq LIMIT {_AT_ONCE}"  # noqa: S608 - our own names
        while rows := world.store.all(columns, (seq,)):
            trading.advance([row[:-1] for row in rows if row[0] > start], start, now)
            trading.flush()
            seq = rows[-1][-1]
        trading.advance((), min(float(upto), now), now)
        trading.flush()


def _published_until(world: World, now: float) -> tuple[float, int]:
    """(time up to which signals are published, number of new ones). The first call adds those of the days before."""
    kept = world.store.get_meta("signals_upto")
    if kept is not None:
        return float(kept), 0
    created_at = _created_at(world, now)
    world.set_created_at(created_at)
    engine.forget(world)
    rows = past_signals(world.prices, created_at)
    world.store.run_many(f"INSERT INTO signals {_INTO}", rows)
    return created_at, len(rows)


def _created_at(world: World, now: float) -> float:
    """When the world was made. If its clock was set back before any trade, it begins at the new time."""
    created_at = world.created_at
    return created_at if world.store.value("SELECT 1 FROM trades") else min(now, created_at)


def _in_order(prices: Prices, start: float, end: float, scheduled: deque[Row]) -> Iterator[tuple[list[Row], float]]:
    """(signals, end) for each window with start < time <= end: the market's and the scheduled ones."""
    while start < end:
        until = min(start + _WINDOW, end)
        rows = [row for chain_id in CHAINS for row in crossover_series(prices, chain_id).between(start, until)]
        while scheduled and scheduled[0][0] <= until:
            rows.append(scheduled.popleft())
        rows.sort(key=itemgetter(0))
        yield rows, until
        start = until
    if scheduled:
        yield list(scheduled), end


def _next(world: World, prices: Prices, upto: float) -> float:
    """When the next signal is published; infinity for never."""
    planned = world.store.value("SELECT min(published_at) FROM scheduled")
    times = [math.inf if planned is None else float(planned)]
    if world.market == "live":
        times += [crossover_series(prices, chain_id).next_after(upto) for chain_id in CHAINS]
    return min(times)


def next_due(world: World) -> float:
    """Service time at which the next signal is published; infinity in a scripted market with nothing scheduled."""
    due = world.due
    if due is None:
        with world.transaction() as now:
            kept = world.store.get_meta("signals_upto")
            due = _next(world, world.prices, _created_at(world, now) if kept is None else float(kept))
            if kept is not None:
                world.due = due
    return due


def schedule_first_signal(world: World, chain_id: int) -> bool:
    """For a new stream, schedule a signal within `world.first_within` seconds, unless one is due by then.

    Returns whether one was scheduled.
    """
    within = world.first_within
    if within is None or world.market != "live":
        return False
    with world.transaction() as now:
        upto = float(world.store.get_meta("signals_upto") or now)
        if crossover_series(world.prices, chain_id).next_after(upto) <= now + within:
            return False
        coming = "SELECT 1 FROM scheduled WHERE chain_id = ? AND published_at <= ?"
        if world.store.value(coming, (chain_id, now + within)):
            return False
        ordinal = world.store.next("", "prompt")
        soon = now + within * SeededRandom(world.seed, "prompt time", ordinal, draws=1).between(0.5, 1.0)
        _add(world, now, *emitted_signals.first_signal(world.prices, chain_id, ordinal, soon))
        return True


def emit(world: World, request: EmitRequest) -> MockSignal:
    """Publish a signal. Omitted fields follow from the seed and the number of signals emitted before.

    Raises:
        MockServerError: `at` is in the past.
    """
    with world.transaction() as now:
        publish(world, now)
        when = request.when(now)
        signal, green = emitted_signals.signal(world.prices, "emit", world.store.next("", "signal"), request, when)
        _add(world, now, signal, green)
        return signal


def _add(
    world: World,
    now: float,
    signal: MockSignal,
    green: int,
    reason: str = "Emitted on request.",
    short: float | None = None,
    long: float | None = None,
) -> None:
    """Publish a signal, or schedule it when it is later than now."""
    later = signal.published_at > now
    row = (*_values(signal), reason, short, long, 0, green)
    world.store.run(f"INSERT INTO {'scheduled' if later else 'signals'} {_INTO}", row)
    if later:
        if world.due is not None:
            world.due = min(world.due, signal.published_at)
    else:
        trading = _engine(world)
        trading.advance([row], signal.published_at, now)
        trading.flush()
    world.notify_streams()


def new_signals(world: World, chain_id: int, seq: int, now: float) -> tuple[list[tuple[int, Record]], int, float]:
    """A chain's signals after a `seq`. First, what is due is published.

    Returns:
        (seq, record) of each, oldest first, but not all if there are many; the `seq` up to which all have been read;
        when the next signal is published, infinity for never.
    """
    if next_due(world) <= now or world.store.is_behind():
        with world.transaction() as now:
            publish(world, now, most=_LONGEST)
    # Before the signals are read: nothing comes in between.
    last = last_seq(world)
    # NOT INDEXED: with the index of the chain, SQLite would sort all of its signals.
    rows = world.store.all(
        f"SELECT seq, {', '.join(FIELDS)} FROM signals NOT INDEXED WHERE seq > ? AND chain_id = ?"  # noqa: S608 - our own names
        f" ORDER BY seq LIMIT {_STREAM_BATCH}",
        (seq, chain_id),
    )
    signals: list[tuple[int, Record]] = [(number, dict(zip(FIELDS, wire, strict=True))) for number, *wire in rows]
    return signals, signals[-1][0] if signals else max(seq, last), next_due(world)


def last_seq(world: World) -> int:
    """The `seq` of the last published signal; 0 without one."""
    return int(world.store.value("SELECT max(seq) FROM signals") or 0)
