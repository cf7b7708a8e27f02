"""Trades and positions of a populated tenant: the right fields, nulls while open, and books that agree."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from eth_utils.address import is_checksum_address

from tradesdk_mock import MockServer, MockServerError, Populated
from tradesdk_mock.market.tokens import find

from ._support import START, client, error, ok, walk

TRADE = [
    "id",
    "agent_id",
    "token_address",
    "token_symbol",
    "chain_id",
    "direction",
    "entry_price_usd",
    "exit_price_usd",
    "pnl_usd",
    "roi_pct",
    "status",
    "opened_at",
    "closed_at",
]
POSITION = [
    *TRADE[:5],
    "entry_price_usd",
    "current_price_usd",
    "unrealized_pnl_usd",
    "stop_loss_price",
    "take_profit_price",
    "trailing_stop_price",
    "opened_at",
]


@pytest.fixture
def trades(rich: httpx.Client) -> list[dict[str, Any]]:
    return walk(rich, "/v1/trades", limit=100)


def test_the_list(trades: list[dict[str, Any]]) -> None:
    assert len(trades) == 250
    assert len({trade["id"] for trade in trades}) == 250
    assert [(-trade["opened_at"]) for trade in trades] == sorted(-trade["opened_at"] for trade in trades)
    assert {trade["direction"] for trade in trades} == {"BUY"}
    assert len({trade["token_symbol"] for trade in trades}) > 15
    for trade in trades:
        assert list(trade) == TRADE
        assert is_checksum_address(trade["token_address"])
        assert trade["chain_id"] in (8453, 56)
        assert isinstance(trade["entry_price_usd"], float)
        assert trade["entry_price_usd"] > 0
        assert trade["opened_at"] < START


def test_nulls_while_open_and_none_after(trades: list[dict[str, Any]]) -> None:
    ends = ("exit_price_usd", "pnl_usd", "roi_pct", "closed_at")
    opened = [trade for trade in trades if trade["status"] == "open"]
    assert len(opened) == 8
    for trade in opened:
        assert [trade[name] for name in ends] == [None] * 4
    for trade in trades:
        if trade["status"] != "open":
            assert trade["status"] == "closed"
            assert [type(trade[name]) for name in ends] == [float, float, float, int]
            assert trade["opened_at"] < trade["closed_at"] < START
            won = trade["exit_price_usd"] - trade["entry_price_usd"]
            assert won * trade["roi_pct"] >= 0
            assert trade["roi_pct"] == pytest.approx(100 * won / trade["entry_price_usd"], abs=0.00501)
            assert won * trade["pnl_usd"] >= 0


def test_one_trade_has_its_hashes(rich: httpx.Client, trades: list[dict[str, Any]]) -> None:
    closed = next(trade for trade in trades if trade["status"] == "closed")
    opened = next(trade for trade in trades if trade["status"] == "open")
    for trade in (closed, opened):
        detail = ok(rich.get(f"/v1/trades/{trade['id']}"))
        assert list(detail) == [*TRADE, "entry_tx_hash", "exit_tx_hash"]
        assert {name: detail[name] for name in TRADE} == trade
        assert re.fullmatch("0x[0-9a-f]{64}", detail["entry_tx_hash"])
        if trade is closed:
            assert re.fullmatch("0x[0-9a-f]{64}", detail["exit_tx_hash"])
            assert detail["exit_tx_hash"] != detail["entry_tx_hash"]
        else:
            assert detail["exit_tx_hash"] is None


def test_filters(rich: httpx.Client, trades: list[dict[str, Any]]) -> None:
    for status in ("open", "closed"):
        assert walk(rich, "/v1/trades", status=status, limit=100) == [t for t in trades if t["status"] == status]
    for agent in {trade["agent_id"] for trade in trades}:
        mine = [trade for trade in trades if trade["agent_id"] == agent]
        assert walk(rich, "/v1/trades", agent_id=agent, limit=7) == mine
        opened = [trade for trade in mine if trade["status"] == "open"]
        assert walk(rich, "/v1/trades", agent_id=agent, status="open", limit=1) == opened
    assert ok(rich.get("/v1/trades?agent_id=unknown")) == {"data": []}
    error(rich.get("/v1/trades?status=pending"), 422, "validation_error")
    error(rich.get("/v1/trades?status="), 400, "invalid_request")


def test_positions_are_the_open_trades(rich: httpx.Client, trades: list[dict[str, Any]]) -> None:
    positions = walk(rich, "/v1/positions", limit=3)
    shared = ("agent_id", "token_address", "token_symbol", "chain_id", "entry_price_usd", "opened_at")
    opened = [tuple(trade[name] for name in shared) for trade in trades if trade["status"] == "open"]
    assert [tuple(position[name] for name in shared) for position in positions] == opened
    states = {agent["id"]: agent["status"] for agent in walk(rich, "/v1/agents")}
    for position in positions:
        assert list(position) == POSITION
        assert states[position["agent_id"]] != "idle"
        if states[position["agent_id"]] != "error":
            assert position["stop_loss_price"] < position["current_price_usd"] < position["take_profit_price"]
            assert position["trailing_stop_price"] < position["current_price_usd"]
    agent = positions[0]["agent_id"]
    mine = [position for position in positions if position["agent_id"] == agent]
    assert walk(rich, "/v1/positions", agent_id=agent) == mine
    for agent_id in states:
        held = [position for position in positions if position["agent_id"] == agent_id]
        assert len(held) <= ok(rich.get(f"/v1/agents/{agent_id}"))["max_positions"]


def priced(service: MockServer, position: dict[str, Any], at: int) -> float:
    token = find(service.world.seed, position["chain_id"], position["token_address"])
    assert token is not None
    return service.world.prices.usd(token, at)


def test_positions_have_the_price_of_the_moment(server: MockServer, rich: httpx.Client) -> None:
    amounts: dict[str, float] = dict(server.world.store.all("SELECT id, amount FROM positions"))
    seen = []
    for seconds in (0, 0.4, 1, 13, 47):
        server.clock.advance(seconds)
        now = int(server.clock.now())
        positions = walk(rich, "/v1/positions", limit=3)
        seen.append(positions)
        for position in positions:
            price = priced(server, position, now)
            assert position["current_price_usd"] == price
            if position["id"] in amounts:
                made = (price - position["entry_price_usd"]) * amounts[position["id"]]
                assert position["unrealized_pnl_usd"] == pytest.approx(made, abs=0.00501)
    assert seen[0] == seen[1], "prices are those of a whole second"
    assert seen[1] != seen[2]


def test_only_a_running_agent_watches_the_peak(server: MockServer, rich: httpx.Client) -> None:
    """A trailing stop follows the full minutes since the entry, and stands still while nobody watches."""
    states = {agent["id"]: agent["status"] for agent in walk(rich, "/v1/agents")}
    risks = {agent_id: ok(rich.get(f"/v1/agents/{agent_id}"))["risk"] for agent_id in states}
    moved = {True: 0, False: 0}
    first = {position["id"]: position for position in walk(rich, "/v1/positions")}
    for minutes in (0, 1, 2, 7, 30):
        server.clock.advance(60 * minutes)
        now = int(server.clock.now())
        for position in walk(rich, "/v1/positions"):
            if position["id"] not in first:
                continue
            watched = states[position["agent_id"]] in ("active", "paused")
            since = position["opened_at"]
            minute_marks = range(since - since % 60 + 60, now + 1, 60)
            peak = position["entry_price_usd"]
            if watched:
                peak = max([peak, *(priced(server, position, mark) for mark in minute_marks)])
            stop = peak * (1 - risks[position["agent_id"]]["trailing_stop_pct"] / 100)
            assert position["trailing_stop_price"] == pytest.approx(stop, rel=1e-5)
            moved[watched] += position["trailing_stop_price"] != first[position["id"]]["trailing_stop_price"]
    assert moved[True] > 0
    assert moved[False] == 0


def test_new_fields_come_after_the_known_ones(server: MockServer, rich: httpx.Client) -> None:
    server.set_gaps(unknown_values="on")
    for position in ok(rich.get("/v1/positions"))["data"]:
        assert list(position)[: len(POSITION)] == POSITION
        assert len(position) == len(POSITION) + 1


def test_populating_twice_changes_nothing(server: MockServer, rich: httpx.Client) -> None:
    before = [rich.get(path).content for path in ("/v1/trades", "/v1/agents", "/v1/wallets", "/v1/positions")]
    server.clock.advance(0.5)
    assert server.populate("main") == Populated(wallets=2, agents=6, trades=250, positions=8)
    assert [rich.get(path).content for path in ("/v1/trades", "/v1/agents", "/v1/wallets", "/v1/positions")] == before


def test_populating_as_many_as_wanted(server: MockServer) -> None:
    assert server.populate("small", trades=8) == Populated(wallets=2, agents=6, trades=8, positions=8)
    assert server.populate("large", trades=1_000).trades == 1_000
    for trades in (7, -1, 10**9):
        with pytest.raises(MockServerError, match="trades must be"):
            server.populate("none", trades=trades)
    with pytest.raises(MockServerError, match="tenant name"):
        server.populate("no name")


def test_an_account_is_older_than_its_records(server: MockServer, rich: httpx.Client) -> None:
    created = ok(rich.get("/v1/account"))["created_at"]
    wallets = {wallet["id"]: wallet["created_at"] for wallet in walk(rich, "/v1/wallets")}
    agents = {agent["id"]: agent for agent in walk(rich, "/v1/agents")}
    assert all(created < moment for moment in wallets.values())
    assert all(wallets[agent["wallet_id"]] < agent["created_at"] for agent in agents.values())
    for trade in walk(rich, "/v1/trades", limit=100):
        assert agents[trade["agent_id"]]["created_at"] < trade["opened_at"]
        assert agents[trade["agent_id"]]["chain_id"] == trade["chain_id"]
    with client(server, "mock_full_new") as http:
        assert ok(http.get("/v1/account"))["created_at"] == START
