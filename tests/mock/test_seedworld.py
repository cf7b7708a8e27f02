"""The past of a tenant: made at once, and yet what its agents would have done on this market."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import defaultdict
from typing import Any

import pytest

from tradesdk_mock import MockClock
from tradesdk_mock.core.seeding import ident
from tradesdk_mock.market.tokens import Token, find, lively
from tradesdk_mock.state.world import World
from tradesdk_mock.trading import history, population
from tradesdk_mock.trading.background_tenant import BACKGROUND_TENANT
from tradesdk_mock.trading.balances import initial_native

from ._support import START

HOUR, DAY = 3_600, 86_400
TRADE = (
    "id",
    "agent_id",
    "wallet_id",
    "chain_id",
    "token_address",
    "token_symbol",
    "direction",
    "amount",
    "entry_price_usd",
    "exit_price_usd",
    "pnl_usd",
    "roi_pct",
    "status",
    "opened_at",
    "closed_at",
    "closed_by",
)
AGENT = (
    "id",
    "status",
    "chain_id",
    "wallet_id",
    "risk",
    "max_positions",
    "created_at",
    "closed",
    "won",
    "pnl",
    "since",
)
Record = dict[str, Any]
PROGRAM = """
from tradesdk_mock import MockClock
from tradesdk_mock.state.world import World
from tradesdk_mock.trading import population
world = World(seed=7, clock=MockClock(1_800_000_000), market="scripted")
population.populate(world, "main", trades=60)
print(world.store.all("SELECT * FROM trades ORDER BY seq"))
"""


def made(
    seed: int = 7, *, trades: int = 250, tenant: str = "main", after: float = 0, scenario: str | None = None
) -> World:
    """A world with a tenant that is filled some seconds after the scenario has begun. Nothing happens by itself."""
    world = World(seed=seed, clock=MockClock(START), market="scripted", scenario=scenario)
    world.clock.advance(after)
    population.populate(world, tenant, trades=trades)
    return world


def trades_of(world: World, tenant: str = "main") -> list[Record]:
    return world.store.records(TRADE, "trades WHERE tenant = ? ORDER BY seq", (tenant,))


def agents_of(world: World, tenant: str = "main") -> dict[str, Record]:
    rows = world.store.records(AGENT, "agents WHERE tenant = ? ORDER BY seq", (tenant,))
    return {row["id"]: {**row, "risk": json.loads(row["risk"])} for row in rows}


def token_of(world: World, row: Record) -> Token:
    token = find(world.seed, row["chain_id"], row["token_address"])
    assert token is not None
    return token


def levels(entry: float, risk: dict[str, float]) -> tuple[float, float, float]:
    """(stop loss, share that is left of the peak, take profit)"""
    return (
        entry * (1 - risk["stop_loss_pct"] / 100),
        1 - risk["trailing_stop_pct"] / 100,
        entry * (1 + risk["take_profit_pct"] / 100),
    )


def ended_by_its_rules(world: World, trade: Record, risk: dict[str, float]) -> None:
    """Hour by hour: nothing ended it before, and what is said to have ended it did."""
    token, entry = token_of(world, trade), trade["entry_price_usd"]
    stop, left, target = levels(entry, risk)
    peak = entry
    # Levels have six digits; nothing is said about prices that are as near to them as that.
    near = 1e-5
    for hour in range(trade["opened_at"] // HOUR + 1, trade["closed_at"] // HOUR + 1):
        price = world.prices.usd(token, hour * HOUR)
        floor = max(stop, peak * left)
        if hour * HOUR == trade["closed_at"] and trade["closed_by"] != "signal":
            if trade["closed_by"] == "take_profit":
                assert price >= target * (1 - near)
            else:
                assert price <= floor * (1 + near)
                assert trade["closed_by"] == ("stop_loss" if stop >= peak * left else "trailing_stop")
            return
        assert floor * (1 - near) < price < target * (1 + near), trade
        peak = max(peak, price)
    assert trade["closed_by"] == "signal"


def never_too_many(trades: list[Record], agents: dict[str, Record], now: int) -> int:
    """At no second has an agent more than it may have, or a token twice; the most that one had."""
    most = 0
    by_agent: dict[str, list[Record]] = defaultdict(list)
    for trade in trades:
        by_agent[trade["agent_id"]].append(trade)
    for agent_id, mine in by_agent.items():
        mine.sort(key=lambda trade: trade["opened_at"])
        held: list[Record] = []
        for trade in mine:
            held = [each for each in held if (each["closed_at"] or now + 1) > trade["opened_at"]]
            assert trade["token_address"] not in {each["token_address"] for each in held}
            held.append(trade)
            assert len(held) <= agents[agent_id]["max_positions"]
            most = max(most, len(held))
    return most


@pytest.mark.parametrize(
    ("seed", "trades", "options"),
    [
        (7, 250, {}),
        (1, 8, {}),
        (2, 9, {}),
        (3, 2_000, {}),
        (4, 250, {"scenario": "crash", "after": 5 * DAY + 1.7}),
        (5, 250, {"scenario": "whipsaw", "after": 3 * DAY}),
    ],
)
def test_the_rules_of_the_past(seed: int, trades: int, options: dict[str, Any]) -> None:
    world = made(seed, trades=trades, **options)
    now = world.second()
    rows, agents = trades_of(world), agents_of(world)
    assert len(rows) == trades
    assert [row["opened_at"] for row in rows] == sorted(row["opened_at"] for row in rows)
    opened = [row for row in rows if row["status"] == "open"]
    assert len(opened) == 8
    assert rows[-8:] == opened
    for row in rows:
        agent, token = agents[row["agent_id"]], token_of(world, row)
        assert (row["direction"], row["chain_id"]) == ("BUY", agent["chain_id"])
        assert row["wallet_id"] == agent["wallet_id"]
        assert row["token_symbol"] == token.symbol
        assert token in lively(seed, agent["chain_id"])
        assert row["entry_price_usd"] == world.prices.usd(token, row["opened_at"])
        assert agent["created_at"] < row["opened_at"] <= now
        if row["status"] == "closed":
            assert row["opened_at"] < row["closed_at"] < now
            assert row["exit_price_usd"] == world.prices.usd(token, row["closed_at"])
            move = row["exit_price_usd"] - row["entry_price_usd"]
            assert row["pnl_usd"] == pytest.approx(move * row["amount"], abs=0.00501)
            assert row["roi_pct"] == pytest.approx(100 * move / row["entry_price_usd"], abs=0.00501)
            ended_by_its_rules(world, row, agent["risk"])
    assert never_too_many(rows, agents, now) > (1 if trades > 100 else 0)
    if trades > 100:
        assert {row["closed_by"] for row in rows} >= {"signal", "trailing_stop", None}
        assert {row["agent_id"] for row in rows} == agents.keys(), "those that are idle now have a past"
    world.close()


@pytest.mark.parametrize("scenario", ["ordinary", "crash", "whipsaw"])
def test_open_trades_are_such_as_would_be_open_still(scenario: str) -> None:
    """Of agents that watch, second by second; the one whose agent is in error may be anywhere."""
    for after in (0, 2.1 * DAY, 2.2 * DAY):
        world = made(7, trades=8, after=after, scenario=scenario)
        now, agents = world.second(), agents_of(world)
        states: dict[str, int] = defaultdict(int)
        for row in trades_of(world):
            agent, token = agents[row["agent_id"]], token_of(world, row)
            states[agent["status"]] += 1
            if agent["status"] == "error":
                continue
            stop, left, target = levels(row["entry_price_usd"], agent["risk"])
            peak = row["entry_price_usd"]
            for second in range(row["opened_at"] + 1, now + 1):
                price = world.prices.usd(token, second)
                assert max(stop, peak * left) * (1 - 1e-5) < price < target * (1 + 1e-5)
                if second % 60 == 0:
                    peak = max(peak, price)
        assert states == {"active": 5, "paused": 2, "error": 1}
        for peak, peak_at, exits_at, opened_at, entry in world.store.all(
            "SELECT peak, peak_at, exits_at, opened_at, entry_price_usd FROM positions"
        ):
            assert (peak, peak_at, exits_at) == (entry, opened_at, None)
        world.close()


def test_sums_and_wallets_know_the_past() -> None:
    world = made(9, trades=1_500)
    rows, agents = trades_of(world), agents_of(world)
    for agent_id, agent in agents.items():
        closed = [row for row in rows if row["agent_id"] == agent_id and row["status"] == "closed"]
        assert agent["closed"] == len(closed)
        assert agent["won"] == sum(row["pnl_usd"] > 0 for row in closed)
        assert agent["pnl"] == pytest.approx(sum(row["pnl_usd"] for row in closed), abs=0.001)
    for wallet_id, chain_id, native in world.store.all("SELECT id, chain_id, native FROM wallets"):
        expected = initial_native(9, wallet_id, chain_id)
        for row in rows:
            if row["wallet_id"] == wallet_id:
                usd = world.prices.native_usd
                expected -= row["entry_price_usd"] * row["amount"] / usd(chain_id, row["opened_at"])
                if row["status"] == "closed":
                    expected += row["exit_price_usd"] * row["amount"] / usd(chain_id, row["closed_at"])
        assert native == pytest.approx(expected, rel=1e-9)
        assert 0 < native < 3 * initial_native(9, wallet_id, chain_id)
    assert world.store.value("SELECT sum(closed) FROM books") == 1_492
    world.close()


def test_what_is_spent_follows_from_the_wallet() -> None:
    """The percentage of what there is at that moment: what is out with other trades isn't there."""
    world = made(7)
    rows, agents = trades_of(world), agents_of(world)
    usd = world.prices.native_usd
    for row in rows[::25]:
        chain_id, at = row["chain_id"], row["opened_at"]
        native = initial_native(7, row["wallet_id"], chain_id)
        for other in rows:
            if other["wallet_id"] == row["wallet_id"] and rows.index(other) < rows.index(row):
                native -= other["entry_price_usd"] * other["amount"] / usd(chain_id, other["opened_at"])
                if other["closed_at"] is not None and other["closed_at"] <= at:
                    native += other["exit_price_usd"] * other["amount"] / usd(chain_id, other["closed_at"])
        share = agents[row["agent_id"]]["risk"]["position_size_pct"] / 100
        assert row["entry_price_usd"] * row["amount"] == pytest.approx(native * usd(chain_id, at) * share, rel=1e-6)
    world.close()


