"""When signals are published: what the market makes as time goes by, whoever looks and however often."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk_mock import MockClock, MockServerError, market, signals, slots
from tradesdk_mock.tokens import lively
from tradesdk_mock.world import World

from ._signals import BASE, BNB, DAY, HOUR
from ._support import START

EVERY = f"SELECT seq, {', '.join(slots.COLUMNS)} FROM signals ORDER BY seq"  # noqa: S608 - our own names


def world(seed: int = 7, **options: Any) -> World:
    return World(seed=seed, clock=MockClock(START), **options)


def published(at: World) -> list[Any]:
    signals.catch_up(at)
    return at.store.all(EVERY)


def times(at: World, chain_id: int) -> list[float]:
    signals.catch_up(at)
    rows = at.store.all("SELECT published_at FROM signals WHERE chain_id = ? ORDER BY seq", (chain_id,))
    return [found for (found,) in rows]


def test_four_days_before_the_world_was_made_and_a_denser_market_since() -> None:
    made = world()
    past = published(made)
    assert {chain: len(times(made, chain)) for chain in (BASE, BNB)} == {BASE: 2_400, BNB: 600}
    assert all(START - 4 * DAY < row[1] <= START for row in past)
    made.clock.advance(HOUR)
    rows = published(made)
    assert rows[: len(past)] == past
    assert {chain: len(times(made, chain)) for chain in (BASE, BNB)} == {BASE: 2_400 + 600, BNB: 600 + 150}
    assert [row[1] for row in rows] == sorted(row[1] for row in rows)
    assert [row[0] for row in rows] == list(range(1, len(rows) + 1))
    assert len({row[2] for row in rows}) == len(rows)


def test_one_signal_in_each_slot_and_each_of_the_tokens_in_turn() -> None:
    made = world()
    first = len(times(made, BASE))
    made.clock.advance(DAY)
    for chain_id, width in ((BASE, 6), (BNB, 24)):
        found = [at for at in times(made, chain_id) if at > START]
        assert [int(at // width) for at in found] == list(range(START // width, (START + DAY) // width))
        assert {int(at % width) for at in found} == set(range(width))  # anywhere in its slot
        symbols = Counter(
            symbol for (symbol,) in made.store.all("SELECT token_symbol FROM signals WHERE chain_id = ?", (chain_id,))
        )
        assert set(symbols) == {token.symbol for token in lively(7, chain_id)}
        assert max(symbols.values()) - min(symbols.values()) <= 2
    assert first == 2_400


def test_a_token_is_bought_and_sold_in_turn_at_the_price_of_its_market() -> None:
    made = world()
    made.clock.advance(3 * HOUR)
    signals.catch_up(made)
    for chain_id in (BASE, BNB):
        for token in lively(7, chain_id):
            rows = made.store.all(
                "SELECT direction, price_usd, timestamp, short_sma, long_sma, crossover, green_candles, reason,"
                " confidence, published_at FROM signals WHERE token_address = ? AND published_at > ? ORDER BY seq",
                (token.address, START),
            )
            assert len(rows) >= 20
            assert all(one[0] != other[0] for one, other in pairwise(rows))
            for direction, price, timestamp, short, long, crossover, green, reason, confidence, at in rows:
                closed = timestamp - timestamp % slots.CANDLE
                assert price == market.price_usd(7, token, closed)
                eth = market.price_eth(7, token, closed)
                assert 0.97 * eth < short < 1.03 * eth
                assert 0.97 * eth < long < 1.03 * eth
                assert (short < long) == (direction == "BUY")  # before the crossing
                assert ("above" in reason) == (direction == "BUY")
                assert crossover == 1
                assert green in (range(1, 8) if direction == "BUY" else range(2))
                assert 0.5 <= confidence <= 1
                assert timestamp == int(at)


@pytest.mark.parametrize("chain_id", [BASE, BNB])
@given(start=st.floats(0, 1e11), lengths=st.lists(st.floats(0, 400), min_size=1, max_size=6))
def test_pieces_of_time_give_what_the_whole_gives(chain_id: int, start: float, lengths: list[float]) -> None:
    market_of = slots.followed(7, chain_id)
    found, at = [], start
    for length in lengths:
        found += market_of.between(at, at + length)
        at += length
    assert found == market_of.between(start, at)
    assert all(start < row[0] <= at for row in found)
    assert market_of.between(at, at) == []
    following = market_of.next_after(start)
    assert following > start
    assert market_of.between(start, following)[-1][0] == following
    assert len(market_of.between(start, following)) == 1


@settings(max_examples=20, deadline=None)
@given(steps=st.lists(st.floats(0, 900), max_size=8), look=st.lists(st.booleans(), min_size=8, max_size=8))
def test_waiting_and_jumping_come_to_the_same(steps: list[float], look: list[bool]) -> None:
    waited, jumped = world(), world()
    for step, looks in zip(steps, look, strict=False):
        waited.clock.advance(step)
        if looks:
            signals.catch_up(waited)
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
        signals.catch_up(stepped)
        signals.catch_up(shared[turn % 3 % 2])
    expected = published(at_once)
    assert published(stepped) == expected
    assert published(shared[0]) == published(shared[1]) == expected
    for each in shared:
        each.close()


def test_what_is_published_is_next_due_before() -> None:
    made = world()
    assert signals.next_due(made) == min(slots.followed(7, chain).next_after(START) for chain in (BASE, BNB))
    signals.catch_up(made)
    for _ in range(50):
        due = signals.next_due(made)
        assert due is not None
        assert due > made.now()
        made.clock.set(due - 0.001)
        assert signals.catch_up(made) == 0
        made.clock.set(due)
        assert signals.catch_up(made) >= 1
        assert made.store.value("SELECT max(published_at) FROM signals") == due


def test_nothing_is_asked_of_the_store_while_nothing_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world()
    signals.catch_up(made)
    monkeypatch.setattr(made, "store", None)
    assert signals.catch_up(made) == 0
    assert signals.next_due(made) is not None


def test_back_in_time_what_was_published_stays_and_nothing_comes_twice() -> None:
    made = world()
    made.clock.advance(HOUR)
    before = published(made)
    due = signals.next_due(made)
    made.clock.set(START - DAY, allow_backwards=True)
    assert published(made) == before
    assert signals.next_due(made) == due
    made.clock.set(START + HOUR)
    assert published(made) == before
    assert due is not None
    made.clock.set(due)
    assert len(published(made)) == len(before) + 1


def test_a_world_set_back_before_anyone_looked_begins_there() -> None:
    made = world()
    made.clock.set(START - 100 * DAY, allow_backwards=True)
    rows = published(made)
    assert len(rows) == 3_000
    assert max(row[1] for row in rows) <= START - 100 * DAY
    assert rows == published(World(seed=7, clock=MockClock(START - 100 * DAY)))


def test_the_beginning_of_time() -> None:
    made = World(seed=7, clock=MockClock(0))
    assert published(made) == []
    made.set_gaps({"clock_skew": -600})
    assert published(made) == []
    made.set_gaps({"clock_skew": 0})
    made.clock.set(HOUR)
    assert len(times(made, BASE)) == 600
    assert min(times(made, BASE)) >= 0


def test_of_a_long_jump_only_the_end_is_made_up_for() -> None:
    made = world(catch_up_limit=HOUR)
    signals.catch_up(made)
    made.clock.advance(40 * DAY)
    assert signals.catch_up(made) == 600 + 150
    assert min(at for at in times(made, BASE) if at > START) > made.now() - HOUR
    # In a world with another limit, the same signals of that hour.
    other = world(catch_up_limit=2 * HOUR)
    other.clock.advance(40 * DAY)
    assert [row[1:] for row in published(other)[-750:]] == [row[1:] for row in published(made)[-750:]]
    assert World(seed=7, clock=MockClock(START)).catch_up_limit == 31 * DAY


def test_speed_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Real:
        passed = 0.0

        def time(self) -> float:
            return START + self.passed

        monotonic = time

    real = Real()
    monkeypatch.setattr("tradesdk_mock.clock.time", real)
    made = World(seed=7, clock=MockClock())
    made.clock.move(speed=600)
    signals.catch_up(made)
    due = signals.next_due(made)
    assert due is not None
    wait = made.clock.real_seconds_until(due)
    assert wait is not None
    assert wait <= 0.01
    real.passed = 6
    assert signals.catch_up(made) == 600 + 150
    expected = world()
    expected.clock.advance(HOUR)
    assert published(made) == published(expected)


def test_a_scripted_market_has_a_past_and_nothing_more() -> None:
    made = world(market="scripted")
    assert signals.next_due(made) is None
    past = published(made)
    assert past == published(world())
    made.clock.advance(40 * DAY)
    assert signals.next_due(made) is None
    assert published(made) == past


def test_the_kind_of_market_is_kept_in_the_file(tmp_path: Path) -> None:
    path, clock = tmp_path / "state.db", MockClock(START)
    first = World(db=path, clock=clock, market="scripted")
    second = World(db=path, clock=clock)
    assert second.market == "scripted"
    past = published(first)
    clock.advance(HOUR)
    # From now on it makes its own; none for the hour in which it was off.
    third = World(db=path, clock=clock, market="live")
    assert published(third) == published(first) == past
    clock.advance(HOUR)
    assert published(second)[len(past) :] == third.store.all(f"{EVERY} LIMIT -1 OFFSET {len(past)}")
    assert len(published(first)) == len(past) + 750
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
    signals.catch_up(made)
    made.clock.advance(60)

    def crash() -> None:
        with made.transaction():
            assert signals.catch_up(made) > 0
            raise RuntimeError("crash")

    with pytest.raises(RuntimeError, match="crash"):
        crash()
    expected = world()
    expected.clock.advance(60)
    assert published(made) == published(expected)


def test_places_in_the_row_of_signals() -> None:
    made = world()
    signals.catch_up(made)
    last = signals.last_seq(made)
    assert last == 3_000
    assert signals.newer(made, BASE, last, 10) == []
    made.clock.advance(60)
    signals.catch_up(made)
    found = signals.newer(made, BASE, last, 100)
    assert [at for _, at, _ in found] == [at for at in times(made, BASE) if at > START]
    assert [list(record) for _, _, record in found] == [list(signals.FIELDS)] * len(found)
    assert {record["chain_id"] for _, _, record in found} == {BASE}
    assert signals.newer(made, BASE, last, 3) == found[:3]
    assert signals.newer(made, BASE, found[2][0], 100) == found[3:]
    assert {record["chain_id"] for _, _, record in signals.newer(made, BNB, last, 100)} == {BNB}
    assert len(signals.newer(made, BNB, 0, 10_000)) == len(times(made, BNB))
