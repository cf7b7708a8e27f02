"""Holding back when the rate limit is used up, rather than collecting errors."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx
import pytest

from tradesdk import AsyncTradeClient, RateLimit, RateLimitError
from tradesdk_mock import MockService

from .._answers import ACCOUNT, Service, failed, limited, ok
from .._clock import START, VirtualClock, http_date, named
from .._flavour_async import at_once
from ._client import client_of


async def test_waits_for_the_reset_instead_of_collecting_a_429() -> None:
    service = Service(ok(ACCOUNT, date=http_date(START), **limited(0, START + 30)), ok(ACCOUNT))
    clock = VirtualClock()
    client = client_of(service, clock)
    await client.account.get()
    assert clock.waits == []
    await client.account.get()
    assert clock.waits == [named(30)]


async def test_can_be_turned_off() -> None:
    service = Service(ok(ACCOUNT, **limited(0, START + 30)), ok(ACCOUNT))
    clock = VirtualClock()
    client = client_of(service, clock, throttle=False)
    await client.account.get()
    await client.account.get()
    assert clock.waits == []


async def test_past_the_deadline_it_is_raised_unsent() -> None:
    service, clock = Service(ok(ACCOUNT, **limited(0, START + 60))), VirtualClock()
    client = client_of(service, clock, deadline=10)
    await client.account.get()
    with pytest.raises(RateLimitError) as caught:
        await client.account.get()
    error = caught.value
    assert len(service.requests) == 1
    assert clock.waits == []
    assert (error.code, error.service_code, error.response, error.retries) == ("rate_limited", None, None, 0)
    assert error.retry_after is not None
    assert 59 <= error.retry_after <= 61
    assert error.retry_at == datetime.fromtimestamp(START + error.retry_after, UTC)
    assert error.rate_limit == RateLimit(60, 0, datetime.fromtimestamp(START + 60, UTC))
    assert str(error).startswith("429: not sent")


async def test_copies_share_what_is_known() -> None:
    service, clock = Service(ok(ACCOUNT, date=http_date(START), **limited(0, START + 30)), ok(ACCOUNT)), VirtualClock()
    client = client_of(service, clock)
    await client.with_options(max_retries=0).account.get()
    assert client.rate_limit is not None
    await client.account.get()
    assert clock.waits == [named(30)]


async def test_a_request_that_never_left_is_not_counted() -> None:
    service = Service(
        ok(ACCOUNT, date=http_date(START), **limited(1, START + 60)),
        *(httpx.ConnectError("refused") for _ in range(2)),
        ok(ACCOUNT),
    )
    clock = VirtualClock()
    client = client_of(service, clock)
    await client.account.get()
    await client.account.get()
    assert len(clock.waits) == 2  # the two backoffs, and no wait for the reset
    assert sum(clock.waits) < 10


async def test_no_headers_no_throttle() -> None:
    service, clock = Service(*(ok(ACCOUNT) for _ in range(50))), VirtualClock()
    client = client_of(service, clock)
    for _ in range(50):
        await client.account.get()
    assert clock.waits == []
    assert client.rate_limit is None


async def test_rate_limit_is_a_snapshot_of_the_last_answer() -> None:
    service = Service(
        ok(ACCOUNT, **limited(41, START + 30)),
        failed(401, **limited(40, START + 30)),
        ok(ACCOUNT),
        ok(ACCOUNT, x_ratelimit_remaining="x", x_ratelimit_reset="y"),
    )
    client = client_of(service)
    assert client.rate_limit is None
    await client.account.get()
    assert client.rate_limit == RateLimit(60, 41, datetime.fromtimestamp(START + 30, UTC))
    with pytest.raises(Exception, match="401"):
        await client.account.get()
    for _ in range(2):
        assert client.rate_limit == RateLimit(60, 40, datetime.fromtimestamp(START + 30, UTC))
        await client.account.get()


@pytest.mark.long
async def test_many_at_once_share_one_limit(mock: MockService) -> None:
    """Each that waits moves the mock's clock on by its own wait, so some meet a 429; all get through."""
    http = httpx.AsyncClient(transport=mock.transport(), base_url=mock.url)
    client = AsyncTradeClient(api_key="mock_full_free_many", http_client=http, clock=mock.clock, deadline=100_000)
    await client.account.get()
    await at_once([client.account.get] * 130)
    statuses = [entry.status for entry in mock.journal("many")]
    assert statuses.count(200) == 131
    assert set(statuses) <= {200, 429}
