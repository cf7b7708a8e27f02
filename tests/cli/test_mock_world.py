"""`trade mock status|reset|clock|agent|gaps|market`, on a server and on the embedded world."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from tradesdk_cli.commands.mock.control import ControlProblem, control
from tradesdk_cli.errors import ConfigProblem
from tradesdk_mock import GapOptions, MockServer

from .._rows import each_of
from .._stock import stocked_worlds
from ._services import Scripted
from ._terminal import Run, Terminal

PLAIN = {"NO_COLOR": "1"}


@pytest.fixture
def served(trade: Terminal) -> Iterator[MockServer]:
    """A server of this test's own; `trade` is set to it."""
    with MockServer(signals="scripted") as running:
        running.populate("me")
        trade.env |= {"TRADE_BASE_URL": running.url, "TRADE_API_KEY": "mock_full_me"}
        yield running


def lines(run: Run) -> dict[str, str]:
    """What stands behind each name, on a terminal."""
    assert run.code == 0, run.err
    return {name: text.strip() for name, _, text in (line.partition(" ") for line in run.out.splitlines())}


# status


def test_status(trade: Terminal, served: MockServer) -> None:
    served.clock.freeze()
    served.clock.set(2_000_000_000)
    served.set_gaps(order="oldest")
    served.add_fault("drop")
    found = trade("mock", "status").json
    assert (found["seed"], found["now"], found["frozen"], found["market"]) == (7, 2_000_000_000, True, "scripted")
    assert (found["agents"], found["trades"], found["streams"], found["faults"]) == (6, 250, 0, 1)
    assert found["gaps"] == {"order": "oldest"}
    shown = trade("mock", "status", tty=True, env=PLAIN)
    fields = lines(shown)
    assert fields["now"] == "2033-05-18 03:33:20Z (2000000000.000)"
    assert (fields["clock"], fields["tenants"], fields["gaps"]) == ("stands still", "me", "order=oldest")
    assert shown.err == ""


def test_status_of_an_empty_world(trade: Terminal) -> None:
    with MockServer() as running:
        running.clock.move(speed=60)
        fields = lines(trade("mock", "status", "-o", "table", env={"TRADE_BASE_URL": running.url}))
    assert (fields["tenants"], fields["gaps"], fields["state"]) == ("none", "defaults", "in memory")
    assert fields["clock"] == "runs, 60 times real time"


# reset


def test_reset_needs_a_yes(trade: Terminal, served: MockServer) -> None:
    refused = trade("mock", "reset")
    assert (refused.code, refused.problem["code"]) == (2, "usage")
    dry = trade("mock", "reset", "--seed", "9", "--populate", "you", "--populate", "you", "--dry-run")
    body = {"seed": 9, "populate": ["you"]}
    assert dry.json == {"method": "POST", "path": "/_mock/reset", "body": body}
    declined = trade("mock", "reset", answers="n\n", tty=True, env=PLAIN)
    assert declined.code == 1
    assert f"reset the mock at 127.0.0.1:{served.port}: " in declined.err
    assert served.status()["trades"] == 250
    assert trade("mock", "reset", answers="y\n", tty=True, env=PLAIN).code == 0
    assert served.status()["trades"] == 0


def test_reset(trade: Terminal, served: MockServer) -> None:
    served.add_fault("latency")
    bare = trade("mock", "reset", "--yes")
    assert (bare.json["tenants"], bare.json["faults"], bare.json["seed"]) == ([], 0, 7)
    assert "trade mock tenant populate" in bare.err
    filled = trade("mock", "reset", "--seed", "11", "--populate", "a", "--populate", "b", "--yes")
    assert (filled.json["tenants"], filled.json["seed"], filled.err) == (["a", "b"], 11, "")
    assert trade("mock", "reset", "--populate", "a/b", "--yes").code == 8


