"""Agents as the specification has them, shown on the mock over bare HTTP: create, read, patch, delete, states."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk_mock import MockClock, MockService

from .._clock import START
from ._wire import Wire, error_of, walk

SUMMARY = ["id", "name", "status", "chain_id", "wallet_id", "created_at"]
CREATED = [*SUMMARY[:5], "risk", "min_confidence", "max_positions", "created_at"]
RISK = {"position_size_pct": 4.5, "stop_loss_pct": 6.25, "trailing_stop_pct": 3.5, "take_profit_pct": 18.75}
STATES: list[Any] = ["active", "idle", "paused", "error"]


@pytest.mark.rule(
    "agent.min_confidence.default agent.max_positions.default agent.create.idle agents.create.optional",
    "transport.unix-seconds",
)
def test_new_agent_is_idle_with_the_defaults(wire: Wire) -> None:
    agent, now = wire.create(name="first"), int(wire.server.clock.now())
    assert list(agent) == CREATED
    assert agent == {
        **{name: agent[name] for name in ("id", "wallet_id")},
        "name": "first",
        "status": "idle",
        "chain_id": 8453,
        "risk": {},
        "min_confidence": 0.75,
        "max_positions": 5,
        "created_at": now,
    }
    full = wire.get(f"/agents/{agent['id']}").json()
    assert list(full) == [*CREATED, "updated_at", "stats"]
    assert full == agent | {
        "updated_at": now,
        "stats": {"total_trades": 0, "win_rate_pct": 0.0, "total_pnl_usd": 0.0},
    }


@pytest.mark.rule("chain.known", "agent.wallet", "agents.create", "agents.create.wallet")
def test_new_agent_has_what_was_asked_for(wire: Wire) -> None:
    wallet = wire.connect(chain_id=56)
    asked = {"name": "a", "wallet_id": wallet, "chain_id": 56, "risk": RISK, "min_confidence": 0.9, "max_positions": 2}
    agent = wire.create(**asked)
    assert {key: agent[key] for key in asked} == asked
    assert isinstance(wire.create(wallet_id=wallet, chain_id=56, min_confidence=1)["min_confidence"], float)


@pytest.mark.rule("risk.optional")
@pytest.mark.parametrize("field", sorted(RISK))
def test_a_create_may_set_some_risk_fields_only(wire: Wire, field: str) -> None:
    assert wire.create(risk={field: 2.5})["risk"] == {field: 2.5}


@pytest.mark.rule("agents.create.required", "error.400.missing")
@pytest.mark.parametrize("field", ["name", "wallet_id", "chain_id"])
def test_create_needs_its_required_fields(wire: Wire, field: str) -> None:
    body = {"name": "a", "wallet_id": wire.connect(), "chain_id": 8453}
    del body[field]
    assert error_of(wire.post("/agents", body), field) == (400, "invalid_request")


WRONG: list[tuple[str, list[Any]]] = [
    ("name", [5, None, ["a"]]),
    ("wallet_id", [5, ["w"], None]),
    ("chain_id", ["8453", 8453.0, True, None, 10**30]),
    ("risk", [None, [], "low", *({"stop_loss_pct": value} for value in ("5", True, None))]),
    ("min_confidence", ["0.5", True, None]),
    ("max_positions", [2.5, 5.0, "5", True, None, 10**30]),
]


@pytest.mark.rule("agents.create.types", "error.400.malformed")
@pytest.mark.parametrize(("field", "values"), WRONG)
def test_wrong_types_are_refused(wire: Wire, field: str, values: list[Any]) -> None:
    agent = wire.create()
    for value in values:
        body = {"name": "a", "wallet_id": agent["wallet_id"], "chain_id": 8453} | {field: value}
        assert error_of(wire.post("/agents", body), field) == (400, "invalid_request"), value
        if field != "chain_id":
            assert error_of(wire.patch(f"/agents/{agent['id']}", {field: value}), field) == (400, "invalid_request")


@pytest.mark.rule("agents.create.wallet", "error.404.missing", "error.404.foreign")
def test_the_wallet_must_be_connected_already_and_ones_own(wire: Wire, neighbour: Wire) -> None:
    agent = wire.create()
    for wallet in ("wal_of_nobody", neighbour.connect(private_key="0x" + "2e" * 32)):
        answer = wire.post("/agents", {"name": "a", "wallet_id": wallet, "chain_id": 8453})
        assert error_of(answer)[0] in (404, 422)
        assert error_of(wire.patch(f"/agents/{agent['id']}", {"wallet_id": wallet}))[0] in (404, 422)
    assert [one["id"] for one in wire.get("/agents").json()["data"]] == [agent["id"]]


@pytest.mark.rule("chain.others")
@pytest.mark.parametrize("chain", [1, 0, -8453, 137])
def test_only_two_chains_are_known(wire: Wire, chain: int) -> None:
    answer = wire.post("/agents", {"name": "a", "wallet_id": wire.connect(), "chain_id": chain})
    assert error_of(answer, "chain_id")[0] in (400, 422)


@pytest.mark.rule("agent.min_confidence.range", "error.422.position-size", "error.422.message")
@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("min_confidence", {"min_confidence": -0.01}),
        ("min_confidence", {"min_confidence": 1.0001}),
        ("position_size_pct", {"risk": {"position_size_pct": 250}}),
    ],
)
def test_values_out_of_range_name_their_field_and_change_nothing(wire: Wire, field: str, wrong: dict[str, Any]) -> None:
    agent = wire.create()
    before = wire.get(f"/agents/{agent['id']}").json()
    body = {"name": "a", "wallet_id": agent["wallet_id"], "chain_id": 8453} | wrong
    assert error_of(wire.post("/agents", body), field) == (422, "validation_error")
    answer = wire.patch(f"/agents/{agent['id']}", {"name": "other"} | wrong)
    assert error_of(answer, field) == (422, "validation_error")
    assert wire.get(f"/agents/{agent['id']}").json() == before


@pytest.mark.rule("agent.min_confidence.range")
@pytest.mark.parametrize("confidence", [0, 1, 0.5])
def test_the_ends_of_the_confidence_range_are_fine(wire: Wire, confidence: float) -> None:
    assert wire.create(min_confidence=confidence)["min_confidence"] == confidence


@pytest.mark.rule("error.403.plan")
def test_a_plan_that_is_full_forbids_another_agent(neighbour: Wire) -> None:
    """How many agents a plan allows is not written, but usage says it; past it the plan forbids."""
    wallet = neighbour.connect()
    while (usage := neighbour.get("/account/usage").json()["agents"])["used"] < usage["limit"]:
        neighbour.create(wallet_id=wallet)
    answer = neighbour.post("/agents", {"name": "one too many", "wallet_id": wallet, "chain_id": 8453})
    assert error_of(answer, f"{usage['limit']} agents") == (403, "forbidden")
    assert neighbour.get("/account/usage").json()["agents"] == usage


@pytest.mark.rule("agent.status", "agents.list", "agents.list.status", "agent.fields.summary")
def test_the_list_shows_summaries_and_can_be_filtered_by_state(wire: Wire) -> None:
    wallet, agents = wire.connect(), []
    for state in STATES:
        agents.append(wire.create(wallet_id=wallet, name=state, risk=RISK))
        wire.server.set_agent_status(agents[-1]["id"], state)
    for state, agent in zip(STATES, agents, strict=True):
        (summary,) = wire.get("/agents", status=state).json()["data"]
        assert list(summary) == SUMMARY
        assert summary == {key: agent[key] for key in SUMMARY} | {"status": state}
    assert error_of(wire.get("/agents", status="running"), "status")[0] in (400, 422)


@pytest.mark.rule("agents.update", "agents.update.partial", "agent.status", "agent.updated_at", "agent.patch.any-state")
@pytest.mark.parametrize("state", STATES)
def test_patch_changes_what_is_supplied_in_every_state(wire: Wire, state: Any) -> None:
    agent = wire.create(risk=RISK)
    path = f"/agents/{agent['id']}"
    wire.server.set_agent_status(agent["id"], state)
    for field, value in {
        "name": "renamed",
        "wallet_id": wire.connect(private_key="0x" + "2e" * 32),
        "min_confidence": 0.31,
        "max_positions": 9,
        "risk": RISK | {"stop_loss_pct": 1.5},
    }.items():
        wire.server.clock.advance(5)
        before, now = wire.get(path).json(), int(wire.server.clock.now())
        after = wire.patch(path, {field: value}).json()
        assert after == before | {field: value, "updated_at": now}
        assert (after["status"], after["created_at"]) == (state, agent["created_at"])
        assert wire.get(path).json() == after


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
def test_agents_of_others_do_not_exist(wire: Wire, neighbour: Wire, method: str) -> None:
    for agent in ("agt_of_nobody", neighbour.create()["id"]):
        assert error_of(wire(method, f"/agents/{agent}", body={} if method == "PATCH" else None)) == (404, "not_found")


@pytest.mark.rule("agent.stats.completed")
def test_stats_count_completed_trades(populated: Wire) -> None:
    """The numbers in an agent's stats are those of its closed trades."""
    shown = 0
    for summary in populated.get("/agents", limit=100).json()["data"]:
        stats = populated.get(f"/agents/{summary['id']}").json()["stats"]
        closed = walk(populated, "/trades", agent_id=summary["id"], status="closed", limit=100)
        assert stats["total_trades"] == len(closed)
        assert stats["total_pnl_usd"] == pytest.approx(sum(trade["pnl_usd"] for trade in closed), abs=0.01)
        won = sum(trade["pnl_usd"] > 0 for trade in closed)
        assert stats["win_rate_pct"] == pytest.approx(100 * won / len(closed) if closed else 0.0, abs=0.01)
        shown += len(closed)
    assert shown


