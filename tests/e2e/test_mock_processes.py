"""Several server processes on one state file: one world, one market, and nothing happens twice."""

from __future__ import annotations

import json
import statistics
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.mock._http import add_agent, add_wallet, in_process, ok, walk

from tradesdk_mock import MockClock, MockService

from ._mockserved import KEY, START, begin, served

pytestmark = pytest.mark.long

SEED = 5
STEP = 900


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "world.db"


def employ(http: httpx.Client) -> None:
    """Agents that trade."""
    wallet = add_wallet(http)
    for confidence in (0.0, 0.6):
        agent = add_agent(http, wallet, min_confidence=confidence, max_positions=20)["id"]
        ok(http.post(f"/_mock/agents/{agent}/start"))


def story(http: httpx.Client) -> dict[str, Any]:
    """All that has happened in a world."""
    found: dict[str, Any] = {path: walk(http, path, limit=100) for path in ("/v1/trades", "/v1/positions")}
    for path in ("/v1/signals", "/v1/signals/history"):
        found[path] = walk(http, path, chain=8453, limit=100, **{"from": START, "to": START + 86_400})
    found["agents"] = [ok(http.get(f"/v1/agents/{agent['id']}")) for agent in walk(http, "/v1/agents")]
    found["now"] = ok(http.get("/_mock/clock"))["now"]
    return found


def alone(steps: int) -> dict[str, Any]:
    """The same in one process."""
    with MockService(seed=SEED, clock=MockClock(START)) as mock, in_process(mock, KEY) as http:
        employ(http)
        for _ in range(steps):
            mock.clock.advance(STEP)
        return story(http)


def at_once(*work: Any) -> None:
    """Run functions in threads; the first error of any."""
    errors: list[BaseException] = []

    def run(each: Any) -> None:
        try:
            each()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(each,)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_both_advance_one_market_and_everything_happens_once(path: Path) -> None:
    turns = 2

    def advance(http: httpx.Client) -> None:
        for _ in range(turns):
            ok(http.post("/_mock/clock", json={"advance": STEP}))
            ok(http.get("/v1/trades"))
            ok(http.get("/v1/signals?chain=56"))

    begin(path, seed=SEED)
    with served(path, 2) as (one, two):
        employ(one)
        at_once(lambda: advance(one), lambda: advance(two))
        first, second = story(one), story(two)
    assert first["now"] == START + 2 * turns * STEP, "no step is lost"
    assert first == second
    assert first == alone(2 * turns)
    ids = [record["id"] for name in ("/v1/trades", "/v1/signals/history") for record in first[name]]
    assert len(ids) == len(set(ids))
    assert len(first["/v1/trades"]) > 20
    assert len(first["/v1/signals/history"]) > 100


def test_a_stream_sees_within_a_second_what_the_other_process_does(path: Path) -> None:
    begin(path, signals="scripted")
    waits: list[float] = []
    with served(path, 2, "--scripted") as (one, two), one.stream("GET", "/v1/signals/stream?chain=8453") as stream:
        lines = (json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: "))
        for number in range(5):
            if number % 2:
                planned = ok(two.post("/_mock/signals", json={"after": 5}))
                ok(two.post("/_mock/clock", json={"advance": 6}))
            else:
                planned = ok(two.post("/_mock/signals", json={"token": "BRETT"}))
            done = time.monotonic()
            seen = next(event for event in lines if event["type"] == "signal")
            waits.append(time.monotonic() - done)
            assert seen["id"] == planned["id"]
    assert statistics.median(waits) < 1.0, waits


def test_a_reset_or_a_restore_at_one_ends_the_streams_of_the_other(path: Path, tmp_path: Path) -> None:
    with MockService(seed=77, clock=MockClock(START + 5)) as other:
        other.create_key(tenant="kept")
        saved = other.snapshot()
    begin(path)
    with served(path, 2) as (one, two):
        for saved_world in (None, saved):
            with two.stream("GET", "/v1/signals/stream?chain=8453") as stream:
                if saved_world is None:
                    ok(one.post("/_mock/reset", json={"seed": 78}))
                else:
                    ok(one.post("/_mock/restore", content=saved_world))
                assert "signal" not in "".join(stream.iter_lines())
            mine, its = ok(one.get("/_mock/status")), ok(two.get("/_mock/status"))
            assert mine | {"streams": 0} == its | {"streams": 0}
        assert (its["seed"], its["now"], its["tenants"]) == (77, START + 5, ["kept"])
        assert two.get("/_mock/snapshot").content[:16] == b"SQLite format 3\0"


def test_windows_and_journals_are_of_each_process_and_the_count_of_all(path: Path) -> None:
    begin(path, signals="scripted")
    with served(path, 2, "--scripted") as (one, two):
        left = [int(http.get("/v1/account").headers["x-ratelimit-remaining"]) for http in (one, one, one, two)]
        assert [left[0] - each for each in left] == [0, 1, 2, 0]
        assert ok(two.get("/v1/account/usage"))["requests"]["used"] == 5
        counts = [len(ok(http.get("/_mock/journal"))["data"]) for http in (one, two)]
        assert counts == [3, 2]


def test_all_may_be_the_first_and_all_may_write(path: Path) -> None:
    with served(path, 3, "--freeze", "--scripted") as servers:
        wallet = add_wallet(servers[0])

        def write(http: httpx.Client) -> None:
            for _ in range(6):
                add_agent(http, wallet)
                ok(http.post("/_mock/signals", json={}))
                ok(http.post("/_mock/clock", json={"advance": 1}))

        before = ok(servers[0].get("/_mock/clock"))["now"]
        at_once(*(partial(write, http) for http in servers))
        for http in servers:
            status = ok(http.get("/_mock/status"))
            assert (status["agents"], status["signals"], status["keys"]) == (18, status["signals"], 1)
            assert status["now"] == pytest.approx(before + 18, abs=1e-3)
        agents = walk(servers[1], "/v1/agents", limit=100)
        assert len({agent["id"] for agent in agents}) == 18
        emitted = walk(servers[2], "/v1/signals/history", chain=8453, limit=100, **{"from": int(before)})
        assert len({signal["id"] for signal in emitted}) == len(emitted) == 18
    assert [item.name for item in path.parent.iterdir()] == ["world.db"], "the last one leaves no log"
