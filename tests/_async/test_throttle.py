"""Holding back when the rate limit is used up, rather than collecting errors."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import httpx
import pytest

from tradesdk import RateLimit, RateLimitError

from .._answers import ACCOUNT, Service, failed, limited, ok
from .._clock import START, VirtualClock, http_date, named
from .._flavour_async import at_once
from .._rows import each_of
from ._client import client_of

LIMIT = 20


class Limited:
    """A service with a real window of a minute, which starts with its first request."""

    def __init__(self, clock: VirtualClock, limit: int = LIMIT, skew: int = 0) -> None:
        self._lock = threading.Lock()
        self._clock, self._limit, self._skew = clock, limit, skew
        self._ends, self._used = 0, 0
        self.refused = self.served = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        with self._lock:
            now = self._clock.now() + self._skew
            if now >= self._ends:
                self._ends, self._used = int(now) + 60, 0
            date = http_date(now)
            if self._used >= self._limit:
                self.refused += 1
                return failed(429, date=date, retry_after="60", **limited(0, self._ends, self._limit))
            self._used += 1
            self.served += 1
            return ok(ACCOUNT, date=date, **limited(self._limit - self._used, self._ends, self._limit))


async def test_waits_for_the_reset_instead_of_collecting_a_429() -> None:
    service = Service(ok(ACCOUNT, date=http_date(START), **limited(0, START + 30)), ok(ACCOUNT))
    clock = VirtualClock()
    client = client_of(service, clock)
    await client.account.get()
    assert clock.waits == []
    await client.account.get()
    assert clock.waits == [named(30)]


async def test_reset_is_read_by_the_clock_of_the_service() -> None:
    there = START - 7200
    service = Service(ok(ACCOUNT, date=http_date(there), **limited(0, there + 30)), ok(ACCOUNT))
    clock = VirtualClock()
    client = client_of(service, clock)
    await client.account.get()
    await client.account.get()
    assert clock.waits == [named(30)]


async def test_counts_down_what_is_left() -> None:
    """Answers that arrive out of order, or without the headers, do not give anything back."""
    service = Service(ok(ACCOUNT, date=http_date(START), **limited(2, START + 30)), *(ok(ACCOUNT) for _ in range(3)))
    clock = VirtualClock()
    client = client_of(service, clock)
    for _ in range(3):
        await client.account.get()
    assert clock.waits == []
    await client.account.get()
    assert clock.waits == [named(30)]


@each_of("left", [0, 1, 5])
async def test_what_others_use_up_counts(left: int) -> None:
    """Another program with the same key: an answer of the same window says that less is left than we know of."""
    told = (10, left, *range(left - 1, -1, -1))
    service = Service(*(ok(ACCOUNT, date=http_date(START), **limited(each, START + 30)) for each in told), ok(ACCOUNT))
    clock = VirtualClock()
    client = client_of(service, clock)
    for _ in told:
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


@each_of("skew", [0, 7200])
async def test_hundreds_one_after_the_other_never_meet_a_429(skew: int) -> None:
    clock = VirtualClock()
    service = Limited(clock, skew=skew)
    client = client_of(service, clock)
    for _ in range(LIMIT * 5):
        await client.account.get()
    assert (service.served, service.refused) == (LIMIT * 5, 0)


async def test_many_at_once_all_get_through() -> None:
    """Nearly none is refused: only what is held up between asking the throttle and sending, into the next window."""
    clock = VirtualClock()
    service = Limited(clock)
    client = client_of(service, clock, deadline=10**6)
    await client.account.get()
    await at_once([client.account.get] * (LIMIT * 3))
    assert service.served == LIMIT * 3 + 1
    assert service.refused <= LIMIT / 2


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
