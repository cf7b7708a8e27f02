"""State in a file: kept from run to run, shared by processes, and safe before an answer leaves.

Files that can't be used are refused by name and left alone, or answered by name when the damage comes later.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tradesdk_mock import GapOptions, MockClock, MockServer, MockServerError, MockService

from ._http import START, add_agent, add_wallet, client, control, error, in_process, ok, walk

pytestmark = pytest.mark.long


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "world.db"


def new_agent(http: httpx.Client) -> str:
    wallet = ok(http.get("/v1/wallets?chain_id=8453"))["data"][0]["id"]
    return str(ok(http.post("/v1/agents", json={"name": "kept", "wallet_id": wallet, "chain_id": 8453}))["id"])


# From run to run


def test_a_second_run_goes_on_where_the_first_ended(path: Path) -> None:
    lists = ("/v1/agents", "/v1/wallets", "/v1/trades", "/v1/positions")
    with MockServer(seed=11, db=path, signals="scripted", gaps={"write_status": "200/200"}) as first:
        first.clock.move(freeze=True, set=START, allow_backwards=True)
        first.populate("main")
        made = first.create_key(tenant="main", scope="read-only")
        with client(first) as http:
            agent = new_agent(http)
            before = [walk(http, each, limit=100) for each in lists]
            page = ok(http.get("/v1/trades?limit=10"))
            used = ok(http.get("/v1/account/usage"))["requests"]["used"]
    with MockServer(db=path) as second:
        assert (second.status()["seed"], second.clock.now(), second.clock.frozen) == (11, START, True)
        assert second.gaps == GapOptions(write_status="200/200")
        assert second.journal() == []
        with client(second) as http:
            assert [walk(http, each, limit=100) for each in lists] == before
            rest = ok(http.get("/v1/trades", params={"limit": 90, "cursor": page["next_cursor"]}))
            assert page["data"] + rest["data"] == ok(http.get("/v1/trades?limit=100"))["data"]
            assert ok(http.get("/v1/account/usage"))["requests"]["used"] > used
            assert new_agent(http) != agent, "ordinals go on"
        with client(second, made.value) as http:
            error(http.post("/v1/agents", json={}), 403, "forbidden")


def test_what_is_given_wins_and_what_is_not_is_as_the_file_has_it(path: Path) -> None:
    with MockService(seed=1, db=path, gaps=GapOptions(order="oldest")) as first:
        first.clock.advance(86_400)
        then = first.clock.now()
    with MockService(db=path) as second:
        assert then <= second.clock.now() < then + 60
        assert not second.clock.frozen
    with MockService(db=path, clock=MockClock(START), gaps=GapOptions()) as third:
        assert (third.clock.now(), third.gaps.order) == (START, "newest")
    # Options that are named are changes of the kept ones.
    with (
        MockService(db=path, gaps={"write_status": "200/200"}),
        MockService(db=path, gaps={"order": "oldest"}) as fifth,
    ):
        assert fifth.clock.now() == START
        assert fifth.status()["gaps"] == {"write_status": "200/200", "order": "oldest"}
    for market, now in (("scripted", "scripted"), (None, "scripted"), ("live", "live"), (None, "live")):
        with MockService(db=path, signals=market) as service:  # type: ignore[arg-type]
            assert service.status()["market"] == now
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"gaps": {"order": "none"}}, "order"),
        ({"seed": 2}, "seed 1, not 2"),
    ]
    for options, message in wrong:
        with pytest.raises((MockServerError, ValueError), match=message):
            MockService(db=path, **options)
    with MockService(seed=1, db=path) as server:
        server.reset(seed=2)
    MockService(seed=2, db=path).close()


# Several on one file


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
        for now in ("routes", "404"):
            # Also what decides before a request is routed.
            one.set_gaps(no_routes=now)
            assert ("'unknown'" in second.post("/v1/agents/unknown/start").text) == (now == "routes")
        one.reset(seed=23)
        ok(second.get("/v1/account"))
        assert two.status()["seed"] == 23


def test_a_change_from_python_goes_on_from_what_the_other_did(path: Path, tmp_path: Path) -> None:
    with (
        MockService(db=path, signals="scripted") as one,
        MockService(db=path) as two,
        MockService(db=tmp_path / "apart.db", seed=99) as apart,
    ):
        one.set_gaps(write_status="200/200")
        two.set_gaps(order="oldest")
        assert (two.gaps.write_status, two.gaps.order) == ("200/200", "oldest")
        one.reset(seed=99)
        assert two.create_key(tenant="x").value == apart.create_key(tenant="x").value
        one.reset(seed=98)
        two.reset()
        assert two.status()["seed"] == 98
        one.clock.move(freeze=True, set=4_000_000_000)
        two.clock.advance(5)
        assert (two.clock.frozen, two.clock.now()) == (True, 4_000_000_005)
        key = two.create_key(tenant="y")
        two.populate("y", trades=10)
        with in_process(two, "mock_full_y") as http:
            idle = ok(http.get("/v1/agents?status=idle"))["data"][0]["id"]
        changes: list[Callable[[], object]] = [
            lambda: two.expire_key(key.id),
            lambda: two.rotate_key(key.id),
            lambda: two.set_plan("y", "free"),
            lambda: two.start_agent(idle),
            lambda: two.stop_agent(idle),
            lambda: two.set_agent_status(idle, "error"),
        ]
        for change in changes:
            one.clock.advance(100)
            change()
            assert two.clock.now() == one.clock.now()
        row = one.world.store.one("SELECT created_at, revoked_at, expires_at FROM keys WHERE id = ?", (key.id,))
        assert row == (4_000_000_005, 4_000_000_205, 4_000_000_105)
        two.clock.resume()
        one.clock.sleep(1_000)
        assert not one.clock.frozen
        assert 4_000_001_605 <= one.clock.now() < 4_000_001_705


def test_two_on_one_file_may_share_a_clock(path: Path) -> None:
    clock = MockClock(START)
    with MockService(db=path, clock=clock) as one, MockService(db=path, clock=clock):
        clock.advance(60)
        one.set_gaps(order="oldest")
        clock.advance(60)
        assert clock.now() == START + 120
    with MockService(db=path) as third:
        assert third.clock.now() == START + 120


def test_a_file_that_is_busy_is_an_error_of_the_mock(path: Path) -> None:
    with MockService(db=path) as service:
        service.world.store.run("PRAGMA busy_timeout = 1")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(MockServerError, match="busy"):
            service.create_key()
        other.execute("ROLLBACK")
        other.close()
        service.create_key()


def test_writers_on_one_file_do_not_lose_each_other(path: Path) -> None:
    with MockServer(db=path) as one, MockServer(db=path) as two, client(one) as http:
        wallet = add_wallet(http)

        def make(server: MockService) -> None:
            with client(server) as mine:
                for _ in range(12):
                    add_agent(mine, wallet)

        threads = [threading.Thread(target=make, args=(server,)) for server in (one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
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
        running.communicate(timeout=300)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system can't kill a process in the middle")
def test_a_killed_process_has_lost_nothing_that_it_answered(path: Path) -> None:
    answered: list[str] = []
    with process("--db", str(path)) as (running, url):
        enough = threading.Event()

        def hammer() -> None:
            headers = {"Authorization": "Bearer mock_full_enterprise_main"}
            with httpx.Client(base_url=url, headers=headers, timeout=60) as http:
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
    with MockService(db=path) as service, in_process(service, "mock_full_enterprise_main") as http:
        kept = {agent["id"] for agent in walk(http, "/v1/agents", limit=100)}
        assert set(answered) <= kept
        assert len(kept) <= len(answered) + 1
        assert ok(http.get("/v1/account/usage"))["requests"]["used"] >= 1 + len(answered)


def test_the_program_ends_cleanly(path: Path) -> None:
    arguments = ("--seed", "3", "--populate", "me", "--populate", "you", "--gap", "order=oldest")
    with process("--db", str(path), *arguments) as (running, url):
        for tenant, agents in (("me", 6), ("you", 6), ("anyone", 0)):
            with httpx.Client(base_url=url, headers={"Authorization": f"Bearer mock_read_{tenant}"}) as http:
                assert len(ok(http.get("/v1/agents"))["data"]) == agents
        running.terminate()
        output, errors = running.communicate(timeout=300)
        assert (running.returncode, output, errors) == (0, "", "")
    with MockService(db=path) as service:
        assert (service.status()["seed"], service.gaps.order) == (3, "oldest")
    assert sorted(item.name for item in path.parent.iterdir()) == ["world.db"], "no leftovers of the log"


# Files that can't be used


def listing(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything in a folder: when it was changed, and what it is."""
    return {
        item.name: (item.stat().st_mtime_ns, item.read_bytes() if item.is_file() else b"") for item in folder.iterdir()
    }


