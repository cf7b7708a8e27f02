"""`trade mock journal` and `trade mock logs`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import tradesdk_cli.commands.mock.logs as logs
from tradesdk_mock import MockServer

from ._services import HOSTILE, Scripted
from ._terminal import Run, Terminal
from .test_processes import started

PLAIN = {"NO_COLOR": "1"}


@pytest.fixture
def served(trade: Terminal) -> Iterator[MockServer]:
    """A server that was asked nothing yet; `trade` is set to it."""
    with MockServer(signals="scripted") as running:
        running.clock.freeze()
        running.clock.set(2_000_000_000)
        trade.env |= {"TRADE_BASE_URL": running.url, "TRADE_API_KEY": "mock_full_me"}
        yield running


def ask(trade: Terminal, times: int, tenant: str = "me") -> None:
    for _ in range(times):
        trade("account", "show", env={"TRADE_API_KEY": f"mock_full_{tenant}"})


def numbers(run: Run) -> list[int]:
    return [entry["n"] for entry in run.lines]


def test_the_latest_requests(trade: Terminal, served: MockServer) -> None:
    nothing = trade("mock", "journal")
    assert (nothing.out, json.loads(nothing.err)) == ("", {"note": "no requests"})
    ask(trade, 21)
    ask(trade, 2, "you")
    usual = trade("mock", "journal")
    assert numbers(usual) == list(range(4, 24))
    assert "--all" in json.loads(usual.err)["note"]
    assert numbers(trade("mock", "journal", "--limit", "3")) == [21, 22, 23]
    for everything in (trade("mock", "journal", "--all"), trade("mock", "journal", "--limit", "23")):
        assert (numbers(everything), everything.err) == (list(range(1, 24)), "")
    yours = trade("mock", "journal", "--tenant", "you")
    assert (numbers(yours), yours.err) == ([22, 23], "")
    assert numbers(trade("mock", "journal", "--tenant", "me", "--limit", "2")) == [20, 21]
    nobody = trade("mock", "journal", "--tenant", "nobody")
    assert json.loads(nobody.err)["note"] == "no requests of the tenant nobody"


def test_programs_get_everything(trade: Terminal, served: MockServer) -> None:
    served.populate("me")
    served.add_fault("status", route="/v1/trades", status=404)
    trade("trades", "list", "--limit", "5")
    [entry] = trade("mock", "journal", "-o", "json").json
    assert entry == served.control("GET", "journal")["data"][0]
    assert (entry["query"], entry["status"], entry["faults"]) == ({"limit": "5"}, 404, ["status"])


def test_clear(trade: Terminal, served: MockServer) -> None:
    ask(trade, 2)
    assert trade("mock", "journal", "--clear").json == {"requests": 0}
    assert trade("mock", "journal").out == ""
    ask(trade, 1)
    assert numbers(trade("mock", "journal")) == [3]
    for more in ("--tenant=me", "--limit=1", "--all"):
        assert trade("mock", "journal", "--clear", more).problem["code"] == "usage"
    assert trade("mock", "journal", "--limit", "3", "--all").problem["code"] == "usage"


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_it_fits_a_terminal(trade: Terminal, served: MockServer, columns: int) -> None:
    served.populate("me")
    agent = trade("agents", "list").lines[0]["id"]
    trade("agents", "get", agent)
    httpx.get(served.url + "/" + "x" * 300, trust_env=False)
    run = trade("mock", "journal", tty=True, columns=columns, env=PLAIN)
    assert all(len(line) <= columns for line in run.out.splitlines())
    assert len(run.out.splitlines()) == 4
    assert f" /v1/agents/{agent} " in run.out
    head = run.out.split()
    assert ("tenant" in head) is (columns == 120)


def test_the_embedded_world_has_none_and_says_so(trade: Terminal) -> None:
    trade("--mock", "agents", "list")
    for line in ("journal", "journal --clear", "journal -o json", "logs", "logs --follow"):
        run = trade("--mock", "mock", *line.split())
        assert run.code == 0, line
        assert "the embedded mock lives for one command only" in run.err
        assert run.out in ("", "[]\n")


# logs


def test_logs_are_a_line_each(trade: Terminal, served: MockServer) -> None:
    served.populate("me")
    trade("trades", "list", "--limit", "5")
    trade("trades", "get", "a b")
    trade("account", "show", env={"TRADE_API_KEY": "nonsense"})
    assert trade("mock", "logs").out.splitlines() == [
        "2033-05-18T03:33:20Z me GET /v1/trades?limit=5 200 - -",
        "2033-05-18T03:33:20Z me GET /v1/trades/a%20b 404 not_found -",
        "2033-05-18T03:33:20Z - GET /v1/account 401 unauthorized -",
    ]
    assert len(trade("mock", "logs", "--tenant", "me").out.splitlines()) == 2
    assert [entry["n"] for entry in trade("mock", "logs", "-o", "ndjson").lines] == [1, 2, 3]
    assert len(trade("mock", "logs", "-o", "json").json) == 3


def test_logs_since_the_start(trade: Terminal, served: MockServer) -> None:
    nothing = trade("mock", "logs")
    assert (nothing.code, nothing.out) == (0, "")
    assert "no requests yet" in nothing.err
    ask(trade, 25)
    assert len(trade("mock", "logs").out.splitlines()) == 20
    assert len(trade("mock", "logs", "--since-start").out.splitlines()) == 25


def test_nothing_in_a_log_moves_a_cursor(trade: Terminal, service: Scripted) -> None:
    texts = dict.fromkeys(("method", "path", "tenant", "error", "key_last4"), HOSTILE)
    entry = {"n": 1, "status": 200, "at": 1e300, "query": {HOSTILE: HOSTILE}, "body": HOSTILE, "faults": [HOSTILE]}
    service.says(200, {"data": [texts | entry], "last": 1})
    for line in ("logs", "logs -o ndjson", "journal -o table", "journal"):
        run = trade("mock", *line.split())
        assert run.code == 0
        assert len(run.out.splitlines()) == (2 if line == "journal -o table" else 1)
        assert all(line.isprintable() for line in run.out.splitlines())


def test_a_log_line_has_seven_words(trade: Terminal, service: Scripted) -> None:
    struck = entry(1) | {"path": "/ä b", "status": 0, "faults": ["latency", "reset"]}
    struck["query"] = {"from": "a b&c", "api_key": "sk_1"}
    service.says(200, {"data": [struck | {"method": "", "error": ""}], "last": 1})
    path = "/%C3%A4%20b?from=a+b%26c&api_key=****"
    assert trade("mock", "logs").out == f"1970-01-01T00:00:00Z - - {path} 0 - latency,reset\n"


def entry(n: int) -> dict[str, Any]:
    nothing = dict.fromkeys(("tenant", "error", "key_last4", "body"))
    return {"n": n, "method": "GET", "path": f"/{n}", "status": 200, "at": 0, "query": {}, "faults": [], **nothing}


def test_a_long_journal_comes_in_pieces(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": [entry(1), entry(2)], "last": 3})
    service.then(200, {"data": [entry(3)], "last": 4})
    service.then(200, {"data": [], "last": 4})
    assert numbers(trade("mock", "journal", "--all")) == [1, 2, 3]
    assert [path.partition("?")[2] for _, path, _ in service.seen] == [
        "after=0&limit=1000",
        "after=2&limit=1000",
        "after=3&limit=1000",
    ]


class Turns:
    """Does something each time that `logs --follow` would wait, and presses Ctrl-C in the end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *turns: Any) -> None:
        self._turns = list(turns)
        monkeypatch.setattr(logs, "_pause", self)

    def __call__(self, out: object) -> None:
        if not self._turns:
            raise KeyboardInterrupt
        self._turns.pop(0)()


