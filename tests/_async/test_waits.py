"""What the service says about waiting counts, by the service's own clock; the deadline counts as well."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from tradesdk import APIStatusError, APITimeoutError, ServiceUnavailableError

from .._answers import ACCOUNT, Service, failed, limited, ok
from .._clock import START, VirtualClock, http_date, named
from .._flavour_async import at_once
from .._rows import each_of
from ._client import client_of


class TenAtOnce(VirtualClock):
    """Threads that wait go on together."""

    def __init__(self) -> None:
        super().__init__()
        self._all = threading.Barrier(10)

    def sleep(self, seconds: float) -> None:
        end = self._note(seconds)
        self._all.wait(60)
        self._reach(end)


@pytest.fixture
def _seeded() -> Iterator[None]:
    before = random.getstate()
    random.seed(14)
    yield
    random.setstate(before)


async def waited(*, status: int = 429, **headers: str) -> float:
    """The wait after one refusal with these headers."""
    service, clock = Service(failed(status, **headers), ok(ACCOUNT)), VirtualClock()
    await client_of(service, clock, throttle=False).account.get()
    (wait,) = clock.waits
    return wait


@pytest.mark.usefixtures("_seeded")
@each_of("told", ["2.5", "5", "30", "100"])
async def test_ten_that_were_told_the_same_come_back_apart(told: str) -> None:
    """By the clock of all of them, from the first to the last."""
    service, clock = Service(*(failed(429, retry_after=told) for _ in range(10)), *[ok(ACCOUNT)] * 10), TenAtOnce()
    await at_once([client_of(service, clock, throttle=False).account.get] * 10)
    assert clock.waits == [named(float(told))] * 10
    assert max(clock.waits) - min(clock.waits) >= 0.15


@pytest.mark.usefixtures("_seeded")
async def test_ten_that_are_held_back_come_apart() -> None:
    headers = limited(0, START + 30)
    service, clock = Service(ok(ACCOUNT, date=http_date(START), **headers), *[ok(ACCOUNT)] * 10), TenAtOnce()
    client = client_of(service, clock)
    await client.account.get()
    await at_once([client.account.get] * 10)
    assert clock.waits == [named(30)] * 10
    assert max(clock.waits) - min(clock.waits) >= 0.15


@each_of("skew", [0, 600, -600, 86_400])
async def test_times_are_read_by_the_clock_of_the_service(skew: int) -> None:
    """However far it is from ours."""
    there = START + skew
    date = http_date(there)
    assert await waited(date=date, x_ratelimit_reset=str(there + 50)) == named(
        51
    )  # a second more: it is cut off, not rounded
    assert await waited(date=date, retry_after=http_date(there + 45)) == named(45)
    assert await waited(date=date, age="20", x_ratelimit_reset=str(there + 50)) == named(31)
    assert 2 <= await waited(date=date, x_ratelimit_reset=str(there - 50)) <= 2.5


@each_of("headers", [{"retry_after": "121"}, {"retry_after": "4233600"}, {"x_ratelimit_reset": str(START + 3600)}])
@each_of("status", [429, 503])
async def test_a_wait_of_more_than_two_minutes_is_not_waited(headers: dict[str, str], status: int) -> None:
    service, clock = Service(failed(status, **headers)), VirtualClock()
    with pytest.raises(APIStatusError) as caught:
        await client_of(service, clock, deadline=10**6).account.get()
    assert clock.waits == []
    error = caught.value
    assert error.retry_after is not None
    assert error.retry_after > 120
    assert error.retry_at == datetime.fromtimestamp(START + error.retry_after, UTC)


async def test_exactly_two_minutes_are_waited() -> None:
    assert await waited(retry_after="120") == named(120)


@each_of("status", [500, 502, 504])
async def test_no_other_refusal_names_a_wait(status: int) -> None:
    reset = {"x_ratelimit_reset": str(START + 50), "x_ratelimit_remaining": "0"}
    assert 2 <= await waited(status=status, date=http_date(START), retry_after="60", **reset) <= 2.5


async def test_no_wait_passes_the_deadline() -> None:
    """The total of 180 seconds holds for waits as well."""
    service, clock = Service(*(failed(503, retry_after="80") for _ in range(6))), VirtualClock()
    with pytest.raises(ServiceUnavailableError) as caught:
        await client_of(service, clock).account.get()
    assert clock.waits == [named(80)] * 2
    assert caught.value.retries == 2


@each_of(("deadline", "waits"), [(1, 0), (4, 1), (200, 5)])
async def test_deadline_is_a_setting(deadline: float, waits: int) -> None:
    service, clock = Service(*(failed(503) for _ in range(6))), VirtualClock()
    with pytest.raises(ServiceUnavailableError):
        await client_of(service, clock, deadline=deadline).account.get()
    assert len(clock.waits) == waits


async def test_attempts_get_no_more_time_than_is_left() -> None:
    clock = VirtualClock()

    def slow(request: httpx.Request) -> httpx.Response:
        clock.advance(170)
        raise httpx.ReadTimeout("silent", request=request)

    service = Service(slow, ok(ACCOUNT))
    await client_of(service, clock).account.get()
    first, second = (request.extensions["timeout"] for request in service.requests)
    assert first == {"connect": 5.0, "read": 30.0, "write": 30.0, "pool": 10.0}
    assert second["read"] <= 180 - 172
    assert second["connect"] == 5.0


async def test_a_slow_attempt_leaves_no_time_for_another() -> None:
    clock = VirtualClock()

    def slow(request: httpx.Request) -> httpx.Response:
        clock.advance(179)
        raise httpx.ReadTimeout("silent", request=request)

    with pytest.raises(APITimeoutError) as caught:
        await client_of(Service(slow), clock).account.get()
    assert (caught.value.sent, caught.value.retries) == (True, 0)


async def test_pages_have_a_deadline_each() -> None:
    """A walk over many pages may take as long as it takes."""
    pages: list[Any] = [ok({"data": [], "next_cursor": str(n)}) for n in range(4)]
    answers = [answer for one in pages for answer in (failed(503, retry_after="100"), one)]
    service, clock = Service(*answers, ok({"data": []})), VirtualClock()
    assert await client_of(service, clock).trades.list().first() is None
    assert clock.waits == [named(100)] * 4
