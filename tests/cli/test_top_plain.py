"""`trade top` for programs and where there is no terminal to draw on: snapshots, and how they fail."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len

from tradesdk import InvalidArgumentError
from tradesdk_cli.board.reader import Source
from tradesdk_cli.config.settings import Settings
from tradesdk_mock import MockServer

from ._services import Scripted, agent
from ._terminal import Terminal


def test_a_snapshot_for_programs(own: Terminal, server: MockServer) -> None:
    run = own("top", "--once", "-o", "json")
    assert (run.code, run.err) == (0, "")
    found = run.json
    assert found["target"]["mode"] == "local"
    assert found["rate_limit"]["limit"] == 300
    assert found["account"]["plan"] == "pro"
    assert {"spent_today_usd", "left_today_usd"} <= set(found["market_data"])
    assert [one["id"] for one in found["agents"]] == [one["id"] for one in own("agents", "list").lines]
    assert all("stats" in one and "open_positions" in one for one in found["agents"])
    assert [one["id"] for one in found["positions"]] == [one["id"] for one in own("positions", "list").lines]
    assert own.env["TRADE_API_KEY"] not in json.dumps(found)


def test_a_damaged_ledger_is_told_and_costs_the_board_nothing_else(own: Terminal) -> None:
    (own.home / "ledger.sqlite3").write_bytes(b"this is no ledger" * 99)
    run = own("top", "--once", "-o", "json")
    assert run.code == 0, run.err
    assert list(run.json["market_data"]) == ["problem"]
    assert run.json["agents"]


def test_a_snapshot_for_people(own: Terminal) -> None:
    run = own("top", "--once", "--chain", "bnb", tty=True, columns=80, env={"NO_COLOR": "1"})
    assert run.code == 0
    assert "\x1b" not in run.out
    assert "chain bnb" in run.out.splitlines()[0]
    assert all(cell_len(line) <= 80 for line in run.out.splitlines())
    dumb = own("top", tty=True, env={"TERM": "dumb"})
    assert (dumb.code, dumb.out.isascii()) == (0, True)


@pytest.mark.long
def test_many_agents_are_not_all_read(trade: Terminal, service: Scripted) -> None:
    limits = {"X_RateLimit_Limit": "9", "X_RateLimit_Remaining": "9", "X_RateLimit_Reset": "1767268860"}
    account = {"id": "acc_1", "email": "a@b.c", "plan": "free", "created_at": 1, "api_key_last4": "abcd"}
    service.says(200, account, **limits)
    service.then(200, {"data": [agent(f"agent {n}", id=f"agt_{n}") for n in range(30)]}, **limits)
    service.then(200, {"data": []}, **limits)
    service.then(200, {"data": []}, **limits)
    quotas = {"requests": {"used": 1, "limit": 2}, "agents": {"used": 1, "limit": 2}, "reset_at": 1767268800}
    service.then(200, quotas, **limits)
    service.then(200, {"data": []}, **limits)
    service.then(200, {"data": []}, **limits)
    rules = {"risk": {}, "min_confidence": 0.75, "max_positions": 5, "updated_at": 1, "stats": None}
    service.then(200, agent() | rules, **limits)
    run = trade("top", "--once", "-o", "json")
    assert "results were read of 3 of 30 agents" in run.err
    assert len(run.json["agents"]) == 30


def _odd(service: Scripted, *answers: tuple[int, dict[str, Any]]) -> None:
    """What `--once` reads of two agents, the first of which nobody can ask for."""
    account = {"id": "acc_1", "email": "a@b.c", "plan": "free", "created_at": 1, "api_key_last4": "abcd"}
    service.says(200, account)
    service.then(200, {"data": [agent("odd", id="x" * 300), agent("calm", id="agt_2")]})
    service.then(200, {"data": []})
    service.then(200, {"data": []})
    quotas = {"requests": {"used": 1, "limit": 2}, "agents": {"used": 1, "limit": 2}, "reset_at": 1767268800}
    service.then(200, quotas)
    service.then(200, {"data": []})
    service.then(200, {"data": []})
    for status, answer in answers:
        service.then(status, answer)


def test_one_odd_agent_costs_its_own_results_only(trade: Terminal, service: Scripted) -> None:
    rules = {"risk": {}, "min_confidence": 0.75, "max_positions": 5, "updated_at": 1}
    stats = {"total_trades": 4, "win_rate_pct": 50.0, "total_pnl_usd": -12.5}
    _odd(service, (200, agent("calm", id="agt_2") | rules | {"stats": stats}))
    run = trade("top", "--once", "-o", "json")
    assert run.code == 0, run.err
    assert "the results of odd could not be read: agent_id is" in run.err
    assert [one["name"] for one in run.json["agents"]] == ["odd", "calm"]
    assert run.json["agents"][1]["stats"] == stats


def test_a_service_that_fails_for_all_ends_it(trade: Terminal, service: Scripted) -> None:
    _odd(service, (500, {"error": {"code": "internal_error", "message": "no"}}))
    run = trade("top", "--once", "-o", "json", "--no-retry")
    assert (run.code, run.out) == (10, "")


def test_while_it_is_live_an_odd_agent_holds_nothing_up() -> None:
    run: Any = SimpleNamespace(settings=Settings())
    source = Source(run, None, 2.0)
    source._failed("agent odd", InvalidArgumentError("agent_id is odd"))  # as the reading thread does
    news = source.news.get_nowait()
    assert (news.kind, news.data, news.key) == ("agent", {}, "odd")
    assert source.news.empty(), "no problem, and no pause"


def test_a_wrong_key_ends_it_before_anything_is_drawn(trade: Terminal, service: Scripted) -> None:
    service.fails(401, "unauthorized", "no such key")
    for argv in (("top",), ("top", "--once"), ("top", "--interval", "2s")):
        assert trade(*argv).code == 4


def test_lines_are_no_table_of_columns(own: Terminal) -> None:
    assert own("top", "--interval", "2s", "-o", "csv").code == 2
