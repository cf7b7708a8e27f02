"""What the trading engine holds in memory, and when it reads it again: changes elsewhere, refusals, clocks set back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk_mock import GapOptions, MockClock, MockServerError, MockService
from tradesdk_mock.core.messages import Request
from tradesdk_mock.state.world import World
from tradesdk_mock.trading import background_tenant, engine, signal_feed
from tradesdk_mock.trading.positions import Agent
from tradesdk_mock.trading.signal_feed import next_due

from ._support import OTHER, START, add_agent, add_wallet, connection, in_process, ok, walk

HOUR, DAY = 3_600, 86_400
OPEN = GapOptions(paywall="open")


@pytest.fixture
def mock(tmp_path: Path) -> Iterator[MockService]:
    with MockService(db=tmp_path / "world.db", clock=MockClock(START), gaps=OPEN) as service:
        yield service


def running(mock: MockService, http: httpx.Client) -> str:
    """An agent that has been active for two hours."""
    agent = add_agent(http, add_wallet(http))["id"]
    mock.start_agent(agent)
    mock.clock.advance(2 * HOUR)
    assert walk(http, "/v1/trades")
    return str(agent)


def loads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """One entry for each engine that is made."""
    found: list[object] = []
    build = engine.TradingEngine.__init__

    def counted(self: engine.TradingEngine, world: World, **options: Any) -> None:
        found.append(options)
        build(self, world, **options)

    monkeypatch.setattr(engine.TradingEngine, "__init__", counted)
    return found


def test_what_has_nothing_to_do_with_trading_looks_nothing_up(
    mock: MockService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process's requests write to the file, and so do refusals: neither costs a look at all positions."""
    with in_process(mock) as http, MockService(db=tmp_path / "world.db") as other:
        running(mock, http)
        found = loads(monkeypatch)
        for _ in range(3):
            other.create_key(tenant="somebody")
            with pytest.raises(MockServerError):
                mock.start_agent("agt_unknown")
            walk(http, "/v1/positions")
        assert found == []


def test_what_another_process_does_to_an_agent_is_seen(mock: MockService, tmp_path: Path) -> None:
    with in_process(mock) as http, MockService(db=tmp_path / "world.db") as other:
        agent = running(mock, http)
        other.stop_agent(agent)
        before = walk(http, "/v1/trades")
        mock.clock.advance(DAY)
        assert walk(http, "/v1/trades") == before
        other.start_agent(agent)
        mock.clock.advance(HOUR)
        assert len(walk(http, "/v1/trades")) > len(before)