def test_after_a_reset_the_embedded_world_has_neither_payments_nor_a_recipient(trade: Terminal) -> None:
    stocked_worlds(trade.home, "default")
    buy = ("--mock", "market", "prices", "ETH", "--max-price", "0.03")
    assert trade(*buy).code == 0
    assert len(trade("--mock", "pay", "history", "-o", "json").json) == 1
    assert trade("--mock", "mock", "reset", "--seed", "11", "--yes").code == 0
    assert trade("--mock", "pay", "history", "-o", "json").json == []
    assert trade(*buy).code == 0  # another seed is paid at another address


def test_reset_of_the_embedded_world(trade: Terminal) -> None:
    agents = trade("--mock", "agents", "list").lines
    trade("--mock", "agents", "delete", next(one["id"] for one in agents if one["status"] == "idle"), "--yes")
    asked = trade("--mock", "mock", "reset", "--dry-run")
    assert asked.json["body"] == {"populate": ["me"]}
    done = trade("--mock", "mock", "reset", "--yes")
    assert (done.json["tenants"], done.json["agents"], done.err) == (["me"], 6, "")
    assert [one["id"] for one in trade("--mock", "agents", "list").lines] == [one["id"] for one in agents]
    other = trade("--mock", "mock", "reset", "--seed", "11", "--populate", "you", "--yes").json
    assert (other["seed"], other["tenants"]) == (11, ["me", "you"])
    assert trade("--mock", "mock", "status").json["seed"] == 11, "kept"
    declined = trade("--world", "w", "mock", "reset", answers="n\n", tty=True, env=PLAIN)
    assert "the embedded mock (world w)" in declined.err


def test_the_question_shows_no_password(trade: Terminal) -> None:
    asked = trade(
        "mock", "reset", answers="n\n", tty=True, env={**PLAIN, "TRADE_BASE_URL": "http://u:hidden@127.0.0.1:1"}
    )
    assert "reset the mock at 127.0.0.1:1: " in asked.err
    assert "hidden" not in asked.err
    unusable = trade("mock", "reset", answers="n\n", tty=True, env={**PLAIN, "TRADE_BASE_URL": "http://u:hidden@[x"})
    assert "hidden" not in unusable.err


# clock


def test_clock(trade: Terminal) -> None:
    before = trade("--mock", "mock", "clock").json["now"]
    frozen = trade("--mock", "mock", "clock", "--freeze", "--advance", "3600").json
    assert frozen["frozen"] is True
    assert frozen["now"] >= before + 3600
    assert trade("--mock", "mock", "clock").json == frozen, "kept"
    moved = trade("--mock", "mock", "clock", "--set", str(frozen["now"] + 10)).json
    assert moved["now"] == pytest.approx(frozen["now"] + 10)
    back = trade("--mock", "mock", "clock", "--set", str(before - 60))
    assert back.code == 8
    assert back.problem["hint"] == "--allow-backwards lets --set go into its past"
    gone = trade("--mock", "mock", "clock", "--set", str(before - 60), "--allow-backwards").json
    assert gone["now"] == pytest.approx(before - 60)
    for noon in ("2040-01-01T12:00Z", "2040-01-01T13:00+01:00", "2209032000"):
        assert trade("--mock", "mock", "clock", "--freeze", "--set", noon).json["now"] == 2_209_032_000
    for wrong in ("2040-01-01T12:00", "2040-13-01", "90m"):  # an age counts from this machine's clock
        assert trade("--mock", "mock", "clock", "--set", wrong).code == 2
    assert trade("--mock", "mock", "clock", "--resume").json["frozen"] is False
    assert trade("--mock", "mock", "clock", "--allow-backwards").problem["code"] == "usage"
    assert trade("--mock", "mock", "status").json["agents"] == 6


