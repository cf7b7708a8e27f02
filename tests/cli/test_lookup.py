"""Names, and beginnings of ids, wherever an id is taken."""

from __future__ import annotations

import json

import pytest

from tradesdk import TradeClient
from tradesdk_mock import MockServer

from .._rows import each_of
from ._services import Scripted, agent
from ._terminal import Terminal

SLOW, FAST = f"agt_5f0c{1:020x}", f"agt_5f0c{2:020x}"


@pytest.fixture(scope="module")
def named(server: MockServer) -> dict[str, str]:
    """What there is in the tenant that no test changes."""
    with TradeClient(api_key="mock_full_shared", base_url=server.url) as client:
        wallet = next(iter(client.wallets.list(chain_id=8453)))
        agent_id = next(one.id for one in client.agents.list() if one.name == "base-slow")
        trade = next(iter(client.trades.list(limit=1)))
    return {"AGENT": agent_id, "WALLET": wallet.id, "LABEL": wallet.label, "ADDRESS": wallet.address, "TRADE": trade.id}


def test_an_unknown_name_that_begins_others_lists_them(world: Terminal) -> None:
    run = world("agents", "get", "base")
    assert (run.code, run.problem["code"]) == (6, "not_found")
    shown = run.problem["hint"].partition("?")[0].removeprefix("did you mean ").split(" or ")
    assert sorted(shown) == ["base-dips", "base-momentum", "base-slow"]


@each_of(
    ("line", "typed", "thing"),
    [
        ("agents get {}", "base-slow", "AGENT"),
        ("agents get {}", "Base-SLOW", "AGENT"),
        ("agents get {}", "AGENT 12", "AGENT"),
        ("agents get {}", "AGENT 6", "AGENT"),
        ("agents update {} --name other --dry-run", "base-slow", "AGENT"),
        ("agents delete {} --dry-run", "AGENT 12", "AGENT"),
        ("agents create --name n --chain base --dry-run --wallet-id {}", "LABEL", "WALLET"),
        ("agents update AGENT --dry-run --wallet-id {}", "WALLET 12", "WALLET"),
        ("trades list --agent-id {} --all", "base-slow", "AGENT"),  # a cursor would say the second of its making
        ("plot agent {} -o json", "base-slow", "AGENT"),
        ("wallets balance {}", "LABEL", "WALLET"),
        ("wallets balance {}", "ADDRESS", "WALLET"),
        ("wallets balance {}", "ADDRESS 10", "WALLET"),
        ("trades get {}", "TRADE 20", "TRADE"),
    ],
)
def test_a_name_or_a_beginning_is_as_good_as_the_id(
    world: Terminal, named: dict[str, str], line: str, typed: str, thing: str
) -> None:
    word, _, length = typed.partition(" ")
    text = named.get(word, word)[: int(length) if length else None]
    run, same = (
        world(*(filling if part == "{}" else named.get(part, part) for part in line.split()))
        for filling in (text, named[thing])
    )
    assert (run.code, same.code) == (0, 0), run.err
    assert json.loads(run.err.splitlines()[0]) == {
        "type": "named",
        "note": f"{text} is {named[thing]}",
        "name": text,
        "id": named[thing],
    }
    assert (run.out, run.err.splitlines()[1:]) == (same.out, same.err.splitlines())


@each_of(
    ("listed", "read"),
    [("agents list", "agents get"), ("wallets list", "wallets balance"), ("trades list -n 3", "trades get")],
)
def test_an_id_that_a_narrow_table_shortens_is_taken_as_it_is_shown(world: Terminal, listed: str, read: str) -> None:
    run = world(*listed.split(), tty=True, columns=78, env={"NO_COLOR": "1"})
    whole = [row["id"] for row in world(*listed.split(), "-o", "json").json]
    shown = [line.split()[0] for line in run.out.splitlines()[1:]]
    assert shown == [f"{one[:12]}…" for one in whole]
    assert (
        world(*read.split(), shown[-1], "-o", "csv", "--fields", "id" if "get" in read else "wallet_id").out.split()[1]
        == (whole[-1])
    )


