"""What an agent does with signals, prices and what it is told; and when the engine reads again what is in memory."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk_mock import MockClock, MockServerError, MockService
from tradesdk_mock.state.world import World
from tradesdk_mock.trading import engine, ledger
from tradesdk_mock.trading.signal_feed import next_due

from .._rows import each_of
from ._http import BASE, BNB, DAY, HOUR, OTHER, START, add_agent, add_wallet, connection, error, in_process, ok, walk
from ._ledger_sums import judged
from ._observer import BACKGROUND_TENANT, OPEN, Observer, Record, service

# Levels that no price comes near within a minute.
FAR: dict[str, float] = {"position_size_pct": 10, "stop_loss_pct": 90, "trailing_stop_pct": 90, "take_profit_pct": 100}
NEAR: dict[str, float] = {
    "position_size_pct": 10,
    "stop_loss_pct": 0.2,
    "trailing_stop_pct": 0.2,
    "take_profit_pct": 0.2,
}
ENGINE = "tradesdk_mock.trading.engine"


@dataclass
class Stage:
    """A market in which nothing happens but what is emitted, and one active agent on Base."""

    mock: MockService
    http: httpx.Client
    wallet: str
    agent: str

    def tell(self, **changes: Any) -> Record:
        return ok(self.http.patch(f"/v1/agents/{self.agent}", json=changes))

    def emit(self, direction: str, *symbols: str, confidence: float = 0.9, chain_id: int = BASE) -> None:
        for symbol in symbols or ("BRETT",):
            self.mock.emit_signal(chain_id=chain_id, token=symbol, direction=direction, confidence=confidence)

    def trades(self, status: str | None = None) -> list[Record]:
        query = {} if status is None else {"status": status}
        return walk(self.http, "/v1/trades", agent_id=self.agent, **query)

    def positions(self) -> list[Record]:
        return walk(self.http, "/v1/positions", agent_id=self.agent)

    @property
    def held(self) -> list[str]:
        return sorted(each["token_symbol"] for each in self.positions())

    def balance(self, wallet: str | None = None) -> Record:
        return ok(self.http.get(f"/v1/wallets/{wallet or self.wallet}/balance"))

    def price(self) -> float:
        body = {"tokens": [{"identifier": "BRETT"}]}
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


# Signal by signal


def test_a_buy_opens_and_a_sell_closes(stage: Stage) -> None:
    money = stage.balance()["native_balance_usd"]
    stage.emit("BUY", confidence=0.75)
    (trade,) = stage.trades()
    entry = stage.price()
    assert trade.items() >= {
        "agent_id": stage.agent, "token_symbol": "BRETT", "chain_id": BASE, "direction": "BUY", "status": "open",
        "opened_at": START, "entry_price_usd": entry,
    }.items()  # fmt: skip
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
    rate = 100.0 if closed["pnl_usd"] > 0 else 0.0
    assert stats == {"total_trades": 1, "win_rate_pct": rate, "total_pnl_usd": closed["pnl_usd"]}
    detail = ok(stage.http.get(f"/v1/trades/{trade['id']}"))
    assert closed.items() <= detail.items()
    assert len({detail["entry_tx_hash"], detail["exit_tx_hash"], None}) == 3
    assert stage.balance()["token_balances"] == []


def played(steps: int, seconds: float = 600) -> dict[str, Any]:
    """Some time in which two agents often buy and soon sell, looked at after each step."""
    with (
        MockService(clock=MockClock(START), gaps=OPEN, first_within=0) as mock,
        in_process(mock, "mock_full_enterprise_me") as http,
    ):
        wallet = add_wallet(http)
        for confidence, size in ((0.0, 10), (0.8, 50)):
            risk = {**NEAR, "position_size_pct": size}
            agent = add_agent(http, wallet, risk=risk, min_confidence=confidence, max_positions=4)
            mock.start_agent(agent["id"])
        for _ in range(steps):
            mock.clock.advance(seconds / steps)
            found = {path: walk(http, f"/v1/{path}") for path in ("trades", "positions", "agents")}
        return {**found, "balance": ok(http.get(f"/v1/wallets/{wallet}/balance"))}


def test_ten_minutes_at_once_are_the_same_as_in_steps() -> None:
    """Also what is opened and closed within one step, and what two of them share."""
    leap = played(1)
    assert leap == played(12)
    held = [trade["token_symbol"] for trade in leap["trades"] if trade["status"] == "open"]
    assert sorted(held) == sorted(position["token_symbol"] for position in leap["positions"])
    assert len(leap["trades"]) > len(held) > 2
    # What a price ends is over in that very second.
    ended = sorted(trade["closed_at"] for trade in leap["trades"] if trade["closed_at"])
    until = played(1, ended[-1] - START)["trades"]
    assert [trade["closed_at"] for trade in until].count(ended[-1]) == ended.count(ended[-1])


@pytest.mark.parametrize(
    "emitted",
    [
        {"confidence": 0.749},
        {"symbol": "NOSUCHTOKEN"},
        {"symbol": "ETH"},
        {"symbol": "CAKE", "chain_id": BNB},
        {"direction": "SELL"},
    ],
    ids=["not sure enough", "a token that there isn't", "what is paid with", "another chain", "nothing to sell"],
)
def test_signals_that_are_left_alone(stage: Stage, emitted: dict[str, Any]) -> None:
    given = {"direction": "BUY", "symbol": "BRETT", **emitted}
    stage.emit(given.pop("direction"), given.pop("symbol"), **given)
    stage.wait(30)
    assert stage.trades() == []
    stage.emit("BUY")
    stage.wait(20)
    stage.emit("SELL", confidence=0.74)
    stage.emit("SELL", "DEGEN")
    assert stage.held == ["BRETT"]


def test_a_token_is_held_once_and_no_more_than_an_agent_may(stage: Stage) -> None:
    stage.tell(max_positions=2)
    stage.emit("BUY", "BRETT", "BRETT", "TOSHI", "DEGEN")
    assert [trade["token_symbol"] for trade in stage.trades()] == ["TOSHI", "BRETT"], (
        "and nothing from before its start"
    )
    stage.wait(40)
    stage.emit("SELL", "BRETT")
    stage.emit("BUY", "DEGEN")
    assert stage.held == ["DEGEN", "TOSHI"]


def test_without_money_nothing_is_bought_and_less_than_a_dollar_is_not_worth_it(stage: Stage) -> None:
    money = stage.balance()["native_balance_usd"]
    for cents, count in ((99, 0), (101, 1)):
        stage.tell(risk={"position_size_pct": cents / money})
        stage.emit("BUY", "TOSHI")
        assert len(stage.trades()) == count
    stage.tell(risk={"position_size_pct": 100})
    stage.emit("BUY", "BRETT", "DEGEN")
    assert stage.balance()["native_balance_usd"] == pytest.approx(0, abs=0.01)
    assert stage.held == ["BRETT", "TOSHI"]
    stage.wait(40)
    stage.emit("SELL", "BRETT")
    stage.emit("BUY", "DEGEN")
    assert stage.held == ["DEGEN", "TOSHI"]


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
    assert (balance["token_balances"], balance["updated_at"]) == ([], now)
    # Ether has moved meanwhile, too.
    assert balance["native_balance_usd"] == pytest.approx(money + trade["pnl_usd"], rel=0.01)
    assert ok(stage.http.post("/v1/aggregate-metrics", json={}))["data"]["totalTrades"] >= 1


def test_money_that_a_deleted_agent_leaves_is_spent_by_the_next(stage: Stage) -> None:
    """Although another one has looked into the empty wallet meanwhile."""
    stage.tell(risk={"position_size_pct": 100})
    stage.emit("BUY", "BRETT")
    other = add_agent(stage.http, stage.wallet, risk=FAR)["id"]
    stage.mock.start_agent(other)
    stage.emit("BUY", "TOSHI")
    assert stage.held == ["BRETT"]
    stage.mock.stop_agent(stage.agent)
    assert stage.http.delete(f"/v1/agents/{stage.agent}").status_code == 204
    stage.emit("BUY", "TOSHI")
    assert [each["agent_id"] for each in walk(stage.http, "/v1/positions")] == [other]


TOKENS = {BASE: ("BRETT", "DEGEN", "AERO"), BNB: ("CAKE",)}


def changed(observer: Observer, dice: random.Random, agent: str, wallets: list[str]) -> None:
    """Something else holds for an agent from now on."""
    http, life = observer.http["me"], observer.lives[agent]
    risk = {**dice.choice([NEAR, FAR]), "position_size_pct": dice.choice([4, 10])}
    what = dice.choice(["status", "status", "terms", "terms", "wallet", "delete"])
    if what == "status":
        observer.mock.set_agent_status(agent, dice.choice(["active", "active", "active", "paused", "idle", "error"]))
    elif what == "terms":
        body = {"risk": dice.choice([risk, {}]), "min_confidence": dice.choice([0.6, 0.8]), "max_positions": 2}
        ok(http.patch(f"/v1/agents/{agent}", json=body))
    elif what == "wallet" and life.chain_id == BASE:
        ok(http.patch(f"/v1/agents/{agent}", json={"wallet_id": dice.choice(wallets[:2])}))
    elif what == "delete" and len(observer.lives) < 24:
        observer.mock.set_agent_status(agent, "idle")
        observer.note("me")
        assert http.delete(f"/v1/agents/{agent}").status_code == 204
        new = add_agent(http, wallets[0] if life.chain_id == BASE else wallets[2], chain_id=life.chain_id)["id"]
        observer.note("me")
        observer.mock.clock.advance(1)
        observer.mock.start_agent(new)
    observer.note("me")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 8))
def test_a_random_story(seed: int) -> None:
    """The referee plays every trade again, counts every sum on both interfaces, and finds no signal that was missed."""
    dice = random.Random(seed)
    with service(7, signals="scripted") as mock, Observer(mock, ["me", BACKGROUND_TENANT]) as observer:
        mock.create_key(tenant="me", plan="enterprise")
        mock.populate(BACKGROUND_TENANT)
        observer.past[BACKGROUND_TENANT] = START
        http = observer.http["me"]
        other = ok(http.post("/v1/wallets", json=connection(owner=OTHER)), 201)["id"]
        wallets = [add_wallet(http), other, add_wallet(http, BNB)]
        for chain_id, wallet in ((BASE, 0), (BASE, 0), (BASE, 1), (BNB, 2)):
            add_agent(http, wallets[wallet], chain_id=chain_id, risk=dice.choice([NEAR, FAR]))
        observer.note()
        mock.clock.advance(1)
        for agent, life in list(observer.lives.items()):
            if life.tenant == "me":
                mock.start_agent(agent)
        observer.note("me")
        for _ in range(90):
            mock.clock.advance(dice.choice([1, 17, 41, 600, HOUR]))
            chain_id = dice.choice([BASE, BASE, BASE, BNB])
            mock.emit_signal(
                chain_id=chain_id,
                token=dice.choice(TOKENS[chain_id]),
                direction=dice.choice(["BUY", "BUY", "SELL"]),
                confidence=dice.choice([0.59, 0.7, 0.79, 0.9]),
            )
            mock.clock.advance(1)
            if dice.random() < 0.3:
                there = [agent for agent, life in observer.lives.items() if life.terms[-1].status != "deleted"]
                mine = [agent for agent in there if observer.lives[agent].tenant == "me"]
                changed(observer, dice, dice.choice(mine), wallets)
        mock.clock.advance(41)
        signals = observer.hear(START + 1, observer.now)
        found = judged(observer, every=False)
        me = found.look.accounts["me"]
        for trade in me.trades:
            found.trade("me", trade)
        assert found.missed("me", me, signals) == len(me.trades) > 20
        assert found.wrong == []
        assert {trade["chain_id"] for trade in me.trades} == {BASE, BNB}
        assert {trade["pnl_usd"] > 0 for trade in me.trades if trade["status"] == "closed"} == {True, False}
        assert len({balance["wallet_id"] for balance in me.balances.values()}) == 3


@each_of(
    ("entry", "price", "amount", "pnl", "roi"),
    [
        (2.0, 2.5, 10.0, 5.0, 25.0),
        (2.0, 1.0, 3.0, -3.0, -50.0),
        (1.0, 1.0, 5.0, 0.0, 0.0),
        (3.0, 2.9999999, 1, 0.0, 0.0),
    ],
)
def test_outcomes(entry: float, price: float, amount: float, pnl: float, roi: float) -> None:
    # As text: there is no negative nothing.
    assert str(ledger.outcome(entry, price, amount)) == str((pnl, roi))


# What the engine has in memory


@pytest.fixture
def mock(tmp_path: Path) -> Iterator[MockService]:
    with MockService(db=tmp_path / "world.db", clock=MockClock(START), gaps=OPEN) as found:
        yield found


def running(mock: MockService, http: httpx.Client) -> str:
    """An agent that has been active for two hours."""
    agent = add_agent(http, add_wallet(http))["id"]
    mock.start_agent(agent)
    mock.clock.advance(2 * HOUR)
    assert walk(http, "/v1/trades")
    return str(agent)


@pytest.mark.long
def test_what_another_process_does_to_an_agent_is_seen_and_nothing_else_is_looked_up(
    mock: MockService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process's requests write to the file, and so do refusals: neither costs a look at all positions."""
    made: list[object] = []
    build = engine.TradingEngine.__init__

    def counted(self: engine.TradingEngine, world: World, *clause: str) -> None:
        made.append(clause)
        build(self, world, *clause)

    with in_process(mock) as http, MockService(db=tmp_path / "world.db") as other:
        agent = running(mock, http)
        monkeypatch.setattr(engine.TradingEngine, "__init__", counted)
        for _ in range(3):
            other.create_key(tenant="somebody")
            with pytest.raises(MockServerError):
                mock.start_agent("agt_unknown")
            walk(http, "/v1/positions")
        assert made == []
        other.stop_agent(agent)
        before = walk(http, "/v1/trades")
        mock.clock.advance(DAY)
        assert walk(http, "/v1/trades") == before
        other.start_agent(agent)
        mock.clock.advance(HOUR)
        assert len(walk(http, "/v1/trades")) > len(before)


