"""Agents beyond the specification: what control does to their state, and what becomes of their trades.

Their rules are shown in tests/contract/test_service_agents, bounds and other choices in test_gaps.
"""

from __future__ import annotations

import httpx
import pytest

from tradesdk_mock import MockServerError, MockService

from ._http import START, add_agent, add_wallet, error, ok, walk


def test_ids_and_fields_that_mean_nothing(api: httpx.Client) -> None:
    wallet = add_wallet(api)
    agent = add_agent(api, wallet, color="red", risk={"stop_loss_pct": 2, "mood": 1})
    assert agent["id"].startswith("agt_")
    assert wallet.startswith("wal_")
    assert "color" not in agent
    assert agent["risk"] == {"stop_loss_pct": 2}


@pytest.mark.parametrize("number", ["1e999", "1" + "0" * 400])
def test_numbers_too_large_for_a_float(api: httpx.Client, number: str) -> None:
    body = f'{{"name": "n", "wallet_id": "{add_wallet(api)}", "chain_id": 8453, "min_confidence": {number}}}'
    answer = api.post("/v1/agents", content=body, headers={"Content-Type": "application/json"})
    error(answer, answer.status_code, {400: "invalid_request", 422: "validation_error"}[answer.status_code])


def test_start_and_stop_by_control(server: MockService, api: httpx.Client) -> None:
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
        server.set_agent_status(agent, "asleep")  # type: ignore[arg-type]  # a mistake
    with pytest.raises(MockServerError, match="No agent"):
        server.start_agent("agt_unknown")


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