def test_speed(trade: Terminal) -> None:
    fast = trade("--mock", "mock", "clock", "--speed", "60", "--freeze").json
    assert (fast["speed"], fast["frozen"]) == (60, True)
    refused = trade("--mock", "mock", "clock", "--speed", "0")
    assert (refused.code, refused.problem["status"]) == (8, 400)
    assert trade("--mock", "mock", "clock", "--speed", "-1").code == 2
    shown = lines(trade("--mock", "mock", "clock", tty=True, env=PLAIN))
    assert shown["clock"] == "stands still"
    assert shown["time"].startswith("20")
    assert trade("--mock", "mock", "clock").json["speed"] == 60, "kept"


# agent


def test_agents_are_moved(own: Terminal, trade: Terminal) -> None:
    agent = next(agent["id"] for agent in own("agents", "list").lines if agent["status"] == "idle")
    assert own("mock", "agent", agent, "start").json == {"id": agent, "status": "active"}
    assert own("agents", "get", agent).json["status"] == "active"
    again = own("mock", "agent", agent, "start")
    assert (again.code, again.problem["code"], again.problem["status"]) == (7, "conflict", 409)
    assert "running already" in again.problem["message"]
    assert again.problem["hint"] == "see what there is: trade agents list"
    assert own("mock", "agent", agent, "paused").json["status"] == "paused"
    assert own("mock", "agent", agent, "stop").json["status"] == "idle"
    for state in ("active", "active", "error", "idle", "idle"):  # whatever state it is in
        assert own("mock", "agent", agent, state).json == {"id": agent, "status": state}
        assert own("agents", "get", agent).json["status"] == state
    missing = own("mock", "agent", "agt_nope", "stop")
    assert (missing.code, missing.problem["code"]) == (6, "not_found")
    elsewhere = trade("--mock", "mock", "agent", "agt_nope", "start")
    assert (elsewhere.code, elsewhere.problem["hint"]) == (6, "see what there is: trade --mock agents list")
    aside = trade("--world", "w", "mock", "agent", "agt_nope", "start")
    assert aside.problem["hint"] == "see what there is: trade --world w agents list"
    for odd in ("a/b", "a b", "ä?#%"):
        assert own("mock", "agent", odd, "start").code == 6, odd


# gaps


@each_of("columns", [60, 80, 120])
def test_gaps_on_a_terminal_are_explained_in_full(trade: Terminal, columns: int) -> None:
    run = trade("mock", "gaps", tty=True, columns=columns, env=PLAIN)
    assert (run.code, run.err) == (0, "")
    assert all(len(line) <= columns for line in run.out.splitlines())
    words = " ".join(run.out.split())
    for gap in GapOptions.describe():
        assert f"{gap.name}={gap.default} " in words
        assert " ".join(gap.text.split()) in words


def test_gaps_are_changed_while_it_runs(trade: Terminal, served: MockServer) -> None:
    changed = trade("mock", "gaps", "--set", "order=oldest", "--set", "heartbeat=1").lines
    assert {row["name"]: row["value"] for row in changed} == {"order": "oldest", "heartbeat": "1"}
    assert (served.gaps.order, served.gaps.heartbeat) == ("oldest", 1)
    now = {row["name"]: row for row in trade("mock", "gaps", "--current").lines}
    assert list(now) == list(GapOptions().as_dict())
    assert (now["order"]["value"], now["order"]["default"]) == ("oldest", "newest")
    both = trade("mock", "gaps", "--current", "--set", "order=newest").lines
    assert len(both) == len(now)
    words = " ".join(trade("mock", "gaps", "--current", tty=True, env=PLAIN).out.split())
    assert "heartbeat=1 (or: 15, the default)" in words
    assert "order=newest (or: oldest)" in words


def test_gaps_that_there_are_not(trade: Terminal, served: MockServer) -> None:
    for word in ("nonsense=1", "order=sideways", "heartbeat=-1"):
        refused = trade("mock", "gaps", "--set", "resume=ids", "--set", word)
        assert (refused.code, refused.problem["status"]) == (8, 400)
        assert refused.problem["hint"] == "see what there is: trade mock gaps"
    assert trade("mock", "gaps", "--set", "order").problem["code"] == "usage"
    assert served.gaps == GapOptions(), "nothing was changed"