# Any sequence of patches, against the merge rule written down once more, as simply as can be.

percent = st.integers(1, 10_000).map(lambda hundredths: hundredths / 100)
good: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "name": st.text("aZ09 -'\"\\é漢🙂", min_size=1, max_size=20).filter(str.strip),
        "risk": st.fixed_dictionaries({}, optional=dict.fromkeys(RISK, percent)),
        "min_confidence": st.integers(0, 100).map(lambda hundredths: hundredths / 100),
        "max_positions": st.integers(1, 100),
    },
)
# Each is refused as a whole: what stands beside the bad value must not be taken either.
BAD: list[dict[str, Any]] = [
    {"min_confidence": 1.5},
    {"min_confidence": "high"},
    {"risk": {"stop_loss_pct": 7.5, "position_size_pct": -1}},
    {"risk": 5},
    {"max_positions": 1.5},
    {"name": 7},
    {"wallet_id": "wal_of_nobody"},
]
bad: st.SearchStrategy[dict[str, Any]] = st.tuples(good, st.sampled_from(BAD)).map(lambda pair: pair[0] | pair[1])
steps = st.lists(st.tuples(st.booleans(), good, bad, st.sampled_from(STATES)), max_size=8)


@pytest.fixture(scope="module")
def patching() -> Iterator[Wire]:
    """A server in its own time: a minute passes before every patch, so that no rate limit is met. Nothing is traded."""
    with MockService(seed=7, signals="scripted", clock=MockClock(START)) as server:
        wire = Wire(server, server.create_key(plan="enterprise", tenant="patching").value)
        wire.connect()
        yield wire


