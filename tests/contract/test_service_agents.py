"""Agents as the specification has them, shown on the mock over bare HTTP: create, read, patch, delete, states."""

from typing import Any

import pytest

from ._wire import Wire, error_of

SUMMARY = {"id", "name", "status", "chain_id", "wallet_id", "created_at"}
RISK = {"position_size_pct": 4.5, "stop_loss_pct": 6.25, "trailing_stop_pct": 3.5, "take_profit_pct": 18.75}
STATES = ["active", "idle", "paused", "error"]


@pytest.mark.rule(
    "agent.min_confidence.default agent.max_positions.default agent.create.idle agents.create.optional",
)
def test_new_agent_is_idle_with_the_defaults(wire: Wire) -> None:
    agent = wire.create()
    assert agent["status"] == "idle"
    assert (agent["min_confidence"], agent["max_positions"]) == (0.75, 5)


@pytest.mark.rule("chain.known", "agent.wallet", "agents.create")
def test_new_agent_has_what_was_asked_for(wire: Wire) -> None:
    wallet = wire.connect(chain_id=56)
    asked = {"name": "a", "wallet_id": wallet, "chain_id": 56, "risk": RISK, "min_confidence": 0.9, "max_positions": 2}
    agent = wire.create(**asked)
    assert {key: agent[key] for key in asked} == asked
    assert wire.get(f"/agents/{agent['id']}").json() | {"stats": 0, "updated_at": 0} == agent | {
        "stats": 0,
        "updated_at": 0,
    }


@pytest.mark.rule("risk.optional")
def test_a_create_may_set_some_risk_fields_only(wire: Wire) -> None:
    assert wire.create(risk={"stop_loss_pct": 2.5})["risk"] == {"stop_loss_pct": 2.5}


@pytest.mark.rule("agents.create.required", "error.400.missing")
@pytest.mark.parametrize("field", ["name", "wallet_id", "chain_id"])
def test_create_needs_its_required_fields(wire: Wire, field: str) -> None:
    body = {"name": "a", "wallet_id": wire.connect(), "chain_id": 8453}
    del body[field]
    answer = wire.post("/agents", body)
    assert error_of(answer) == (400, "invalid_request")
    assert field in answer.json()["error"]["message"]


@pytest.mark.rule("agents.create.types", "error.400.malformed")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", 7),
        ("wallet_id", ["w"]),
        ("chain_id", "8453"),
        ("risk", "low"),
        ("min_confidence", "0.5"),
        ("max_positions", 2.5),
    ],
)
def test_create_refuses_wrong_types(wire: Wire, field: str, value: Any) -> None:
    body = {"name": "a", "wallet_id": wire.connect(), "chain_id": 8453} | {field: value}
    assert error_of(wire.post("/agents", body)) == (400, "invalid_request")


@pytest.mark.rule("agents.create.wallet")
def test_the_wallet_must_be_connected_already(wire: Wire) -> None:
    answer = wire.post("/agents", {"name": "a", "wallet_id": "wal_of_nobody", "chain_id": 8453})
    assert error_of(answer)[0] in (404, 422)
    assert wire.get("/agents").json()["data"] == []


@pytest.mark.rule("chain.others")
@pytest.mark.parametrize("chain", [1, 0, -56, 137])
def test_only_two_chains_are_known(wire: Wire, chain: int) -> None:
    answer = wire.post("/agents", {"name": "a", "wallet_id": wire.connect(), "chain_id": chain})
    assert error_of(answer)[0] in (400, 422)
    assert "chain_id" in answer.json()["error"]["message"]


@pytest.mark.rule("agent.min_confidence.range", "error.422.message")
@pytest.mark.parametrize("confidence", [-0.01, 1.01])
@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_confidence_is_between_zero_and_one(wire: Wire, method: str, confidence: float) -> None:
    agent = wire.create()
    body = {"name": "a", "wallet_id": agent["wallet_id"], "chain_id": 8453, "min_confidence": confidence}
    answer = (
        wire.post("/agents", body)
        if method == "POST"
        else wire.patch(f"/agents/{agent['id']}", {"min_confidence": confidence})
    )
    assert error_of(answer) == (422, "validation_error")
    assert "min_confidence" in answer.json()["error"]["message"]