# market


def test_prices_fail(trade: Terminal, served: MockServer) -> None:
    assert trade("mock", "market", "--fail-prices").json == {"price_failure": True}
    some = trade("mock", "market", "--fail-prices", "--token", "BRETT", "--token", "DEGEN").json
    assert some == {"price_failure": ["BRETT", "DEGEN"]}
    assert trade("mock", "market", "--no-fail-prices").json == {"price_failure": False}
    trade("mock", "market", "--fail-prices", "--token", "BRETT")
    assert trade("mock", "market").json == {"price_failure": ["BRETT"]}, "shown, and not changed"
    assert trade("--mock", "mock", "market").json == {"price_failure": False}
    for argv in (("--token", "BRETT"), ("--no-fail-prices", "--token", "BRETT")):
        assert trade("mock", "market", *argv).problem["code"] == "usage"


# Where control goes


def test_control_speaks_to_this_machine_only(trade: Terminal, service: Scripted) -> None:
    for url in ("https://api.example.com", "http://10.0.0.1:80", "http://example.com"):
        run = trade("mock", "status", env={"TRADE_BASE_URL": url})
        assert run.code == 3
    with pytest.raises(ConfigProblem):
        control("http://169.254.1.1", "GET", "status")
    service.says(200, b"<html>")
    with pytest.raises(ControlProblem, match="not a mock server"):
        control(service.url, "GET", "status")
    service.says(404, b"<html>")
    with pytest.raises(ControlProblem, match="not a mock server"):
        control(service.url, "GET", "status")
    service.fails(400, "x", "no\x1b")
    refused = trade("mock", "clock", env={"TRADE_BASE_URL": service.url})
    assert (refused.code, refused.problem["message"]) == (8, "the mock refused: no\\x1b")
    unusable = trade("mock", "status", env={"TRADE_BASE_URL": "http://u:hidden@[x"})
    assert unusable.code == 3
    assert "hidden" not in unusable.err
    nobody = trade("mock", "status", env={"TRADE_BASE_URL": "http://127.0.0.1:1"})
    assert (nobody.code, nobody.problem["code"]) == (1, "mock")
    assert "trade mock serve" in nobody.problem["hint"]


def test_a_mock_that_does_not_answer_in_time(trade: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tradesdk_cli.commands.mock.control._TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        said = f"the mock at 127.0.0.1:{port} did not answer within 0.05 s; it may be catching up with its clock"
        for argv, more in (
            (("clock", "--advance", "5"), "; whether this was done is unknown"),
            (("status",), ""),
        ):
            run = trade("mock", *argv, env={"TRADE_BASE_URL": f"http://127.0.0.1:{port}"})
            assert (run.code, run.problem["code"]) == (1, "mock")
            assert run.problem["message"] == said + more
            assert run.problem["hint"] == "trade mock clock"


@each_of(
    "line",
    [
        "status",
        "reset --yes",
        "clock",
        "fault list",
        "fault clear",
        "fault add latency",
        "fault remove flt_1",
        "emit signal",
        "market",
        "market --fail-prices",
        "agent agt_1 start",
        "key list",
        "key revoke key_1",
        "tenant plan me pro",
        "journal",
        "journal --clear",
        "logs",
        "gaps --current",
    ],
)
def test_what_is_no_mock_is_said_to_be_none(trade: Terminal, service: Scripted, line: str) -> None:
    for answer in ({"ok": True}, [1], {"data": None}, {"data": [1]}, {"options": 3}):
        service.says(200, answer)
        run = trade("mock", *line.split())
        if run.code:
            assert run.problem["code"] == "mock", (answer, run.err)
            assert "not a mock server" in run.problem["message"]
        json.loads(run.out or "null")
