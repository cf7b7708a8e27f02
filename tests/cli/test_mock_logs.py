"""`trade mock logs`."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import tradesdk_cli.commands.mock.logs as logs
from tradesdk_mock import MockServer

from .._rows import each_of
from ._hostile import HOSTILE
from ._services import Scripted
from ._terminal import Run, Terminal
from .test_processes import started

PLAIN = {"NO_COLOR": "1"}
MOCK = {"x_mock_control": "1"}


@pytest.fixture
def served(trade: Terminal) -> Iterator[MockServer]:
    """A server that was asked nothing yet; `trade` is set to it."""
    with MockServer(signals="scripted") as running:
        running.clock.freeze()
        running.clock.set(2_000_000_000)
        trade.env |= {"TRADE_BASE_URL": running.url, "TRADE_API_KEY": "mock_full_me"}
        yield running


def ask(served: MockServer, times: int, tenant: str = "me") -> None:
    headers = {"Authorization": f"Bearer mock_full_{tenant}"}
    with httpx.Client(base_url=served.url, headers=headers, trust_env=False) as http:
        for _ in range(times):
            http.get("/v1/account")


def numbers(run: Run) -> list[int]:
    return [entry["n"] for entry in run.lines]


def test_a_line_each(trade: Terminal, served: MockServer) -> None:
    nothing = trade("mock", "logs")
    assert (nothing.code, nothing.out, "no requests yet" in nothing.err) == (0, "", True)
    served.populate("me", trades=8)
    served.add_fault("status", route="/v1/trades", status=404)
    trade("trades", "list", "--limit", "5")
    trade("trades", "get", "a b")
    trade("account", "show", env={"TRADE_API_KEY": "nonsense"})
    assert [line.split() for line in trade("mock", "logs").out.splitlines()] == [
        ["time", "tenant", "method", "status", "path", "error", "faults"],
        ["2033-05-18", "03:33:20Z", "me", "GET", "404", "/v1/trades?limit=5", "not_found", "status"],
        ["2033-05-18", "03:33:20Z", "me", "GET", "404", "/v1/trades/a%20b", "not_found", "-"],
        ["2033-05-18", "03:33:20Z", "-", "GET", "401", "/v1/account", "unauthorized", "-"],
    ]
    assert len(trade("mock", "logs", "--tenant", "me").out.splitlines()) == 3
    whole = served.control("GET", "journal")["data"]
    assert trade("mock", "logs", "-o", "ndjson").lines == trade("mock", "logs", "-o", "json").json == whole


def test_the_latest_or_all(trade: Terminal, served: MockServer) -> None:
    ask(served, 21)
    ask(served, 2, "you")
    usual = trade("mock", "logs", "-o", "ndjson")
    assert numbers(usual) == list(range(4, 24))
    assert json.loads(usual.err)["note"] == "the latest 20; there are more: --all, or --limit N"
    query = trade("mock", "logs", "-q", "length(@)")
    assert (query.code, query.out, query.problem["hint"]) == (2, "", "--all, or --limit N")
    assert trade("mock", "logs", "-q", "length(@)", "--all").json == 23
    assert numbers(trade("mock", "logs", "--limit", "3", "-o", "ndjson")) == [21, 22, 23]
    for words in (("--all",), ("--limit", "23"), ("--limit", "99")):
        everything = trade("mock", "logs", *words, "-o", "ndjson")
        assert (numbers(everything), everything.err) == (list(range(1, 24)), "")
    assert numbers(trade("mock", "logs", "--tenant", "me", "--limit", "2", "-o", "ndjson")) == [20, 21]
    assert len(trade("mock", "logs", tty=True, env=PLAIN).out.splitlines()) == 21


def test_the_embedded_world_has_none_and_says_so(trade: Terminal) -> None:
    trade("--mock", "agents", "list")
    for line in ("logs", "logs -o json", "logs --follow"):
        run = trade("--mock", "mock", *line.split())
        assert run.code == 0, line
        assert "the embedded mock lives for one command only" in run.err
        assert run.out in ("", "[]\n")


def test_nothing_in_a_log_moves_a_cursor(trade: Terminal, service: Scripted) -> None:
    texts = dict.fromkeys(("method", "path", "tenant", "error", "key_last4"), HOSTILE)
    entry = {"n": 1, "status": 200, "at": 1e300, "query": {HOSTILE: HOSTILE}, "body": HOSTILE, "faults": [HOSTILE]}
    service.says(200, {"data": [texts | entry], "last": 1}, **MOCK)
    for line, lines in (("logs", 2), ("logs -o ndjson", 1)):
        run = trade("mock", *line.split())
        assert (run.code, len(run.out.splitlines())) == (0, lines)
        assert all(line.isprintable() for line in run.out.splitlines())


def test_a_line_has_no_key(trade: Terminal, service: Scripted) -> None:
    struck = entry(1) | {"path": "/ä b", "status": 0, "faults": ["latency", "reset"]}
    struck["query"] = {"from": "a b&c", "api_key": "sk_1"}
    service.says(200, {"data": [struck | {"method": "", "error": ""}], "last": 1}, **MOCK)
    path = "/%C3%A4%20b?from=a+b%26c&api_key=****"
    assert trade("mock", "logs").out.splitlines()[1].split()[-3:] == ["0", path, "latency,reset"]


def entry(n: int) -> dict[str, Any]:
    nothing = dict.fromkeys(("tenant", "error", "key_last4", "body"))
    return {"n": n, "method": "GET", "path": f"/{n}", "status": 200, "at": 0, "query": {}, "faults": [], **nothing}


def test_many_come_in_pieces(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": [entry(1), entry(2)], "last": 3}, **MOCK)
    service.then(200, {"data": [entry(3)], "last": 4}, **MOCK)
    service.then(200, {"data": [], "last": 4}, **MOCK)
    assert numbers(trade("mock", "logs", "--all", "-o", "ndjson")) == [1, 2, 3]
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
    service.says(200, {"data": [], "last": 7}, **MOCK)

    def say(*found: int, last: int) -> Any:
        return lambda: service.says(200, {"data": [entry(n) for n in found], "last": last}, **MOCK)

    def restart() -> None:
        service.says(200, {"data": [], "last": 1}, **MOCK)

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
    assert [line.split()[5] for line in run.out.splitlines()[1:]] == ["/8", "/9", "/10", "/1", "/2"]
    asked = [path.partition("?")[2].partition("&")[0] for _, path, _ in service.seen]
    assert asked[-5:] == ["after=7", "after=9", "after=9", "after=10", "after=0"]


def test_following_in_json(trade: Terminal, served: MockServer, monkeypatch: pytest.MonkeyPatch) -> None:
    Turns(monkeypatch, lambda: served.control("GET", "status"))
    ask(served, 1)
    run = trade("mock", "logs", "--follow", "-o", "ndjson")
    assert (run.code, numbers(run)) == (130, [1])
    assert trade("mock", "logs", "--follow", "-o", "json").problem["code"] == "usage"


def test_the_mock_stops_while_it_is_followed(
    trade: Terminal, served: MockServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(served, 1)
    Turns(monkeypatch, served.stop)
    run = trade("mock", "logs", "--follow")
    assert (run.code, len(run.out.splitlines())) == (1, 2)
    assert "nothing listens at" in run.err


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="signals and pipes as POSIX has them")
@each_of(("number", "code"), [(None, 0), (signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_following_ends_with_its_reader_and_when_told_to(
    trade: Terminal, served: MockServer, number: signal.Signals | None, code: int
) -> None:
    ask(served, 1)
    with started(trade, "mock", "logs", "--follow") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("time ")
        assert " 200 " in process.stdout.readline()
        ask(served, 1)
        assert " 200 " in process.stdout.readline()
        if number is not None:
            process.send_signal(number)
        else:
            process.stdout.close()
            process.stdout = None
        assert process.wait(30) == code, "though nothing was asked any more"
        assert process.stderr.read() == ("interrupted\n" if number == signal.SIGINT else "")
