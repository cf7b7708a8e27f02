"""Trades and positions of a populated tenant. Rules: tests/contract/test_service_lists; sums: the ledger."""

from __future__ import annotations

import httpx
import pytest
from eth_utils.address import is_checksum_address

from tradesdk_mock import MockServerError, MockService, Populated

from ._http import START, client, ok, walk

LISTS = ("/v1/trades", "/v1/agents", "/v1/wallets", "/v1/positions")


def test_what_a_populated_tenant_has(server: MockService, rich: httpx.Client) -> None:
    trades, positions = (walk(rich, path, limit=100) for path in ("/v1/trades", "/v1/positions"))
    agents = {agent["id"]: agent for agent in walk(rich, "/v1/agents")}
    wallets = {wallet["id"]: wallet["created_at"] for wallet in walk(rich, "/v1/wallets")}
    created = ok(rich.get("/v1/account"))["created_at"]
    assert (len(trades), len(positions), len(agents), len(wallets)) == (250, 8, 6, 2)
    assert {agent["status"] for agent in agents.values()} == {"active", "idle", "paused", "error"}
    assert {trade["direction"] for trade in trades} == {"BUY"}
    assert len({trade["token_symbol"] for trade in trades}) > 15
    # Everything is younger than what it belongs to.
    assert all(created < moment for moment in wallets.values())
    assert all(wallets[agent["wallet_id"]] < agent["created_at"] for agent in agents.values())
    for trade in trades:
        assert is_checksum_address(trade["token_address"])
        assert agents[trade["agent_id"]]["created_at"] < trade["opened_at"] < START
        assert agents[trade["agent_id"]]["chain_id"] == trade["chain_id"]
    for position in positions:
        state = agents[position["agent_id"]]["status"]
        assert state != "idle"
        if state != "error":
            stop = max(position["stop_loss_price"], position["trailing_stop_price"])
            assert stop < position["current_price_usd"] < position["take_profit_price"]
    with client(server, "mock_full_new") as http:
        assert ok(http.get("/v1/account"))["created_at"] == START


def test_positions_have_the_price_of_the_whole_second(server: MockService, rich: httpx.Client) -> None:
    seen = []
    for seconds in (0, 0.4, 1):
        server.clock.advance(seconds)
        seen.append(walk(rich, "/v1/positions", limit=3))
    assert seen[0] == seen[1]
    assert seen[1] != seen[2]


def test_populating_twice_changes_nothing(server: MockService, rich: httpx.Client) -> None:
    before = [rich.get(path).content for path in LISTS]
    server.clock.advance(0.5)
    assert server.populate("main") == Populated(wallets=2, agents=6, trades=250, positions=8)
    assert [rich.get(path).content for path in LISTS] == before


def test_populating_as_many_as_wanted(server: MockService) -> None:
    assert server.populate("small", trades=8) == Populated(wallets=2, agents=6, trades=8, positions=8)
    assert server.populate("large", trades=300).trades == 300
    for trades in (7, -1, 10**9):
        with pytest.raises(MockServerError, match="trades must be"):
            server.populate("none", trades=trades)
    with pytest.raises(MockServerError, match="tenant name"):
        server.populate("no name")