@pytest.mark.rule("agent.min_confidence.range")
@pytest.mark.parametrize("confidence", [0, 1, 0.0, 1.0, 0.5])
def test_the_ends_of_the_confidence_range_are_fine(wire: Wire, confidence: float) -> None:
    assert wire.create(min_confidence=confidence)["min_confidence"] == confidence


@pytest.mark.rule("error.422.position-size", "error.422.message")
@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_an_impossible_position_size_names_its_field(wire: Wire, method: str) -> None:
    agent = wire.create()
    body = {"name": "a", "wallet_id": agent["wallet_id"], "chain_id": 8453, "risk": {"position_size_pct": 250}}
    answer = (
        wire.post("/agents", body) if method == "POST" else wire.patch(f"/agents/{agent['id']}", {"risk": body["risk"]})
    )
    assert error_of(answer) == (422, "validation_error")
    assert "position_size_pct" in answer.json()["error"]["message"]
    assert wire.get(f"/agents/{agent['id']}").json()["risk"] == {}


@pytest.mark.rule("error.403.plan")
def test_a_plan_that_is_full_forbids_another_agent(neighbour: Wire) -> None:
    """How many agents a plan allows is not written, but usage says it; past it the plan forbids."""
    wallet = neighbour.connect()
    while (usage := neighbour.get("/account/usage").json()["agents"])["used"] < usage["limit"]:
        neighbour.create(wallet_id=wallet)
    answer = neighbour.post("/agents", {"name": "one too many", "wallet_id": wallet, "chain_id": 8453})
    assert error_of(answer) == (403, "forbidden")
    assert neighbour.get("/account/usage").json()["agents"] == usage


@pytest.mark.rule("agent.fields.summary", "agents.list")
def test_the_list_shows_summaries(wire: Wire) -> None:
    agent = wire.create(risk=RISK)
    (summary,) = wire.get("/agents").json()["data"]
    assert summary == {key: agent[key] for key in SUMMARY}


@pytest.mark.rule("agents.update", "agents.update.partial")
@pytest.mark.parametrize("field", ["name", "wallet_id", "min_confidence", "max_positions", "risk"])
def test_patch_changes_what_is_supplied_and_nothing_else(wire: Wire, field: str) -> None:
    agent = wire.create(risk=RISK)
    before = wire.get(f"/agents/{agent['id']}").json()
    changed: dict[str, Any] = {
        "name": "renamed",
        "wallet_id": wire.connect(private_key="0x" + "2e" * 32),
        "min_confidence": 0.31,
        "max_positions": 9,
        "risk": RISK | {"stop_loss_pct": 1.5},
    }
    after = wire.patch(f"/agents/{agent['id']}", {field: changed[field]}).json()
    assert after | {"updated_at": 0} == before | {field: changed[field], "updated_at": 0}
    assert wire.get(f"/agents/{agent['id']}").json() == after


@pytest.mark.rule("agents.update.risk")
@pytest.mark.parametrize("field", sorted(RISK))
def test_patch_of_one_risk_field_keeps_the_others(wire: Wire, field: str) -> None:
    agent = wire.create(risk=RISK)
    assert wire.patch(f"/agents/{agent['id']}", {"risk": {field: 7.75}}).json()["risk"] == RISK | {field: 7.75}


@pytest.mark.rule("agent.status", "agent.updated_at", "agent.patch.any-state")
@pytest.mark.parametrize("state", STATES)
def test_patch_works_in_every_state_and_keeps_it(wire: Wire, state: str) -> None:
    agent = wire.create()
    wire.server.set_agent_status(agent["id"], state)
    before = wire.get(f"/agents/{agent['id']}").json()["updated_at"]
    wire.server.clock.advance(5)
    after = wire.patch(f"/agents/{agent['id']}", {"name": f"was {state}"}).json()
    assert (after["status"], after["name"]) == (state, f"was {state}")
    assert after["updated_at"] > before
    assert after["created_at"] == agent["created_at"]


