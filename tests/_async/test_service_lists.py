"""Trades, positions and signals of the mock service, over real sockets."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tradesdk import AsyncTradeClient, InvalidRequestError, UnprocessableEntityError

from .._clock import START
from ._client import collected
from .conftest import Tenant


def paths(tenant: Tenant) -> list[str]:
    return [entry.path for entry in tenant.server.journal(tenant.name)]


async def test_250_trades(populated: Tenant) -> None:
    before = len(paths(populated))
    trades = await collected(populated.client.trades.list())
    assert len({trade.id for trade in trades}) == len(trades) == 250
    assert len(paths(populated)) - before == 3
    small = await collected(populated.client.trades.list(limit=7))
    assert small == trades
    assert await collected(populated.client.trades.list(max_items=101)) == trades[:101]
    assert await populated.client.trades.list().first() == trades[0]


async def test_open_and_closed_trades(populated: Tenant) -> None:
    opened = await collected(populated.client.trades.list(status="open"))
    closed = await collected(populated.client.trades.list(status="closed"))
    assert len(opened) + len(closed) == 250
    for trade in opened:
        assert trade.status == "open"
        assert (trade.exit_price_usd, trade.pnl_usd, trade.roi_pct, trade.closed_at) == (None,) * 4
    for trade in closed:
        assert trade.status == "closed"
        assert trade.exit_price_usd is not None
        assert trade.closed_at is not None
        assert trade.closed_at > trade.opened_at


async def test_trades_of_an_agent(populated: Tenant) -> None:
    client = populated.client
    agents = await collected(client.agents.list())
    total = 0
    for agent in agents:
        mine = await collected(client.trades.list(agent_id=agent.id))
        assert {trade.agent_id for trade in mine} <= {agent.id}
        total += len(mine)
        stats = (await client.agents.get(agent.id)).stats
        assert stats is not None
        assert stats.total_trades == sum(trade.status == "closed" for trade in mine)
    assert total == 250


async def test_trade_detail(populated: Tenant) -> None:
    for status in ("open", "closed"):
        listed = await populated.client.trades.list(status=status).first()
        assert listed is not None
        detail = await populated.client.trades.get(listed.id)
        assert detail.model_dump(exclude={"entry_tx_hash", "exit_tx_hash"}) == listed.model_dump()
        assert detail.entry_tx_hash.startswith("0x")
        assert (detail.exit_tx_hash is None) == (status == "open")


async def test_a_cursor_of_another_list_is_refused(populated: Tenant) -> None:
    async for page in populated.client.trades.list(limit=10).pages():
        with pytest.raises(InvalidRequestError):
            await populated.client.agents.list(cursor=page.next_cursor).first()
        break
    with pytest.raises(InvalidRequestError) as caught:
        await populated.client.trades.list(cursor="made up").first()
    assert caught.value.service_code == "invalid_request"


async def test_a_walk_is_resumed_by_its_cursor(populated: Tenant) -> None:
    whole = [trade.id async for trade in populated.client.trades.list()]
    seen, cursor = [], None
    while True:  # a new pager for every page, as a bot would after a restart
        async for page in populated.client.trades.list(limit=90, cursor=cursor).pages():
            seen += [trade.id for trade in page.data]
            cursor = page.next_cursor
            break
        if cursor is None:
            break
    assert seen == whole


async def test_positions(populated: Tenant) -> None:
    client = populated.client
    positions = await collected(client.positions.list())
    assert len(positions) > 3
    assert await collected(client.positions.list(limit=1)) == positions
    holders = {position.agent_id for position in positions}
    for holder in holders:
        mine = await collected(client.positions.list(agent_id=holder))
        assert mine == [position for position in positions if position.agent_id == holder]
    opened = await collected(client.trades.list(status="open"))
    assert {(one.agent_id, one.token_address) for one in positions} == {
        (one.agent_id, one.token_address) for one in opened
    }
    for position in positions:
        assert position.stop_loss_price < position.entry_price_usd < position.take_profit_price


@pytest.mark.parametrize("chain", [8453, 56])
async def test_latest_signals(client: AsyncTradeClient, chain: int) -> None:
    signals = await client.signals.latest(chain=chain)
    assert len(signals) == 20
    assert {signal.chain_id for signal in signals} == {chain}
    assert {signal.direction for signal in signals} <= {"BUY", "SELL"}
    assert len(await client.signals.latest(chain=chain, limit=100)) == 100
    assert [signal.id for signal in await client.signals.latest(chain=chain, limit=3)] == [s.id for s in signals[:3]]
    sure = await client.signals.latest(chain=chain, limit=50, min_confidence=0.9)
    assert min(signal.confidence for signal in sure) >= 0.9


async def test_confidence_is_a_bound_that_counts(client: AsyncTradeClient) -> None:
    newest = (await client.signals.latest(chain=8453, limit=1))[0]
    exactly = await client.signals.latest(chain=8453, limit=100, min_confidence=newest.confidence)
    assert newest.id in {signal.id for signal in exactly}


async def test_signal_history(client: AsyncTradeClient) -> None:
    first = await collected(client.signals.history(chain=56, max_items=250))
    assert len({signal.id for signal in first}) == 250
    times = [signal.timestamp for signal in first]
    assert times == sorted(times, reverse=True)

    start, end = times[200], times[100]
    window = await collected(client.signals.history(chain=56, start=start, end=end))
    assert [signal.id for signal in window] == [signal.id for signal in first if start <= signal.timestamp <= end]
    by_seconds = client.signals.history(chain=56, start=start.timestamp(), end=int(end.timestamp()))
    assert await collected(by_seconds) == window

    token = first[0].token_address
    of_token = await collected(client.signals.history(chain=56, token_address=token, start=times[-1]))
    assert [signal.id for signal in of_token] == [s.id for s in first if s.token_address == token]
    assert await client.signals.history(chain=56, end=times[-1] - timedelta(days=90)).first() is None
    assert await client.signals.history(chain=56, start=START, end=START).first() is None


async def test_filters_that_the_service_refuses(client: AsyncTradeClient) -> None:
    with pytest.raises(UnprocessableEntityError, match="status"):
        await client.agents.list(status="sleeping").first()  # type: ignore[arg-type]
    with pytest.raises(UnprocessableEntityError, match="status"):
        await client.trades.list(status="sold").first()  # type: ignore[arg-type]
    assert await client.trades.list(agent_id="agt_nobody").first() is None
    with pytest.raises(InvalidRequestError, match="chain"):
        await client.request("GET", "/v1/signals")