def test_whatever_state_it_is_put_into_on_a_mock(own: Terminal, client: TradeClient) -> None:
    chosen = next(one for one in client.agents.list() if one.name == "base-slow")
    assert own("mock", "agent", "set-status", "base-slow", "paused").json == {"id": chosen.id, "status": "paused"}
    assert own("mock", "agent", "start", chosen.id[:12]).json == {"id": chosen.id, "status": "active"}
    positions = own("positions", "list", "--agent-id", "base-slow").lines
    assert {one["agent_id"] for one in positions} <= {chosen.id}


@each_of("line", ["agents get {}", "trades list --agent-id {}", "agents delete {} --dry-run"])
def test_an_id_costs_no_request_more(world: Terminal, server: MockServer, named: dict[str, str], line: str) -> None:
    server.clear_journal()
    run = world(*line.format(named["AGENT"]).split())
    assert run.code == 0
    assert '"named"' not in run.err
    assert "/v1/agents" not in [entry.path for entry in server.journal()]


@each_of(("typed", "status"), [("agt_nobody", 404), ("nobody", None)])
def test_what_the_service_said_is_told(world: Terminal, typed: str, status: int | None) -> None:
    run = world("agents", "get", typed)
    assert (run.code, run.problem["code"], run.problem["status"]) == (6, "not_found", status)
    assert run.problem["message"] == f"no agent has the id or name {typed}"


def test_an_id_of_any_form_is_tried_as_it_is(trade: Terminal, service: Scripted) -> None:
    service.says(200, {**agent(), "risk": {}, "min_confidence": 0.5, "max_positions": 1})
    assert trade("agents", "get", "agt_1").code == 0
    assert [path for _, path, _ in service.seen] == ["/v1/agents/agt_1"]


@pytest.mark.parametrize(
    ("line", "code", "said", "hint"),
    [
        ("agents get base", 2, f"2 agents match base: {SLOW} (base), {FAST} (base)", "use the id"),
        ("trades list --agent-id agt_5f0c", 2, f"2 agents match agt_5f0c: {SLOW} (base), {FAST} (base)", "use the id"),
        ("trades list --agent-id agt_5", 2, f"2 agents match agt_5: {SLOW} (base), {FAST} (base)", "use the id"),
        ("agents get bnb-slwo", 6, "no agent has the id or name bnb-slwo", "did you mean bnb-slow? see what there is"),
        ("agents delete bas --yes", 6, "no agent has the id or name bas", "did you mean base?"),
        ("plot agent zzz", 6, "no agent has the id or name zzz", "see what there is: trade agents list"),
        ("positions list --agent-id agt_", 6, "no agent has the id or name agt_", "see what there is"),
    ],
)
def test_several_are_listed_and_the_nearest_are_named(
    trade: Terminal, service: Scripted, line: str, code: int, said: str, hint: str
) -> None:
    service.says(200, {"data": [agent("base", id=SLOW), agent("base", id=FAST), agent("bnb-slow", id="agt_9")]})
    run = trade(*line.split())
    assert (run.code, said in run.problem["message"], hint in run.problem["hint"]) == (code, True, True), run.err
    assert [path for _, path, _ in service.seen] == ["/v1/agents?limit=100"]


@each_of(
    ("name", "hint"),
    [("my agent", "did you mean 'my agent'? "), ("my $(id)", "did you mean 'my $(id)'? "), ("my agent\x1b[2J", "")],
)
def test_a_name_in_a_hint_can_be_pasted(trade: Terminal, service: Scripted, name: str, hint: str) -> None:
    service.says(200, {"data": [agent(name, id="agt_9")]})
    run = trade("agents", "get", f"{name[:5]}")
    assert (run.code, run.problem["hint"]) == (6, f"{hint}see what there is: trade agents list")


@each_of("typed", ["sk_live_0123456789abcdef", "0x" + "6b" * 32])
@each_of("line", ["agents get", "agents delete --yes", "trades list --agent-id", "wallets balance"])
def test_a_key_where_a_name_belongs_is_not_repeated(world: Terminal, line: str, typed: str) -> None:
    run = world(*line.split(), typed)
    assert (run.code, run.problem["code"]) == (6, "not_found")
    assert typed not in run.out + run.err
