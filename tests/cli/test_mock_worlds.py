"""`trade mock worlds`, and worlds side by side: none of them touches another."""

import sqlite3
from pathlib import Path

import pytest

from tradesdk_mock import MockServerError, MockService, describe_state_file

from .._rows import each_of
from .._stock import stocked_worlds
from ._terminal import Run, Terminal
from .test_mock_serve import Serving, serve

__all__ = ["serve"]  # a fixture


def worlds(trade: Terminal) -> list[str]:
    return [row["world"] for row in trade("mock", "worlds", "list").lines]


def test_none_yet(trade: Terminal) -> None:
    run = trade("mock", "worlds", "list")
    assert (run.code, run.out) == (0, "")
    assert "no worlds yet" in run.err
    assert not list(trade.home.iterdir()), "looking makes none"


@pytest.mark.long
def test_what_there_is(trade: Terminal) -> None:
    trade("--mock", "mock", "clock", "--freeze", "--set", "2000000000")
    trade("--world", "side", "mock", "clock", "--speed", "60")
    trade("--world", "side", "market", "prices", "ETH", "--max-price", "0.10")
    assert worlds(trade) == ["default", "side"], "a ledger is no world"
    first, second = trade("--world", "side", "mock", "worlds", "list").lines
    assert (first["seed"], first["scenario"], first["agents"], first["trades"]) == (7, "ordinary", 6, 250)
    assert (first["now"], first["frozen"], first["current"]) == (2_000_000_000, True, False)
    assert (second["frozen"], second["speed"], second["current"], second["problem"]) == (False, 60, True, None)
    assert first["bytes"] == Path(first["file"]).stat().st_size
    shown = trade("mock", "worlds", "list", tty=True, columns=80, env={"NO_COLOR": "1"})
    assert "2033-05-18" in shown.out
    assert all(len(line) <= 80 for line in shown.out.splitlines())


@pytest.mark.long
def test_worlds_side_by_side(trade: Terminal) -> None:
    agent = trade("--world", "a", "agents", "list", "--status", "idle").lines[0]["id"]
    trade("--world", "b", "mock", "clock", "--freeze")
    before = trade("--world", "b", "mock", "status").json
    trade("--world", "a", "mock", "clock", "--advance", "3600")
    trade("--world", "a", "agents", "delete", agent, "--yes")
    trade("--world", "a", "mock", "fault", "add", "latency")
    trade("--world", "a", "market", "prices", "ETH", "--max-price", "0.10")
    trade("--world", "a", "pay", "budget", "set", "--per-day", "5")
    assert trade("--world", "b", "mock", "status").json == before
    assert trade("--world", "b", "pay", "history").out == ""
    assert trade("--world", "b", "pay", "budget").json["per_day_usd"] is None
    assert trade("--world", "b", "agents", "get", agent).code == 0
    trade("--world", "b", "mock", "reset", "--seed", "9", "--yes")
    assert trade("--world", "a", "mock", "status").json["seed"] == 7
    assert len(trade("--world", "a", "pay", "history").lines) == 1


@pytest.mark.long
def test_one_is_removed(trade: Terminal) -> None:
    stocked_worlds(trade.home, "a", "b")
    trade("--world", "a", "market", "prices", "ETH", "--max-price", "0.10")
    for since in ((), ("--since", "last")):
        trade("--world", "a", "signals", "stream", "--chain", "base", "--duration", "0.1s", *since)
    rehearsed = trade("mock", "worlds", "remove", "a", "--dry-run")
    assert len(rehearsed.json["files"]) >= 3
    assert worlds(trade) == ["a", "b"]
    removed = trade("mock", "worlds", "remove", "a", "--yes")
    assert removed.json["files"] == rehearsed.json["files"]
    assert worlds(trade) == ["b"]
    assert [file.name for file in (trade.home / "mock").iterdir() if file.name.startswith("a.")] == []
    assert trade("--world", "a", "pay", "history").out == "", "a new one of the same name knows nothing of it"


