"""The tenant that trades in the background: market data is mostly about it. The sums themselves: test_ledger."""

from __future__ import annotations

import time
from typing import Any

import pytest

from .._pace import pace
from ._buyer import Shop, open_shop
from ._http import START

pytestmark = pytest.mark.long

DAY = 86_400


@pytest.fixture(scope="module")
def shop() -> Shop:
    """Nothing here changes it."""
    return open_shop()


def listed(shop: Shop, tenant: str, path: str) -> list[dict[str, Any]]:
    """A whole list of the account API, of both chains."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = shop.account(f"{path}?limit=100{cursor}", tenant)
        found += page["data"]
        if "next_cursor" not in page:
            return found
        cursor = f"&cursor={page['next_cursor']}"


def test_other_tenants_and_the_other_chain() -> None:
    """Everybody on Base counts, nobody on BNB does; an agent that is stopped is not active."""
    shop = open_shop()
    before = shop.post("aggregate-metrics", {}).data
    shop.populate("bot")
    after = shop.post("aggregate-metrics", {}).data
    mine = [trade for trade in listed(shop, "bot", "trades") if trade["status"] == "closed"]
    on_base = [trade for trade in mine if trade["chain_id"] == 8453]
    assert after["totalAgents"] == before["totalAgents"] + 3
    assert after["totalTrades"] == before["totalTrades"] + len(on_base)
    assert 0 < len(on_base) < len(mine)
    agents = [
        each["id"] for each in listed(shop, "bot", "agents") if (each["status"], each["chain_id"]) == ("active", 8453)
    ]
    shop.stop_agent(agents[0])
    assert shop.post("aggregate-metrics", {}).data == {**after, "activeAgents": after["activeAgents"] - 1}


def test_the_background_tenant_can_be_read(shop: Shop) -> None:
    agents, trades, positions = (listed(shop, "house", path) for path in ("agents", "trades", "positions"))
    states = {agent["id"]: agent["status"] for agent in agents}
    assert len(states) == 40
    assert set(states.values()) == {"active", "idle", "paused"}
    assert len({trade["token_address"] for trade in trades}) == 320
    for trade in trades:
        assert trade["agent_id"] in states
        assert START - 30 * DAY <= trade["opened_at"] <= START
        assert trade["status"] == "open" or trade["opened_at"] < trade["closed_at"] <= START
    assert len(positions) == sum(trade["status"] == "open" for trade in trades) == 40
    for position in positions:
        if states[position["agent_id"]] != "idle":
            assert position["stop_loss_price"] < position["current_price_usd"] < position["take_profit_price"]
            assert position["trailing_stop_price"] < position["current_price_usd"]
    ids = [record["id"] for record in (*agents, *trades, *positions)]
    assert len(set(ids)) == len(ids)
    # It wins about as often as it loses; of some tokens there are too few trades to say.
    best = shop.post("top-performers", {"sortBy": "winRate"}).data["tokens"]
    assert len(best) == 300
    assert 40 < sum(token["winRate"] for token in best) / 300 < 60
    supported = shop.post("supported-tokens", {"limit": 500}).data["tokens"]
    assert 300 < sum(token["agentCount"] > 0 for token in supported) <= 320


def test_a_day_of_the_background_tenant() -> None:
    """It trades about a thousand times; what only idle agents hold is never sold."""
    shop = open_shop()
    sold = {trade["token_address"] for trade in listed(shop, "house", "trades") if trade["status"] == "closed"}
    states = {agent["id"]: agent["status"] for agent in listed(shop, "house", "agents")}
    idle = [
        position
        for position in listed(shop, "house", "positions")
        if position["token_address"] not in sold and states[position["agent_id"]] == "idle"
    ]
    assert len(idle) == 8
    shop.clock.advance(DAY)
    later = {position["id"] for position in listed(shop, "house", "positions")}
    assert {position["id"] for position in idle} <= later
    for position in idle:
        (result,) = shop.results("token-avg-prices", position["token_address"])
        assert result["averageSellPriceUSD"] is result["averageSellPriceETH"] is None
        assert result["averageBuyPriceUSD"] == position["entry_price_usd"]
    opened = [trade["agent_id"] for trade in listed(shop, "house", "trades") if trade["opened_at"] > START]
    assert 800 < len(opened) < 1_500
    assert len(set(opened)) == 28, "all that are active"


def test_the_background_tenant_is_the_same_whenever_it_is_made() -> None:
    """With the first question that needs it, later, by its own name, and again after a reset."""
    early, late = open_shop(), open_shop()
    first = early.post("aggregate-metrics", {}).data
    for shop in (early, late):
        shop.clock.advance(DAY / 3 + 0.5)
        shop.results("token-signals", "BRETT")
    late.populate("house")
    late.populate("house", trades=10)
    assert early.post("aggregate-metrics", {}).data == late.post("aggregate-metrics", {}).data != first
    assert early.world.store.all("SELECT * FROM books") == late.world.store.all("SELECT * FROM books")
    # The numbers of positions are given again once they are over.
    columns = "id, trade_id, agent_id, wallet_id, amount, entry_price_usd, stop_loss_price, opened_at"
    for table, kept in (("wallets", "*"), ("agents", "*"), ("trades", "*"), ("positions", columns)):
        one, two = (
            shop.world.store.all(f"SELECT {kept} FROM {table} WHERE tenant = 'house' ORDER BY seq")  # noqa: S608 - our own names
            for shop in (early, late)
        )
        assert one == two
        assert one
    opened = [row[-1] for row in one]
    assert opened == sorted(opened), "positions are numbered in the order of time"
    assert listed(early, "house", "positions") == listed(late, "house", "positions")
    late.clock.set(START, allow_backwards=True)
    late.reset()
    assert late.post("aggregate-metrics", {}).data == first
    assert open_shop(seed=8).post("aggregate-metrics", {}).data != first


def test_the_background_tenant_is_quickly_made() -> None:
    """Whoever asks first waits for it. The bound is generous: it takes as long as eight times the plain work."""
    shop = open_shop()
    before = time.process_time()
    shop.populate("house")
    assert time.process_time() - before < 30 * pace()


def test_whoever_uses_the_background_key_first_gets_no_other_tenant(shop: Shop) -> None:
    other = open_shop()
    trades = listed(other, "house", "trades")
    assert trades == listed(shop, "house", "trades")
    assert len(trades) > 1_500
    wallet = other.account("wallets", "house")["data"][0]
    body = {"name": "mine", "wallet_id": wallet["id"], "chain_id": wallet["chain_id"]}
    key = {"Authorization": "Bearer mock_full_house"}
    assert other.http.post("/v1/agents", headers=key, json=body).status_code == 201
    assert other.post("aggregate-metrics", {}).data["totalAgents"] == 41