def test_a_change_that_is_undone_leaves_nothing_behind(mock: MockService, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file refuses in the middle of a day: the next request lives through that day once, and whole."""
    with in_process(mock) as http, MockService(clock=MockClock(START), gaps=OPEN) as twin, in_process(twin) as same:
        running(mock, http)
        running(twin, same)
        for service in (mock, twin):
            service.clock.advance(DAY)
        with monkeypatch.context() as patch:
            patch.setattr("tradesdk_mock.trading.engine.TradingEngine.flush", broken)
            assert http.get("/v1/trades").status_code == 500
        assert walk(http, "/v1/trades") == walk(same, "/v1/trades")
        assert walk(http, "/v1/positions") == walk(same, "/v1/positions")


def broken(self: engine.TradingEngine) -> None:
    raise RuntimeError("no room")


@pytest.mark.parametrize("market", ["live", "scripted"])
def test_a_stream_that_asks_what_comes_next_delays_no_exit(tmp_path: Path, market: str) -> None:
    """It looks up when the next signal comes, in a process that doesn't know yet when the next position is over."""
    file, clock = tmp_path / "world.db", MockClock(START)
    kept = {"signals": market, "gaps": OPEN}
    with MockService(db=file, clock=clock, **kept) as first, in_process(first) as http:  # type: ignore[arg-type]
        wallet = add_wallet(http)
        near = {"stop_loss_pct": 0.5, "trailing_stop_pct": 0.5, "take_profit_pct": 0.5}
        agent = add_agent(http, wallet, risk=near)["id"]
        with MockService(db=file) as second, in_process(second) as later:
            ok(later.get("/v1/account"))
            first.start_agent(agent)
            for token in ("BRETT", "AERO", "DEGEN"):
                first.emit_signal(token=token, direction="BUY", confidence=0.99)
            ok(later.get("/v1/account"))
            next_due(second.world)
            second.clock.advance(2 * DAY)
            over = [trade for trade in walk(later, "/v1/trades") if trade["opened_at"] == START]
            assert [trade["status"] for trade in over] == ["closed"] * 3


@pytest.mark.parametrize("early", [True, False])
def test_the_background_tenant_trades_whenever_it_was_asked_for_first(early: bool) -> None:
    with MockService(clock=MockClock(START), gaps=OPEN) as mock, in_process(mock) as http:
        if early:
            ok(http.get("/v1/signals", params={"chain": 8453}))
        ok(http.post("/v1/aggregate-metrics", json={}))
        mock.clock.advance(2 * DAY)
        found = ok(http.post("/v1/aggregate-metrics", json={}))["data"]
        with MockService(clock=MockClock(START), gaps=OPEN) as twin, in_process(twin) as same:
            twin.clock.advance(2 * DAY)
            assert ok(same.post("/v1/aggregate-metrics", json={}))["data"] == found


def test_nothing_is_closed_in_the_future_after_the_clock_went_back(mock: MockService) -> None:
    with in_process(mock) as http:
        running(mock, http)
        mock.clock.advance(5 * DAY)
        walk(http, "/v1/trades")
        mock.clock.set(START + DAY, allow_backwards=True)
        agent = add_agent(http, add_wallet(http, chain_id=56), chain_id=56)["id"]
        mock.start_agent(agent)
        mock.emit_signal(chain_id=56, token="CAKE", direction="BUY", confidence=0.99)
        for _ in range(30):
            mock.clock.advance(HOUR)
            now = mock.clock.now()
            trades = walk(http, "/v1/trades", agent_id=agent)
            assert trades
            assert all((trade["closed_at"] or 0) <= now for trade in trades)


def test_an_agent_of_before_the_clock_went_back_still_trades(mock: MockService) -> None:
    with in_process(mock) as http:
        mock.clock.advance(10 * DAY)
        agent = add_agent(http, add_wallet(http))["id"]
        mock.start_agent(agent)
        mock.clock.set(START + DAY, allow_backwards=True)
        mock.emit_signal(token="BRETT", direction="BUY", confidence=0.99)
        assert "BRETT" in {trade["token_symbol"] for trade in walk(http, "/v1/trades", agent_id=agent)}


def test_a_tenant_of_1970_has_no_trades_of_the_future() -> None:
    with MockService(clock=MockClock(0)) as mock, in_process(mock, "mock_full_me") as http:
        mock.populate("me")
        trades = walk(http, "/v1/trades")
        assert len(trades) == 250
        assert all(max(trade["opened_at"], trade["closed_at"] or 0) <= 0 for trade in trades)


def test_ether_is_not_bought_with_ether(mock: MockService) -> None:
    with in_process(mock) as http:
        agent = add_agent(http, add_wallet(http))["id"]
        mock.start_agent(agent)
        mock.emit_signal(token="ETH", direction="BUY", confidence=0.99)
        assert walk(http, "/v1/trades") == []


def test_nothing_is_sold_before_it_was_bought() -> None:
    """The clock is set back with a position open, and then comes a SELL, or its agent is paused and goes on."""
    with MockService(clock=MockClock(START), signals="scripted") as made, in_process(made) as http:
        agent = add_agent(http, add_wallet(http))["id"]
        made.start_agent(agent)
        for token in ("AERO", "BRETT"):
            made.emit_signal(token=token, direction="BUY", confidence=1.0)
        made.clock.set(START - 2 * HOUR, allow_backwards=True)
        made.emit_signal(token="AERO", direction="SELL", confidence=1.0)
        made.stop_agent(agent)
        made.start_agent(agent)
        made.clock.advance(HOUR)
        sold, held = sorted(walk(http, "/v1/trades"), key=lambda trade: str(trade["token_symbol"]))
        assert (sold["opened_at"], sold["closed_at"], sold["pnl_usd"]) == (START, START, 0.0)
        assert held["status"] == "open"
        made.clock.advance(DAY)
        assert all(trade["closed_at"] >= START for trade in walk(http, "/v1/trades"))


METRICS = Request("POST", "/v1/aggregate-metrics", b"", [(b"content-type", b"application/json")], b"{}")


@pytest.mark.long
def test_the_background_tenant_is_made_in_turns(
    mock: MockService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signals have caught up before: a server gives others their turn, and what comes of it is the same."""
    monkeypatch.setattr(signal_feed, "SLICE", 0.0)
    with MockService(clock=MockClock(START), gaps=OPEN) as twin, in_process(twin) as same, in_process(mock) as http:
        for service, api in ((twin, same), (mock, http)):
            service.populate("main", trades=8)
            service.clock.advance(6 * HOUR)
            ok(api.get("/v1/trades"))
        with MockService(db=tmp_path / "world.db") as other, in_process(other) as later:
            turns = 0
            while mock.pipeline.is_behind(mock.pipeline.open(METRICS), START):
                turns += 1
                assert background_tenant.is_growing(mock.world)
                # Whoever trades meanwhile leaves the background tenant alone.
                other.world.trading = None
                ok(later.get("/v1/trades"))
            assert turns > 5
            assert not background_tenant.is_growing(other.world)
        assert ok(http.post("/v1/aggregate-metrics", json={})) == ok(same.post("/v1/aggregate-metrics", json={}))
        for service in (twin, mock):
            service.clock.advance(2 * HOUR)
        for path in ("/v1/trades", "/v1/positions"):
            assert walk(http, path) == walk(same, path)
        assert ok(http.post("/v1/aggregate-metrics", json={})) == ok(same.post("/v1/aggregate-metrics", json={}))


def test_a_background_tenant_that_is_half_made_is_finished_by_whoever_needs_it(
    mock: MockService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal_feed, "SLICE", 0.0)
    with in_process(mock) as http:
        mock.clock.advance(HOUR)
        ok(http.get("/v1/signals", params={"chain": 8453}))
        assert mock.pipeline.is_behind(mock.pipeline.open(METRICS), START)
        agent = mock.world.store.value("SELECT id FROM agents WHERE tenant = 'house' AND status = 'active'")
        mock.stop_agent(agent)
        assert not background_tenant.is_growing(mock.world)


def test_nobody_makes_the_background_tenant_for_less_than_a_payment(mock: MockService) -> None:
    mock.set_gaps(paywall="closed")
    mock.pipeline.is_behind(mock.pipeline.open(METRICS), START)
    assert mock.status()["tenants"] == []


@pytest.mark.parametrize("many", [0, 100])
def test_of_many_agents_only_those_are_asked_that_have_enough(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_MANY", many)
    asked: list[str] = []
    original = engine.TradingEngine._open

    def noted(self: engine.TradingEngine, agent: Agent, opportunity: engine._BuyOpportunity) -> None:
        asked.append(agent.id)
        original(self, agent, opportunity)

    with MockService(clock=MockClock(START), signals="scripted") as mock, in_process(mock) as http:
        poor, rich = add_wallet(http), ok(http.post("/v1/wallets", json=connection(owner=OTHER)), 201)["id"]
        owners = [poor, rich, poor, poor, rich]
        agents = [add_agent(http, wallet)["id"] for wallet in owners]
        for agent in agents:
            mock.start_agent(agent)
        mock.world.store.run("UPDATE wallets SET native = 1e-9 WHERE id = ?", (poor,))
        monkeypatch.setattr(engine.TradingEngine, "_open", noted)
        mock.emit_signal(token="AERO", direction="BUY", confidence=1.0)
        # A wallet that was too poor once is not looked at again, nor is any where they are many.
        assert asked == ([agents[0]] if many else []) + [agents[1], agents[4]]
        mock.world.store.run("UPDATE wallets SET native = 5.0 WHERE id = ?", (poor,))
        mock.emit_signal(token="BRETT", direction="BUY", confidence=1.0)
        bought = [trade["agent_id"] for trade in walk(http, "/v1/trades") if trade["token_symbol"] == "BRETT"]
        assert bought[::-1] == agents


@pytest.mark.long
def test_how_many_agents_there_are_changes_nothing_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for many in (0, 100):
        monkeypatch.setattr(engine, "_MANY", many)
        with MockService(clock=MockClock(START), gaps=OPEN) as mock, in_process(mock, "mock_read_house") as http:
            ok(http.get("/v1/account"))
            mock.clock.advance(HOUR)
            found.append([walk(http, path, limit=100) for path in ("/v1/trades", "/v1/positions")])
    assert found[0] == found[1]