def test_it_asks_before(trade: Terminal) -> None:
    trade("--world", "a", "mock", "clock")
    assert trade("mock", "worlds", "remove", "a").problem["code"] == "usage"
    no = trade("mock", "worlds", "remove", "a", answers="n\n", env={"NO_COLOR": "1"})
    assert no.code == 1
    assert "remove the world a, with its" in no.err
    assert worlds(trade) == ["a"]
    assert trade("mock", "worlds", "remove", "a", answers="y\n", env={"NO_COLOR": "1"}).code == 0
    assert worlds(trade) == []


@each_of("name", ["nothing", "../default", "a.ledger", ""])
def test_a_world_that_is_not_there(trade: Terminal, name: str) -> None:
    run: Run = trade("mock", "worlds", "remove", name, "--yes")
    assert (run.code, run.problem["hint"]) == (2, "see what there is: trade mock worlds list")


def test_one_in_use_is_left_alone(trade: Terminal) -> None:
    trade("--world", "a", "mock", "clock")
    with MockService(db=trade.home / "mock" / "a.sqlite3"):
        run = trade("mock", "worlds", "remove", "a", "--yes")
    assert run.code == 1
    assert "in use by another process" in run.problem["message"]
    assert worlds(trade) == ["a"]
    assert trade("mock", "worlds", "remove", "a", "--yes").code == 0


def test_what_is_no_world(trade: Terminal) -> None:
    folder = trade.home / "mock"
    folder.mkdir()
    (folder / "broken.sqlite3").write_bytes(b"no database at all, and rather long for one" * 40)
    with sqlite3.connect(folder / "other.sqlite3") as db:
        db.execute("CREATE TABLE notes (text)")
    db.close()
    (folder / "odd name.sqlite3").write_text("")
    found = {row["world"]: row["problem"] for row in trade("mock", "worlds", "list").lines}
    assert found.keys() == {"broken", "other"}
    assert all(problem and str(folder) not in problem for problem in found.values())
    assert trade("mock", "worlds", "remove", "broken", "--yes").code == 0


def test_a_world_is_served(trade: Terminal, serve: Serving) -> None:
    trade("--world", "a", "mock", "clock", "--freeze", "--set", "2000000000")
    assert serve("--world", "a", ask=("status",)).code == 0
    assert serve.answers["status"]["now"] == 2_000_000_000
    assert serve.answers["status"]["db"] == str(trade.home / "mock" / "a.sqlite3")
    assert serve("--world", "a", "--db", "x.sqlite3").problem["code"] == "usage"
    assert serve("--mock", ask=("status",)).code == 0
    assert serve.answers["status"]["db"] is None, "without a name it is a world of its own, as ever"


def test_signals_are_counted_honestly(trade: Terminal) -> None:
    """The market's are made when they are read: the status says up to when."""

    def counted() -> tuple[int, float | None]:
        found = trade("--mock", "mock", "status").json
        return found["signals"], found["signals_upto"]

    assert counted() == (0, None)
    trade("--mock", "mock", "clock", "--freeze")
    trade("--mock", "signals", "latest", "--chain", "base")
    before = counted()
    now = trade("--mock", "mock", "clock", "--advance", "600").json["now"]
    assert counted() == before == (before[0], now - 600)
    trade("--mock", "signals", "latest", "--chain", "base")
    assert counted()[0] > before[0]
    assert counted()[1] == now


def test_what_a_state_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "w.sqlite3"
    with MockService(db=path, seed=3) as service:
        service.populate("you")
        service.clock.freeze()
        there = describe_state_file(path)
        assert (there["seed"], there["tenants"], there["frozen"]) == (3, 1, True)
        assert there["now"] == service.clock.now()
    assert describe_state_file(path) == there
    assert [file.name for file in tmp_path.iterdir()] == ["w.sqlite3"]
    with pytest.raises(MockServerError, match="is not there"):
        describe_state_file(tmp_path / "nothing")
    with sqlite3.connect(path) as db:
        db.execute("UPDATE meta SET value = 'x' WHERE name = 'seed'")
    db.close()
    with pytest.raises(MockServerError, match="is damaged"):
        describe_state_file(path)
