"""Agents: made, read, changed, deleted; and what control does to their state."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tradesdk_mock import MockServer, MockServerError

from ._support import START, add_agent, add_wallet, error, ok, walk

SUMMARY = ["id", "name", "status", "chain_id", "wallet_id", "created_at"]
CREATED = [*SUMMARY[:5], "risk", "min_confidence", "max_positions", "created_at"]
FULL = [*CREATED, "updated_at", "stats"]
STATES = ("active", "idle", "paused", "error")


def test_create_answers_with_defaults_and_exactly_nine_fields(api: httpx.Client) -> None:
    wallet = add_wallet(api)
    agent = add_agent(api, wallet, name="first")
    assert list(agent) == CREATED
    assert agent == {
        "id": agent["id"],
        "name": "first",
        "status": "idle",
        "chain_id": 8453,
        "wallet_id": wallet,
        "risk": {},
        "min_confidence": 0.75,
        "max_positions": 5,
        "created_at": START,
    }
    assert agent["id"].startswith("agt_")


def test_create_keeps_what_was_given(api: httpx.Client) -> None:
    given = {"risk": {"stop_loss_pct": 2.5, "take_profit_pct": 40}, "min_confidence": 1, "max_positions": 12}
    agent = add_agent(api, add_wallet(api), **given)
    assert {name: agent[name] for name in given} == given
    assert isinstance(agent["min_confidence"], float)
    assert isinstance(agent["max_positions"], int)


def test_unknown_fields_are_ignored(api: httpx.Client) -> None:
    agent = add_agent(api, add_wallet(api), colour="red", risk={"stop_loss_pct": 2, "mood": 1})
    assert list(agent) == CREATED
    assert agent["risk"] == {"stop_loss_pct": 2}


def test_read_has_stats_and_updated_at(api: httpx.Client) -> None:
    made = add_agent(api, add_wallet(api))
    agent = ok(api.get(f"/v1/agents/{made['id']}"))
    assert list(agent) == FULL
    assert agent == {
        **made,
        "updated_at": START,
        "stats": {"total_trades": 0, "win_rate_pct": 0.0, "total_pnl_usd": 0.0},
    }
    assert isinstance(agent["stats"]["win_rate_pct"], float)


WRONG: list[tuple[str, Any]] = [
    ("name", 5),
    ("name", None),
    ("name", ["a"]),
    ("wallet_id", 5),
    ("chain_id", "8453"),
    ("chain_id", 8453.0),
    ("chain_id", True),
    ("chain_id", None),
    ("chain_id", 10**30),
    ("risk", None),
    ("risk", []),
    ("risk", "none"),
    ("risk", {"stop_loss_pct": "5"}),
    ("risk", {"stop_loss_pct": True}),
    ("risk", {"stop_loss_pct": None}),
    ("min_confidence", "0.5"),
    ("min_confidence", True),
    ("min_confidence", None),
    ("max_positions", 5.0),
    ("max_positions", "5"),
    ("max_positions", True),
    ("max_positions", None),
    ("max_positions", 10**30),
]


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_values_of_a_wrong_type(api: httpx.Client, field: str, value: Any) -> None:
    wallet = add_wallet(api)
    body = {"name": "n", "wallet_id": wallet, "chain_id": 8453, field: value}
    assert error(api.post("/v1/agents", json=body), 400, "invalid_request").startswith(field)
    if field != "chain_id":
        agent = add_agent(api, wallet)["id"]
        message = error(api.patch(f"/v1/agents/{agent}", json={field: value}), 400, "invalid_request")
        assert message.startswith(field)


def test_numbers_too_large_for_a_float(api: httpx.Client) -> None:
    wallet = add_wallet(api)
    for number in ("1e999", "1" + "0" * 400):
        body = f'{{"name": "n", "wallet_id": "{wallet}", "chain_id": 8453, "min_confidence": {number}}}'
        answer = api.post("/v1/agents", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422)
        error(answer, answer.status_code, {400: "invalid_request", 422: "validation_error"}[answer.status_code])


UNACCEPTABLE: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "name"),
    ({"name": " \t"}, "name"),
    ({"min_confidence": -0.1}, "min_confidence"),
    ({"min_confidence": 1.0001}, "min_confidence"),
    ({"max_positions": 0}, "max_positions"),
    ({"max_positions": 101}, "max_positions"),
    ({"max_positions": -1}, "max_positions"),
    *(
        ({"risk": {field: value}}, f"risk.{field}")
        for field in ("position_size_pct", "stop_loss_pct", "trailing_stop_pct", "take_profit_pct")
        for value in (0, -1, 100.01)
    ),
]


@pytest.mark.parametrize(("fields", "named"), UNACCEPTABLE)
def test_values_that_business_refuses(api: httpx.Client, fields: dict[str, Any], named: str) -> None:
    wallet = add_wallet(api)
    body = {"name": "n", "wallet_id": wallet, "chain_id": 8453, **fields}
    assert error(api.post("/v1/agents", json=body), 422, "validation_error").startswith(f"{named}: ")
    agent = add_agent(api, wallet)["id"]
    before = ok(api.get(f"/v1/agents/{agent}"))
    message = error(api.patch(f"/v1/agents/{agent}", json={"name": "other", **fields}), 422, "validation_error")
    assert message.startswith(f"{named}: ")
    assert ok(api.get(f"/v1/agents/{agent}")) == before, "a refused change changes nothing"


@pytest.mark.parametrize("fields", [{"max_positions": 1}, {"max_positions": 100}, {"min_confidence": 0}])
def test_values_at_the_edge(api: httpx.Client, fields: dict[str, Any]) -> None:
    add_agent(api, add_wallet(api), **fields, risk={"position_size_pct": 100, "stop_loss_pct": 0.001})


def test_chains(api: httpx.Client) -> None:
    wallet = add_wallet(api)
    for chain in (1, 0, -8453, 137):
        body = {"name": "n", "wallet_id": wallet, "chain_id": chain}
        assert error(api.post("/v1/agents", json=body), 422, "validation_error").startswith("chain_id: ")
    bnb = add_wallet(api, 56)
    assert add_agent(api, bnb, chain_id=56)["chain_id"] == 56


def test_the_wallet_must_be_connected_and_on_the_same_chain(api: httpx.Client) -> None:
    body = {"name": "n", "wallet_id": "wal_unknown", "chain_id": 8453}
    error(api.post("/v1/agents", json=body), 404, "not_found")
    base, bnb = add_wallet(api), add_wallet(api, 56)
    message = error(api.post("/v1/agents", json={**body, "wallet_id": bnb}), 422, "validation_error")
    assert message.startswith("wallet_id: ")
    agent = add_agent(api, base)["id"]
    error(api.patch(f"/v1/agents/{agent}", json={"wallet_id": bnb}), 422, "validation_error")
    error(api.patch(f"/v1/agents/{agent}", json={"wallet_id": "wal_unknown"}), 404, "not_found")


@pytest.mark.parametrize("state", STATES)
def test_editing_works_in_every_state_and_leaves_it(server: MockServer, api: httpx.Client, state: str) -> None:
    made = add_agent(api, add_wallet(api), risk={"stop_loss_pct": 5, "take_profit_pct": 20})
    path = f"/v1/agents/{made['id']}"
    server.set_agent_status(made["id"], state)
    server.clock.advance(10)
    changed = ok(api.patch(path, json={"name": "new", "risk": {"take_profit_pct": 30, "trailing_stop_pct": 2}}))
    assert list(changed) == FULL
    assert changed == {
        **made,
        "name": "new",
        "status": state,
        "risk": {"stop_loss_pct": 5, "take_profit_pct": 30, "trailing_stop_pct": 2},
        "updated_at": START + 10,
        "stats": changed["stats"],
    }
    assert ok(api.get(path)) == changed


@pytest.mark.parametrize(
    "change",
    [{"name": "x"}, {"min_confidence": 0.1}, {"max_positions": 9}, {"risk": {"position_size_pct": 1}}, {"risk": {}}],
)
def test_only_what_was_sent_changes(server: MockServer, api: httpx.Client, change: dict[str, Any]) -> None:
    made = add_agent(api, add_wallet(api), risk={"stop_loss_pct": 5}, min_confidence=0.9, max_positions=3)
    path = f"/v1/agents/{made['id']}"
    before = ok(api.get(path))
    server.clock.advance(1)
    expected = {**before, **change, "updated_at": START + 1}
    expected["risk"] = {**before["risk"], **change.get("risk", {})}
    assert ok(api.patch(path, json=change)) == expected


def test_an_empty_patch_changes_nothing(server: MockServer, api: httpx.Client) -> None:
    path = f"/v1/agents/{add_agent(api, add_wallet(api))['id']}"
    before = ok(api.get(path))
    server.clock.advance(5)
    assert ok(api.patch(path, json={})) == before
    # The chain is no field of a change: unknown fields are ignored.
    assert ok(api.patch(path, json={"chain_id": 56, "status": "active"})) == before


def test_the_wallet_can_be_changed(server: MockServer, api: httpx.Client) -> None:
    server.populate("main")
    other = ok(api.get("/v1/wallets", params={"chain_id": 8453}))["data"][0]["id"]
    agent = add_agent(api, add_wallet(api))["id"]
    assert ok(api.patch(f"/v1/agents/{agent}", json={"wallet_id": other}))["wallet_id"] == other


@pytest.mark.parametrize("state", ["idle", "paused", "error"])
def test_delete_of_a_stopped_agent(server: MockServer, api: httpx.Client, state: str) -> None:
    agent = add_agent(api, add_wallet(api))["id"]
    server.set_agent_status(agent, state)
    answer = api.delete(f"/v1/agents/{agent}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert "content-type" not in answer.headers
    error(api.get(f"/v1/agents/{agent}"), 404, "not_found")
    error(api.delete(f"/v1/agents/{agent}"), 404, "not_found")
    assert ok(api.get("/v1/agents")) == {"data": []}


def test_delete_of_a_running_agent_is_a_conflict(server: MockServer, api: httpx.Client) -> None:
    agent = add_agent(api, add_wallet(api))["id"]
    server.start_agent(agent)
    error(api.delete(f"/v1/agents/{agent}"), 409, "conflict")
    assert ok(api.get(f"/v1/agents/{agent}"))["status"] == "active"
    server.stop_agent(agent)
    assert api.delete(f"/v1/agents/{agent}").status_code == 204


def test_start_and_stop_by_control(server: MockServer, api: httpx.Client) -> None:
    agent = add_agent(api, add_wallet(api))["id"]
    path = f"/v1/agents/{agent}"
    server.clock.advance(3)
    server.start_agent(agent)
    after = ok(api.get(path))
    assert (after["status"], after["updated_at"]) == ("active", START)
    with pytest.raises(MockServerError, match="running already"):
        server.start_agent(agent)
    server.stop_agent(agent)
    with pytest.raises(MockServerError, match="stopped already"):
        server.stop_agent(agent)
    for state in ("paused", "error"):
        server.set_agent_status(agent, state)
        server.start_agent(agent)
        server.set_agent_status(agent, state)
        server.stop_agent(agent)
        assert ok(api.get(path))["status"] == "idle"
    with pytest.raises(MockServerError, match="must be one of"):
        server.set_agent_status(agent, "asleep")
    with pytest.raises(MockServerError, match="No agent"):
        server.start_agent("agt_unknown")


def test_list_gives_summaries_and_filters_by_state(rich: httpx.Client) -> None:
    agents = walk(rich, "/v1/agents")
    assert len(agents) == 6
    assert all(list(agent) == SUMMARY for agent in agents)
    assert {agent["status"] for agent in agents} == set(STATES)
    assert {agent["chain_id"] for agent in agents} == {8453, 56}
    created = [agent["created_at"] for agent in agents]
    assert created == sorted(created, reverse=True)
    for state in STATES:
        found = walk(rich, "/v1/agents", status=state, limit=1)
        assert found == [agent for agent in agents if agent["status"] == state]
    assert error(rich.get("/v1/agents?status=asleep"), 422, "validation_error").startswith("status: ")


def test_stats_are_those_of_the_closed_trades(rich: httpx.Client) -> None:
    trades = walk(rich, "/v1/trades", limit=100, status="closed")
    for summary in walk(rich, "/v1/agents"):
        mine = [trade["pnl_usd"] for trade in trades if trade["agent_id"] == summary["id"]]
        stats = ok(rich.get(f"/v1/agents/{summary['id']}"))["stats"]
        assert stats["total_trades"] == len(mine) > 0
        assert stats["win_rate_pct"] == pytest.approx(100 * sum(pnl > 0 for pnl in mine) / len(mine), abs=0.01)
        assert stats["total_pnl_usd"] == pytest.approx(sum(mine), abs=0.01)


def test_deleting_an_agent_closes_its_trades_and_keeps_them(rich: httpx.Client) -> None:
    paused = walk(rich, "/v1/agents", status="paused")[0]["id"]
    opened = walk(rich, "/v1/trades", agent_id=paused, status="open")
    held = walk(rich, "/v1/positions", agent_id=paused)
    prices = {(item["token_address"], item["opened_at"]): item["current_price_usd"] for item in held}
    before = len(walk(rich, "/v1/trades", agent_id=paused, limit=100))
    assert opened
    assert rich.delete(f"/v1/agents/{paused}").status_code == 204
    assert walk(rich, "/v1/positions", agent_id=paused) == []
    assert len(walk(rich, "/v1/trades", agent_id=paused, limit=100)) == before
    for trade in opened:
        closed = ok(rich.get(f"/v1/trades/{trade['id']}"))
        assert closed["status"] == "closed"
        assert closed["exit_price_usd"] == prices[trade["token_address"], trade["opened_at"]]
        assert closed["closed_at"] == START
        assert closed["exit_tx_hash"].startswith("0x")


def test_the_plans_agents_are_counted(server: MockServer, api: httpx.Client) -> None:
    wallet = add_wallet(api)
    for _ in range(25):
        add_agent(api, wallet)
    body = {"name": "n", "wallet_id": wallet, "chain_id": 8453}
    assert "25 agents" in error(api.post("/v1/agents", json=body), 403, "forbidden")
    server.set_plan("main", "enterprise")
    add_agent(api, wallet)