def test_following(trade: Terminal, service: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    service.says(200, {"data": [], "last": 7})

    def say(*found: int, last: int) -> Any:
        return lambda: service.says(200, {"data": [entry(n) for n in found], "last": last})

    def restart() -> None:
        service.says(200, {"data": [], "last": 1})

    Turns(
        monkeypatch,
        say(8, 9, last=9),
        say(last=9),
        say(10, last=10),
        restart,
        say(1, 2, last=2),
    )
    run = trade("mock", "logs", "--follow")
    assert run.code == 130
    assert [line.split()[3] for line in run.out.splitlines()] == ["/8", "/9", "/10", "/1", "/2"]
    asked = [path.partition("?")[2].partition("&")[0] for _, path, _ in service.seen]
    assert asked[-5:] == ["after=7", "after=9", "after=9", "after=10", "after=0"]


def test_following_in_json(trade: Terminal, served: MockServer, monkeypatch: pytest.MonkeyPatch) -> None:
    Turns(monkeypatch, lambda: served.control("GET", "status"))
    ask(trade, 1)
    run = trade("mock", "logs", "--follow", "-o", "ndjson")
    assert (run.code, numbers(run)) == (130, [1])
    assert trade("mock", "logs", "--follow", "-o", "json").problem["code"] == "usage"


def test_the_mock_stops_while_it_is_followed(
    trade: Terminal, served: MockServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(trade, 1)
    Turns(monkeypatch, served.stop)
    run = trade("mock", "logs", "--follow")
    assert (run.code, len(run.out.splitlines())) == (1, 1)
    assert "nothing listens at" in run.err


@pytest.mark.skipif(os.name != "posix", reason="signals and pipes as POSIX has them")
def test_following_ends_with_its_reader(trade: Terminal, served: MockServer) -> None:
    ask(trade, 1)
    with started(trade, "mock", "logs", "--follow") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert " 200 " in process.stdout.readline()
        ask(trade, 1)
        assert " 200 " in process.stdout.readline()
        process.stdout.close()
        process.stdout = None
        assert process.wait(30) == 0, "though nothing was asked any more"
        assert process.stderr.read() == ""
