"""Snapshots: a world's state as bytes, from Python or over HTTP, and back again."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk_mock import GapOptions, MockClock, MockServer, MockServerError, MockService

from ._http import START, add_agent, add_wallet, client, error, in_process, ok, walk

pytestmark = pytest.mark.long

FILLED = START + 3_700
LISTS = ("/v1/account", "/v1/account/usage", "/v1/wallets", "/v1/agents", "/v1/trades", "/v1/positions")
STREAM = "/v1/signals/stream?chain=8453"
MAX_BODY = 1024 * 1024


def make(db: Path | None = None, **options: Any) -> MockService:
    return MockService(**{"db": db, "clock": MockClock(START), **options})


@pytest.fixture
def mock() -> Iterator[MockService]:
    """A world with something of everything."""
    with make(seed=11, gaps=GapOptions(order="oldest", paywall="open")) as found:
        fill(found)
        yield found


@pytest.fixture
def plain() -> Iterator[MockService]:
    """A small world in which nothing happens by itself."""
    with make(signals="scripted") as found, in_process(found) as http:
        add_agent(http, add_wallet(http))
        yield found


def fill(mock: MockService) -> None:
    mock.create_key(tenant="main", name="other")
    mock.add_fault("status", route="/v1/positions", status=503, nth=3)
    with in_process(mock) as http:
        wallet = add_wallet(http)
        for confidence in (0.5, 0.8):
            mock.start_agent(str(add_agent(http, wallet, min_confidence=confidence)["id"]))
        mock.clock.advance(3_600)
        ok(http.get("/v1/signals?chain=8453"))
    # A minute later no rate window is open: those aren't kept.
    mock.clock.set(FILLED)
    mock.emit_signal(token="BRETT", at=FILLED + 60)


def answers(mock: MockService) -> list[tuple[int, list[tuple[bytes, bytes]], bytes]]:
    """What a row of calls is answered, with all that is in the answers."""
    found: list[httpx.Response] = []
    with in_process(mock) as http:
        found += [http.get(path) for path in LISTS]
        wallet = found[2].json()["data"][0]["id"]
        made = http.post("/v1/agents", json={"name": "new", "wallet_id": wallet, "chain_id": 8453})
        mock.start_agent(made.json()["id"])
        mock.clock.advance(7_200)
        found += [made, http.get("/v1/signals?chain=8453"), *(http.get(path) for path in LISTS)]
        found.append(http.post("/v1/token-prices", json={"tokens": [{"identifier": "BRETT"}]}))
        found.append(http.post("/v1/aggregate-metrics", json={}))
    key = mock.create_key(tenant="main")
    return [(each.status_code, each.headers.raw, each.content) for each in found] + [(0, [], repr(key).encode())]


def rows(mock: MockService, *, without: tuple[str, ...] = ("age",)) -> dict[str, list[Any]]:
    """Every row of every table."""
    names = [name for (name,) in mock.world.store.all("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {name: mock.world.store.all(f"SELECT * FROM {name}") for name in names}  # noqa: S608
    found["meta"] = [row for row in found["meta"] if row[0] not in without]
    return found


@pytest.mark.parametrize(("kept", "into"), [(False, True), (True, False)])
def test_the_same_calls_after_a_restore_get_the_same_answers(tmp_path: Path, kept: bool, into: bool) -> None:
    with make(tmp_path / "one" if kept else None, seed=11, gaps=GapOptions(paywall="open")) as one:
        fill(one)
        saved = one.snapshot()
        before = rows(one)
        first = answers(one)
        assert all(status < 300 for status, _, _ in first)
        with make(tmp_path / "two" if into else None, seed=5, clock=MockClock(START - 10_000)) as two:
            two.restore(saved)
            assert (two.status()["seed"], two.clock.now(), two.clock.frozen) == (11, FILLED, True)
            for world in (two, one):
                world.restore(saved)
                assert rows(world) == before
                assert answers(world) == first


def test_a_snapshot_is_a_state_file_and_taking_one_changes_nothing(mock: MockService, tmp_path: Path) -> None:
    before = rows(mock, without=("clock",))
    path = tmp_path / "snapshot"
    path.write_bytes(mock.snapshot())
    with make(seed=11, gaps=GapOptions(order="oldest", paywall="open")) as again:
        fill(again)
        assert path.read_bytes() == mock.snapshot() == again.snapshot()
    assert rows(mock, without=("clock",)) == before
    assert len(mock.journal()) > 0
    first = answers(mock)
    with MockService(db=path) as opened:
        status = opened.status()
        assert (status["seed"], status["now"]) == (11, FILLED)
        assert answers(opened) == first


def test_a_state_file_can_be_restored(mock: MockService, tmp_path: Path) -> None:
    path = tmp_path / "state"
    with make(path, seed=3) as kept:
        fill(kept)
        before = rows(kept)
    mock.restore(path.read_bytes())
    assert rows(mock) == before


def test_settings_of_a_restored_world(mock: MockService) -> None:
    saved = mock.snapshot()
    with in_process(mock) as http:
        left = [http.get("/v1/account").headers["x-ratelimit-remaining"] for _ in range(3)]
        mock.restore(saved)
        # Rate windows start over.
        assert (left[-1], http.get("/v1/account").headers["x-ratelimit-remaining"]) == ("297", "299")
        with http.stream("GET", STREAM, timeout=60) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("data: ")
            mock.restore(saved)
            assert [line for line in lines if line] == [], "open streams end"
    with make(signals="scripted") as other, in_process(other) as http:
        ok(http.get("/v1/account"))
        other.restore(saved)
        status = other.status()
        assert (status["seed"], status["market"]) == (11, "live")
        assert status["gaps"] == {"order": "oldest", "paywall": "open"}
        assert (status["faults"], status["agents"]) == (1, 2)
        assert other.journal() == []
        codes = [http.get("/v1/positions").status_code for _ in range(3)]
        assert codes == [200, 200, 503], "the fault is there, and is played"


def test_a_running_clock_shows_what_it_would_have_shown() -> None:
    with MockService() as one, make() as two:
        one.clock.move(speed=60)
        one.clock.advance(86_400)
        two.restore(one.snapshot())
        before = one.clock.now()
        assert before <= two.clock.now() <= one.clock.now()
        assert (two.clock.frozen, two.clock.speed) == (False, 60)


def test_another_process_on_the_file_notices(mock: MockService, tmp_path: Path) -> None:
    path = tmp_path / "shared"
    with make(path) as one, MockService(db=path) as two, in_process(two) as http:
        with http.stream("GET", STREAM, timeout=60) as stream:
            one.restore(mock.snapshot())
            assert [line for line in stream.iter_lines() if "signal" in line] == []
        assert len(walk(http, "/v1/agents")) == 2
        assert (two.status()["seed"], two.gaps.order) == (11, "oldest")
        assert (two.clock.now(), two.clock.frozen) == (FILLED, True)
        two.restore(mock.snapshot())
        one.create_key()
        assert one.world.generation == two.world.generation


def test_a_restore_that_fails_in_the_middle_leaves_all_as_it_was(
    mock: MockService, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make() as other:
        saved = other.snapshot()
    before, now = rows(mock), mock.clock.now()
    put = mock.world.store.set_meta

    def fail(name: str, value: str) -> None:
        put(name, value)
        raise sqlite3.OperationalError("disk full")

    monkeypatch.setattr(mock.world.store, "set_meta", fail)
    with pytest.raises(sqlite3.OperationalError, match="disk full"):
        mock.restore(saved)
    monkeypatch.undo()
    assert (rows(mock), mock.clock.now(), mock.status()["seed"]) == (before, now, 11)
    with mock.world.transaction():
        for change in (mock.snapshot, lambda: mock.restore(saved)):
            with pytest.raises(MockServerError, match="in the middle"):
                change()
    mock.restore(saved)
    assert mock.status()["seed"] == 7


def test_a_closed_mock_gives_none(plain: MockService) -> None:
    plain.close()
    with pytest.raises(MockServerError, match="closed"):
        plain.snapshot()


@pytest.mark.parametrize("kept", [False, True], ids=["memory", "file"])
def test_one_moment_while_others_write(tmp_path: Path, kept: bool) -> None:
    taken: list[bytes] = []
    with make(tmp_path / "busy" if kept else None) as mock, in_process(mock) as http:
        mock.create_key(tenant="main", plan="enterprise")
        wallet = add_wallet(http)
        done = threading.Event()

        def write() -> None:
            with in_process(mock, "mock_full_enterprise_main") as mine:
                while not done.is_set():
                    add_agent(mine, wallet)
                    mock.clock.advance(60)

        threads = [threading.Thread(target=write) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            taken += [mock.snapshot() for _ in range(15)]
        finally:
            done.set()
            for thread in threads:
                thread.join()
    counts = []
    for saved in taken:
        with make() as other:
            other.restore(saved)
            counted = other.world.store.value("SELECT n FROM counters WHERE tenant = 'main' AND kind = 'agent'") or 0
            counts.append(other.status()["agents"])
            assert counted == counts[-1]
    assert counts == sorted(counts)


# Over HTTP


def test_over_http(plain: MockService) -> None:
    state = "application/vnd.sqlite3"
    with MockServer(clock=MockClock(START), signals="scripted") as server, client(server) as http:
        add_wallet(http)
        taken = http.get("/_mock/snapshot")
        assert (taken.status_code, taken.headers["content-type"]) == (200, state)
        assert int(taken.headers["content-length"]) == len(taken.content)
        server.reset(seed=99)
        back = ok(http.post("/_mock/restore", content=taken.content, headers={"content-type": state}))
        assert back == server.status()
        assert (back["seed"], back["tenants"]) == (7, ["main"])
        assert len(walk(http, "/v1/wallets")) == 1
        for content in (b"", b"garbage" * 100, taken.content[:-5_000]):
            refused = http.post("/_mock/restore", content=content)
            assert "the snapshot can't be restored" in error(refused, 400, "invalid_request")
        assert (http.get("/_mock/restore").status_code, http.post("/_mock/snapshot").status_code) == (405, 405)
        assert len(walk(http, "/v1/wallets")) == 1
        assert http.get("/_mock/snapshot", headers={"origin": "https://elsewhere.example"}).status_code == 403
        # A state may be far longer than other bodies, over a socket and without one.
        plain.world.store.set_meta("a long note", "x" * MAX_BODY)
        saved = plain.snapshot()
        assert len(saved) > MAX_BODY
        assert ok(http.post("/_mock/restore", content=saved))["agents"] == 1
    with make() as other, in_process(other) as http:
        assert ok(http.post("/_mock/restore", content=saved))["agents"] == 1
        error(http.post("/_mock/reset", content=saved), 400, "invalid_request")
        longest = other.pipeline.longest_body
        assert longest("/_mock/restore", "127.0.0.1") == longest("/_mock/restore", "::1") > 1_000 * MAX_BODY
        assert longest("/_mock/restore", "192.0.2.7") == longest("/_mock/reset", "127.0.0.1") == MAX_BODY
