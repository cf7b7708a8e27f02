"""Any sequence of patches, against the merge rule written down once more, as simply as can be."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk_mock import MockClock, MockServer

from .._clock import START
from ._wire import Wire, error_of

RISK = ("position_size_pct", "stop_loss_pct", "trailing_stop_pct", "take_profit_pct")
CREATED: dict[str, Any] = {"name": "a", "chain_id": 8453, "risk": {"stop_loss_pct": 5.5}, "min_confidence": 0.5}
STATES = ["active", "idle", "paused", "error"]

percent = st.integers(1, 10_000).map(lambda hundredths: hundredths / 100)
good: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "name": st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20).filter(
            str.strip
        ),
        "risk": st.fixed_dictionaries({}, optional=dict.fromkeys(RISK, percent)),
        "min_confidence": st.integers(0, 100).map(lambda hundredths: hundredths / 100),
        "max_positions": st.integers(1, 100),
    },
)
# Each is refused as a whole: what stands beside the bad value must not be taken either.
bad: st.SearchStrategy[dict[str, Any]] = st.tuples(
    good,
    st.sampled_from(
        [
            {"min_confidence": 1.5},
            {"min_confidence": "high"},
            {"risk": {"position_size_pct": 101}},
            {"risk": {"stop_loss_pct": 7.5, "position_size_pct": -1}},
            {"risk": 5},
            {"max_positions": 1.5},
            {"name": 7},
            {"wallet_id": "wal_of_nobody"},
        ]
    ),
).map(lambda pair: pair[0] | pair[1])
steps = st.lists(st.tuples(st.booleans(), good, bad, st.sampled_from(STATES)), max_size=8)


@pytest.fixture(scope="module")
def patching(bare_http: httpx.Client) -> Iterator[Wire]:
    """A server in its own time: a minute passes before every patch, so that no rate limit is met. Nothing is traded."""
    with MockServer(seed=7, signals="scripted", clock=MockClock(START)) as server:
        yield Wire(server, bare_http, server.create_key(plan="enterprise", tenant="patching").value)


@pytest.fixture(scope="module")
def wallet(patching: Wire) -> str:
    return patching.connect()


def merged(agent: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """The rule: what is supplied replaces, and of the risk object each number for itself."""
    return agent | patch | {"risk": agent["risk"] | patch.get("risk", {})}


def play(wire: Wire, wallet: str, sequence: list[tuple[bool, dict[str, Any], dict[str, Any], str]]) -> None:
    created = wire.create(**CREATED, wallet_id=wallet)
    path = f"/agents/{created['id']}"
    expected = wire.get(path).json()
    for accepted, fine, wrong, state in sequence:
        wire.server.clock.advance(60)
        wire.server.set_agent_status(created["id"], state)
        expected["status"] = state
        answer = wire.patch(path, fine if accepted else wrong)
        if accepted:
            assert answer.status_code in (200, 201), answer.text
            expected = merged(expected, fine)
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
@settings(max_examples=10)
@given(sequence=steps)
def test_patches_follow_the_merge_rule(patching: Wire, wallet: str, sequence: Any) -> None:
    play(patching, wallet, sequence)


@pytest.mark.rule("agents.update.risk")
@pytest.mark.long
@settings(max_examples=500)
@given(sequence=steps)
def test_many_patches_follow_the_merge_rule(patching: Wire, wallet: str, sequence: Any) -> None:
    play(patching, wallet, sequence)