def test_ids_are_those_of_the_service() -> None:
    """However quickly they are made."""
    world = made(7, trades=40)
    assert [row["id"] for row in trades_of(world)] == [ident("trd", 7, "main", ordinal) for ordinal in range(1, 41)]
    world.close()


def test_agents_watch_from_the_moment_they_are_made() -> None:
    world = made(7, after=0.75)
    assert {agent["since"] for agent in agents_of(world).values()} == {START + 0.75}
    world.close()


def dump(world: World) -> list[Any]:
    tables = ("wallets", "agents", "trades", "positions", "books", "counters")
    return [world.store.all(f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in tables]  # noqa: S608 - our own names


def test_the_same_seed_is_the_same_past() -> None:
    first, second, other = made(7), made(7), made(8)
    assert dump(first) == dump(second)
    assert dump(first) != dump(other)
    # What another tenant has shifts nothing.
    third = World(seed=7, clock=MockClock(START), market="scripted")
    for tenant in ("else", "main"):
        population.populate(third, tenant)
    assert trades_of(third) == trades_of(first)
    assert [row["amount"] for row in trades_of(third, "else")] != [row["amount"] for row in trades_of(first)]
    for world in (first, second, other, third):
        world.close()


def test_the_same_past_in_another_process() -> None:
    world = made(7, trades=60)
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert found.strip() == str(world.store.all("SELECT * FROM trades ORDER BY seq"))
    world.close()


def test_more_than_is_written_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The past is written in parts, and no part leaves anything out."""
    whole = made(7, trades=300)
    for size in (1, 97, 146, 292):
        monkeypatch.setattr(history, "_AT_ONCE", size)
        parts = made(7, trades=300)
        assert dump(parts) == dump(whole)
        parts.close()
    whole.close()


def test_many_trades_crowd_together() -> None:
    """So many in so little time that they are short, and still no agent has more than it may. And quickly made."""
    before = time.process_time()
    world = made(7, trades=6_000)
    # A million take a minute. The bound is generous: a machine may be busy.
    assert time.process_time() - before < 6
    rows, agents = trades_of(world), agents_of(world)
    assert len({row["id"] for row in rows}) == 6_000
    assert never_too_many(rows, agents, START) > 5
    assert sum(row["closed_at"] - row["opened_at"] for row in rows if row["closed_at"]) / 6_000 < 3 * HOUR
    assert all(native > 0 for (native,) in world.store.all("SELECT native FROM wallets"))
    world.close()


def test_the_background_tenant_follows_the_same_rules() -> None:
    world = made(11, tenant=BACKGROUND_TENANT)
    rows, agents = trades_of(world, BACKGROUND_TENANT), agents_of(world, BACKGROUND_TENANT)
    assert never_too_many(rows, agents, START) >= 2
    for row in rows:
        token = token_of(world, row)
        assert row["entry_price_usd"] == world.prices.usd(token, row["opened_at"])
        if row["status"] == "closed":
            assert row["exit_price_usd"] == world.prices.usd(token, row["closed_at"])
            assert row["closed_at"] < START
    for row in rows[::7]:
        if row["status"] == "closed":
            ended_by_its_rules(world, row, agents[row["agent_id"]]["risk"])
    for agent in agents.values():
        mine = [row for row in rows if row["agent_id"] == agent["id"]]
        assert agent["closed"] == sum(row["status"] == "closed" for row in mine) > 0
    assert all(native > 0 for (native,) in world.store.all("SELECT native FROM wallets"))
    world.close()
