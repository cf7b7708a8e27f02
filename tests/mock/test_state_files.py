"""State files that can't be used: refused by name and left alone, or answered by name when the damage comes later."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from tradesdk_mock import MockClock, MockServerError, MockService
from tradesdk_mock.core.errors import ApiError
from tradesdk_mock.state.database import Database
from tradesdk_mock.state.schema import TABLES, VERSION

from ._support import START, add_agent, add_wallet, error, in_process, ok, walk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "world.db"


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


WRONG = {
    "text": "no database",
    "a few bytes": "no database",
    "folder": "is a folder",
    "other database": "a database of something else",
    "other database of this number": "a database of something else",
    "older": f"of version 3, and this mock reads version {VERSION}",
    "newer": f"of version 99, and this mock reads version {VERSION}",
    "no table": "damaged: the table positions is missing",
    "another table": "damaged: the table payers is another",
    "no settings": "damaged: its settings can't be read",
    "cut": "damaged",
    "cut in a page": "damaged",
    "flipped": "damaged",
    "empty beside a log": "damaged: it is empty",
    "a name that is no text": "damaged: ",
    "a setting that is no text": "damaged: Could not decode to UTF-8 column 'value'$",
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_no_state_is_refused_by_name_and_left_alone(path: Path, kind: str) -> None:
    good = a_world(path)
    if kind in ("text", "a few bytes"):
        path.write_bytes(b"not a database " * (100 if kind == "text" else 1))
    elif kind == "folder":
        path.unlink()
        path.mkdir()
    elif kind.startswith("other database"):
        path.unlink()
        number = VERSION if kind.endswith("number") else 0
        run_sql(path, "CREATE TABLE t (x)", f"PRAGMA user_version = {number}", "PRAGMA journal_mode = WAL")
    elif kind in ("older", "newer"):
        run_sql(path, f"PRAGMA user_version = {3 if kind == 'older' else 99}")
    elif kind == "no table":
        run_sql(path, "DROP TABLE positions")
    elif kind == "another table":
        run_sql(path, "ALTER TABLE payers ADD COLUMN more")
    elif kind == "no settings":
        run_sql(path, "UPDATE meta SET value = 'x' WHERE name = 'seed'")
    elif kind == "flipped":
        path.write_bytes(good[:8_192] + bytes(byte ^ 0xFF for byte in good[8_192:]))
    elif kind == "a name that is no text":
        path.write_bytes(good.replace(b"TABLE wallets", b"\xff\xfeBLE wallets"))
    elif kind == "a setting that is no text":
        path.write_bytes(good.replace(b"heartbeat", b"\xff\xfeartbeat"))
    elif kind == "empty beside a log":
        path.write_bytes(b"")
        path.with_name(path.name + "-wal").write_bytes(b"x" * 100)
    else:
        path.write_bytes(good[: len(good) // 2 + (100 if kind == "cut in a page" else 0)])
    before = listing(path.parent)
    with pytest.raises(MockServerError, match=f"the state file .*world.db .*{WRONG[kind]}"):
        MockService(db=path)
    assert listing(path.parent) == before


def test_a_file_of_another_version_with_a_log_is_left_alone(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "moved" / "world.db"
    other.parent.mkdir()
    live = sqlite3.connect(path, isolation_level=None)
    live.execute("PRAGMA journal_mode = WAL")
    for statement in filter(str.strip, TABLES.split(";")):
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
        assert now.keys() == before.keys()
        assert all(now[name] == before[name] for name in now if not name.endswith("-shm"))
    live.close()


def test_where_no_file_can_be(tmp_path: Path) -> None:
    with pytest.raises(MockServerError, match=r"the state file .*nowhere.* can't be opened"):
        MockService(db=tmp_path / "nowhere" / "state.db")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(MockServerError, match=r"the state file .* can't be opened"):
        MockService(db=tmp_path / "file" / "state.db")
    with pytest.raises(MockServerError, match="no ordinary file"):
        MockService(db=os.devnull)


def test_a_file_that_may_not_be_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_world(path)
    # Root may do everything, so the system is made to say no.
    monkeypatch.setattr(os, "access", lambda place, mode: str(place) != str(path))
    before = listing(path.parent)
    with pytest.raises(MockServerError, match="no permission"):
        MockService(db=path)
    assert listing(path.parent) == before


def test_an_empty_file_is_a_place_for_a_new_state(path: Path) -> None:
    # As `mktemp` makes one, and as a process leaves it that was killed at its first step.
    path.touch()
    a_world(path)
    with MockService(db=path) as service:
        assert service.status()["keys"] == 30


@pytest.mark.parametrize("step", [1, 2, 5])
def test_a_state_that_was_only_begun_is_finished(path: Path, step: int) -> None:
    run_sql(path, "PRAGMA journal_mode = WAL")
    if step > 1:
        run_sql(path, *filter(str.strip, TABLES.split(";")), f"PRAGMA user_version = {VERSION}")
    if step > 2:
        run_sql(path, "INSERT INTO counters VALUES ('', 'x', 1)")
    a_world(path)


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
        with pytest.raises(MockServerError, match=r"world\.db is damaged"):
            service.create_key()
        with pytest.raises(MockServerError, match=r"world\.db is damaged"):
            service.snapshot()
    assert caplog.records == [], "no crash"


def test_a_full_disk_is_answered_by_name(path: Path) -> None:
    with MockService(db=path, clock=MockClock(START), signals="scripted") as service, in_process(service) as http:
        wallet = add_wallet(http)
        pages = service.world.store.value("PRAGMA page_count")
        service.world.store.run(f"PRAGMA max_page_count = {pages}")
        made = 0
        while (answer := http.post("/v1/agents", json=body_for_new(wallet))).status_code == 201:
            made += 1
        assert str(path) in error(answer, 503, "service_unavailable")
        service.world.store.run("PRAGMA max_page_count = 100000")
        assert len(walk(http, "/v1/agents")) == made, "nothing is half"
        add_agent(http, wallet)


def body_for_new(wallet: str) -> dict[str, object]:
    return {"name": "n" * 100, "wallet_id": wallet, "chain_id": 8453}


def test_a_clock_that_could_not_be_kept_was_not_moved(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    execute = Database._execute

    def full(store: Database, sql: str, args: Sequence[object] = ()) -> sqlite3.Cursor:
        if sql == "COMMIT":
            raise ApiError(503, "service_unavailable", "The disk is full.")
        return execute(store, sql, args)

    with MockService(db=path, clock=MockClock(START)) as service:
        with monkeypatch.context() as patched:
            patched.setattr(Database, "_execute", full)
            with pytest.raises(MockServerError, match="disk is full"):
                service.control("POST", "clock", {"advance": 10})
            with pytest.raises(MockServerError, match="disk is full"):
                service.clock.advance(10)
        assert service.clock.now() == START
        assert service.control("POST", "clock", {"advance": 7})["now"] == START + 7


@pytest.mark.parametrize("name", ["", Path()])
def test_an_empty_name_is_no_state_in_memory(name: str | Path) -> None:
    with pytest.raises(MockServerError, match=r"^db: is empty|folder"):
        MockService(db=name)
