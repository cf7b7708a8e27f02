"""When signals are published: what the market makes as time goes by, whoever looks and however often."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk_mock import MockClock, MockServerError
from tradesdk_mock.market.indicators import CHAINS, COLUMNS, crossover_series, past
from tradesdk_mock.market.price_model import prices
from tradesdk_mock.market.tokens import lively
from tradesdk_mock.state.world import World
from tradesdk_mock.trading import signal_feed

from ._signals import BASE, BNB, DAY, HOUR
from ._support import START

EVERY = f"SELECT seq, {', '.join(COLUMNS)} FROM signals ORDER BY seq"  # noqa: S608 - our own names


def world(seed: int = 7, **options: Any) -> World:
    return World(seed=seed, clock=MockClock(START), **options)


def published(at: World) -> list[Any]:
    signal_feed.catch_up(at)
    return at.store.all(EVERY)


def times(at: World, chain_id: int) -> list[float]:
    signal_feed.catch_up(at)
    rows = at.store.all("SELECT published_at FROM signals WHERE chain_id = ? ORDER BY seq", (chain_id,))
    return [found for (found,) in rows]


def market(after: float, upto: float) -> int:
    """How many signals both chains publish in a time."""
    return sum(len(crossover_series(prices(7), chain_id).between(after, upto)) for chain_id in CHAINS)


def test_a_week_before_the_world_was_made_and_a_denser_market_since() -> None:
    made = world()
    before = published(made)
    assert [row[1:] for row in before] == list(past(prices(7), START))
    assert all(START - 7 * DAY < row[1] <= START for row in before)
    made.clock.advance(HOUR)
    rows = published(made)
    assert rows[: len(before)] == before
    for chain_id in CHAINS:
        mine = [row[1:] for row in rows[len(before) :] if row[5] == chain_id]
        assert mine == crossover_series(prices(7), chain_id).between(START, START + HOUR)
        # In an hour a third of what there was in a week.
        assert len(mine) > sum(row[5] == chain_id for row in before) / 4
    assert [row[1] for row in rows] == sorted(row[1] for row in rows)
    assert [row[0] for row in rows] == list(range(1, len(rows) + 1))
    assert len({row[2] for row in rows}) == len(rows)


def test_all_lively_tokens_have_signals_at_the_price_of_their_market() -> None:
    made = world()
    made.clock.advance(2 * HOUR)
    rows = [dict(zip(COLUMNS, row[1:], strict=True)) for row in published(made)]
    for chain_id in CHAINS:
        for token in lively(7, chain_id):
            mine = [row for row in rows if row["token_address"] == token.address]
            assert sum(row["published_at"] > START for row in mine) >= 8
            for row in mine:
                assert (row["token_symbol"], row["chain_id"]) == (token.symbol, chain_id)
                assert row["timestamp"] == int(row["published_at"])
                assert row["price_usd"] == prices(7).usd(token, row["timestamp"])


@settings(max_examples=20, deadline=None)
@given(steps=st.lists(st.floats(0, 900), max_size=8), look=st.lists(st.booleans(), min_size=8, max_size=8))
def test_waiting_and_jumping_come_to_the_same(steps: list[float], look: list[bool]) -> None:
    waited, jumped = world(), world()
    for step, looks in zip(steps, look, strict=False):
        waited.clock.advance(step)
        if looks:
            signal_feed.catch_up(waited)
    jumped.clock.set(waited.clock.now())
    assert published(waited) == published(jumped)


def test_a_day_at_once_a_day_in_steps_and_a_day_of_two_processes(tmp_path: Path) -> None:
    at_once, stepped = world(), world()
    clock = MockClock(START)
    shared = [World(seed=7, db=tmp_path / "state.db", clock=clock) for _ in range(2)]
    at_once.clock.advance(DAY)
    for turn in range(96):
        stepped.clock.advance(DAY / 96)
        clock.advance(DAY / 96)
        signal_feed.catch_up(stepped)
        signal_feed.catch_up(shared[turn % 3 % 2])
    expected = published(at_once)
    assert published(stepped) == expected
    assert published(shared[0]) == published(shared[1]) == expected
    for each in shared:
        each.close()


def test_what_is_published_is_next_due_before() -> None:
    made = world()
    assert signal_feed.next_due(made) == min(crossover_series(prices(7), chain).next_after(START) for chain in CHAINS)
    signal_feed.catch_up(made)
    for _ in range(50):
        due = signal_feed.next_due(made)
        assert due < math.inf
        assert due > made.now()
        made.clock.set(due - 0.001)
        assert signal_feed.catch_up(made) == 0
        made.clock.set(due)
        assert signal_feed.catch_up(made) >= 1
        assert made.store.value("SELECT max(published_at) FROM signals") == due


def test_nothing_is_asked_of_the_store_while_nothing_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world()
    signal_feed.catch_up(made)
    monkeypatch.setattr(made, "store", None)
    assert signal_feed.catch_up(made) == 0
    assert signal_feed.next_due(made) < math.inf


def test_back_in_time_what_was_published_stays_and_nothing_comes_twice() -> None:
    made = world()
    made.clock.advance(HOUR)
    before = published(made)
    due = signal_feed.next_due(made)
    made.clock.set(START - DAY, allow_backwards=True)
    assert published(made) == before
    assert signal_feed.next_due(made) == due
    made.clock.set(START + HOUR)
    assert published(made) == before
    assert due < math.inf
    made.clock.set(due)
    assert len(published(made)) == len(before) + 1


def test_a_world_set_back_before_anyone_looked_begins_there() -> None:
    made = world()
    made.clock.set(START - 100 * DAY, allow_backwards=True)
    rows = published(made)
    assert len(rows) == len(past(prices(7), START - 100 * DAY)) > 1_500
    assert max(row[1] for row in rows) <= START - 100 * DAY
    assert rows == published(World(seed=7, clock=MockClock(START - 100 * DAY)))


def test_the_beginning_of_time() -> None:
    made = World(seed=7, clock=MockClock(0))
    assert published(made) == []
    made.set_gaps({"clock_skew": -600})
    assert published(made) == []
    made.set_gaps({"clock_skew": 0})
    made.clock.set(HOUR)
    assert times(made, BASE) == [row[0] for row in crossover_series(prices(7), BASE).between(0, HOUR)]
    assert len(times(made, BASE)) > 500


def test_of_a_long_jump_only_the_end_is_made_up_for() -> None:
    made = world(catch_up_limit=HOUR)
    signal_feed.catch_up(made)
    made.clock.advance(40 * DAY)
    assert signal_feed.catch_up(made) == market(made.now() - HOUR, made.now())
    assert min(at for at in times(made, BASE) if at > START) > made.now() - HOUR
    # In a world with another limit, the same signals of that hour.
    other = world(catch_up_limit=2 * HOUR)
    other.clock.advance(40 * DAY)
    assert [row[1:] for row in published(other)[-700:]] == [row[1:] for row in published(made)[-700:]]
    assert World(seed=7, clock=MockClock(START)).catch_up_limit == 31 * DAY


def test_speed_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Real:
        passed = 0.0

        def time(self) -> float:
            return START + self.passed

        monotonic = time

    real = Real()
    monkeypatch.setattr("tradesdk_mock.core.clock.time", real)
    made = World(seed=7, clock=MockClock())
    made.clock.move(speed=600)
    signal_feed.catch_up(made)
    due = signal_feed.next_due(made)
    assert due < math.inf
    wait = made.clock.real_seconds_until(due)
    assert wait is not None
    assert wait <= 0.01
    real.passed = 6
    assert signal_feed.catch_up(made) == market(START, START + HOUR)
    expected = world()
    expected.clock.advance(HOUR)
    assert published(made) == published(expected)


def test_a_scripted_market_has_a_past_and_nothing_more() -> None:
    made = world(market="scripted")
    assert signal_feed.next_due(made) == math.inf
    before = published(made)
    assert before == published(world())
    made.clock.advance(40 * DAY)
    assert signal_feed.next_due(made) == math.inf
    assert published(made) == before


def test_the_kind_of_market_is_kept_in_the_file(tmp_path: Path) -> None:
    path, clock = tmp_path / "state.db", MockClock(START)
    first = World(db=path, clock=clock, market="scripted")
    second = World(db=path, clock=clock)
    assert second.market == "scripted"
    before = published(first)
    clock.advance(HOUR)
    # From now on it makes its own; none for the hour in which it was off.
    third = World(db=path, clock=clock, market="live")
    assert published(third) == published(first) == before
    clock.advance(HOUR)
    assert published(second)[len(before) :] == third.store.all(f"{EVERY} LIMIT -1 OFFSET {len(before)}")
    assert len(published(first)) == len(before) + market(START + HOUR, START + 2 * HOUR)
    first.reset(seed=8)
    assert first.market == "live"
    assert published(first) == published(World(seed=8, clock=MockClock(START + 2 * HOUR)))
    for each in (first, second, third):
        each.close()
    with pytest.raises(MockServerError, match="'wild' is not a market"):
        World(market="wild")


def test_a_reset_begins_anew(tmp_path: Path) -> None:
    one, other = (World(db=tmp_path / "state.db", clock=MockClock(START)) for _ in range(2))
    one.clock.advance(DAY)
    before = published(one)
    one.reset()
    assert published(one) != before
    assert published(other) == published(one) == published(World(seed=7, clock=MockClock(START + DAY)))
    one.reset(seed=8)
    assert published(one)[0][2] != before[0][2]
    one.close()
    other.close()


def test_what_a_crash_undoes_is_published_again() -> None:
    made = world()
    signal_feed.catch_up(made)
    made.clock.advance(60)

    def crash() -> None:
        with made.transaction():
            assert signal_feed.catch_up(made) > 0
            raise RuntimeError("crash")

    with pytest.raises(RuntimeError, match="crash"):
        crash()
    expected = world()
    expected.clock.advance(60)
    assert published(made) == published(expected)


def test_places_in_the_row_of_signals() -> None:
    made = world()
    signal_feed.catch_up(made)
    last = signal_feed.last_seq(made)
    assert last == len(past(prices(7), START))
    assert signal_feed.newer(made, BASE, last, 10) == []
    made.clock.advance(60)
    signal_feed.catch_up(made)
    found = signal_feed.newer(made, BASE, last, 100)
    assert [at for _, at, _ in found] == [at for at in times(made, BASE) if at > START]
    assert [list(record) for _, _, record in found] == [list(signal_feed.FIELDS)] * len(found)
    assert {record["chain_id"] for _, _, record in found} == {BASE}
    assert signal_feed.newer(made, BASE, last, 3) == found[:3]
    assert signal_feed.newer(made, BASE, found[2][0], 100) == found[3:]
    assert {record["chain_id"] for _, _, record in signal_feed.newer(made, BNB, last, 100)} == {BNB}
    assert len(signal_feed.newer(made, BNB, 0, 10_000)) == len(times(made, BNB))
