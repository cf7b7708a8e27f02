"""State in a file: kept from run to run, shared by processes, and safe before an answer leaves."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tradesdk_mock import GapOptions, MockClock, MockServer, MockServerError, MockService

from ._support import START, add_agent, add_wallet, client, error, in_process, ok, walk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "world.db"


def everything(http: httpx.Client) -> list[object]:
    found: list[object] = [ok(http.get("/v1/account"))]
    for listed in ("/v1/agents", "/v1/wallets", "/v1/trades", "/v1/positions"):
        found.append(walk(http, listed, limit=100))
    return found


def test_a_second_run_goes_on_where_the_first_ended(path: Path) -> None:
    with MockServer(seed=11, db=path, signals="scripted") as first:
        first.clock.set(START, allow_backwards=True)
        first.clock.freeze()
        first.clock.set(START, allow_backwards=True)
        first.populate("main")
        made = first.create_key(tenant="main", scope="read-only")
        first.set_gaps(write_status="200/200")
        with client(first) as http:
            agent = ok(http.post("/v1/agents", json=body_for(http)), 200)["id"]
            before = everything(http)
            page = ok(http.get("/v1/trades?limit=10"))
            used = ok(http.get("/v1/account/usage"))["requests"]["used"]
    with MockServer(db=path) as second:
        assert (second.world.seed, second.clock.now(), second.clock.frozen) == (11, START, True)
        assert second.gaps == GapOptions(write_status="200/200")
        assert second.journal() == []
        with client(second) as http:
            assert everything(http) == before
            assert ok(http.get(f"/v1/agents/{agent}"))["name"] == "kept"
            rest = ok(http.get("/v1/trades", params={"limit": 90, "cursor": page["next_cursor"]}))
            assert page["data"] + rest["data"] == ok(http.get("/v1/trades?limit=100"))["data"]
            assert ok(http.get("/v1/account/usage"))["requests"]["used"] > used
            # Ordinals go on: a new id is none of the old ones.
            assert ok(http.post("/v1/agents", json=body_for(http)), 200)["id"] != agent
        with client(second, made.value) as http:
            error(http.post("/v1/agents", json={}), 403, "forbidden")


def body_for(http: httpx.Client) -> dict[str, object]:
    wallet = ok(http.get("/v1/wallets?chain_id=8453"))["data"][0]["id"]
    return {"name": "kept", "wallet_id": wallet, "chain_id": 8453}


def test_the_offset_of_a_running_clock_is_kept(path: Path) -> None:
    with MockServer(db=path) as first:
        first.clock.advance(86_400)
        then = first.clock.now()
    with MockServer(db=path) as second:
        assert then <= second.clock.now() < then + 60
        assert not second.clock.frozen


def test_a_given_clock_or_options_win(path: Path) -> None:
    with MockServer(db=path, gaps=GapOptions(order="oldest")) as first:
        first.clock.advance(86_400)
    with MockServer(db=path, clock=MockClock(START), gaps=GapOptions()) as second:
        assert second.clock.now() == START
        assert second.gaps.order == "newest"
    with MockServer(db=path) as third:
        assert third.clock.now() == START
        assert third.gaps.order == "newest"


def test_another_seed_than_the_files_is_refused(path: Path) -> None:
    with MockServer(seed=1, db=path):
        pass
    with pytest.raises(MockServerError, match="seed 1, not 2"):
        MockServer(seed=2, db=path)
    with MockServer(seed=1, db=path) as server:
        server.reset(seed=2)
    with MockServer(seed=2, db=path):
        pass


def test_two_servers_on_one_file_agree(path: Path) -> None:
    with MockServer(db=path) as one, MockServer(db=path) as two, client(one) as first, client(two) as second:
        wallet = add_wallet(first)
        agent = add_agent(second, wallet)["id"]
        assert ok(first.get(f"/v1/agents/{agent}"))["wallet_id"] == wallet
        one.clock.advance(86_400)
        one.clock.freeze()
        one.set_gaps(range_status="400")
        error(second.get("/v1/trades?limit=0"), 400, "invalid_request")
        assert two.clock.now() == one.clock.now()
        assert second.get("/v1/account").headers["date"] == first.get("/v1/account").headers["date"]
        one.reset(seed=23)
        ok(second.get("/v1/account"))
        assert two.world.seed == 23


def test_a_change_from_python_goes_on_from_what_the_other_server_did(path: Path) -> None:
    with MockServer(db=path) as one, MockServer(db=path) as two:
        one.set_gaps(write_status="200/200")
        two.set_gaps(order="oldest")
        assert (two.gaps.write_status, two.gaps.order) == ("200/200", "oldest")
        one.clock.set(4_000_000_000)
        one.clock.freeze()
        one.clock.set(4_000_010_000)
        two.clock.advance(5)
        assert (two.clock.frozen, two.clock.now()) == (True, 4_000_010_005)
        one.clock.advance(1)
        assert one.clock.now() == 4_000_010_006
        two.clock.resume()
        one.clock.sleep(100)
        assert not one.clock.frozen
        assert 4_000_010_106 <= one.clock.now() < 4_000_010_206
        with MockServer(db=path) as third:
            assert (third.gaps, third.clock.frozen) == (two.gaps, False)
            assert third.clock.now() >= 4_000_010_106


def test_what_python_makes_has_the_time_and_the_seed_of_the_other_server(path: Path, tmp_path: Path) -> None:
    with (
        MockServer(db=path, signals="scripted") as one,
        MockServer(db=path) as two,
        MockServer(db=tmp_path / "apart.db", seed=99) as apart,
    ):
        one.reset(seed=99)
        assert two.create_key(tenant="x").value == apart.create_key(tenant="x").value
        one.reset(seed=98)
        two.reset()
        assert two.world.seed == 98
        one.clock.freeze()
        one.clock.set(4_000_000_000)
        key = two.create_key(tenant="y")
        two.populate("y", trades=10)
        for change in (
            lambda: two.set_scope(key.id, "read-only"),
            lambda: two.expire_key(key.id),
            lambda: two.rotate_key(key.id),
            lambda: two.revoke_key(key.id),
            lambda: two.set_plan("y", "free"),
        ):
            one.clock.advance(100)
            change()
            assert two.clock.now() == one.clock.now()
        idle = str(two.world.store.value("SELECT id FROM agents WHERE status = 'idle'"))
        for move in (two.start_agent, two.stop_agent, lambda agent: two.set_agent_status(agent, "error")):
            one.clock.advance(100)
            move(idle)
            assert two.clock.now() == one.clock.now()
        row = one.world.store.one("SELECT created_at, revoked_at, expires_at FROM keys WHERE id = ?", (key.id,))
        assert row == (4_000_000_000, 4_000_000_300, 4_000_000_200)


def test_two_servers_on_one_file_may_share_a_clock(path: Path) -> None:
    clock = MockClock(START)
    with MockServer(db=path, clock=clock) as one, MockServer(db=path, clock=clock):
        clock.advance(60)
        one.set_gaps(order="oldest")
        clock.advance(60)
        assert clock.now() == START + 120
    with MockServer(db=path) as third:
        assert third.clock.now() == START + 120


@pytest.mark.parametrize("now", ["routes", "404"])
def test_an_option_that_another_process_has_set_counts_from_the_next_request_on(path: Path, now: str) -> None:
    before = "404" if now == "routes" else "routes"
    with MockService(db=path, gaps={"no_routes": before}) as one, MockService(db=path) as two, in_process(two) as http:
        one.set_gaps(no_routes=now)
        error(http.post("/v1/agents/unknown/start"), 404, "not_found")
        assert ("'unknown'" in http.post("/v1/agents/unknown/start").text) == (now == "routes")
        one.set_gaps(no_routes=before)
        assert ("'unknown'" in http.post("/v1/agents/unknown/start").text) == (before == "routes")


def test_a_file_that_is_busy_is_an_error_of_the_mock(path: Path) -> None:
    with MockServer(db=path) as server:
        server.world.store.run("PRAGMA busy_timeout = 1")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(MockServerError, match="busy"):
            server.create_key()
        other.execute("ROLLBACK")
        other.close()
        server.create_key()


def test_writers_on_one_file_do_not_lose_each_other(path: Path) -> None:
    with MockServer(db=path) as one, MockServer(db=path) as two:
        with client(one) as http:
            wallet = add_wallet(http)

        def make(server: MockServer) -> None:
            with client(server, "mock_full_main") as http:
                for _ in range(12):
                    add_agent(http, wallet)

        threads = [threading.Thread(target=make, args=(server,)) for server in (one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with client(one) as http:
            assert len(walk(http, "/v1/agents")) == 24
            assert ok(http.get("/v1/account/usage"))["requests"]["used"] == 1 + 24 + 2 + 1


@contextmanager
def process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    running = subprocess.Popen(
        [sys.executable, "-m", "tradesdk_mock", "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert running.stdout is not None
        assert running.stderr is not None
        url = running.stdout.readline().strip()
        assert url.startswith("http://"), running.stderr.read()
        yield running, url
    finally:
        running.kill()
        running.communicate(timeout=20)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system can't kill a process in the middle")
def test_a_killed_process_has_lost_nothing_that_it_answered(path: Path) -> None:
    answered: list[str] = []
    with process("--db", str(path)) as (running, url):
        enough = threading.Event()

        def hammer() -> None:
            with httpx.Client(base_url=url, headers={"Authorization": "Bearer mock_full_enterprise_main"}) as http:
                wallet = add_wallet(http)
                try:
                    while True:
                        answered.append(str(add_agent(http, wallet)["id"]))
                        if len(answered) == 40:
                            enough.set()
                except httpx.HTTPError:
                    # The kill: whether this last one was written is open, as it would be for any client.
                    return

        worker = threading.Thread(target=hammer)
        worker.start()
        assert enough.wait(60)
        running.send_signal(signal.SIGKILL)
        worker.join(60)
    with MockServer(db=path) as server, client(server, "mock_full_enterprise_main") as http:
        kept = {agent["id"] for agent in walk(http, "/v1/agents", limit=100)}
        assert set(answered) <= kept
        assert len(kept) <= len(answered) + 1
        used = ok(http.get("/v1/account/usage"))["requests"]["used"]
        assert used >= 1 + len(answered)


def test_the_program_ends_cleanly(path: Path) -> None:
    arguments = ("--seed", "3", "--populate", "me", "--populate", "you", "--gap", "order=oldest")
    with process("--db", str(path), *arguments) as (running, url):
        for tenant, agents in (("me", 6), ("you", 6), ("anyone", 0)):
            with httpx.Client(base_url=url, headers={"Authorization": f"Bearer mock_read_{tenant}"}) as http:
                assert len(ok(http.get("/v1/agents"))["data"]) == agents
        running.terminate()
        output, errors = running.communicate(timeout=20)
        assert (running.returncode, output, errors) == (0, "", "")
    with MockServer(db=path) as server:
        assert (server.world.seed, server.gaps.order) == (3, "oldest")
    assert sorted(item.name for item in path.parent.iterdir()) == ["world.db"], "no leftovers of the log"


def test_options_that_are_named_are_changes_of_the_kept_ones(path: Path) -> None:
    with MockService(db=path, gaps={"write_status": "200/200"}) as first:
        assert first.gaps == GapOptions(write_status="200/200")
        with MockService(db=path, gaps={"order": "oldest"}) as second:
            assert second.gaps == GapOptions(write_status="200/200", order="oldest")
        assert first.status()["gaps"] == {"write_status": "200/200", "order": "oldest"}
    with pytest.raises(ValueError, match="order"):
        MockService(db=path, gaps={"order": "none"})


def test_another_market_than_the_files_is_told(path: Path) -> None:
    for given, now, before in (
        ("scripted", "scripted", None),
        (None, "scripted", None),
        ("live", "live", "scripted"),
        (None, "live", None),
    ):
        with MockService(db=path, signals=given) as service:  # type: ignore[arg-type]
            assert (service.status()["market"], service.world.market_before) == (now, before)
