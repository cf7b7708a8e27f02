"""When signals are published: what the market makes over time, whoever reads it and however often.

Their rules: tests/contract/test_service_signals; what they say: test_crossovers; those that are asked for: test_emit.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk import TradeClient
from tradesdk_mock import MockClock, MockServerError, MockService
from tradesdk_mock.market.indicators import past_signals
from tradesdk_mock.market.price_model import prices
from tradesdk_mock.state.world import World
from tradesdk_mock.trading import signal_feed

from ._http import BASE, BNB, CARRIERS, DAY, HOUR, START, carried, client, error, in_process, ok, walk

pytestmark = pytest.mark.long

WEEK = 7 * DAY


def service(at: float = START, **options: Any) -> MockService:
    return MockService(**{"seed": 7, "clock": MockClock(at), **options})


def published(mock: MockService, chain: int = BASE, since: float | None = None) -> list[dict[str, Any]]:
    """What the history shows of a chain, oldest first."""
    mock.world.limiter.clear()
    with in_process(mock, "mock_full_enterprise_me") as http:
        query: dict[str, Any] = {"chain": chain, "limit": 100} | ({} if since is None else {"from": int(since)})
        return walk(http, "/v1/signals/history", **query)[::-1]


def both(mock: MockService) -> list[list[dict[str, Any]]]:
    return [published(mock, chain) for chain in (BASE, BNB)]


def test_a_week_before_the_world_was_made_and_a_denser_market_since() -> None:
    mock = service()
    before = both(mock)
    assert sorted(one["id"] for chain in before for one in chain) == sorted(
        row[1] for row in past_signals(prices(7), START)
    )
    mock.clock.advance(HOUR)
    for old, now in zip(before, both(mock), strict=True):
        assert now[: len(old)] == old
        assert all(START - WEEK <= one["timestamp"] <= START for one in old)
        new = now[len(old) :]
        assert all(START < one["timestamp"] <= START + HOUR for one in new)
        # In an hour a third of what there was in a week.
        assert len(new) > len(old) / 4
        assert len({one["id"] for one in now}) == len(now)


@settings(max_examples=20, deadline=None)
@given(steps=st.lists(st.floats(0, 900), max_size=8), look=st.lists(st.booleans(), min_size=8, max_size=8))
def test_waiting_and_jumping_come_to_the_same(steps: list[float], look: list[bool]) -> None:
    waited, jumped = service(), service()
    for step, looks in zip(steps, look, strict=False):
        waited.clock.advance(step)
        if looks:
            published(waited, since=START)
    jumped.clock.set(waited.clock.now())
    assert [published(waited, chain, START) for chain in (BASE, BNB)] == [
        published(jumped, chain, START) for chain in (BASE, BNB)
    ]


def test_hours_at_once_and_hours_of_two_processes(tmp_path: Path) -> None:
    at_once, clock = service(), MockClock(START)
    shared = [MockService(seed=7, db=tmp_path / "state.db", clock=clock) for _ in range(2)]
    at_once.clock.advance(2 * HOUR)
    with in_process(shared[0]) as one, in_process(shared[1]) as two:
        for turn in range(24):
            clock.advance(HOUR / 12)
            ok((one, two)[turn % 3 % 2].get("/v1/signals?chain=56"))
    expected = both(at_once)
    assert both(shared[0]) == both(shared[1]) == expected
    # A reset begins again, with another seed if one is given.
    shared[0].reset()
    assert both(shared[1]) == both(shared[0]) == both(service(START + 2 * HOUR)) != expected
    shared[0].reset(seed=8)
    assert both(shared[1]) == both(service(START + 2 * HOUR, seed=8))
    for each in shared:
        each.close()


def test_what_is_published_is_next_due_before() -> None:
    mock = service()
    signal_feed.catch_up(mock.world)
    for _ in range(50):
        due = signal_feed.next_due(mock.world)
        assert due is not None
        assert due > mock.clock.now()
        mock.clock.set(due - 0.001)
        assert signal_feed.catch_up(mock.world) == 0
        mock.clock.set(due)
        assert signal_feed.catch_up(mock.world) >= 1
        assert mock.world.store.value("SELECT max(published_at) FROM signals") == due


def test_nothing_is_asked_of_the_store_while_nothing_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    world = service().world
    signal_feed.catch_up(world)
    monkeypatch.setattr(world, "store", None)
    assert signal_feed.catch_up(world) == 0
    assert signal_feed.next_due(world) is not None


def test_back_in_time_what_was_published_stays_and_nothing_comes_twice() -> None:
    mock = service()
    mock.clock.advance(HOUR)
    before = both(mock)
    mock.clock.set(START - DAY, allow_backwards=True)
    assert both(mock) == before
    mock.clock.set(START + HOUR)
    assert both(mock) == before
    mock.clock.advance(60)
    plain = service()
    plain.clock.advance(HOUR + 60)
    assert both(mock) == both(plain) != before


def test_where_a_world_begins() -> None:
    """Set back before anyone looked, it begins there; at the beginning of time it has no past."""
    back, early = service(), service(0)
    back.clock.set(START - 100 * DAY, allow_backwards=True)
    assert both(back) == both(service(START - 100 * DAY))
    assert max(one["timestamp"] for one in published(back)) <= START - 100 * DAY
    for skew in (0, -600, 0):
        early.set_gaps(clock_skew=skew)
        assert both(early) == [[], []]
    early.clock.set(HOUR)
    assert len(published(early)) > 500


def test_of_a_long_jump_only_the_end_is_made_up_for() -> None:
    """By default of a month; the same signals whatever the limit."""
    found = []
    for limit in (HOUR, 2 * HOUR):
        world = World(seed=7, clock=MockClock(START), catch_up_limit=limit)
        signal_feed.catch_up(world)
        world.clock.advance(40 * DAY)
        signal_feed.catch_up(world)
        rows = world.store.all("SELECT published_at, id FROM signals WHERE published_at > ? ORDER BY seq", (START,))
        assert rows[0][0] > world.now() - limit
        found.append(rows)
    assert found[0] == found[1][-len(found[0]) :]
    assert len(found[0]) > 500
    assert service().world.catch_up_limit == 31 * DAY


SHOWN = ["/v1/signals?chain=8453", "/v1/signals/history?chain=8453", "/v1/signals/stream?chain=8453", "/v1/trades"]


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_request_after_a_long_jump_makes_up_for_a_part_of_it_and_says_so(
    carrier: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The same part on every machine; in the end it is as if the jump had been many short ones."""
    monkeypatch.setattr(signal_feed, "_LONGEST", 3 * HOUR)
    with carried(carrier, seed=7, signals="live") as mock, service() as slow:
        mock.populate("main", trades=8)
        slow.populate("main", trades=8)
        mock.clock.set(START + 10 * HOUR)
        with client(mock) as http, in_process(slow) as waits:
            for hours, path in zip((3, 6, 9), SHOWN[1:], strict=True):
                reached = datetime.fromtimestamp(START + hours * HOUR, UTC)
                said = error(answer := http.get(path), 503, "service_unavailable")
                assert said == (
                    f"Signals are published until {reached}, and the clock shows 2027-01-15 18:00:00+00:00;"
                    " try again to continue."
                )
                assert (answer.headers["retry-after"], "x-ratelimit-reset" in answer.headers) == ("1", False)
                assert f"signals until {reached} are published, it is 2027-01-15 18:00:00+00:00" in caplog.text
            for hour in range(1, 11):
                slow.clock.set(START + hour * HOUR)
                ok(waits.get("/v1/trades"))
            for path in (SHOWN[0], SHOWN[1], SHOWN[3]):
                assert ok(http.get(path)) == ok(waits.get(path))


