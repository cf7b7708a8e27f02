"""`trade agents list --results`: what agents have won or lost."""

from typing import Any

import pytest

from tradesdk import TradeClient

from .._rows import each_of
from .._texts import HOSTILE
from ._services import Scripted, agent
from ._terminal import Terminal

STATS = {"total_trades": 4, "win_rate_pct": 50.0, "total_pnl_usd": -12.5}


def full(number: int, **fields: Any) -> dict[str, Any]:
    rules = {"risk": {}, "min_confidence": 0.75, "max_positions": 5, "updated_at": 1767268800, "stats": STATS}
    return agent(f"agent {number}", id=f"agt_{number}") | rules | fields


def test_for_programs_it_is_the_agents_as_they_are_read_one_by_one(own: Terminal, client: TradeClient) -> None:
    run = own("agents", "list", "--results", "-o", "json")
    assert (run.code, run.err) == (0, "")
    wanted = [client.agents.get(summary.id).model_dump(mode="json") for summary in client.agents.list()]
    assert [(one["id"], one["stats"]) for one in run.json] == [(one["id"], one["stats"]) for one in wanted]


@each_of(
    ("by", "key"),
    [
        ("win_rate", lambda one: -one["stats"]["win_rate_pct"]),
        ("trades", lambda one: -one["stats"]["total_trades"]),
    ],
)
def test_sorted(own: Terminal, by: str, key: Any) -> None:
    found = own("agents", "list", "--sort", by).lines
    assert len(found) > 1
    assert found == sorted(found, key=key)


def test_an_agent_that_is_gone_when_it_is_read_is_left_out(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": [agent("one", id="agt_1"), agent(HOSTILE, id="agt_2")], "next_cursor": "there"})
    service.then(200, full(1))
    service.then(404, {"error": {"code": "not_found", "message": "no such agent"}})
    run = trade("agents", "list", "--results", "--limit", "2")
    assert [one["id"] for one in run.lines] == ["agt_1"]
    assert "was deleted meanwhile" in run.notes[0]["note"]
    assert run.notes[1]["next_cursor"] == "there"
    assert all(line.isprintable() for line in run.err.split("\n"))


def test_nobody_lost(trade: Terminal, service: Scripted) -> None:
    service.says(200, {"data": [agent(id="agt_1")]})
    service.then(200, full(1, stats=STATS | {"total_pnl_usd": 0.0}))
    run = trade("agents", "list", "--losing")
    assert (run.code, run.out) == (0, "")
    assert run.notes[-1]["note"] == "no agent has lost money"


RESULTS = {number: float((number * 7) % 25 - 12) for number in range(1, 24)}
"""Of 23 agents: those that lose most are not on the first page."""


@pytest.fixture
def many(trade: Terminal, service: Scripted) -> Terminal:
    """23 agents in pages of 20 and 3, oldest last; each is read in the order of the list."""
    service.answers = []
    summaries = [agent(f"n{number % 10}{number}", id=f"agt_{number}") for number in RESULTS]
    service.says(200, {"data": summaries[:20], "next_cursor": "more"})
    service.then(200, {"data": summaries[20:]})
    for number, result in RESULTS.items():
        name = summaries[number - 1]["name"]
        service.then(200, full(number, name=name, stats=STATS | {"total_pnl_usd": result}))
    return trade


WORST = sorted((number for number in RESULTS if RESULTS[number] < 0), key=lambda number: RESULTS[number])
BEST = sorted(RESULTS, key=lambda number: -RESULTS[number])


@pytest.mark.parametrize(
    ("options", "wanted", "said"),
    [
        ("--losing -n 2", WORST[:2], "the first 2; there is more: --all, or a larger --limit"),
        ("--losing --all", WORST, None),
        ("--losing", WORST, None),
        ("--losing --sort total_pnl -n 1", WORST[-1:], "the first 1; there is more: --all, or a larger --limit"),
        ("--sort total_pnl -n 3", BEST[:3], "the first 3; there is more: --all, or a larger --limit"),
        ("--sort total_pnl", BEST[:20], "the first 20; there is more: --all, or a larger --limit"),
        ("--sort total_pnl --all", BEST, None),
    ],
)
def test_filters_and_sorts_are_about_all_agents(
    many: Terminal, options: str, wanted: list[int], said: str | None
) -> None:
    run = many("agents", "list", *options.split())
    assert run.code == 0
    assert [one["id"] for one in run.lines] == [f"agt_{number}" for number in wanted]
    assert [note["note"] for note in run.notes] == ([said] if said else [])


def test_without_a_rank_no_more_is_read_than_is_shown(many: Terminal, service: Scripted) -> None:
    del service.answers[1]
    run = many("agents", "list", "--results", "-n", "20")
    assert len(run.lines) == 20
    assert len(service.seen) == 21
    assert run.notes == [{"note": "the first 20; there is more: --all, or --limit N", "next_cursor": "more"}]


@each_of("option", ["--losing", "--sort=total_pnl"])
def test_a_rank_has_no_place_to_go_on_at(trade: Terminal, service: Scripted, option: str) -> None:
    run = trade("agents", "list", option, "--cursor", "there")
    assert run.code == 2
    assert "a sorted list needs all items" in run.problem["message"]
    assert service.seen == []
