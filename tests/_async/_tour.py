"""A walk through the whole account API. What the service may do in several ways is looked up in its gap options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tradesdk import (
    Agent,
    APIStatusError,
    AsyncTradeClient,
    ConflictError,
    InvalidRequestError,
    LocalSigner,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    Risk,
    UnprocessableEntityError,
    Wallet,
)
from tradesdk_mock import MockService

from ._client import collected

BY_STATUS: dict[str, type[APIStatusError]] = {
    "400": InvalidRequestError,
    "403": PermissionDeniedError,
    "404": NotFoundError,
    "409": ConflictError,
    "422": UnprocessableEntityError,
}


@dataclass
class AsyncTour:
    """`await AsyncTour(server, "name", signer).everything()` gives all that was seen, in order.

    `hurried` leaves out what takes many requests: running into the rate limit.
    """

    server: MockService
    tenant: str
    signer: LocalSigner
    hurried: bool = False

    def client(self, plan: str = "enterprise", scope: str = "full", **options: Any) -> AsyncTradeClient:
        key = f"mock_{scope}_{plan}_{self.tenant}" + ("" if plan == "enterprise" else f"-{plan}")
        return AsyncTradeClient(api_key=key, base_url=self.server.url, clock=self.server.clock, **options)

    async def everything(self) -> list[Any]:
        async with self.client() as client:
            seen: list[Any] = [await client.account.get()]
            wallet = await self.wallets(client, seen)
            await self.agents(client, wallet, seen)
            await self.refusals(client, wallet)
            self.server.populate(self.tenant)
            await self.lists(client, seen)
            await self.signals(client, seen)
            await self.reading_only(seen)
            seen.append(await client.account.usage())
        await self.limits(seen)
        return seen

    async def wallets(self, client: AsyncTradeClient, seen: list[Any]) -> Wallet:
        template = self.server.gaps.wallet_message
        message = None
        if template != "default":
            message = template.format(address=self.signer.address, chain_id=8453)
        wallet = await client.wallets.connect_with(self.signer, label="tour", message=message)
        if self.server.gaps.wallet_twice == "409":
            with pytest.raises(ConflictError):
                await client.wallets.connect_with(self.signer, label="tour", message=message)
        else:
            assert await client.wallets.connect_with(self.signer, label="tour", message=message) == wallet
        seen += [wallet, await client.wallets.balance(wallet.id), await collected(client.wallets.list())]
        return wallet

    async def agents(self, client: AsyncTradeClient, wallet: Wallet, seen: list[Any]) -> None:
        gaps, server = self.server.gaps, self.server
        made = await client.agents.create(
            name="tour", wallet_id=wallet.id, chain_id=8453, risk=Risk(stop_loss_pct=4), max_positions=3
        )
        filled = gaps.risk_defaults == "filled"
        assert made.risk == Risk(
            position_size_pct=5 if filled else None,
            stop_loss_pct=4,
            trailing_stop_pct=2 if filled else None,
            take_profit_pct=10 if filled else None,
        )
        changed = await client.agents.update(made.id, risk=Risk(take_profit_pct=9), min_confidence=0.5)
        assert (changed.risk.stop_loss_pct, changed.risk.take_profit_pct) == (4, 9)
        seen += [made, changed, await client.agents.get(made.id)]
        if gaps.empty_patch == "400":
            with pytest.raises(InvalidRequestError):
                await client.request("PATCH", f"/v1/agents/{made.id}", json={})
        else:
            same = await client.request("PATCH", f"/v1/agents/{made.id}", json={})
            assert Agent.model_validate_json(same.content).risk == changed.risk
        if gaps.bounds == "checked":
            with pytest.raises(UnprocessableEntityError, match="risk"):
                await client.agents.update(made.id, risk=Risk(position_size_pct=400))
        else:
            bold = await client.agents.update(made.id, risk=Risk(position_size_pct=400))
            assert bold.risk.position_size_pct == 400
        server.start_agent(made.id)
        with pytest.raises(ConflictError):
            await client.agents.delete(made.id)
        for status in ("paused", "error"):
            server.set_agent_status(made.id, status)
            if gaps.delete_stopped == "409":
                with pytest.raises(ConflictError):
                    await client.agents.delete(made.id)
        server.set_agent_status(made.id, "paused" if gaps.delete_stopped == "204" else "idle")
        await client.agents.delete(made.id)
        with pytest.raises(NotFoundError):
            await client.agents.get(made.id)

    async def refusals(self, client: AsyncTradeClient, wallet: Wallet) -> None:
        gaps = self.server.gaps
        with pytest.raises(BY_STATUS[gaps.unknown_wallet]):
            await client.agents.create(name="x", wallet_id="wal_nobody", chain_id=8453)
        with pytest.raises(BY_STATUS[gaps.wallet_chain]):
            await client.agents.create(name="x", wallet_id=wallet.id, chain_id=56)
        with pytest.raises(BY_STATUS[gaps.range_status]):
            await client.request("GET", "/v1/agents", query={"limit": 1000})
        with pytest.raises(BY_STATUS[gaps.range_status]):
            await client.agents.list(status="sleeping").first()  # type: ignore[arg-type]
        if gaps.unknown_agent_filter == "404":
            with pytest.raises(NotFoundError):
                await client.trades.list(agent_id="agt_nobody").first()
        else:
            assert await client.trades.list(agent_id="agt_nobody").first() is None
        body = {"name": "x", "wallet_id": "wal_nobody", "chain_id": 8453, "color": "blue"}
        with pytest.raises(BY_STATUS["400" if gaps.unknown_field == "400" else gaps.unknown_wallet]):
            await client.request("POST", "/v1/agents", json=body)
        before = client.rate_limit
        with pytest.raises(NotFoundError) as caught:
            await client.trades.get("trd_nobody")
        assert (caught.value.rate_limit is None) == (gaps.rate_headers == "never")
        assert before is not None
        assert client.rate_limit is not None

    async def lists(self, client: AsyncTradeClient, seen: list[Any]) -> None:
        trades = await collected(client.trades.list())
        assert len({trade.id for trade in trades}) == len(trades) == 250
        unknown = self.server.gaps.unknown_values == "on"
        assert {trade.status for trade in trades} == ({"settling"} if unknown else {"open", "closed"})
        assert all((trade.model_extra == {}) != unknown for trade in trades)
        opened = await collected(client.trades.list(status="open"))
        assert all(trade.exit_price_usd is None for trade in opened)
        detail = await client.trades.get(opened[0].id)
        assert detail.exit_tx_hash is None
        agents = await collected(client.agents.list())
        assert len(agents) == 6
        assert {agent.status for agent in agents} == (
            {"hibernating"} if unknown else {"active", "idle", "paused", "error"}
        )
        positions = await collected(client.positions.list(limit=2))
        assert len(positions) == len(opened)
        seen += [trades, detail, agents, positions]
        await self.a_slow_walk(client)

    async def a_slow_walk(self, client: AsyncTradeClient) -> None:
        """Two hours between the first page and the second, in which agents go on trading."""
        known = [trade.id for trade in await collected(client.trades.list(limit=100))]
        pager = client.trades.list(limit=100)
        first = None
        async for page in pager.pages():
            first = page
            break
        assert first is not None
        assert first.next_cursor is not None
        self.server.clock.advance(7200)
        rest = client.trades.list(cursor=first.next_cursor)
        if self.server.gaps.cursor_ttl:
            with pytest.raises(InvalidRequestError):
                await rest.first()
        else:
            found = [trade.id for trade in await collected(rest)]
            assert found[:150] == known[100:250]
            # Those that were opened meanwhile come before the first page, or after the last.
            assert (len(found) > 150) == (self.server.gaps.order == "oldest")

    async def signals(self, client: AsyncTradeClient, seen: list[Any]) -> None:
        latest = await client.signals.latest(chain=8453, limit=100, min_confidence=0.6)
        assert {signal.chain_id for signal in latest} == {8453}
        assert min(signal.confidence for signal in latest) >= 0.6
        history = await collected(client.signals.history(chain=56, max_items=150))
        times = [signal.timestamp for signal in history]
        assert times == sorted(times, reverse=True)
        inside = await collected(client.signals.history(chain=56, since=times[40], until=times[10]))
        closed = self.server.gaps.time_bounds == "inclusive"
        assert [signal.id for signal in inside] == [
            signal.id
            for signal in history
            if times[40] < signal.timestamp < times[10] or (closed and signal.timestamp in (times[40], times[10]))
        ]
        seen += [latest, history, inside]

    async def reading_only(self, seen: list[Any]) -> None:
        async with self.client(scope="read") as reader:
            agent = await reader.agents.list().first()
            assert agent is not None
            with pytest.raises(PermissionDeniedError):
                await reader.agents.update(agent.id, name="x")
            seen.append(await reader.agents.get(agent.id))
            if self.server.gaps.read_only_account == "403":
                with pytest.raises(PermissionDeniedError):
                    await reader.account.get()
                with pytest.raises(PermissionDeniedError):
                    await reader.positions.list().first()
            else:
                seen += [await reader.account.get(), await reader.positions.list().first()]

    async def limits(self, seen: list[Any]) -> None:
        """The rate limit, then what the plan allows: on a plan that has little of both."""
        clock, gaps = self.server.clock, self.server.gaps
        async with self.client(plan="free") as client:
            began = clock.monotonic()
            for _ in range(0 if self.hurried else 65):
                assert await client.wallets.list().first() is None
            assert self.hurried or 30 < clock.monotonic() - began < 130
            usage = await client.account.usage()
            assert (usage.requests.limit, usage.agents.limit) == gaps.quota("free")
            seen.append(usage)
            template = gaps.wallet_message
            wallet = await client.wallets.connect_with(
                self.signer,
                label="small",
                message=None if template == "default" else template.format(address=self.signer.address, chain_id=8453),
            )
            for number in range(usage.agents.limit):
                await client.agents.create(name=f"a{number}", wallet_id=wallet.id, chain_id=8453)
            with pytest.raises(BY_STATUS[gaps.agent_quota_status]):
                await client.agents.create(name="one more", wallet_id=wallet.id, chain_id=8453)
            await self.quota(client)

    async def quota(self, client: AsyncTradeClient) -> None:
        """The requests of the billing period are used up."""
        before = self.server.gaps
        self.server.set_gaps(quotas="free=1/3")
        try:
            if before.request_quota == "served":
                assert (await client.account.usage()).requests.limit == 1
                return
            sent = len(self.server.journal())
            with pytest.raises(RateLimitError) as caught:
                await client.account.usage()
            assert len(self.server.journal()) == sent + 1  # a wait of weeks is not waited
            assert caught.value.retry_after is not None
            assert caught.value.retry_after > 86_400
            assert caught.value.retry_at is not None
        finally:
            self.server.set_gaps(quotas=before.quotas)
