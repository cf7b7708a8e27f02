"""Signals that come later: at a time that somebody set, or soon after somebody opens a stream."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import pytest

from tradesdk_mock import MockClock, MockService
from tradesdk_mock.core.subscribers import Notifier
from tradesdk_mock.market.indicators import CHAINS, COLUMNS, crossover_series
from tradesdk_mock.market.price_model import prices
from tradesdk_mock.market.tokens import find, lively
from tradesdk_mock.state.world import World
from tradesdk_mock.trading import signal_feed

from ._signals import BASE, BNB, HOUR, before, emit, new, wire, world
from ._support import START


def test_a_scheduled_signal_comes_when_its_time_has_come_and_once() -> None:
    made = world()
    late, early = emit(made, at=START + 20), emit(made, at=START + 10.5)
    assert (late.published_at, early.published_at) == (START + 20, START + 10.5)
    assert (late.timestamp, early.timestamp) == (START + 20, START + 10)
    assert new(made) == []
    assert signal_feed.next_due(made) == START + 10.5
    made.clock.advance(10)
    assert new(made) == []
    made.clock.advance(0.5)
    assert new(made) == [wire(early)]
    assert signal_feed.next_due(made) == START + 20
    made.clock.advance(HOUR)
    assert new(made) == [wire(early), wire(late)]
    assert signal_feed.next_due(made) == math.inf
    made.clock.set(START, allow_backwards=True)
    made.clock.advance(HOUR)
    assert new(made) == [wire(early), wire(late)]


@pytest.mark.parametrize("at", [START, START - 60, START - 0.001])
def test_a_time_that_has_just_passed_is_now(at: float) -> None:
    made = world()
    signal = emit(made, at=at)
    assert (signal.published_at, signal.timestamp) == (START, START)
    assert new(made) == [wire(signal)]


def test_scheduled_and_market_signals_come_in_the_order_of_time() -> None:
    jumped, stepped, alone = world("live"), world("live"), world("live")
    for made in (jumped, stepped):
        for step in range(50, 0, -1):
            emit(made, at=START + 7.3 * step, chain_id=BNB if step % 2 else BASE)
    emitted = {signal.id for signal in (emit(jumped, at=START + 400), emit(stepped, at=START + 400))}
    assert len(emitted) == 1
    jumped.clock.advance(HOUR)
    alone.clock.advance(HOUR)
    for _ in range(600):
        stepped.clock.advance(6)
        signal_feed.catch_up(stepped)
    every = f"SELECT {', '.join(COLUMNS)} FROM signals WHERE seq > {before(alone)} ORDER BY seq"  # noqa: S608 - our own
    for made in (jumped, stepped, alone):
        signal_feed.catch_up(made)
    rows = jumped.store.all(every)
    assert rows == stepped.store.all(every)
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert [row for row in rows if row[9] != "Emitted on request."] == alone.store.all(every)
    assert len(rows) == 51 + sum(
        len(crossover_series(prices(7), chain).between(START, START + HOUR)) for chain in CHAINS
    )


def test_back_in_time_a_scheduled_signal_waits() -> None:
    made = world("live")
    signal = emit(made, at=START + 30)
    made.clock.set(START - HOUR, allow_backwards=True)
    assert signal_feed.next_due(made) == min(crossover_series(prices(7), chain).next_after(START) for chain in CHAINS)
    soon = emit(made, at=START - HOUR + 5)
    assert signal_feed.next_due(made) == START - HOUR + 5
    made.clock.advance(5)
    assert new(made) == [wire(soon)]
    made.clock.set(START + 30)
    assert signal.id in {record["id"] for record in new(made)}


def test_the_oldest_of_a_long_jump_are_left_out_but_nothing_that_was_scheduled() -> None:
    made = world("live", catch_up_limit=60)
    signal = emit(made, at=START + 5)
    made.clock.advance(HOUR)
    found = new(made)
    assert found[0] == wire(signal)
    assert len(found) == 1 + len(crossover_series(prices(7), BASE).between(START + HOUR - 60, START + HOUR))


def test_ordinals_of_a_prompted_signal_are_its_own() -> None:
    made, plain = world("live", first_within=0.5), world("live")
    for _ in range(5):
        signal_feed.prompt(made, BASE)
    assert emit(made) == emit(plain)


def test_several_processes_on_one_file_publish_each_once(tmp_path: Path) -> None:
    path, clock = tmp_path / "state.db", MockClock(START)
    worlds = [World(seed=7, db=path, clock=clock, market="scripted") for _ in range(3)]
    planned = [emit(worlds[turn % 3], at=START + 1 + turn) for turn in range(60)]
    ready = threading.Barrier(4)
    failed: list[BaseException] = []

    def follow(mine: World) -> None:
        try:
            for _ in range(60):
                ready.wait(timeout=30)
                signal_feed.catch_up(mine)
                ready.wait(timeout=30)
        except BaseException as error:  # a test that hangs says nothing
            failed.append(error)
            ready.abort()

    threads = [threading.Thread(target=follow, args=(each,)) for each in worlds]
    for thread in threads:
        thread.start()
    for _ in range(60):
        clock.advance(1)
        ready.wait(timeout=30)
        ready.wait(timeout=30)
    for thread in threads:
        thread.join()
    assert failed == []
    for each in worlds:
        assert new(each) == [wire(signal) for signal in planned]
        assert signal_feed.next_due(each) == math.inf
        each.close()


def test_another_process_learns_of_what_was_scheduled(tmp_path: Path) -> None:
    clock = MockClock(START)
    one, other = (World(seed=7, db=tmp_path / "state.db", clock=clock, market="scripted") for _ in range(2))
    for made in (one, other):
        signal_feed.catch_up(made)
        assert signal_feed.next_due(made) == math.inf
    signal = emit(one, at=START + 5)
    with other.transaction():
        assert signal_feed.next_due(other) == START + 5
    clock.advance(5)
    assert new(other) == [wire(signal)] == new(one)
    one.close()
    other.close()


def test_what_was_scheduled_outlives_the_process_but_not_a_reset(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    first = World(seed=7, db=path, clock=MockClock(START), market="scripted")
    signal = emit(first, at=START + 5)
    first.close()
    second = World(db=path, clock=MockClock(START))
    assert signal_feed.next_due(second) == START + 5
    second.clock.advance(5)
    assert new(second) == [wire(signal)]
    emit(second, at=START + HOUR)
    second.reset()
    assert signal_feed.next_due(second) == math.inf
    second.close()


def test_what_a_crash_undoes_is_not_due() -> None:
    made = world()

    def crash() -> None:
        with made.transaction():
            emit(made, at=START + 5)
            raise RuntimeError("crash")

    with pytest.raises(RuntimeError, match="crash"):
        crash()
    assert signal_feed.next_due(made) == math.inf
    assert emit(made) == emit(world())


def test_open_streams_are_told_of_it() -> None:
    made = world()
    before = made.subscribers.epoch
    notifier = Notifier()
    made.subscribers.join(notifier)
    for at in (None, START + 5):
        emit(made, at=at)
        assert notifier.take()
    assert not notifier.take()
    made.clock.advance(5)
    notifier.take()
    signal_feed.catch_up(made)
    assert notifier.take()
    assert made.subscribers.epoch == before


@pytest.mark.parametrize("chain_id", [BASE, BNB])
def test_whoever_opens_a_stream_has_a_signal_soon(chain_id: int) -> None:
    unpromised = world("live")
    assert signal_feed.prompt(unpromised, chain_id) is False
    made = world("live", first_within=2.0)
    seen = []
    for _ in range(30):
        came = signal_feed.prompt(made, chain_id)
        # One is enough for everybody.
        assert signal_feed.prompt(made, chain_id) is False
        place, opened = signal_feed.last_seq(made), made.now()
        made.clock.advance(2)
        signal_feed.catch_up(made)
        found = signal_feed.newer(made, chain_id, place, 10)
        assert found
        if came:
            assert opened + 1 <= found[0][1] <= opened + 2
            assert find(7, chain_id, found[0][2]["token_address"]) in lively(7, chain_id)
        seen.append((came, found))
        made.clock.advance(7.3)
    assert {came for came, _ in seen} == {True, False} if chain_id == BASE else any(came for came, _ in seen)


def test_a_scripted_market_promises_nothing() -> None:
    made = world(first_within=2.0)
    assert signal_feed.prompt(made, BASE) is False
    assert signal_feed.next_due(made) == math.inf


def test_a_long_jump_is_made_up_for_in_parts() -> None:
    """A server gives others their turn in between; what comes of it is the same."""
    found = []
    for parts in (False, True):
        with MockService(clock=MockClock(START)) as mock:
            signal_feed.catch_up(mock.world)
            mock.emit_signal(at=START + 40_000.5)
            mock.clock.advance(86_400)
            turns = 1
            if parts:
                while signal_feed.is_behind(mock.world, START + 86_400):
                    turns += 1
                assert turns > 2
            assert (signal_feed.catch_up(mock.world) == 0) is parts
            found.append(mock.world.store.all("SELECT * FROM signals ORDER BY seq"))
    assert found[0] == found[1]
    assert len(found[0]) > 17_000