def test_the_sdk_waits_until_the_mock_has_made_up_for_a_jump(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal_feed, "_LONGEST", 3 * HOUR)
    with (
        service() as mock,
        mock.transport().http_client() as http,
        TradeClient(api_key="mock_full_main", base_url=mock.url, clock=mock.clock, http_client=http) as trade,
    ):
        mock.clock.advance(10 * HOUR)
        assert START + 9.9 * HOUR < trade.signals.latest(chain=BASE)[0].timestamp.timestamp() <= mock.clock.now()
        assert mock.clock.now() < START + 10 * HOUR + 60


def test_speed_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Real:
        passed = 0.0

        def now(self) -> float:
            return START + self.passed

        monotonic = now

    real = Real()
    monkeypatch.setattr("tradesdk_mock.core.clock.RealTime", real)
    mock, expected = MockService(seed=7, clock=MockClock()), service()
    mock.clock.move(speed=600)
    both(mock)
    due = signal_feed.next_due(mock.world)
    assert due is not None
    wait = mock.clock.real_seconds_until(due)
    assert wait is not None
    assert wait <= 0.01
    real.passed = 6
    expected.clock.advance(HOUR)
    assert both(mock) == both(expected)


def test_the_kind_of_market_is_kept_in_the_file(tmp_path: Path) -> None:
    """A scripted one has a past and nothing more; live again, none for the hours in which it was off."""
    path, clock = tmp_path / "state.db", MockClock(START)
    first = MockService(db=path, clock=clock, signals="scripted")
    second = MockService(db=path, clock=clock)
    before = both(first)
    assert before == both(service())
    clock.advance(HOUR)
    assert signal_feed.next_due(second.world) == float("inf")
    third = MockService(db=path, clock=clock, signals="live")
    assert both(second) == both(third) == before
    clock.advance(HOUR)
    plain = service()
    plain.clock.advance(2 * HOUR)
    for chain, old in zip((BASE, BNB), before, strict=True):
        late = [one for one in published(plain, chain) if one["timestamp"] > START + HOUR]
        assert published(first, chain)[len(old) :] == late
        assert late
    for each in (first, second, third):
        each.close()
    with pytest.raises(MockServerError, match="'wild' is not a market"):
        service(signals="wild")


