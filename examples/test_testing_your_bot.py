"""Tests of the bot in testing_your_bot.py, as a model for yours.

    pytest test_testing_your_bot.py

`trade_mock` comes from the pytest plugin of tradesdk_mock: a service for one test, in this process, with state
and the rules of the real one. Its clock is frozen, and a wait moves it, so no test takes time. Its market
publishes only the test's signals. The mark gives the account `me` wallets and agents.
"""

from collections.abc import Iterator

import httpx
import pytest

from testing_your_bot import Bot, brake, next_size
from tradesdk import AsyncTradeClient, AuthenticationError, TradeClient
from tradesdk_mock import MockService

pytestmark = pytest.mark.trade_mock(populate=["me"])


@pytest.fixture
def bot(trade_mock: MockService) -> Iterator[Bot]:
    with (
        httpx.Client(transport=trade_mock.transport(), base_url=trade_mock.url) as http,
        TradeClient(api_key="mock_full_me", http_client=http, clock=trade_mock.clock) as client,
    ):
        yield Bot(client, trade_mock.clock)


def size(bot: Bot) -> float | None:
    return bot.agent().risk.position_size_pct


# What it decides


@pytest.mark.parametrize(
    ("before", "direction", "after"), [(2, "SELL", 1), (1, "SELL", 1), (2, "BUY", 4), (8, "BUY", 8), (2, "HOLD", 2)]
)
def test_next_size(before: float, direction: str, after: float) -> None:
    assert next_size(before, direction) == after


# What it does


def test_sure_signals_are_taken_in_their_order(bot: Bot, trade_mock: MockService) -> None:
    trade_mock.emit_signal(after=5, direction="BUY", confidence=0.95)  # 2 % -> 4 %
    trade_mock.emit_signal(after=6, direction="BUY", confidence=0.6)  # confidence too low
    trade_mock.emit_signal(after=7, direction="BUY", confidence=0.9, chain_id=56)  # another chain
    trade_mock.emit_signal(after=35, direction="SELL", confidence=0.9)  # 4 % -> 2 %
    trade_mock.emit_signal(after=36, direction="BUY", confidence=0.97)  # 2 % -> 4 %
    bot.run(60)
    changes = trade_mock.assert_requested("PATCH", "/v1/agents/{agent_id}", times=3)
    assert [change.body for change in changes] == [{"risk": {"position_size_pct": wanted}} for wanted in (4, 2, 4)]


def test_nothing_is_written_without_a_signal(bot: Bot, trade_mock: MockService) -> None:
    bot.run(300)
    trade_mock.assert_requested("POST", times=0)
    trade_mock.assert_requested("PATCH", times=0)


def test_a_late_history_costs_no_signal(bot: Bot, trade_mock: MockService) -> None:
    trade_mock.set_gaps(history_lag=25)
    trade_mock.emit_signal(after=12, direction="SELL", confidence=0.95)
    bot.run(60)
    trade_mock.assert_requested("PATCH", times=1)


# When things go wrong


def test_a_create_whose_answer_is_lost_makes_one_agent(bot: Bot, trade_mock: MockService) -> None:
    trade_mock.add_fault("reset", method="POST", route="/v1/agents", executed=True, count=1)
    bot.agent()
    trade_mock.assert_requested("POST", "/v1/agents", times=1)
    assert [agent.name for agent in bot.client.agents.list()].count("careful") == 1


def test_a_change_whose_answer_is_lost_counts_once(bot: Bot, trade_mock: MockService) -> None:
    trade_mock.add_fault("reset", method="PATCH", executed=True, count=1)
    trade_mock.emit_signal(direction="BUY", confidence=0.95)
    bot.run(60)
    assert size(bot) == 4


def test_an_hour_without_the_service_costs_no_signal(bot: Bot, trade_mock: MockService) -> None:
    size(bot)  # creates the agent
    outage = trade_mock.add_fault("status", status=503)
    for minute in (5, 50):
        trade_mock.emit_signal(after=minute * 60, direction="SELL", confidence=0.95)
    bot.run(3_600)
    trade_mock.assert_requested("PATCH", times=0)
    trade_mock.remove_fault(outage.id)
    bot.run(60)
    trade_mock.assert_requested("PATCH", status=200, times=1)  # 2 % -> 1 %, the minimum
    assert size(bot) == 1


def test_a_change_that_is_refused_for_now_is_made_later(bot: Bot, trade_mock: MockService) -> None:
    trade_mock.add_fault("status", method="PATCH", status=503, count=7)  # more than one call has retries
    trade_mock.emit_signal(direction="BUY", confidence=0.95)
    bot.run(600)
    trade_mock.assert_requested("PATCH", status=200, times=1)
    assert size(bot) == 4


@pytest.mark.trade_mock(populate=[])
def test_the_rate_limit_is_kept(trade_mock: MockService) -> None:
    key = trade_mock.create_key(plan="free")  # 60 requests a minute
    with (
        httpx.Client(transport=trade_mock.transport(), base_url=trade_mock.url) as http,
        TradeClient(api_key=key.value, http_client=http, clock=trade_mock.clock) as client,
    ):
        bot = Bot(client, trade_mock.clock)
        for _ in range(150):
            bot.step()
    trade_mock.assert_requested("GET", times=150)
    trade_mock.assert_requested(status=429, times=0)


def test_a_revoked_key_ends_it(trade_mock: MockService) -> None:
    key = trade_mock.create_key(tenant="me")
    with (
        httpx.Client(transport=trade_mock.transport(), base_url=trade_mock.url) as http,
        TradeClient(api_key=key.value, http_client=http, clock=trade_mock.clock) as client,
    ):
        bot = Bot(client, trade_mock.clock)
        bot.run(60)
        trade_mock.revoke_key(key.id)
        with pytest.raises(AuthenticationError):
            bot.run(60)


# Async


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_the_brake_reaches_every_agent(trade_mock: MockService) -> None:
    async with (
        httpx.AsyncClient(transport=trade_mock.transport(), base_url=trade_mock.url) as http,
        AsyncTradeClient(api_key="mock_full_me", http_client=http, clock=trade_mock.clock) as client,
    ):
        names = await brake(client)
        assert {(await client.agents.get(agent.id)).risk.position_size_pct async for agent in client.agents.list()} == {
            1
        }
    trade_mock.assert_requested("PATCH", body={"risk": {"position_size_pct": 1}}, times=len(names))
