"""Win rates, averages, top performers and totals: what the trades say, added up a second time here."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from tradesdk_mock.core.messages import Request
from tradesdk_mock.market.tokens import tokens
from tradesdk_mock.trading import agent_states, background_tenant, performance, population

from ._market import Market
from ._support import START

DAY = 86_400
Trade = dict[str, Any]
COLUMNS = (
    "tenant",
    "agent_id",
    "token_address",
    "token_symbol",
    "chain_id",
    "direction",
    "amount",
    "entry_price_usd",
    "exit_price_usd",
    "pnl_usd",
    "roi_pct",
    "status",
    "opened_at",
    "closed_at",
)


@pytest.fixture(scope="module")
def shop() -> Market:
    """The background tenant and one more. Nothing here changes it."""
    shop = Market()
    population.populate(shop.world, "somebody")
    shop.results("token-win-rate", "BRETT")
    return shop


@pytest.fixture(scope="module")
def trades(shop: Market) -> list[Trade]:
    return shop.world.store.records(COLUMNS, "trades WHERE chain_id = 8453")


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


def batches(shop: Market, path: str) -> Iterator[dict[str, Any]]:
    every = [token.symbol for token in tokens(7, 8453)]
    for start in range(0, len(every), 5):
        yield from shop.results(path, *every[start : start + 5])


def close_to(value: float | None, rel: float = 1e-6) -> Any:
    return None if value is None else pytest.approx(value, rel=rel, abs=0.006 if rel > 1e-5 else None)


def test_win_rates(shop: Market, trades: list[Trade]) -> None:
    known = by_token(trades)
    found = list(batches(shop, "token-win-rate"))
    assert len(found) == 620
    for result in found:
        assert result["winRate"] == close_to(win_rate(known[result["tokenAddress"]]), rel=1e-3), result
    rates = [result["winRate"] for result in found]
    assert 250 < sum(rate is not None for rate in rates) < 320, "some have too few trades"
    assert all(0 <= rate <= 100 for rate in rates if rate is not None)
    assert 40 < sum(rate for rate in rates if rate is not None) / 280 < 60


def test_average_prices(shop: Market, trades: list[Trade]) -> None:
    known = by_token(trades)
    rate = shop.world.prices.rate(START)
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


def test_top_performers(shop: Market, trades: list[Trade]) -> None:
    known = by_token(trades)
    every = {token.address: token for token in tokens(7, 8453)}
    for sort_by in ("winRate", "ROI"):
        found = shop.post("top-performers", {"sortBy": sort_by}).data["tokens"]
        assert len(found) == 300  # the default, and there are more to choose from
        order = [record[sort_by] for record in found]
        assert order == sorted(order, reverse=True)
        for record in found:
            closed = [trade for trade in known[record["tokenAddress"]] if trade["status"] == "closed"]
            token = every[record["tokenAddress"]]
            assert (record["symbol"], record["name"], record["network"]) == (token.symbol, token.name, "base")
            assert record["winRate"] == close_to(win_rate(closed), rel=1e-3)
            cost = sum(trade["entry_price_usd"] * trade["amount"] for trade in closed)
            assert record["ROI"] == close_to(100 * sum(trade["pnl_usd"] for trade in closed) / cost, rel=1e-3)
            assert record["agentCount"] == len({trade["agent_id"] for trade in known[record["tokenAddress"]]})
        assert len({record["tokenAddress"] for record in found}) == len(found)
        for limit in (1, 7, 300):
            assert shop.post("top-performers", {"sortBy": sort_by, "limit": limit}).data["tokens"] == found[:limit]


def test_totals(shop: Market, trades: list[Trade]) -> None:
    data = shop.post("aggregate-metrics", {}).data
    store = shop.world.store
    agents = store.records(("status", "tenant"), "agents WHERE chain_id = 8453")
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
    positions = [*ask_as(shop, "house", "/v1/positions"), *ask_as(shop, "somebody", "/v1/positions")]
    shown = sum(position["unrealized_pnl_usd"] for position in positions if position["chain_id"] == 8453)
    assert data["unrealizedProfitUSD"] == round(shown, 2) != 0
    rate = shop.world.prices.rate(START)
    for name in ("totalBuy", "totalSell", "realizedProfit", "unrealizedProfit"):
        assert data[f"{name}ETH"] * rate == pytest.approx(data[f"{name}USD"], abs=0.01)


def test_the_books_balance(shop: Market, trades: list[Trade]) -> None:
    """What was sold less what was bought is the profit, but for what is still held."""
    data = shop.post("aggregate-metrics", {}).data
    held = sum(t["entry_price_usd"] * t["amount"] for t in trades if t["status"] == "open")
    assert all(trade["direction"] == "BUY" for trade in trades if trade["status"] == "open")
    # A profit is kept in whole cents.
    assert data["totalSellUSD"] - data["totalBuyUSD"] + held == pytest.approx(data["realizedProfitUSD"], abs=20)


def test_supported_tokens(shop: Market, trades: list[Trade]) -> None:
    agents = {address: {t["agent_id"] for t in each} for address, each in by_token(trades).items()}
    whole = shop.post("supported-tokens", {"limit": 500}).data
    assert (whole["total"], len(whole["tokens"])) == (620, 500)
    ranks = [record["marketCapRank"] for record in whole["tokens"]]
    assert ranks == sorted(ranks)
    for record in whole["tokens"]:
        assert record["agentCount"] == len(agents.get(record["tokenAddress"], ()))
    assert {record["network"] for record in whole["tokens"]} == {"base"}
    assert 300 < sum(record["agentCount"] > 0 for record in whole["tokens"]) <= 320
    first = shop.post("supported-tokens", {}).data
    assert (first["total"], first["tokens"]) == (620, whole["tokens"][:100])
    assert shop.post("supported-tokens", {"limit": 1}).data["tokens"] == whole["tokens"][:1]


def test_other_tenants_and_the_other_chain(shop: Market) -> None:
    """Everybody on Base counts; nobody on BNB does."""
    alone = Market()
    before = alone.post("aggregate-metrics", {}).data
    population.populate(alone.world, "bot")
    after = alone.post("aggregate-metrics", {}).data
    mine = alone.world.store.records(COLUMNS, "trades WHERE tenant = 'bot' AND chain_id = 8453 AND status = 'closed'")
    assert after["totalAgents"] == before["totalAgents"] + 3
    assert after["totalTrades"] == before["totalTrades"] + len(mine)
    assert 0 < len(mine) < 242


def test_an_agent_that_is_stopped_is_not_active() -> None:
    shop = Market()
    before = shop.post("aggregate-metrics", {}).data
    agent = shop.world.store.value("SELECT id FROM agents WHERE status = 'active'")
    agent_states.stop(shop.world, agent)
    after = shop.post("aggregate-metrics", {}).data
    assert after == {**before, "activeAgents": before["activeAgents"] - 1}


def ask_as_background_tenant(shop: Market, path: str) -> list[dict[str, Any]]:
    return ask_as(shop, "house", path)


def ask_as(shop: Market, tenant: str, path: str) -> list[dict[str, Any]]:
    key = [(b"authorization", f"Bearer mock_full_enterprise_{tenant}".encode())]
    found: list[dict[str, Any]] = []
    cursor = b""
    while True:
        request = Request("GET", path, b"limit=100" + cursor, key)
        reply = shop.pipeline.answer(request)
        assert (reply.status, type(reply.body)) == (200, bytes)
        page = json.loads(reply.body)  # type: ignore[arg-type]
        found += page["data"]
        if "next_cursor" not in page:
            return found
        cursor = b"&cursor=" + page["next_cursor"].encode()


def test_the_background_tenant_can_be_read(shop: Market) -> None:
    agents = ask_as_background_tenant(shop, "/v1/agents")
    known = {agent["id"] for agent in agents}
    assert len(known) == 40
    assert {agent["status"] for agent in agents} == {"active", "idle", "paused"}
    trades = ask_as_background_tenant(shop, "/v1/trades")
    assert len({trade["token_address"] for trade in trades}) == 320
    assert {trade["agent_id"] for trade in trades} <= known
    for trade in trades:
        assert START - 30 * DAY <= trade["opened_at"] <= START
        if trade["status"] == "closed":
            assert trade["opened_at"] < trade["closed_at"] <= START
    positions = ask_as_background_tenant(shop, "/v1/positions")
    assert len(positions) == sum(trade["status"] == "open" for trade in trades) == 40
    states = {agent["id"]: agent["status"] for agent in agents}
    for position in positions:
        if states[position["agent_id"]] != "idle":
            assert position["stop_loss_price"] < position["current_price_usd"] < position["take_profit_price"]
            assert position["trailing_stop_price"] < position["current_price_usd"]
    ids = [record["id"] for record in (*agents, *trades, *positions)]
    assert len(set(ids)) == len(ids)


def test_a_day_of_the_background_tenant() -> None:
    """It trades about a thousand times; what only idle agents hold is never sold."""
    shop = Market()
    population.ensure_background_tenant(shop.world)
    sold = {address for (address,) in shop.world.store.all("SELECT token_address FROM trades WHERE status = 'closed'")}
    kept = [
        position
        for position in ask_as_background_tenant(shop, "/v1/positions")
        if position["token_address"] not in sold
    ]
    states = {agent["id"]: agent["status"] for agent in ask_as_background_tenant(shop, "/v1/agents")}
    idle = [position for position in kept if states[position["agent_id"]] == "idle"]
    assert len(idle) == 8
    shop.clock.advance(DAY)
    later = {position["id"] for position in ask_as_background_tenant(shop, "/v1/positions")}
    assert {position["id"] for position in idle} <= later
    for position in idle:
        (result,) = shop.results("token-avg-prices", position["token_address"])
        assert result["averageSellPriceUSD"] is result["averageSellPriceETH"] is None
        assert result["averageBuyPriceUSD"] == position["entry_price_usd"]
    opened, traders = shop.world.store.all(
        "SELECT count(*), count(DISTINCT agent_id) FROM trades WHERE opened_at > ?", (START,)
    )[0]
    assert 800 < opened < 1_500
    assert traders == 28, "all that are active"


def test_the_background_tenant_is_the_same_whenever_it_is_made() -> None:
    early, late = Market(), Market()
    population.ensure_background_tenant(early.world)
    for shop in (early, late):
        shop.clock.advance(DAY / 3 + 0.5)
        shop.results("token-signals", "BRETT")
    population.populate(late.world, "house")
    population.populate(late.world, "house", trades=10)
    assert early.post("aggregate-metrics", {}).data == late.post("aggregate-metrics", {}).data
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
    assert ask_as_background_tenant(early, "/v1/positions") == ask_as_background_tenant(late, "/v1/positions")
    assert background_tenant.BACKGROUND_TENANT == "house"


def test_the_background_tenant_is_made_once_and_again_after_a_reset() -> None:
    shop = Market()
    first = performance.totals(shop.world, START)
    assert performance.totals(shop.world, START) == first
    shop.world.reset()
    assert shop.world.store.count("trades", "house") == 0
    assert performance.totals(shop.world, START) == first
    assert Market(seed=8).post("aggregate-metrics", {}).data != shop.post("aggregate-metrics", {}).data


def test_the_background_tenant_is_quickly_made() -> None:
    """Whoever asks first waits for it. The bound is generous: a machine may be busy."""
    shop = Market()
    before = time.process_time()
    population.ensure_background_tenant(shop.world)
    assert time.process_time() - before < 1.5


def test_whoever_uses_the_background_key_first_gets_no_other_tenant() -> None:
    shop = Market()
    assert len(ask_as_background_tenant(shop, "/v1/trades")) > 1_500
    assert shop.post("aggregate-metrics", {}).data == Market().post("aggregate-metrics", {}).data
    body = {"name": "mine", "wallet_id": "x", "chain_id": 8453}
    headers = [(b"authorization", b"Bearer mock_full_house"), (b"content-type", b"application/json")]
    wallet = shop.world.store.value("SELECT id FROM wallets WHERE tenant = 'house'")
    content = json.dumps({**body, "wallet_id": wallet}).encode()
    assert shop.pipeline.answer(Request("POST", "/v1/agents", headers=headers, content=content)).status == 201
    assert shop.post("aggregate-metrics", {}).data["totalAgents"] == 41
