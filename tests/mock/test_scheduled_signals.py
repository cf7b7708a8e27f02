"""Signals that a test asks for: at a time, as a script or a series; and the one that a new stream gets soon."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tradesdk_mock import MockClock, MockServer, MockServerError, MockService, MockSignal

from .._rows import each_of
from ._http import START, client, in_process, ok, walk, without_past

BASE, BNB = 8453, 56
DAY = 86_400


def service(**options: Any) -> MockService:
    made = MockService(**{"clock": MockClock(START), "signals": "scripted", **options})
    if not options:
        without_past(made)
    return made


@pytest.fixture
def mock() -> Iterator[MockService]:
    with service() as mock:
        yield mock


def history(mock: MockService, chain: int = BASE) -> list[tuple[str, str, int]]:
    """(token, direction, seconds since the start) of what was published since then, oldest first."""
    return [(one["token_symbol"], one["direction"], one["timestamp"] - START) for one in records(mock, chain)]


def records(mock: MockService, chain: int = BASE) -> list[dict[str, Any]]:
    """What was published since the start, oldest first."""
    with in_process(mock, "mock_full_enterprise_main") as http:
        return walk(http, "/v1/signals/history", chain=chain, limit=100, **{"from": START})[::-1]


def published(mock: MockService, chain: int = BASE) -> list[str]:
    return [record["id"] for record in records(mock, chain)]


def stream(mock: MockService, chain: int, count: int) -> list[dict[str, Any]]:
    """The first events of a new stream; reading them moves the clock."""
    with client(mock) as http, http.stream("GET", "/v1/signals/stream", params={"chain": chain}) as answer:
        lines = (line for line in answer.iter_lines() if line.startswith("data: "))
        return [json.loads(next(lines)[6:]) for _ in range(count)]


# Scripts and series


def test_a_script_is_played_as_the_clock_gets_there(mock: MockService) -> None:
    script: list[dict[str, Any]] = [
        {"token": "BRETT", "direction": "BUY", "confidence": 0.9},
        {"token": "AERO", "direction": "SELL", "after": 40},
        {"token": "TOSHI", "direction": "BUY", "after": 20.5, "price_usd": 2.0},
        {"token": "CAKE", "direction": "BUY", "chain_id": 56},
    ]
    made = [mock.emit_signal(**line) for line in script]
    assert [signal.published_at - START for signal in made] == [0, 40, 20.5, 0]
    assert (made[0].confidence, made[2].price_usd) == (0.9, 2.0)
    assert history(mock) == [("BRETT", "BUY", 0)]
    assert history(mock, 56) == [("CAKE", "BUY", 0)]
    mock.clock.advance(39)
    assert history(mock) == [("BRETT", "BUY", 0), ("TOSHI", "BUY", 20)]
    mock.clock.advance(1)
    assert history(mock) == [("BRETT", "BUY", 0), ("TOSHI", "BUY", 20), ("AERO", "SELL", 40)]
    mock.set_gaps(clock_skew=600)  # it begins at the service's time
    assert mock.emit_signal(after=5).published_at == START + 645


def test_one_signal_after_a_while(mock: MockService) -> None:
    assert mock.emit_signal(token="BRETT", direction="BUY", after=5).published_at == START + 5
    assert history(mock) == []
    mock.clock.advance(5)
    assert history(mock) == [("BRETT", "BUY", 5)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        *(
            ({"after": each}, "after: must be .*from 0 to 100,000,000,000")
            for each in (-1, float("nan"), 10**30, True, "5")
        ),
        ({"after": 9.9e10}, "at: "),
        ({"confidence": 1.5}, "confidence: must be from 0 to 1"),
        ({"chain_id": 1}, "chain_id: must be 8453 or 56"),
        ({"direction": "HOLD"}, "direction: must be one of BUY, SELL"),
        ({"at": START - 3_600}, "at: .* is in the past"),
        ({"after": 1, "at": START + 1}, "after and at: a signal has one of them, not both"),
    ],
)
def test_a_signal_that_can_not_be_is_not_published(mock: MockService, given: dict[str, Any], words: str) -> None:
    with pytest.raises(MockServerError, match=f"^{words}"):
        mock.emit_signal(**given)
    mock.clock.advance(DAY)
    assert (mock.status()["signals"], history(mock)) == (0, [])


# Signals at a time


def test_a_signal_comes_when_its_time_has_come_and_once(mock: MockService) -> None:
    """On a stream, too: a read moves the clock to that time."""
    late, early = mock.emit_signal(at=START + 20), mock.emit_signal(at=START + 10.5)
    assert (late.published_at, early.published_at) == (START + 20, START + 10.5)
    assert (late.timestamp, early.timestamp) == (START + 20, START + 10)
    mock.clock.advance(10)
    assert published(mock) == []
    (event,) = stream(mock, BASE, 1)
    assert (event["id"], mock.clock.now()) == (early.id, START + 10.5)
    assert published(mock) == [early.id]
    for back in (False, True):
        if back:
            mock.clock.set(START, allow_backwards=True)
        mock.clock.advance(3_600)
        assert published(mock) == [early.id, late.id]


@pytest.mark.parametrize("at", [START, START - 60, START - 0.001])
def test_a_time_that_has_just_passed_is_now(mock: MockService, at: float) -> None:
    signal = mock.emit_signal(at=at)
    assert (signal.published_at, signal.timestamp) == (START, START)
    assert published(mock) == [signal.id]


@pytest.mark.long
def test_scheduled_and_market_signals_come_in_the_order_of_time() -> None:
    """In one jump and in small steps; and the market's own are those that it makes alone."""
    found, planned = [], set[str]()
    for steps, scheduled in ((1, True), (360, True), (1, False)):
        with service(signals="live") as mock:
            if scheduled:
                planned |= {
                    mock.emit_signal(at=START + 7.3 * step, chain_id=BNB if step % 2 else BASE).id
                    for step in range(50, 0, -1)
                }
            for _ in range(steps):
                mock.clock.advance(3_600 / steps)
                if steps > 1:
                    published(mock)
            found.append([records(mock, chain) for chain in (BASE, BNB)])
    jumped, stepped, alone = found
    assert jumped == stepped
    assert len(planned) == 50
    for both, market in zip(jumped, alone, strict=True):
        assert [record for record in both if record["id"] not in planned] == market
        assert len(both) == len(market) + 25
        assert [record["timestamp"] for record in both] == sorted(record["timestamp"] for record in both)


