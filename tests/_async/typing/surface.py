"""What a type checker sees of the account's client. Nothing here runs: mypy and pyright read it.

A line with an ignore comment must be refused: mypy reports an ignore that has nothing to ignore.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime
from typing import Any, assert_type

import httpx

import tradesdk
from tradesdk import (
    Account,
    Agent,
    AgentStats,
    AgentSummary,
    APIStatusError,
    AsyncPager,
    AsyncTradeClient,
    Clock,
    ErrorCode,
    LocalSigner,
    Page,
    Position,
    Quota,
    RateLimit,
    RawResponse,
    RetryPolicy,
    Risk,
    Signal,
    SystemClock,
    TokenBalance,
    Trade,
    TradeDetail,
    TradeError,
    Usage,
    Wallet,
    WalletBalance,
)
from tradesdk.payments import DigestSigner


async def making(http: httpx.AsyncClient, read_key: Callable[[], str], clock: Clock) -> None:
    AsyncTradeClient()
    AsyncTradeClient(api_key="key", base_url="https://service.example", timeout=10, max_retries=3, deadline=60)
    AsyncTradeClient(
        api_key=read_key, retry=RetryPolicy(), throttle=False, allow_insecure=True, clock=clock, http_client=http
    )
    async with AsyncTradeClient() as client:
        assert_type(client, AsyncTradeClient)
        assert_type(client.with_options(timeout=5, max_retries=0, deadline=9.5), AsyncTradeClient)
        assert_type(client.rate_limit, RateLimit | None)
    await client.aclose()


async def account(client: AsyncTradeClient) -> None:
    assert_type(await client.account.get(), Account)
    usage = await client.account.usage()
    assert_type(usage, Usage)
    assert_type(usage.requests, Quota)
    assert_type(usage.requests.used, int)
    assert_type(usage.reset_at, datetime)
    plan: str = (await client.account.get()).plan
    assert plan


async def agents(client: AsyncTradeClient) -> None:
    assert_type(client.agents.list(), AsyncPager[AgentSummary])
    client.agents.list(status="active", limit=50, cursor="c", max_items=10)
    agent = await client.agents.create(name="a", wallet_id="w", chain_id=8453)
    await client.agents.create(
        name="a", wallet_id="w", chain_id=56, risk=Risk(stop_loss_pct=5), min_confidence=0.8, max_positions=3
    )
    assert_type(agent, Agent)
    assert_type(agent.risk, Risk)
    assert_type(agent.risk.stop_loss_pct, float | None)
    assert_type(agent.stats, AgentStats | None)
    assert_type(agent.updated_at, datetime | None)
    assert_type(agent.created_at, datetime)
    assert_type(agent.chain_id, int)
    assert_type(await client.agents.get("id"), Agent)
    assert_type(await client.agents.update("id", name="b", risk=Risk(), max_positions=1), Agent)
    assert_type(await client.agents.update("id", risk={"stop_loss_pct": 5, "take_profit_pct": None}), Agent)
    await client.agents.delete("id")
    summary: AgentSummary = agent
    status: str = summary.status
    assert status


async def wallets(client: AsyncTradeClient, signer: DigestSigner) -> None:
    assert_type(await client.wallets.connect(address="0x", chain_id=56, label="l", signature="0x"), Wallet)
    assert_type(await client.wallets.connect_with(signer, label="l"), Wallet)
    assert_type(
        await client.wallets.connect_with(LocalSigner.from_key("0x"), label="l", chain_id=56, message="m"), Wallet
    )
    assert_type(client.wallets.list(chain_id=8453), AsyncPager[Wallet])
    balance = await client.wallets.balance("id")
    assert_type(balance, WalletBalance)
    assert_type(balance.token_balances, list[TokenBalance])
    assert_type(balance.native_balance_usd, float)


async def trades(client: AsyncTradeClient) -> None:
    assert_type(client.trades.list(agent_id="a", status="open"), AsyncPager[Trade])
    assert_type(await client.trades.list(), Page[Trade])  # async only
    assert_type(await client.trades.list().page(), Page[Trade])
    trade = await client.trades.get("id")
    assert_type(trade, TradeDetail)
    assert_type(trade.exit_price_usd, float | None)
    assert_type(trade.closed_at, datetime | None)
    assert_type(trade.entry_tx_hash, str)
    assert_type(trade.exit_tx_hash, str | None)
    assert_type(client.positions.list(agent_id="a"), AsyncPager[Position])
    assert_type((await anext(aiter(client.positions.list()))).trailing_stop_price, float)


async def signals(client: AsyncTradeClient, since: datetime) -> None:
    assert_type(await client.signals.latest(chain=8453, limit=10, min_confidence=0.5), list[Signal])
    assert_type(client.signals.history(chain=56, token_address="0x", since=since, until=1767225600), AsyncPager[Signal])
    direction: str = (await client.signals.latest(chain=8453))[0].direction
    assert direction


async def pager(trades: AsyncPager[Trade]) -> None:
    async for trade in trades:
        assert_type(trade, Trade)
    async for page in trades.pages():
        assert_type(page, Page[Trade])
        assert_type(page.data, list[Trade])
        assert_type(page.next_cursor, str | None)
    assert_type(await trades.first(), Trade | None)
    assert_type(await trades.to_list(), list[Trade])
    walk: AsyncIterator[Trade] = aiter(trades)
    print(walk)


async def raw(client: AsyncTradeClient) -> None:
    answer = await client.request("GET", "/v1/account", query={"a": 1}, json={"b": [2]})
    assert_type(answer, RawResponse)
    assert_type(answer.status, int)
    assert_type(answer.headers, Mapping[str, str])
    assert_type(answer.content, bytes)
    assert_type(answer.json(), Any)


async def errors(client: AsyncTradeClient) -> None:
    try:
        await client.account.get()
    except (
        *(tradesdk.InvalidRequestError, tradesdk.AuthenticationError, tradesdk.PermissionDeniedError),
        *(tradesdk.NotFoundError, tradesdk.ConflictError, tradesdk.UnprocessableEntityError),
        *(tradesdk.InternalServerError, tradesdk.BadGatewayError, tradesdk.ServiceUnavailableError),
    ) as error:
        assert_type(error.response, RawResponse)
    except tradesdk.StreamEndedError as error:
        assert_type(error.response, RawResponse)
    except tradesdk.RateLimitError as error:
        assert_type(error.response, RawResponse | None)
        assert_type(error.retry_after, float | None)
        assert_type(error.retry_at, datetime | None)
        assert_type(error.rate_limit, RateLimit | None)
    except tradesdk.InvalidArgumentError as error:
        refused: ValueError = error
        print(refused)
    except APIStatusError as error:
        assert_type(error.status, int)
        assert_type(error.code, ErrorCode)
        assert_type(error.hint, str)
        assert_type(error.service_code, str | None)
        assert_type(error.message, str)
        assert_type(error.body, bytes)
        assert_type(error.response, RawResponse | None)
    except tradesdk.APIError as error:
        assert_type(error.method, str)
        assert_type(error.url, str)
        assert_type(error.retries, int)
        known: bool = error.outcome == "none"
        assert known
    except TradeError as error:
        assert_type(str(error), str)


def clocks() -> None:
    clock: Clock = SystemClock()
    assert_type(clock.now(), float)


async def refused(client: AsyncTradeClient, agent: Agent) -> None:
    """Every ignore here is needed: each line is a mistake that a type checker should find before the service does."""
    client.agents.list("active")  # type: ignore[call-arg]  # arguments are named
    await client.agents.create(name="a", wallet_id="w")  # type: ignore[call-arg]  # no chain
    await client.agents.create(name="a", wallet_id="w", chain_id="8453")  # type: ignore[arg-type]  # text for a number
    await client.agents.update("id", risk={"stop_los_pct": 5})  # type: ignore[arg-type]  # a rule misspelt
    await client.agents.update("id", risk=Risk(stop_los_pct=5))  # type: ignore[call-arg]  # the same
    client.agents.list(status="actve")  # type: ignore[arg-type]  # not one of the four
    client.trades.list(status="done")  # type: ignore[arg-type]  # open or closed
    client.signals.stream(chain=56, direction="buy")  # type: ignore[call-overload]  # it is BUY
    await client.agents.update("id", chain_id=56)  # type: ignore[call-arg]  # an agent cannot change its chain
    await client.signals.latest()  # type: ignore[call-arg]  # no chain
    client.signals.history(chain=56, since="2026-01-01")  # type: ignore[arg-type]  # text for a time
    client.trades.list(page=2)  # type: ignore[call-arg]  # cursors, not page numbers
    print(agent.stats.total_trades)  # type: ignore[union-attr]  # there are none after a create
    print((await client.signals.latest(chain=56)).first())  # type: ignore[attr-defined]  # a list, not a pager
    print(client.account.get().plan)  # type: ignore[attr-defined]  # an await is missing  # async only
    for trade in client.trades.list():  # type: ignore[attr-defined]  # an async for is missing  # async only
        print(trade)  # async only
