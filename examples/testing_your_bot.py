"""How a bot's own tests use the mock server: a small bot, and below it what its tests look like.

    pytest examples/testing_your_bot.py

The mock keeps state and every rule that the service states, so a test prepares a situation, runs the bot, and looks at
what has become of it. Nothing waits: a client that is given the mock's clock spends the mock's time.
"""

from collections.abc import Iterator

import pytest

from tradesdk import AuthenticationError, PermissionDeniedError, Risk, TradeClient
from tradesdk_mock import MockServer

# The bot


def calm_down(client: TradeClient, *, loss_usd: float) -> list[str]:
    """Make every running agent that lost more than `loss_usd` careful; the names of those agents."""
    calmed = []
    for summary in client.agents.list(status="active"):
        agent = client.agents.get(summary.id)
        if agent.stats is not None and agent.stats.total_pnl_usd < -loss_usd:
            client.agents.update(agent.id, min_confidence=0.95, risk=Risk(position_size_pct=1))
            calmed.append(agent.name)
    return calmed


# Its tests


@pytest.fixture
def server() -> Iterator[MockServer]:
    with MockServer(seed=7) as server:  # the same seed, the same agents and trades
        server.populate("me")
        yield server


@pytest.fixture
def client(server: MockServer) -> Iterator[TradeClient]:
    with TradeClient(api_key="mock_full_me", base_url=server.url, clock=server.clock) as client:
        yield client


def test_only_the_agent_that_loses_is_calmed(server: MockServer, client: TradeClient) -> None:
    before = {agent.name: client.agents.get(agent.id) for agent in client.agents.list()}

    assert calm_down(client, loss_usd=100) == ["base-dips"]

    for name, agent in before.items():
        after = client.agents.get(agent.id)
        if name == "base-dips":
            assert after.min_confidence == 0.95
            assert after.risk.position_size_pct == 1
            assert after.risk.stop_loss_pct == agent.risk.stop_loss_pct  # what the bot did not name has stayed
        else:
            assert after == agent


def test_nothing_is_written_when_nobody_loses_that_much(server: MockServer, client: TradeClient) -> None:
    assert calm_down(client, loss_usd=10_000) == []
    assert {request.method for request in server.journal()} == {"GET"}


def test_an_agent_that_is_stopped_meanwhile_is_left_alone(server: MockServer, client: TradeClient) -> None:
    dips = next(agent for agent in client.agents.list() if agent.name == "base-dips")
    server.set_agent_status(dips.id, "paused")
    assert calm_down(client, loss_usd=100) == []


def test_a_rate_limit_is_waited_out(server: MockServer) -> None:
    server.clock.freeze()  # from here on, only waiting moves the time
    start = server.clock.now()
    key = server.create_key(tenant="small", plan="free")  # 60 requests a minute
    with TradeClient(api_key=key.value, base_url=server.url, clock=server.clock) as client:
        for _ in range(61):
            calm_down(client, loss_usd=100)
    assert server.clock.now() > start
    assert all(request.status == 200 for request in server.journal())


def test_a_read_only_key_is_told_so(server: MockServer) -> None:
    with (
        TradeClient(api_key="mock_read_me", base_url=server.url) as client,
        pytest.raises(PermissionDeniedError, match="403 forbidden"),
    ):
        calm_down(client, loss_usd=100)


def test_a_revoked_key_ends_the_run(server: MockServer) -> None:
    key = server.create_key(tenant="me")
    with TradeClient(api_key=key.value, base_url=server.url) as client:
        assert calm_down(client, loss_usd=100) == ["base-dips"]
        server.revoke_key(key.id)
        with pytest.raises(AuthenticationError):
            calm_down(client, loss_usd=100)


def test_a_status_that_the_service_adds_one_day_breaks_nothing(server: MockServer, client: TradeClient) -> None:
    server.set_gaps(unknown_values="on")
    calm_down(client, loss_usd=100)