def run_sql(path: Path, *statements: str) -> None:
    database = sqlite3.connect(path)
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


def a_world(path: Path) -> bytes:
    with MockService(db=path, signals="scripted") as service:
        for number in range(30):
            service.create_key(name=f"key {number}")
    return path.read_bytes()


def flipped(good: bytes, start: int, end: int | None = None) -> bytes:
    end = len(good) if end is None else end
    return good[:start] + bytes(byte ^ 0xFF for byte in good[start:end]) + good[end:]


def page_of(table: str, good: bytes) -> tuple[int, int]:
    """Where the first page of a table is in a state file."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(good[:18] + b"\x01\x01" + good[20:])
        (page,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    return 4_096 * (page - 1) + 100, 4_096 * page


def setting(name: str, value: str) -> str:
    return f"UPDATE meta SET value = '{value}' WHERE name = '{name}'"  # noqa: S608 - our own names


VERSION = 9
DAMAGED, OTHER = "damaged", "a database of something else"
Spoil = Callable[[bytes], bytes] | Sequence[str] | None
# name: (statements on a good file, or its bytes made wrong; None: there is none), and what is said of it:
# "" where it is taken as one that was only begun, or where it is damaged in a place that isn't looked at before.
WRONG: dict[str, tuple[Spoil, str]] = {
    "missing": (None, ""),
    "nothing": (lambda good: b"", ""),
    "text": (lambda good: b"not a database " * 100, "no database"),
    "a few bytes": (lambda good: b"not a database ", "no database"),
    "cut": (lambda good: good[: len(good) // 2], DAMAGED),
    "cut in a page": (lambda good: good[: len(good) // 2 + 100], DAMAGED),
    "cut in its first page": (lambda good: good[:50], DAMAGED),
    "flipped": (lambda good: flipped(good, 8_192), DAMAGED),
    "flipped in its middle": (lambda good: flipped(good, 4_096 * 3, 4_096 * 40), DAMAGED),
    "flipped in one table": (lambda good: flipped(good, *page_of("keys", good)), DAMAGED),
    "a name that is no text": (lambda good: good.replace(b"TABLE wallets", b"\xff\xfeBLE wallets"), DAMAGED),
    "a setting that is no text": (
        lambda good: good.replace(b"heartbeat", b"\xff\xfeartbeat"),
        "damaged: Could not decode to UTF-8 column 'value'$",
    ),
    "older": (["PRAGMA user_version = 3"], f"of version 3, and this mock reads version {VERSION}"),
    "newer": (["PRAGMA user_version = 99"], f"of version 99, and this mock reads version {VERSION}"),
    "no table": (["DROP TABLE positions"], "damaged: the table positions is missing"),
    "no index": (["DROP INDEX trades_page"], DAMAGED),
    "another table": (["ALTER TABLE payers ADD COLUMN more"], "damaged: the table payers is another"),
    "no seed": (["DELETE FROM meta WHERE name = 'seed'"], "damaged: its settings can't be read"),
    "a seed that is none": ([setting("seed", "x")], "damaged: its settings can't be read"),
    "a clock that is none": ([setting("clock", "[NaN, 0, 1, false]")], "damaged: its settings can't be read"),
    "gaps that are none": ([setting("gaps", '{"order": "sideways"}')], "damaged: its settings can't be read"),
    "a market that is none": ([setting("market", "sunny")], "damaged: its settings can't be read"),
    "no settings": (["DELETE FROM meta"], ""),
    "other database": (lambda good: b"", OTHER),
    "other database of this number": (lambda good: b"", OTHER),
    "folder": (None, "is a folder"),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return a_world(tmp_path_factory.mktemp("good") / "world.db")


def schema(good: bytes) -> list[str]:
    """The statements that made the tables and indexes of a state file."""
    with closing(sqlite3.connect(":memory:")) as database:
        # In memory there is no log to be read.
        database.deserialize(good[:18] + b"\x01\x01" + good[20:])
        found = database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid").fetchall()
    return [statement for (statement,) in found]


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_no_state_is_refused_by_name_and_left_alone(path: Path, good: bytes, kind: str) -> None:
    spoil, message = WRONG[kind]
    if kind == "folder":
        path.mkdir()
    elif spoil is not None:
        path.write_bytes(spoil(good) if callable(spoil) else good)
        if not callable(spoil):
            run_sql(path, *spoil)
        elif kind.startswith("other database"):
            number = VERSION if kind.endswith("number") else 0
            run_sql(path, "CREATE TABLE agents (x)", f"PRAGMA user_version = {number}", "PRAGMA journal_mode = WAL")
    before = listing(path.parent)
    with MockService(clock=MockClock(START)) as service, in_process(service) as http:
        ok(http.get("/v1/account"))
        with http.stream("GET", "/v1/signals/stream?chain=8453", timeout=600) as stream:
            age, was = service.world.generation, service.status()
            if path.is_file() and not kind.startswith("other database"):
                with pytest.raises(MockServerError, match=r"the snapshot can't be restored: it .{5,}"):
                    service.restore(path.read_bytes())
            assert (service.world.generation, service.status(), len(service.journal())) == (age, was, 2)
            assert next(stream.iter_lines()).startswith("data: "), "it goes on"
    if message:
        with pytest.raises(MockServerError, match=f"the state file .*world.db .*{message}"):
            MockService(db=path)
    assert listing(path.parent) == before


def test_a_file_of_another_version_with_a_log_is_left_alone(path: Path, tmp_path: Path, good: bytes) -> None:
    other = tmp_path / "moved" / "world.db"
    other.parent.mkdir()
    live = sqlite3.connect(path, isolation_level=None)
    live.execute("PRAGMA journal_mode = WAL")
    for statement in schema(good):
        live.execute(statement)
    live.execute("PRAGMA user_version = 3")
    # What a killed process leaves, and the same without the index of the log.
    for end in ("", "-wal"):
        shutil.copyfile(f"{path}{end}", f"{other}{end}")
    for place in (path, other):
        before = listing(place.parent)
        with pytest.raises(MockServerError, match="of version 3"):
            MockService(db=place)
        now = listing(place.parent)
        assert [name for name in now if now[name] != before.get(name) and not name.endswith("-shm")] == []
        assert before.keys() <= now.keys()
    live.close()


def test_where_no_file_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "empty-wal").write_bytes(b"x" * 100)
    before = listing(tmp_path)
    for place, message in (
        (tmp_path / "nowhere" / "state.db", r"the state file .*nowhere.* can't be opened"),
        (tmp_path / "file" / "state.db", r"the state file .* can't be opened"),
        (tmp_path / "empty", "damaged: it is empty"),
        (os.devnull, "no ordinary file"),
        ("", "^db: is empty"),
        (Path(), "folder"),
    ):
        with pytest.raises(MockServerError, match=message):
            MockService(db=place)
    assert listing(tmp_path) == before


@pytest.mark.parametrize("step", [0, 1, 2, 5])
def test_a_state_that_was_only_begun_is_finished(path: Path, good: bytes, step: int) -> None:
    # As `mktemp` makes one, and as a process leaves it that was killed at one of its first steps.
    path.touch()
    if step > 0:
        run_sql(path, "PRAGMA journal_mode = WAL")
    if step > 1:
        run_sql(path, *schema(good), f"PRAGMA user_version = {VERSION}")
    if step > 2:
        run_sql(path, "INSERT INTO counters VALUES ('', 'x', 1)")
    a_world(path)
    with MockService(db=path) as service:
        assert service.status()["keys"] == 30


def test_damage_that_is_found_later_is_answered_by_name(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with MockService(db=path, clock=MockClock(START)) as service, in_process(service) as http:
        add_wallet(http)
        ok(http.get("/v1/signals?chain=8453"))
        service.world.store.run("PRAGMA wal_checkpoint(TRUNCATE)")
        size = path.stat().st_size
        with path.open("rb+") as file:
            file.seek(4_096)
            file.write(b"\xff" * (size - 4_096))
        with MockService(clock=MockClock(START)) as fresh:
            assert fresh.status()["keys"] == 0
        service.world.store.run("PRAGMA cache_size = 0")
        service.world.store.run("PRAGMA shrink_memory")
        for method, place in (("GET", "/v1/wallets"), ("GET", "/v1/signals?chain=8453"), ("GET", "/_mock/status")):
            message = error(http.request(method, place), 500, "internal_error")
            assert str(path) in message
            assert "damaged" in message
        for change in (service.create_key, service.snapshot):
            with pytest.raises(MockServerError, match=r"world\.db is damaged"):
                change()
    assert caplog.records == [], "no crash"


def test_a_full_disk_is_answered_by_name(path: Path) -> None:
    with MockService(db=path, clock=MockClock(START), signals="scripted") as service, in_process(service) as http:
        body = {"name": "n" * 100, "wallet_id": add_wallet(http), "chain_id": 8453}
        pages = service.world.store.value("PRAGMA page_count")
        service.world.store.run(f"PRAGMA max_page_count = {pages}")
        made = 0
        while (answer := http.post("/v1/agents", json=body)).status_code == 201:
            made += 1
        assert str(path) in error(answer, 503, "service_unavailable")
        service.world.store.run("PRAGMA max_page_count = 100000")
        assert len(walk(http, "/v1/agents")) == made, "nothing is half"
        ok(http.post("/v1/agents", json=body), 201)


def test_a_clock_that_could_not_be_kept_was_not_moved(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = False

    class Disk(sqlite3.Connection):
        def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
            if sql == "COMMIT" and full:
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error
            return super().execute(sql, *args)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **options: connect(*given, factory=Disk, **options))
    with MockService(db=path, clock=MockClock(START)) as service:
        full = True
        for move in (lambda: control(service, "POST", "clock", {"advance": 10}), lambda: service.clock.advance(10)):
            with pytest.raises(MockServerError, match="disk is full"):
                move()
        full = False
        assert service.clock.now() == START
        assert control(service, "POST", "clock", {"advance": 7})["now"] == START + 7
