"""What an agent does with signals, prices and what it is told, signal by signal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockClock, MockService

from ._books import BASE, BNB, HOUR, OPEN, Observer, Record
from ._support import OTHER, START, add_agent, add_wallet, connection, error, in_process, ok, walk

# Levels that no price comes near within a minute.
FAR = {"position_size_pct": 10, "stop_loss_pct": 90, "trailing_stop_pct": 90, "take_profit_pct": 100}
NEAR = {"position_size_pct": 10, "stop_loss_pct": 0.2, "trailing_stop_pct": 0.2, "take_profit_pct": 0.2}


@dataclass
class Stage:
    """A market in which nothing happens but what is emitted, and one active agent on Base."""

    mock: MockService
    http: httpx.Client
    wallet: str
    agent: str

    def tell(self, **changes: Any) -> Record:
        return ok(self.http.patch(f"/v1/agents/{self.agent}", json=changes))

    def emit(self, direction: str, symbol: str = "BRETT", confidence: float = 0.9, chain_id: int = BASE) -> None:
        self.mock.emit_signal(chain_id=chain_id, token=symbol, direction=direction, confidence=confidence)

    def trades(self, status: str | None = None) -> list[Record]:
        query = {} if status is None else {"status": status}
        return walk(self.http, "/v1/trades", agent_id=self.agent, **query)

    def positions(self) -> list[Record]:
        return walk(self.http, "/v1/positions", agent_id=self.agent)

    def balance(self) -> Record:
        return ok(self.http.get(f"/v1/wallets/{self.wallet}/balance"))

    def price(self, symbol: str = "BRETT") -> float:
        body = {"tokens": [{"identifier": symbol}]}
        data = ok(self.http.post("/v1/token-prices", json=body))["data"]
        return float(data["results"][0]["currentPriceUsd"])

    def wait(self, seconds: float) -> int:
        self.mock.clock.advance(seconds)
        return int(self.mock.clock.now())


@pytest.fixture
def stage() -> Iterator[Stage]:
    with (
        MockService(clock=MockClock(START), gaps=OPEN, signals="scripted") as mock,
        in_process(mock, "mock_full_enterprise_me") as http,
    ):
        wallet = add_wallet(http)
        agent = add_agent(http, wallet, risk=FAR)["id"]
        mock.start_agent(agent)
        yield Stage(mock, http, wallet, agent)


def test_a_buy_opens_and_a_sell_closes(stage: Stage) -> None:
    money = stage.balance()["native_balance_usd"]
    stage.emit("BUY")
    (trade,) = stage.trades()
    entry = stage.price()
    assert {name: trade[name] for name in ("agent_id", "token_symbol", "chain_id", "direction", "status")} == {
        "agent_id": stage.agent, "token_symbol": "BRETT", "chain_id": BASE, "direction": "BUY", "status": "open",
    }  # fmt: skip
    assert (trade["opened_at"], trade["entry_price_usd"]) == (START, entry)
    (position,) = stage.positions()
    assert (position["entry_price_usd"], position["current_price_usd"]) == (entry, entry)
    assert position["unrealized_pnl_usd"] == 0
    balance = stage.balance()
    (held,) = balance["token_balances"]
    assert held["balance"] * entry == pytest.approx(money / 10, abs=0.01)
    assert balance["native_balance_usd"] == pytest.approx(money * 0.9, abs=0.02)

    now = stage.wait(47)
    assert stage.positions()[0]["current_price_usd"] == stage.price() != entry
    stage.emit("SELL", confidence=0.75)
    assert stage.positions() == []
    (closed,) = stage.trades("closed")
    left = stage.price()
    assert (closed["id"], closed["closed_at"], closed["exit_price_usd"]) == (trade["id"], now, left)
    assert closed["pnl_usd"] == pytest.approx((left - entry) * held["balance"], abs=0.006)
    assert closed["roi_pct"] == pytest.approx(100 * (left / entry - 1), abs=0.006)
    stats = ok(stage.http.get(f"/v1/agents/{stage.agent}"))["stats"]
    assert stats == {
        "total_trades": 1,
        "win_rate_pct": 100.0 if closed["pnl_usd"] > 0 else 0.0,
        "total_pnl_usd": closed["pnl_usd"],
    }
    detail = ok(stage.http.get(f"/v1/trades/{trade['id']}"))
    assert closed.items() <= detail.items()
    assert detail["exit_tx_hash"]
    assert stage.balance()["token_balances"] == []


@pytest.mark.parametrize(
    "emitted",
    [
        {"direction": "BUY", "confidence": 0.749},
        {"direction": "BUY", "symbol": "NOSUCHTOKEN"},
        {"direction": "BUY", "symbol": "CAKE", "chain_id": BNB},
        {"direction": "SELL"},
    ],
    ids=["not sure enough", "a token that there isn't", "another chain", "nothing to sell"],
)
def test_signals_that_are_left_alone(stage: Stage, emitted: dict[str, Any]) -> None:
    stage.emit(**emitted)
    stage.wait(30)
    assert stage.trades() == []
    stage.emit("BUY")
    assert len(stage.trades()) == 1


def test_a_sell_of_little_confidence_or_of_another_token_closes_nothing(stage: Stage) -> None:
    stage.emit("BUY")
    stage.wait(20)
    stage.emit("SELL", confidence=0.74)
    stage.emit("SELL", symbol="DEGEN")
    assert len(stage.positions()) == 1


def test_one_position_for_a_token_and_no_more_than_allowed(stage: Stage) -> None:
    stage.tell(max_positions=2)
    for token in ("BRETT", "BRETT", "DEGEN", "TOSHI"):
        stage.emit("BUY", token)
    assert sorted(each["token_symbol"] for each in stage.positions()) == ["BRETT", "DEGEN"]
    stage.wait(5)
    stage.emit("SELL", "BRETT")
    stage.emit("BUY", "TOSHI")
    assert sorted(each["token_symbol"] for each in stage.positions()) == ["DEGEN", "TOSHI"]
    assert len(stage.trades()) == 3


def test_without_money_nothing_is_bought(stage: Stage) -> None:
    stage.tell(risk={"position_size_pct": 100})
    stage.emit("BUY", "BRETT")
    assert stage.balance()["native_balance_usd"] == pytest.approx(0, abs=0.01)
    stage.emit("BUY", "DEGEN")
    assert [each["token_symbol"] for each in stage.trades()] == ["BRETT"]
    stage.wait(40)
    stage.emit("SELL", "BRETT")
    stage.emit("BUY", "DEGEN")
    assert [each["token_symbol"] for each in stage.positions()] == ["DEGEN"]


def test_less_than_a_dollar_is_not_worth_it(stage: Stage) -> None:
    money = stage.balance()["native_balance_usd"]
    stage.tell(risk={"position_size_pct": 99 / money})
    stage.emit("BUY")
    assert stage.trades() == []
    stage.tell(risk={"position_size_pct": 101 / money})
    stage.emit("BUY")
    assert len(stage.trades()) == 1


def test_changed_terms_hold_for_what_comes(stage: Stage) -> None:
    stage.emit("BUY", "BRETT")
    (before,) = stage.positions()
    stage.tell(risk=NEAR, min_confidence=0.95)
    (after,) = stage.positions()
    assert after == before
    stage.emit("SELL", "BRETT", confidence=0.94)
    stage.emit("BUY", "DEGEN", confidence=0.94)
    assert stage.positions() == [before]
    stage.emit("BUY", "DEGEN", confidence=0.95)
    new = next(each for each in stage.positions() if each["token_symbol"] == "DEGEN")
    assert new["stop_loss_price"] == pytest.approx(new["entry_price_usd"] * 0.998, rel=1e-5)
    assert new["take_profit_price"] == pytest.approx(new["entry_price_usd"] * 1.002, rel=1e-5)
    assert new["trailing_stop_price"] == pytest.approx(new["entry_price_usd"] * 0.998, rel=1e-5)
    assert before["stop_loss_price"] == pytest.approx(before["entry_price_usd"] * 0.1, rel=1e-5)


def test_missing_terms_are_the_usual_ones(stage: Stage) -> None:
    plain = add_agent(stage.http, stage.wallet)
    assert plain["risk"] == {}
    stage.mock.stop_agent(stage.agent)
    stage.mock.start_agent(plain["id"])
    money = stage.balance()["native_balance_usd"]
    stage.emit("BUY")
    (position,) = walk(stage.http, "/v1/positions")
    entry = position["entry_price_usd"]
    for name, share in (("stop_loss_price", 0.97), ("trailing_stop_price", 0.98), ("take_profit_price", 1.1)):
        assert position[name] == pytest.approx(entry * share, rel=1e-5)
    held = stage.balance()["token_balances"][0]
    assert held["balance"] * entry == pytest.approx(money / 20, abs=0.01)


@pytest.mark.parametrize("status", ["idle", "error", "paused"])
def test_who_is_not_active_buys_nothing(stage: Stage, status: str) -> None:
    stage.emit("BUY", "BRETT")
    stage.mock.set_agent_status(stage.agent, status)
    stage.wait(10)
    stage.emit("BUY", "DEGEN")
    stage.emit("SELL", "BRETT")
    # One that is paused still looks after what it has.
    assert len(stage.positions()) == (0 if status == "paused" else 1)
    assert len(stage.trades()) == 1
    stage.mock.start_agent(stage.agent)
    stage.wait(10)
    # What came meanwhile is not made up for.
    assert len(stage.trades()) == 1
    assert len(stage.positions()) == (0 if status == "paused" else 1)


@pytest.mark.parametrize("status", ["active", "paused"])
def test_a_level_ends_a_position(stage: Stage, status: str) -> None:
    stage.tell(risk=NEAR)
    stage.emit("BUY")
    stage.mock.set_agent_status(stage.agent, status)
    (position,) = stage.positions()
    now = stage.wait(6 * HOUR)
    (trade,) = stage.trades()
    assert trade["status"] == "closed"
    assert START < trade["closed_at"] < now
    low, high = position["stop_loss_price"], position["take_profit_price"]
    with Observer(stage.mock, ["me"]) as observer:
        observer.note()
        course = [observer.usd(BASE, trade["token_address"], at) for at in range(START, trade["closed_at"] + 1)]
    peak = max(course[0], *course[-START % 60 :: 60])
    assert course[-1] == trade["exit_price_usd"]
    minutes = range(START - START % 60, trade["closed_at"] + 1, 60)
    candles = stage.mock.candles("BRETT", start=minutes[0], end=minutes[-1] + 60)
    opens = {candle.at: candle.open for candle in candles}
    assert list(opens) == list(minutes)
    assert all(opens[at] == pytest.approx(course[at - START], rel=1e-7) for at in minutes if at >= START)
    assert course[-1] >= high * (1 - 1e-5) or course[-1] <= max(low, peak * 0.998) * (1 + 1e-5)
    assert all(low * (1 - 1e-5) < price < high * (1 + 1e-5) for price in course[:-1])


@pytest.mark.parametrize("status", ["idle", "error"])
def test_nobody_watches_what_floats(stage: Stage, status: str) -> None:
    stage.tell(risk=NEAR)
    stage.emit("BUY")
    stage.mock.set_agent_status(stage.agent, status)
    (before,) = stage.positions()
    for _ in range(24):
        stage.wait(HOUR)
        (position,) = stage.positions()
        assert position["current_price_usd"] == stage.price()
        # The peak stands still, and so does the stop that follows it.
        assert position["trailing_stop_price"] == before["trailing_stop_price"]
    # Where it is beyond a level by now, whoever watches again ends it at once.
    while before["stop_loss_price"] < stage.price() < before["take_profit_price"]:
        stage.wait(600)
    now = int(stage.mock.clock.now())
    assert len(stage.positions()) == 1
    stage.mock.start_agent(stage.agent)
    stage.wait(60)
    (trade,) = stage.trades()
    assert now < trade["closed_at"] <= now + 60


def test_a_deleted_agent_leaves_no_position(stage: Stage) -> None:
    money = stage.balance()["native_balance_usd"]
    stage.emit("BUY")
    now = stage.wait(123)
    error(stage.http.delete(f"/v1/agents/{stage.agent}"), 409, "conflict")
    stage.mock.stop_agent(stage.agent)
    price = stage.price()
    assert stage.http.delete(f"/v1/agents/{stage.agent}").status_code == 204
    (trade,) = walk(stage.http, "/v1/trades")
    assert (trade["status"], trade["closed_at"], trade["exit_price_usd"]) == ("closed", now, price)
    assert walk(stage.http, "/v1/positions") == []
    balance = stage.balance()
    assert balance["token_balances"] == []
    assert balance["updated_at"] == now
    # Ether has moved meanwhile, too.
    assert balance["native_balance_usd"] == pytest.approx(money + trade["pnl_usd"], rel=0.01)
    metrics = ok(stage.http.post("/v1/aggregate-metrics", json={}))["data"]
    assert metrics["totalTrades"] >= 1


def test_an_agent_bound_to_another_wallet_buys_from_that_one(stage: Stage) -> None:
    stage.emit("BUY", "BRETT")
    other = ok(stage.http.post("/v1/wallets", json=connection(owner=OTHER)), 201)["id"]
    stage.tell(wallet_id=other)
    stage.emit("BUY", "DEGEN")
    first, second = stage.balance(), ok(stage.http.get(f"/v1/wallets/{other}/balance"))
    assert [each["token_symbol"] for each in first["token_balances"]] == ["BRETT"]
    assert [each["token_symbol"] for each in second["token_balances"]] == ["DEGEN"]
    stage.wait(60)
    stage.emit("SELL", "BRETT")
    after = ok(stage.http.get(f"/v1/wallets/{other}/balance"))
    assert after["token_balances"][0]["balance"] == second["token_balances"][0]["balance"]
    assert stage.balance()["token_balances"] == []
    assert stage.balance()["native_balance_usd"] > first["native_balance_usd"] * 1.05
