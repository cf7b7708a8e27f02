"""Keys, scopes, plans and the rate limit of the mock service, over real sockets and in its time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tradesdk import AsyncTradeClient, AuthenticationError, LocalSigner, PermissionDeniedError, RateLimitError, Risk
from tradesdk_mock import MockServer

from .._flavour_async import at_once
from .conftest import Tenant


async def test_a_read_only_key_writes_nothing(populated: Tenant, signer: LocalSigner) -> None:
    agent = await populated.client.agents.list(status="idle").first()
    assert agent is not None
    writes: list[Callable[[AsyncTradeClient], Any]] = [
        lambda c: c.agents.create(name="n", wallet_id=agent.wallet_id, chain_id=agent.chain_id),
        lambda c: c.agents.update(agent.id, name="n"),
        lambda c: c.agents.update(agent.id, risk=Risk(stop_loss_pct=1)),
        lambda c: c.agents.delete(agent.id),
        lambda c: c.wallets.connect_with(signer, label="l"),
    ]
    before = await populated.client.agents.get(agent.id)
    async with populated.another(populated.key("read")) as reader:
        for write in writes:
            with pytest.raises(PermissionDeniedError) as caught:
                await write(reader)
            assert (caught.value.status, caught.value.service_code, caught.value.retries) == (403, "forbidden", 0)
        assert (await reader.account.get()).plan == "enterprise"
        assert await reader.agents.get(agent.id) == before
        for pager in (reader.agents.list(), reader.wallets.list(), reader.trades.list(), reader.positions.list()):
            assert await pager.first() is not None
        assert await reader.signals.latest(chain=8453)
        await reader.wallets.balance(agent.wallet_id)
    assert await populated.client.agents.get(agent.id) == before


@pytest.mark.parametrize("key", ["unknown", "mock_other_x", "mocksk_0000", "~" * 100])
async def test_a_key_that_is_none(tenant: Tenant, key: str) -> None:
    async with tenant.another(key) as client:
        for _ in range(2):
            with pytest.raises(AuthenticationError) as caught:
                await client.account.get()
            assert (caught.value.status, caught.value.service_code, caught.value.retries) == (401, "unauthorized", 0)
            assert key not in str(caught.value)


async def test_a_key_is_revoked_in_the_middle(tenant: Tenant) -> None:
    key = tenant.server.create_key(tenant=tenant.name, plan="enterprise")
    async with tenant.another(key.value) as client:
        assert (await client.account.get()).api_key_last4 == key.last4
        tenant.server.revoke_key(key.id)
        with pytest.raises(AuthenticationError):
            await client.account.get()


async def test_an_expired_key(tenant: Tenant) -> None:
    key = tenant.server.create_key(tenant=tenant.name)
    async with tenant.another(key.value) as client:
        tenant.server.expire_key(key.id, tenant.server.clock.now() + 3600)
        await client.account.get()
        tenant.server.clock.advance(3601)
        with pytest.raises(AuthenticationError):
            await client.account.get()


async def test_a_key_is_rotated_without_a_new_client(tenant: Tenant) -> None:
    old = tenant.server.create_key(tenant=tenant.name)
    current = [old.value]
    async with tenant.another(lambda: current[0]) as client:
        assert (await client.account.get()).api_key_last4 == old.last4
        new = tenant.server.rotate_key(old.id)
        with pytest.raises(AuthenticationError):
            await client.account.get()
        current[0] = new.value
        account = await client.account.get()
        assert (account.api_key_last4, account.id) == (new.last4, (await tenant.client.account.get()).id)


async def test_the_rate_limit_is_waited_out(tenant: Tenant) -> None:
    """150 requests on a plan of 60 a minute take two minutes of the mock's time, and none is refused."""
    name = f"slow-{tenant.name}"
    clock = tenant.server.clock
    async with tenant.another(f"mock_full_free_{name}") as client:
        began = clock.now()
        for _ in range(150):
            await client.account.get()
        assert 110 <= clock.now() - began <= 200
        assert client.rate_limit is not None
        assert client.rate_limit.limit == 60
    statuses = [entry.status for entry in tenant.server.journal(name)]
    assert statuses == [200] * 150


async def test_a_429_is_met_and_waited_out(tenant: Tenant) -> None:
    name = f"met-{tenant.name}"
    clock = tenant.server.clock
    async with tenant.another(f"mock_full_free_{name}", throttle=False) as client:
        for _ in range(60):
            await client.account.get()
        assert client.rate_limit is not None
        assert client.rate_limit.remaining == 0
        began = clock.now()
        await client.account.get()
        assert 0 < clock.now() - began <= 64
        hasty = client.with_options(max_retries=0)
        for _ in range(59):
            await hasty.account.get()
        with pytest.raises(RateLimitError) as caught:
            await hasty.account.get()
    error = caught.value
    assert (error.status, error.service_code) == (429, "rate_limited")
    assert error.retry_after is not None
    assert 0 < error.retry_after <= 61
    assert error.rate_limit is not None
    assert error.rate_limit.remaining == 0
    statuses = [entry.status for entry in tenant.server.journal(name)]
    assert statuses == [200] * 60 + [429] + [200] * 60 + [429]


async def test_many_at_once_share_one_limit(tenant: Tenant) -> None:
    """Each that waits moves the mock's clock on by its own wait, so some meet a 429; all get through."""
    name = f"many-{tenant.name}"
    async with tenant.another(f"mock_full_free_{name}", deadline=100_000) as client:
        await client.account.get()
        await at_once([client.account.get] * 130)
    statuses = [entry.status for entry in tenant.server.journal(name)]
    assert statuses.count(200) == 131
    assert set(statuses) <= {200, 429}


async def test_past_the_deadline_nothing_is_sent(tenant: Tenant) -> None:
    name = f"late-{tenant.name}"
    async with tenant.another(f"mock_full_free_{name}", deadline=5) as client:
        for _ in range(60):
            await client.account.get()
        with pytest.raises(RateLimitError, match="not sent"):
            await client.account.get()
    assert len(tenant.server.journal(name)) == 60


async def test_an_upgrade_holds_at_once() -> None:
    """In a world of its own: whoever asked for signals after this test would wait for those of a whole month."""
    with MockServer(seed=7) as server:
        await an_upgrade_holds_at_once(server)


async def an_upgrade_holds_at_once(server: MockServer) -> None:
    async with AsyncTradeClient(api_key="mock_full_free_up", base_url=server.url, clock=server.clock) as client:
        assert (await client.account.get()).plan == "free"
        assert client.rate_limit is not None
        assert client.rate_limit.limit == 60
        server.set_plan("up", "pro")
        assert (await client.account.get()).plan == "pro"
        assert client.rate_limit.limit == 300
        usage = await client.account.usage()
        server.set_plan("up", "free")
        assert (await client.account.get()).plan == "pro"
        ends = usage.reset_at.timestamp()
        server.clock.advance(ends - server.clock.now() + 1)
        assert (await client.account.get()).plan == "free"
        assert client.rate_limit.limit == 60
