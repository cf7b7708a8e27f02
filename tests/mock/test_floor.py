"""What the floor knows by heart, and when it has to look it up again: changes elsewhere, refusals, clocks set back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tradesdk_mock import GapOptions, MockClock, MockServerError, MockService
from tradesdk_mock import floor as floors
from tradesdk_mock.signals import next_due

from ._support import START, add_agent, add_wallet, in_process, ok, walk

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
    """One entry for each time that a floor is looked up."""
    found: list[object] = []
    build = floors.Floor.__init__

    def counted(self: floors.Floor, *args: object) -> None:
        found.append(args)
        build(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(floors.Floor, "__init__", counted)
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
            patch.setattr("tradesdk_mock.floor.Floor.flush", broken)
            assert http.get("/v1/trades").status_code == 500
        assert walk(http, "/v1/trades") == walk(same, "/v1/trades")
        assert walk(http, "/v1/positions") == walk(same, "/v1/positions")


def broken(self: floors.Floor) -> None:
    raise RuntimeError("no room")


@pytest.mark.parametrize("signals", ["live", "scripted"])
def test_a_stream_that_asks_what_comes_next_delays_no_exit(tmp_path: Path, signals: str) -> None:
    """It looks up when the next signal comes, in a process that doesn't know yet when the next position is over."""
    file, clock = tmp_path / "world.db", MockClock(START)
    kept = {"signals": signals, "gaps": OPEN}
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
def test_the_house_trades_whenever_it_was_asked_for_first(early: bool) -> None:
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