@pytest.mark.rule("agent.status", "agents.list.status")
@pytest.mark.parametrize("state", STATES)
def test_list_can_be_filtered_by_state(wire: Wire, state: str) -> None:
    wallet = wire.connect()
    for one in STATES:
        wire.server.set_agent_status(wire.create(wallet_id=wallet, name=one)["id"], one)
    assert [agent["name"] for agent in wire.get("/agents", status=state).json()["data"]] == [state]


@pytest.mark.rule("agents.list.status")
def test_a_state_that_does_not_exist_is_refused(wire: Wire) -> None:
    assert error_of(wire.get("/agents", status="running"))[0] in (400, 422)


@pytest.mark.rule("agent.delete.idle", "agents.delete")
def test_delete_of_an_idle_agent_is_for_good(wire: Wire) -> None:
    agent = wire.create()
    assert wire.delete(f"/agents/{agent['id']}").status_code == 204
    assert error_of(wire.get(f"/agents/{agent['id']}")) == (404, "not_found")
    assert error_of(wire.delete(f"/agents/{agent['id']}")) == (404, "not_found")
    assert wire.get("/agents").json() == {"data": []}


@pytest.mark.rule("agent.delete.active", "error.409")
def test_delete_of_an_active_agent_changes_nothing(wire: Wire) -> None:
    agent = wire.create()
    wire.server.start_agent(agent["id"])
    before = wire.get(f"/agents/{agent['id']}").json()
    assert error_of(wire.delete(f"/agents/{agent['id']}")) == (409, "conflict")
    assert wire.get(f"/agents/{agent['id']}").json() == before
    assert before["status"] == "active"
    wire.server.stop_agent(agent["id"])
    assert wire.delete(f"/agents/{agent['id']}").status_code == 204


@pytest.mark.rule("agent.start.running", "error.409")
def test_starting_a_running_agent_is_a_conflict(wire: Wire) -> None:
    """The specification shows no endpoint for it, but the conflict: the control route that starts agents has it."""
    agent = wire.create()
    url = f"{wire.server.url}/_mock/agents/{agent['id']}/start"
    assert wire.http.post(url).is_success
    assert error_of(wire.http.post(url)) == (409, "conflict")


@pytest.mark.rule("error.404.missing", "error.404.foreign")
@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
@pytest.mark.parametrize("whose", ["nobody's", "somebody else's"])
def test_agents_of_others_do_not_exist(wire: Wire, neighbour: Wire, method: str, whose: str) -> None:
    agent = "agt_of_nobody"
    if whose == "somebody else's":
        agent = neighbour.create()["id"]
    assert error_of(wire(method, f"/agents/{agent}", body={} if method == "PATCH" else None)) == (404, "not_found")


@pytest.mark.rule("transport.unix-seconds")
def test_times_are_whole_unix_seconds(wire: Wire) -> None:
    before = int(wire.server.clock.now())
    agent = wire.get(f"/agents/{wire.create()['id']}").json()
    assert before <= agent["created_at"] <= agent["updated_at"] <= before + 60


@pytest.mark.rule("agent.stats.completed")
def test_stats_count_completed_trades(populated: Wire) -> None:
    """The numbers in an agent's stats are those of its closed trades."""
    shown = 0
    for summary in populated.get("/agents", limit=100).json()["data"]:
        stats = populated.get(f"/agents/{summary['id']}").json()["stats"]
        closed: list[Any] = []
        cursor: dict[str, str] = {}
        while True:
            page = populated.get("/trades", agent_id=summary["id"], status="closed", limit=100, **cursor).json()
            closed += page["data"]
            if "next_cursor" not in page:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert stats["total_trades"] == len(closed)
        assert stats["total_pnl_usd"] == pytest.approx(sum(trade["pnl_usd"] for trade in closed), abs=0.01)
        won = sum(trade["pnl_usd"] > 0 for trade in closed)
        assert stats["win_rate_pct"] == pytest.approx(100 * won / len(closed) if closed else 0.0, abs=0.01)
        shown += len(closed)
    assert shown
