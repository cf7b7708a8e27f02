"""`trade mock snapshot` and `restore`, on a server and on the embedded world."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tradesdk_mock import MockClock, MockServer, MockService

from ._terminal import Terminal

pytestmark = pytest.mark.usefixtures("worlds")


@pytest.fixture
def served(trade: Terminal) -> Iterator[MockServer]:
    """A server of this test's own; `trade` is set to it."""
    with MockServer(clock=MockClock(1_800_000_000), signals="scripted") as running:
        running.create_key(tenant="me")
        trade.env |= {"TRADE_BASE_URL": running.url, "TRADE_API_KEY": "mock_full_me"}
        yield running


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "before.sqlite3"


@pytest.fixture(autouse=True)
def folder(file: Path) -> None:
    file.parent.mkdir()


def names(file: Path) -> list[str]:
    return sorted(item.name for item in file.parent.iterdir())


def test_there_and_back_on_a_server(trade: Terminal, served: MockServer, file: Path) -> None:
    said = trade("mock", "snapshot", str(file))
    assert (said.code, said.json, said.err) == (0, {"file": str(file), "bytes": file.stat().st_size}, "")
    assert file.read_bytes() == served.snapshot()
    assert names(file) == [file.name]
    served.reset(seed=5)
    back = trade("mock", "restore", str(file), "--yes")
    assert (back.code, back.json["seed"], back.json["tenants"]) == (0, 7, ["me"])
    with MockService(db=file) as opened:
        assert opened.clock.now() == 1_800_000_000


@pytest.mark.long
def test_there_and_back_in_the_embedded_world(trade: Terminal, file: Path) -> None:
    agent = trade("--mock", "agents", "list", "--status", "idle").lines[0]["id"]
    assert trade("--mock", "mock", "snapshot", str(file)).json["bytes"] == file.stat().st_size
    assert trade("--mock", "agents", "delete", agent, "--yes").code == 0
    back = trade("--mock", "mock", "restore", str(file), "--yes")
    assert (back.code, back.json["tenants"]) == (0, ["house", "me"])
    assert trade("--mock", "agents", "get", agent).code == 0
    # Into another world, too, where what is there is forgotten.
    other = trade("--world", "side", "mock", "reset", "--seed", "9", "--yes").json
    assert other["seed"] == 9
    assert trade("--world", "side", "mock", "restore", str(file), "--yes").json["seed"] == 7
    assert trade("--world", "side", "agents", "get", agent).code == 0
    assert names(file) == [file.name]


def test_what_was_paid_in_a_restored_world_is_forgotten_on_both_sides(trade: Terminal, file: Path) -> None:
    assert trade("--mock", "mock", "snapshot", str(file)).code == 0
    assert trade("--mock", "market", "prices", "ETH", "--max-price", "0.03").code == 0
    assert len(trade("--mock", "pay", "history").lines) == 1
    assert trade("--mock", "mock", "restore", str(file), "--yes").code == 0
    assert trade("--mock", "pay", "history").lines == []
    assert trade("--mock", "market", "prices", "ETH", "--max-price", "0.03").code == 0


@pytest.mark.parametrize("words", [("mock",), ("--mock", "mock")], ids=["served", "embedded"])
def test_nothing_is_written_over(trade: Terminal, served: MockServer, file: Path, words: tuple[str, ...]) -> None:
    file.write_bytes(b"mine")
    refused = trade(*words, "snapshot", str(file))
    assert (refused.code, refused.problem["code"], refused.problem["hint"]) == (2, "usage", "--force overwrites it")
    assert file.read_bytes() == b"mine"
    assert trade(*words, "snapshot", str(file), "--force").code == 0
    assert file.read_bytes().startswith(b"SQLite format 3")
    log = file.with_name(file.name + "-wal")
    log.write_bytes(b"a log")
    refused = trade(*words, "snapshot", str(file), "--force")
    assert (refused.code, "in use" in refused.problem["message"]) == (1, True)
    assert log.read_bytes() == b"a log"
    refused = trade(*words, "snapshot", str(file.parent / "nowhere" / "file"))
    assert (refused.code, "nowhere" in refused.problem["message"]) == (1, True)
    assert names(file) == [file.name, log.name]


def test_a_restore_needs_a_yes(trade: Terminal, served: MockServer, file: Path) -> None:
    trade("mock", "snapshot", str(file))
    served.create_key(tenant="later")
    refused = trade("mock", "restore", str(file))
    assert (refused.code, refused.problem["code"]) == (2, "usage")
    dry = trade("mock", "restore", str(file), "--dry-run")
    assert dry.json == {"method": "POST", "path": "/_mock/restore"}
    assert trade("mock", "restore", str(file), answers="n\n", tty=True, env={"NO_COLOR": "1"}).code == 1
    assert served.status()["tenants"] == ["later", "me"]
    assert trade("mock", "restore", str(file), answers="y\n", tty=True, env={"NO_COLOR": "1"}).code == 0
    assert served.status()["tenants"] == ["me"]


@pytest.mark.parametrize("words", [("mock",), ("--mock", "mock")], ids=["served", "embedded"])
def test_what_is_no_state(trade: Terminal, served: MockServer, file: Path, words: tuple[str, ...]) -> None:
    missing = trade(*words, "restore", str(file), "--yes")
    assert (missing.code, missing.problem["message"]) == (2, f"{file} is not there")
    assert trade(*words, "restore", str(file.parent), "--yes").code == 2
    file.write_bytes(b"garbage" * 1_000)
    before = trade(*words, "status", "-o", "json").json["tenants"]
    refused = trade(*words, "restore", str(file), "--yes")
    assert refused.code != 0
    assert "can't be restored: it is not a state file" in refused.problem["message"]
    assert trade(*words, "status", "-o", "json").json["tenants"] == before
    assert file.read_bytes() == b"garbage" * 1_000


def test_a_file_with_a_log_is_not_sent_without_it(trade: Terminal, served: MockServer, file: Path) -> None:
    with MockService(db=file, seed=5) as other:
        other.create_key()
        refused = trade("mock", "restore", str(file), "--yes")
        assert (refused.code, "in use" in refused.problem["message"]) == (1, True)
    assert trade("mock", "restore", str(file), "--yes").json["seed"] == 5
