"""`trade mock logs`."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from tradesdk_mock import MockServer

from .._texts import HOSTILE
from ..mock._http import control
from ._services import Scripted
from ._terminal import Run, Terminal

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
    assert [line.split() for line in trade("mock", "logs", "-o", "table").out.splitlines()] == [
        ["time", "tenant", "method", "status", "path", "error", "faults"],
        ["2033-05-18", "03:33:20Z", "me", "GET", "404", "/v1/trades?limit=5", "not_found", "status"],
        ["2033-05-18", "03:33:20Z", "me", "GET", "404", "/v1/trades/a%20b", "not_found", "-"],
        ["2033-05-18", "03:33:20Z", "-", "GET", "401", "/v1/account", "unauthorized", "-"],
    ]
    assert len(trade("mock", "logs", "--tenant", "me").lines) == 2
    whole = control(served, "GET", "journal")["data"]
    assert trade("mock", "logs", "-o", "ndjson").lines == trade("mock", "logs", "-o", "json").json == whole


def test_the_latest(trade: Terminal, served: MockServer) -> None:
    ask(served, 21)
    ask(served, 2, "you")
    usual = trade("mock", "logs", "-o", "ndjson")
    assert numbers(usual) == list(range(4, 24))
    assert json.loads(usual.err)["note"] == "the latest 20; there are more: --limit N"
    query = trade("mock", "logs", "-q", "length(@)")
    assert (query.code, query.out, query.problem["hint"]) == (2, "", "--limit N")
    assert numbers(trade("mock", "logs", "--limit", "3", "-o", "ndjson")) == [21, 22, 23]
    assert trade("mock", "logs", "-q", "length(@)", "--limit", "23").json == 23
    for words, found in (("--limit 99", [*range(1, 24)]), ("--after 21", [22, 23]), ("--tenant you", [22, 23])):
        assert (numbers(run := trade("mock", "logs", *words.split(), "-o", "ndjson")), run.err) == (found, "")


@pytest.mark.usefixtures("worlds")
def test_the_embedded_world_has_none_and_says_so(trade: Terminal) -> None:
    trade("--mock", "agents", "list")
    run = trade("--mock", "mock", "logs")
    assert (run.code, "only a served mock logs them" in run.err) == (0, True)


def test_a_line_has_no_key_and_moves_no_cursor(trade: Terminal, service: Scripted) -> None:
    texts = dict.fromkeys(("method", "tenant", "error", "key_last4", "body"), HOSTILE)
    entry = texts | {"n": 1, "status": 0, "at": 1e300, "path": "/ä b", "faults": ["latency", HOSTILE]}
    service.says(200, {"data": [entry | {"query": {"from": "a b&c", "api_key": "sk_1"}}], "last": 1}, **MOCK)
    for form, lines in (("table", 2), ("ndjson", 1)):
        run = trade("mock", "logs", "-o", form)
        assert (run.code, len(run.out.splitlines())) == (0, lines)
        assert all(line.isprintable() for line in run.out.splitlines())
    assert "/%C3%A4%20b?from=a+b%26c&api_key=****" in trade("mock", "logs", "-o", "table").out