def test_back_in_time_a_scheduled_signal_waits() -> None:
    with service(signals="live") as mock:
        signal = mock.emit_signal(at=START + 30)
        mock.clock.set(START - 3_600, allow_backwards=True)
        soon = mock.emit_signal(at=START - 3_595)
        mock.clock.advance(5)
        with in_process(mock) as http:
            (latest,) = ok(http.get("/v1/signals", params={"chain": BASE, "limit": 1}))["data"]
        assert latest["id"] != signal.id
        assert among_published(mock, signal, soon) == {soon.id}
        mock.clock.set(START + 30)
        assert signal.id in published(mock)


def among_published(mock: MockService, *signals: MockSignal) -> set[str]:
    """Which of these signals have been published."""
    with in_process(mock) as http:
        listed = walk(http, "/v1/signals/history", chain=BASE, limit=100, **{"from": START - 7_200})
    return {signal.id for signal in signals} & {record["id"] for record in listed}


def test_the_oldest_of_a_long_jump_are_left_out_but_nothing_that_was_scheduled() -> None:
    with service(signals="live") as mock:
        mock.world.catch_up_limit = 60
        signal = mock.emit_signal(at=START + 5)
        mock.clock.advance(3_600)
        first, *others = records(mock)
        assert first["id"] == signal.id
        assert others
        assert all(record["timestamp"] >= START + 3_540 for record in others)


def test_what_was_scheduled_outlives_the_process_but_not_a_reset(tmp_path: Path) -> None:
    with service(db=tmp_path / "state.db") as first:
        signal = first.emit_signal(at=START + 5)
    with service(db=tmp_path / "state.db") as second:
        assert stream(second, BASE, 1)[0]["id"] == signal.id
        later = second.emit_signal(at=START + 60)
        second.reset()
        second.clock.advance(DAY)
        assert later.id not in published(second)


def test_what_a_crash_undoes_is_not_published(mock: MockService) -> None:
    def crash() -> None:
        with mock.world.transaction():
            mock.emit_signal(at=START + 5)
            raise RuntimeError("crash")

    with pytest.raises(RuntimeError, match="crash"):
        crash()
    mock.clock.advance(5)
    assert published(mock) == []
    with service(clock=MockClock(START + 5)) as other:
        assert mock.emit_signal().confidence == other.emit_signal().confidence


@pytest.mark.long
def test_several_processes_on_one_file_publish_each_once(tmp_path: Path) -> None:
    clock = MockClock(START)
    mocks = [service(seed=7, db=tmp_path / "state.db", clock=clock) for _ in range(3)]
    planned = [mocks[turn % 3].emit_signal(at=START + 1 + turn).id for turn in range(60)]
    ready = threading.Barrier(4)
    failed: list[BaseException] = []

    def follow(mine: MockService) -> None:
        try:
            for _ in range(60):
                ready.wait(timeout=300)
                with in_process(mine, "mock_full_enterprise_main") as http:
                    ok(http.get("/v1/signals", params={"chain": BASE}))
                ready.wait(timeout=300)
        except BaseException as error:  # a test that hangs says nothing
            failed.append(error)
            ready.abort()

    threads = [threading.Thread(target=follow, args=(each,)) for each in mocks]
    for thread in threads:
        thread.start()
    for _ in range(60):
        clock.advance(1)
        ready.wait(timeout=300)
        ready.wait(timeout=300)
    for thread in threads:
        thread.join()
    assert failed == []
    for each in mocks:
        assert published(each) == planned
        each.close()


@pytest.mark.long
def test_a_long_jump_over_sockets_is_made_up_for_in_parts_and_to_the_same_signals() -> None:
    """A server gives other requests their turn in between."""
    found = []
    for made in (MockService, MockServer):
        with made(clock=MockClock(START)) as mock, client(mock) as http:
            mock.emit_signal(at=START + 40_000.5)
            mock.clock.advance(DAY)
            found.append((http.get("/v1/signals/history?chain=8453&limit=100").content, mock.status()["signals"]))
    assert found[0] == found[1]
    assert found[0][1] > 17_000


# The signal that a new stream gets soon


@each_of("chain", [BASE, BNB])
def test_whoever_opens_a_stream_has_a_signal_soon(chain: int) -> None:
    with service(signals="live", first_within=2.0) as mock, service(signals="live") as plain:
        waited = list[float]()
        for _ in range(10):
            begun = mock.clock.now()
            (event,) = stream(mock, chain, 1)
            assert event["type"] == "signal"
            waited.append(mock.clock.now() - begun)
            mock.clock.advance(7.3)
        assert max(waited) <= 2
        assert max(waited) >= 1
        plain.clock.set(mock.clock.now())
        # What a test asks for does not depend on how many there were.
        assert mock.emit_signal(token="BRETT") == plain.emit_signal(token="BRETT")


def test_a_scripted_market_promises_nothing() -> None:
    with service(first_within=2.0) as mock:
        assert [event["type"] for event in stream(mock, BASE, 2)] == ["heartbeat", "heartbeat"]
        assert mock.clock.now() == START + 30