@pytest.mark.long
def test_a_change_that_is_undone_leaves_nothing_behind(mock: MockService, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file refuses in the middle of a day: the next request lives through that day once, and whole."""

    def broken(self: object) -> None:
        raise RuntimeError("no room")

    with in_process(mock) as http, MockService(clock=MockClock(START), gaps=OPEN) as twin, in_process(twin) as same:
        for service, api in ((mock, http), (twin, same)):
            running(service, api)
            service.clock.advance(DAY)
        with monkeypatch.context() as patch:
            patch.setattr(f"{ENGINE}.TradingEngine.flush", broken)
            assert http.get("/v1/trades").status_code == 500
        for path in ("/v1/trades", "/v1/positions"):
            assert walk(http, path) == walk(same, path)


@pytest.mark.long
@pytest.mark.parametrize("market", ["live", "scripted"])
def test_a_stream_that_asks_what_comes_next_delays_no_exit(tmp_path: Path, market: Any) -> None:
    """It looks up when the next signal comes, in a process that doesn't know yet when the next position is over."""
    file = tmp_path / "world.db"
    with ExitStack() as stack:
        first = stack.enter_context(MockService(db=file, clock=MockClock(START), signals=market, gaps=OPEN))
        second = stack.enter_context(MockService(db=file))
        http, later = (stack.enter_context(in_process(service)) for service in (first, second))
        near = {"stop_loss_pct": 0.5, "trailing_stop_pct": 0.5, "take_profit_pct": 0.5}
        agent = add_agent(http, add_wallet(http), risk=near)["id"]
        ok(later.get("/v1/account"))
        first.start_agent(agent)
        for token in ("BRETT", "AERO", "DEGEN"):
            first.emit_signal(token=token, direction="BUY", confidence=0.99)
        ok(later.get("/v1/account"))
        next_due(second.world)
        second.clock.advance(2 * DAY)
        over = [trade for trade in walk(later, "/v1/trades") if trade["opened_at"] == START]
        assert [trade["status"] for trade in over] == ["closed"] * 3


@pytest.mark.long
def test_nothing_is_closed_in_the_future_after_the_clock_went_back(mock: MockService) -> None:
    with in_process(mock) as http:
        running(mock, http)
        mock.clock.advance(5 * DAY)
        walk(http, "/v1/trades")
        mock.clock.set(START + DAY, allow_backwards=True)
        agent = add_agent(http, add_wallet(http, chain_id=BNB), chain_id=BNB)["id"]
        mock.start_agent(agent)
        mock.emit_signal(chain_id=BNB, token="CAKE", direction="BUY", confidence=0.99)
        for _ in range(30):
            mock.clock.advance(HOUR)
            now = mock.clock.now()
            trades = walk(http, "/v1/trades", agent_id=agent)
            assert trades
            assert all((trade["closed_at"] or 0) <= now for trade in trades)


@pytest.mark.long
def test_an_agent_of_before_the_clock_went_back_still_trades(mock: MockService) -> None:
    with in_process(mock) as http:
        mock.clock.advance(10 * DAY)
        agent = add_agent(http, add_wallet(http))["id"]
        mock.start_agent(agent)
        mock.clock.set(START + DAY, allow_backwards=True)
        mock.emit_signal(token="BRETT", direction="BUY", confidence=0.99)
        assert "BRETT" in {trade["token_symbol"] for trade in walk(http, "/v1/trades", agent_id=agent)}


def test_nothing_is_sold_before_it_was_bought(stage: Stage) -> None:
    """The clock is set back with a position open, and then comes a SELL, or its agent is paused and goes on."""
    stage.tell(risk=NEAR)
    stage.emit("BUY", "AERO", "BRETT")
    stage.mock.clock.set(START - 2 * HOUR, allow_backwards=True)
    stage.emit("SELL", "AERO")
    stage.mock.stop_agent(stage.agent)
    stage.mock.start_agent(stage.agent)
    stage.wait(HOUR)
    sold, held = sorted(stage.trades(), key=lambda trade: str(trade["token_symbol"]))
    assert (sold["opened_at"], sold["closed_at"], sold["pnl_usd"]) == (START, START, 0.0)
    assert held["status"] == "open"
    stage.wait(DAY)
    assert all(trade["closed_at"] >= START for trade in stage.trades())


def test_of_many_agents_each_with_enough_money_buys(stage: Stage) -> None:
    rich = ok(stage.http.post("/v1/wallets", json=connection(owner=OTHER)), 201)["id"]
    tiny, agents = {"risk": {**FAR, "position_size_pct": 0.0001}}, [stage.agent]
    for wallet, options in ((rich, {}), (stage.wallet, tiny), (rich, tiny), (stage.wallet, {}), (rich, {})):
        agents.append(add_agent(stage.http, wallet, **options)["id"])
        stage.mock.start_agent(agents[-1])
    stage.emit("BUY", "AERO")
    assert [trade["agent_id"] for trade in walk(stage.http, "/v1/trades")][::-1] == [*agents[:2], *agents[4:]]
    for agent in agents[2:4]:
        ok(stage.http.patch(f"/v1/agents/{agent}", json={"risk": FAR}))
    stage.emit("BUY", "BRETT")
    bought = [trade["agent_id"] for trade in walk(stage.http, "/v1/trades") if trade["token_symbol"] == "BRETT"]
    assert bought[::-1] == agents