def play(wire: Wire, sequence: list[tuple[bool, dict[str, Any], dict[str, Any], Any]]) -> None:
    (wallet,) = wire.get("/wallets").json()["data"]
    created = wire.create(wallet_id=wallet["id"], risk={"stop_loss_pct": 5.5}, min_confidence=0.5)
    path = f"/agents/{created['id']}"
    expected = wire.get(path).json()
    for accepted, fine, wrong, state in sequence:
        wire.server.clock.advance(60)
        wire.server.set_agent_status(created["id"], state)
        expected["status"] = state
        answer = wire.patch(path, fine if accepted else wrong)
        if accepted:
            assert answer.status_code in (200, 201), answer.text
            # What is supplied replaces, and of the risk object each number for itself.
            expected |= fine | {"risk": expected["risk"] | fine.get("risk", {})}
            if fine:
                expected["updated_at"] = int(wire.server.clock.now())
            assert {**answer.json(), "updated_at": 0} == {**expected, "updated_at": 0}
        else:
            assert error_of(answer)[0] in (400, 404, 422)
        now = wire.get(path).json()
        if accepted and not fine:
            expected["updated_at"] = now["updated_at"]  # whether a patch of nothing is a change is not written
        assert now == expected
    wire.server.set_agent_status(created["id"], "idle")
    assert wire.delete(path).status_code == 204


@pytest.mark.rule("agents.update.risk")
@settings(max_examples=6)
@given(sequence=steps)
def test_patches_follow_the_merge_rule(patching: Wire, sequence: Any) -> None:
    play(patching, sequence)


@pytest.mark.rule("agents.update.risk")
@pytest.mark.long
@given(sequence=steps)
def test_many_patches_follow_the_merge_rule(patching: Wire, sequence: Any) -> None:
    play(patching, sequence)
