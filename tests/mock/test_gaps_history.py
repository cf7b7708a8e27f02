"""A history in which every signal is late by a time of its own: the gap option `history_lag_spread`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk_mock import GapOptions, MockClock, MockServer, MockService

from ._faulty import CARRIERS, connect
from ._support import START, client, in_process, ok, walk

HISTORY = "/v1/signals/history"
ASK: dict[str, Any] = {"chain": 8453, "from": START}
STEP = 0.125  # sums of it are exact


@pytest.fixture
def mock() -> Iterator[MockService]:
    with MockService(seed=7, clock=MockClock(START), signals="scripted") as service:
        yield service


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with in_process(mock) as made:
        yield made


def shown(http: httpx.Client) -> list[str]:
    """The ids in the history, newest first."""
    return [signal["id"] for signal in walk(http, HISTORY, limit=100, **ASK)]


def emit(mock: MockService, count: int, every: float = 0.0) -> list[str]:
    """Signals so many seconds apart from now on; the clock stays where it is."""
    return [signal.id for signal in mock.emit_signals({"after": n * every} for n in range(count))]


def lateness(mock: MockService, http: httpx.Client, seconds: float) -> dict[str, float]:
    """When, from now on, the history showed which signal first; looked at for so long."""
    begun, found = mock.clock.now(), dict[str, float]()
    while True:
        for ident in shown(http):
            found.setdefault(ident, mock.clock.now() - begun)
        if mock.clock.now() - begun >= seconds:
            return found
        mock.clock.advance(STEP)


@pytest.mark.parametrize("spread", [0, 2])
@pytest.mark.parametrize("carrier", CARRIERS)
def test_history_lag_spread(carrier: str, spread: int) -> None:
    made = MockServer if carrier == "sockets" else MockService
    with made(seed=7, clock=MockClock(START), signals="scripted") as mock, connect(mock) as http:
        mock.set_gaps(history_lag_spread=spread)
        emitted = emit(mock, 40)
        late = lateness(mock, http, 2)
        assert sorted(late) == sorted(emitted)
        if spread:
            assert min(late.values()) < 0.5
            assert 1.5 < max(late.values()) <= 2
            assert len(set(late.values())) > 8
        else:
            assert set(late.values()) == {0.0}


def test_a_later_signal_may_come_first_and_the_order_stays_that_of_the_service(
    mock: MockService, http: httpx.Client
) -> None:
    mock.set_gaps(history_lag_spread=2)
    emitted = emit(mock, 40, every=0.25)
    holes, found = 0, list[str]()
    for _ in range(100):
        mock.clock.advance(STEP)
        found = shown(http)
        places = [emitted.index(ident) for ident in found]
        assert places == sorted(places, reverse=True)
        holes += any(newer - older > 1 for newer, older in pairwise(places))
    assert holes > 20
    assert found == emitted[::-1]


def test_who_is_how_late_follows_from_seed_and_id() -> None:
    def play(seed: int, *, noise: bool = False) -> list[float]:
        with MockService(seed=seed, clock=MockClock(START), signals="scripted") as mock, in_process(mock) as http:
            mock.set_gaps(history_lag_spread=2)
            emitted = emit(mock, 30)
            if noise:
                emit_elsewhere(mock)
            late = lateness(mock, http, 2)
            return [late[ident] for ident in emitted]

    assert play(7) == play(7) == play(7, noise=True)
    assert play(7) != play(8)
    # Seeds that no database integer can hold.
    assert play(2**70) == play(2**70)
    assert play(-3) == play(-3)


def emit_elsewhere(mock: MockService) -> None:
    mock.emit_signals({"chain_id": 56} for _ in range(5))
    mock.add_fault("latency", route="/v1/account", jitter=1)
    mock.create_key()


def test_it_comes_on_top_of_the_lag_and_no_signal_shifts_when_it_grows(mock: MockService, http: httpx.Client) -> None:
    emitted = emit(mock, 30)

    def measured(**options: int) -> list[float]:
        mock.clock.set(START, allow_backwards=True)
        mock.set_gaps(**{"history_lag": 0, **options})
        late = lateness(mock, http, 8)
        return [late[ident] for ident in emitted]

    narrow, wide, behind = (
        measured(history_lag_spread=2),
        measured(history_lag_spread=4),
        measured(history_lag_spread=2, history_lag=3),
    )
    assert behind == [3 + seconds for seconds in narrow]
    # Both were looked at eight times a second.
    assert all(abs(far - 2 * near) <= 2 * STEP for near, far in zip(narrow, wide, strict=True))


def test_nothing_else_is_late(mock: MockService, http: httpx.Client) -> None:
    mock.set_gaps(history_lag_spread=3_600, history_lag=3_600)
    with http.stream("GET", "/v1/signals/stream?chain=8453") as stream:
        emitted = emit(mock, 5)
        lines = (line for line in stream.iter_lines() if line)
        assert [ident in next(lines) for ident in emitted] == [True] * 5
    latest = ok(http.get("/v1/signals?chain=8453&limit=5"))["data"]
    assert [signal["id"] for signal in latest] == emitted[::-1]
    assert shown(http) == []


def test_what_arrives_between_two_pages_is_seen_at_its_place_and_nothing_twice(
    mock: MockService, http: httpx.Client
) -> None:
    mock.set_gaps(history_lag_spread=20)
    emitted = emit(mock, 60, every=1)
    mock.clock.advance(30)
    before = shown(http)
    page = ok(http.get(HISTORY, params={**ASK, "limit": 3}))
    found, cursor = [signal["id"] for signal in page["data"]], page["next_cursor"]
    mock.clock.advance(50)
    while cursor:
        page = ok(http.get(HISTORY, params={**ASK, "limit": 3, "cursor": cursor}))
        found += [signal["id"] for signal in page["data"]]
        cursor = page.get("next_cursor")
    assert found[:3] == before[:3]
    # Below the first page it is complete by now; above it, a cursor never goes back.
    below = emitted[emitted.index(found[2]) :: -1]
    assert found[2:] == below
    assert len(before) < len(below)
    assert shown(http) == emitted[::-1]


def test_it_is_by_the_clock_of_the_service(mock: MockService, http: httpx.Client) -> None:
    emitted = emit(mock, 30)
    mock.set_gaps(history_lag_spread=2)
    here = lateness(mock, http, 2)
    mock.clock.set(START, allow_backwards=True)
    mock.set_gaps(clock_skew=1)
    ahead = lateness(mock, http, 1)
    assert ahead == {ident: max(0.0, here[ident] - 1) for ident in emitted}


def test_under_a_clock_that_runs(mock: MockService, http: httpx.Client) -> None:
    """An hour, in a fraction of a second."""
    mock.set_gaps(history_lag_spread=3_600)
    emitted = emit(mock, 50)
    seen = {len(shown(http))}
    mock.clock.move(freeze=False, speed=10_000)
    while mock.clock.now() < START + 3_600:
        seen.add(len(shown(http)))
    assert len(seen) > 2
    assert shown(http) == emitted[::-1]


def test_a_state_file_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "world.db"
    with MockService(seed=7, db=path, clock=MockClock(START), signals="scripted") as first, in_process(first) as http:
        first.set_gaps(history_lag_spread=2)
        emitted = emit(first, 40)
        first.clock.advance(1)
        before = shown(http)
    with MockService(db=path) as second, in_process(second) as http:
        assert second.gaps == GapOptions(history_lag_spread=2)
        assert shown(http) == before
        second.clock.advance(1)
        assert shown(http) == emitted[::-1]
    assert 5 < len(before) < 35


def test_it_is_set_over_http_as_well() -> None:
    with MockServer(clock=MockClock(START), signals="scripted") as server, client(server) as http:
        answer = ok(http.put("/_mock/gaps", json={"history_lag_spread": 2}))
        assert answer["options"]["history_lag_spread"] == 2
        emitted = emit(server, 40)
        server.clock.advance(1)
        assert 0 < len(shown(http)) < 40
        refused = http.put("/_mock/gaps", json={"history_lag_spread": 3_601})
        assert (refused.status_code, "0 to 3600" in refused.text) == (400, True)
        server.clock.advance(1)
        assert shown(http) == emitted[::-1]
