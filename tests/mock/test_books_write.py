"""Sums of trades: after whatever happened they are what counting the trades again gives, however it was written."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk_mock import MockClock
from tradesdk_mock.core.seeding import ident, tx_hash
from tradesdk_mock.state.world import World
from tradesdk_mock.trading import ledger
from tradesdk_mock.trading.balances import initial_native
from tradesdk_mock.trading.ledger import Position, Trade

from ._support import START

CHAINS = {"wal_a": 8453, "wal_b": 8453, "wal_c": 56}
AGENTS = {"agt_1": "wal_a", "agt_2": "wal_a", "agt_3": "wal_b", "agt_4": "wal_c"}
TOKENS = ("0xAA", "0xBB", "0xCC")
SUMS = ("agents", "wallets", "books")


def made(seed: int = 7) -> World:
    """A world of four agents that share three wallets. Nothing happens by itself."""
    world = World(seed=seed, clock=MockClock(START), market="scripted")
    for wallet_id, chain_id in CHAINS.items():
        world.store.add(
            "wallets",
            id=wallet_id,
            tenant="main",
            address=wallet_id,
            chain_id=chain_id,
            label="",
            created_at=START,
            native=initial_native(seed, wallet_id, chain_id),
            moved_at=START,
        )
    for agent_id, wallet_id in AGENTS.items():
        world.store.add(
            "agents",
            id=agent_id,
            tenant="main",
            name=agent_id,
            status="idle",
            chain_id=CHAINS[wallet_id],
            wallet_id=wallet_id,
            risk="{}",
            min_confidence=0.5,
            max_positions=3,
            created_at=START,
            updated_at=START,
        )
    return world


@pytest.fixture
def world() -> Iterator[World]:
    world = made()
    yield world
    world.close()


def bought(ordinal: int, dice: Random, agent_id: str, token: str, at: int) -> Trade:
    wallet_id = AGENTS[agent_id]
    entry, amount = 10 ** dice.uniform(-9, 3), 10 ** dice.uniform(-3, 8)
    return Trade(
        ident("trd", 7, ordinal), "main", agent_id, wallet_id, CHAINS[wallet_id], token, "T", amount, entry, at, "sig_1"
    )


def sold(trade: Trade, dice: Random, at: int) -> Trade:
    trade.exit_price_usd = trade.entry_price_usd * dice.choice([dice.uniform(0.8, 1.2), 1.0, 1 + 1e-12, 1 - 1e-12])
    trade.pnl_usd, trade.roi_pct = ledger.outcome(trade.entry_price_usd, trade.exit_price_usd, trade.amount)
    trade.closed_at, trade.closed_by = at, dice.choice(["stop_loss", "trailing_stop", "take_profit", "signal"])
    return trade


def held(trade: Trade) -> Position:
    entry = trade.entry_price_usd
    return Position(f"pos_{trade.id}", trade, entry * 0.9, entry * 1.1, 2.0, entry, trade.opened_at)


def story(seed: int, steps: int) -> list[tuple[str, Trade]]:
    """What happens, in the order of time: no two events at once, and no agent holds a token twice."""
    dice, events = Random(seed), []
    open_trades: dict[tuple[str, str], Trade] = {}
    at = START
    for ordinal in range(steps):
        at += dice.randint(1, 4_000)
        key = dice.choice(list(AGENTS)), dice.choice(TOKENS)
        if key in open_trades:
            events.append(("close", sold(copy(open_trades.pop(key)), dice, at)))
        else:
            open_trades[key] = bought(ordinal, dice, *key, at)
            events.append(("open", open_trades[key]))
    return events


def play(world: World, events: list[tuple[str, Trade]], sizes: Random | None) -> None:
    """Write a story down, some events at a time; without `sizes` all of it at once."""
    start = 0
    kept: set[str] = set()
    while start < len(events):
        stop = len(events) if sizes is None else start + sizes.randint(1, 9)
        part = events[start:stop]
        over = {trade.id: trade for what, trade in part if what == "close"}
        opened = [over.get(trade.id, trade) for what, trade in part if what == "open"]
        ended = [trade for trade in over.values() if trade.id in kept]
        with world.store:
            ledger.write(
                world,
                opened=opened,
                positions=[held(trade) for trade in opened if trade.closed_at is None],
                ended=ended,
                gone=[f"pos_{trade.id}" for trade in ended],
            )
        kept |= {trade.id for trade in opened}
        start = stop


def all_of(world: World, *tables: str) -> list[Any]:
    return [world.store.all(f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in tables]  # noqa: S608 - our own names


def recount(world: World) -> None:
    """Every sum, from the trades alone."""
    store = world.store
    for agent_id, *sums in store.all("SELECT id, closed, won, pnl FROM agents"):
        closed, won, pnl = store.all(
            "SELECT count(*), coalesce(sum(pnl_usd > 0), 0), coalesce(sum(pnl_usd), 0.0) FROM trades"
            " WHERE agent_id = ? AND status = 'closed'",
            (agent_id,),
        )[0]
        assert sums == [closed, won, pytest.approx(pnl, abs=0.001)]
        assert sums[2] == round(sums[2], 2)
    rows = {tuple(row[:3]): row[3:] for row in store.all("SELECT * FROM books")}
    counted = {
        tuple(row[:3]): row[3:]
        for row in store.all(
            "SELECT chain_id, token_address, agent_id, sum(status = 'closed'), sum(coalesce(pnl_usd, 0) > 0),"
            " total(pnl_usd), total(CASE status WHEN 'closed' THEN entry_price_usd * amount END), total(amount),"
            " total(entry_price_usd * amount), total(CASE status WHEN 'closed' THEN amount END),"
            " total(exit_price_usd * amount) FROM trades GROUP BY chain_id, token_address, agent_id"
        )
    }
    assert rows.keys() == counted.keys()
    for key, row in rows.items():
        assert row == pytest.approx(counted[key], rel=1e-9, abs=0.001), key
    for wallet_id, chain_id, native, moved_at in store.all("SELECT id, chain_id, native, moved_at FROM wallets"):
        expected, last = initial_native(world.seed, wallet_id, chain_id), START
        gross = 1.0
        for amount, entry, opened_at, price, closed_at in store.all(
            "SELECT amount, entry_price_usd, opened_at, exit_price_usd, closed_at FROM trades WHERE wallet_id = ?",
            (wallet_id,),
        ):
            spent = entry * amount / world.prices.native_usd(chain_id, opened_at)
            expected, gross, last = expected - spent, gross + spent, max(last, opened_at)
            if closed_at is not None:
                back = price * amount / world.prices.native_usd(chain_id, closed_at)
                expected, gross, last = expected + back, gross + back, max(last, closed_at)
        assert native == pytest.approx(expected, abs=1e-12 * gross)
        assert moved_at == last
    open_ones = "SELECT id, agent_id, wallet_id, token_address, amount, entry_price_usd, opened_at FROM trades"
    assert store.all(
        "SELECT trade_id, agent_id, wallet_id, token_address, amount, entry_price_usd, opened_at FROM positions"
        " ORDER BY trade_id"
    ) == store.all(f"{open_ones} WHERE status = 'open' ORDER BY id")


@given(seed=st.integers(0, 10**9), steps=st.integers(1, 60))
@settings(max_examples=25, deadline=None)
def test_sums_are_what_a_recount_gives(seed: int, steps: int) -> None:
    world = made()
    play(world, story(seed, steps), Random(seed))
    recount(world)
    world.close()


@given(seed=st.integers(0, 10**9), steps=st.integers(2, 60))
@settings(max_examples=25, deadline=None)
def test_it_does_not_matter_how_much_is_written_at_a_time(seed: int, steps: int) -> None:
    """To the last bit: a day that is jumped over leaves the same world as one that is waited for."""
    events = story(seed, steps)
    found = []
    for sizes in (None, Random(seed), Random(seed + 1)):
        world = made()
        play(world, events, sizes)
        rows = all_of(world, *SUMS)
        columns = "id, status, exit_price_usd, pnl_usd, closed_at, exit_tx_hash, closed_by"
        found.append([*rows, world.store.all(f"SELECT {columns} FROM trades ORDER BY id")])  # noqa: S608 - our own names
        world.close()
    assert found[0] == found[1] == found[2]


def test_a_trade_from_its_opening_to_its_end(world: World) -> None:
    dice = Random(1)
    trade = bought(1, dice, "agt_1", "0xAA", START + 5)
    position = held(trade)
    columns = (
        "tenant, agent_id, wallet_id, chain_id, token_address, token_symbol, direction, amount, entry_price_usd,"
        " exit_price_usd, pnl_usd, roi_pct, status, opened_at, closed_at, entry_tx_hash, exit_tx_hash, signal_id,"
        " closed_by"
    )
    look = f"SELECT {columns} FROM trades WHERE id = ?"  # noqa: S608 - our own names
    begin = ("main", "agt_1", "wal_a", 8453, "0xAA", "T", "BUY", trade.amount, trade.entry_price_usd)
    with world.store:
        ledger.write(world, opened=[trade], positions=[position])
    entry_hash = tx_hash(7, "entry", trade.id)
    assert world.store.all(look, (trade.id,)) == [
        (*begin, None, None, None, "open", START + 5, None, entry_hash, None, "sig_1", None)
    ]
    position.peak, position.peak_at, position.exits_at, position.exit_by = 9.5, START + 60, START + 99, "stop_loss"
    with world.store:
        ledger.write(world, touched=[position])
    assert world.store.all("SELECT peak, peak_at, exits_at, exit_by FROM positions") == [
        (9.5, START + 60, START + 99, "stop_loss")
    ]
    sold(trade, dice, START + 99)
    with world.store:
        ledger.write(world, ended=[trade], gone=[position.id])
    assert world.store.all(look, (trade.id,)) == [
        (
            *begin,
            trade.exit_price_usd,
            trade.pnl_usd,
            trade.roi_pct,
            "closed",
            START + 5,
            START + 99,
            entry_hash,
            tx_hash(7, "exit", trade.id),
            "sig_1",
            trade.closed_by,
        )
    ]
    assert world.store.count("positions", "main") == 0
    assert world.store.value("SELECT moved_at FROM wallets WHERE id = 'wal_a'") == START + 99


def test_money_that_the_caller_has_counted_is_taken_over(world: World) -> None:
    trade = sold(bought(1, Random(1), "agt_1", "0xAA", START + 5), Random(2), START + 50)
    before = world.store.all("SELECT id, native FROM wallets WHERE id != 'wal_a' ORDER BY id")
    with world.store:
        ledger.write(world, opened=[trade], closed=[trade], native={"wal_a": 1.25})
    assert world.store.all("SELECT native, moved_at FROM wallets WHERE id = 'wal_a'") == [(1.25, START + 50)]
    assert world.store.all("SELECT id, native FROM wallets WHERE id != 'wal_a' ORDER BY id") == before


def test_nothing_is_nothing(world: World) -> None:
    before = all_of(world, *SUMS, "trades", "positions")
    with world.store:
        ledger.write(world)
    assert all_of(world, *SUMS, "trades", "positions") == before


def test_what_ends_has_an_end(world: World) -> None:
    trade = bought(1, Random(1), "agt_1", "0xAA", START)
    with pytest.raises(ValueError, match=f"{trade.id} has no end"), world.store:
        ledger.write(world, ended=[trade])


@pytest.mark.parametrize(
    ("entry", "price", "amount", "pnl", "roi"),
    [
        (2.0, 2.5, 10.0, 5.0, 25.0),
        (2.0, 1.0, 3.0, -3.0, -50.0),
        (1.0, 1.0, 5.0, 0.0, 0.0),
        (3.0, 2.9999999, 1, 0.0, 0.0),
    ],
)
def test_outcomes(entry: float, price: float, amount: float, pnl: float, roi: float) -> None:
    found = ledger.outcome(entry, price, amount)
    assert found == (pnl, roi)
    assert str(found[0])[0] != "-" or found[0] < 0, "no negative nothing"