def test_what_a_crash_undoes_is_published_again() -> None:
    mock, expected = service(), service()
    both(mock)
    for each in (mock, expected):
        each.clock.advance(60)

    def crash() -> None:
        with mock.world.transaction():
            assert signal_feed.catch_up(mock.world) > 0
            raise RuntimeError("crash")

    with pytest.raises(RuntimeError, match="crash"):
        crash()
    assert both(mock) == both(expected)


# Those that are asked for, among the others


def test_an_emitted_signal_is_among_the_latest_and_in_the_history(server: MockService, api: httpx.Client) -> None:
    server.clock.advance(60)
    signal = server.emit_signal(token="BRETT", direction="BUY", confidence=0.97, price_usd=0.5)
    found = ok(api.get("/v1/signals?chain=8453"))["data"]
    assert found[0] == {name: getattr(signal, name) for name in found[1]}
    for path in ("/v1/signals", "/v1/signals/history"):
        assert ok(api.get(path, params={"chain": 8453}))["data"] == found
        assert found[0] not in ok(api.get(path, params={"chain": 56}))["data"]
    mine = walk(api, "/v1/signals/history", chain=8453, token_address=signal.token_address, limit=100)
    assert mine[0] == found[0]
    assert {each["token_symbol"] for each in mine} == {"BRETT"}
    assert any(START < each["timestamp"] <= START + 60 for each in found[1:]), "the market goes on"
    with client(server, "mock_read_other") as other:
        assert ok(other.get("/v1/signals?chain=8453"))["data"] == found, "the same for every tenant"
    dated = server.emit_signal(timestamp=99_999_999_999)
    server.clock.advance(60)
    newest = walk(api, "/v1/signals/history", **{"chain": 8453, "from": START, "limit": 30})
    assert [each["id"] for each in newest].index(dated.id) == 0


def test_a_page_goes_on_where_it_ended_while_signals_come(server: MockService, api: httpx.Client) -> None:
    server.set_gaps(history_lag=2)
    whole = ok(api.get("/v1/signals/history?chain=8453&limit=100"))["data"]
    page = ok(api.get("/v1/signals/history?chain=8453&limit=10"))
    found = page["data"]
    while len(found) < 100:
        server.clock.advance(7)
        server.emit_signal()
        page = ok(api.get("/v1/signals/history", params={"chain": 8453, "limit": 10, "cursor": page["next_cursor"]}))
        found += page["data"]
    assert found == whole
