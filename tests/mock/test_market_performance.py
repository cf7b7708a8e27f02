"""Win rates, averages, top performers and totals: what the trades say, added up a second time here."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from tradesdk_mock.market.price_model import prices
from tradesdk_mock.market.tokens import tokens

from ._shop import Shop, open_shop
from ._support import START

DAY = 86_400
TENANTS = ("house", "somebody")
Trade = dict[str, Any]


@pytest.fixture(scope="module")
def shop() -> Shop:
    """The background tenant and one more. Nothing here changes it."""
    shop = open_shop()
    shop.populate("somebody")
    shop.results("token-win-rate", "BRETT")
    return shop


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


@pytest.fixture(scope="module")
def trades(shop: Shop) -> list[Trade]:
    """All trades on Base. How much was bought is in no answer."""
    amounts = dict(shop.world.store.all("SELECT id, amount FROM trades"))
    every = [trade for tenant in TENANTS for trade in listed(shop, tenant, "trades") if trade["chain_id"] == 8453]
    return [trade | {"amount": amounts[trade["id"]]} for trade in every]


def by_token(trades: list[Trade]) -> dict[str, list[Trade]]:
    found: dict[str, list[Trade]] = defaultdict(list)
    for trade in trades:
        found[trade["token_address"]].append(trade)
    return found


def win_rate(trades: list[Trade]) -> float | None:
    closed: dict[str, list[bool]] = defaultdict(list)
    for trade in trades:
        if trade["status"] == "closed":
            closed[trade["agent_id"]].append(trade["pnl_usd"] > 0)
    if sum(map(len, closed.values())) < 3:
        return None
    return sum(100 * sum(each) / len(each) for each in closed.values()) / len(closed)


def sides(trades: list[Trade]) -> dict[str, list[tuple[float, float]]]:
    """(price, amount) of every purchase and every sale."""
    assert {trade["direction"] for trade in trades} <= {"BUY"}
    return {
        "BUY": [(trade["entry_price_usd"], trade["amount"]) for trade in trades],
        "SELL": [(trade["exit_price_usd"], trade["amount"]) for trade in trades if trade["status"] == "closed"],
    }


def worth(pairs: list[tuple[float, float]]) -> float:
    return sum(price * amount for price, amount in pairs)


def average(pairs: list[tuple[float, float]]) -> float | None:
    return worth(pairs) / sum(amount for _, amount in pairs) if pairs else None


def batches(shop: Shop, path: str) -> Iterator[dict[str, Any]]:
    every = [token.symbol for token in tokens(7, 8453)]
    for start in range(0, len(every), 5):
        yield from shop.results(path, *every[start : start + 5])


def close_to(value: float | None, rel: float = 1e-6) -> Any:
    return None if value is None else pytest.approx(value, rel=rel, abs=0.006 if rel > 1e-5 else None)


def test_win_rates(shop: Shop, trades: list[Trade]) -> None:
    known = by_token(trades)
    found = list(batches(shop, "token-win-rate"))
    assert len(found) == 620
    for result in found:
        assert result["winRate"] == close_to(win_rate(known[result["tokenAddress"]]), rel=1e-3), result
    rates = [result["winRate"] for result in found if result["winRate"] is not None]
    assert 250 < len(rates) < 320, "some have too few trades"
    assert 40 < sum(rates) / len(rates) < 60


def test_average_prices(shop: Shop, trades: list[Trade]) -> None:
    known, rate = by_token(trades), prices(7).rate(START)
    seen = set()
    for result in batches(shop, "token-avg-prices"):
        both = sides(known[result["tokenAddress"]])
        for side, name in (("BUY", "Buy"), ("SELL", "Sell")):
            usd, eth = result[f"average{name}PriceUSD"], result[f"average{name}PriceETH"]
            assert usd == close_to(average(both[side]))
            assert eth == close_to(None if usd is None else usd / rate)
        seen.add((result["averageBuyPriceUSD"] is None, result["averageSellPriceUSD"] is None))
    # Nothing at all, only bought, and both.
    assert {(True, True), (False, True), (False, False)} <= seen


def test_top_performers(shop: Shop, trades: list[Trade]) -> None:
    known = by_token(trades)
    every = {token.address: token for token in tokens(7, 8453)}
    for sort_by in ("winRate", "ROI"):
        found = shop.post("top-performers", {"sortBy": sort_by}).data["tokens"]
        assert len(found) == len({record["tokenAddress"] for record in found}) == 300  # and there are more
        for record in found:
            closed = [trade for trade in known[record["tokenAddress"]] if trade["status"] == "closed"]
            token = every[record["tokenAddress"]]
            assert (record["symbol"], record["name"], record["network"]) == (token.symbol, token.name, "base")
            assert record["winRate"] == close_to(win_rate(closed), rel=1e-3)
            cost = sum(trade["entry_price_usd"] * trade["amount"] for trade in closed)
            assert record["ROI"] == close_to(100 * sum(trade["pnl_usd"] for trade in closed) / cost, rel=1e-3)
            assert record["agentCount"] == len({trade["agent_id"] for trade in known[record["tokenAddress"]]})


def test_totals(shop: Shop, trades: list[Trade]) -> None:
    data = shop.post("aggregate-metrics", {}).data
    agents = [each for tenant in TENANTS for each in listed(shop, tenant, "agents") if each["chain_id"] == 8453]
    closed = [trade for trade in trades if trade["status"] == "closed"]
    assert data["totalAgents"] == len(agents) == 43
    assert data["activeAgents"] == sum(agent["status"] == "active" for agent in agents)
    assert data["totalTrades"] == len(closed)
    assert data["totalProfitableTrades"] == sum(trade["pnl_usd"] > 0 for trade in closed)
    assert data["winRate"] == close_to(100 * data["totalProfitableTrades"] / len(closed), rel=1e-3)
    both = sides(trades)
    assert data["totalBuyUSD"] == close_to(worth(both["BUY"]))
    assert data["totalSellUSD"] == close_to(worth(both["SELL"]))
    assert data["realizedProfitUSD"] == close_to(sum(trade["pnl_usd"] for trade in closed), rel=1e-4)
    positions = [position for tenant in TENANTS for position in listed(shop, tenant, "positions")]
    shown = sum(position["unrealized_pnl_usd"] for position in positions if position["chain_id"] == 8453)
    assert data["unrealizedProfitUSD"] == round(shown, 2) != 0
    for name in ("totalBuy", "totalSell", "realizedProfit", "unrealizedProfit"):
        assert data[f"{name}ETH"] * prices(7).rate(START) == pytest.approx(data[f"{name}USD"], abs=0.01)
    # What was sold less what was bought is the profit, but for what is still held; a profit is kept in whole cents.
    held = sum(trade["entry_price_usd"] * trade["amount"] for trade in trades if trade["status"] == "open")
    assert data["totalSellUSD"] - data["totalBuyUSD"] + held == pytest.approx(data["realizedProfitUSD"], abs=20)


def test_supported_tokens(shop: Shop, trades: list[Trade]) -> None:
    agents = {address: {t["agent_id"] for t in each} for address, each in by_token(trades).items()}
    whole = shop.post("supported-tokens", {"limit": 500}).data
    assert (whole["total"], len(whole["tokens"])) == (620, 500)
    ranks = [record["marketCapRank"] for record in whole["tokens"]]
    assert ranks == sorted(ranks)
    for record in whole["tokens"]:
        assert record["agentCount"] == len(agents.get(record["tokenAddress"], ()))
    assert 300 < sum(record["agentCount"] > 0 for record in whole["tokens"]) <= 320


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


# The tenant that trades in the background


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
    assert listed(early, "house", "positions") == listed(late, "house", "positions")
    late.clock.set(START, allow_backwards=True)
    late.reset()
    assert late.post("aggregate-metrics", {}).data == first
    assert open_shop(seed=8).post("aggregate-metrics", {}).data != first


def test_the_background_tenant_is_quickly_made() -> None:
    """Whoever asks first waits for it. The bound is generous: a machine may be busy."""
    shop = open_shop()
    before = time.process_time()
    shop.populate("house")
    assert time.process_time() - before < 1.5


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
