"""A frozen clock is moved by those who read in process, all of them together."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx
import pytest

from tradesdk_mock import MockClock, MockService

from ._http import FULL, START, in_process

STREAM = "/v1/signals/stream?chain=8453"


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def mock() -> Iterator[MockService]:
    """A stream of it ends behind the first event, a heartbeat."""
    with MockService(clock=MockClock(START), signals="scripted") as service:
        service.add_fault("drop", how="clean", after=1)
        yield service


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with in_process(mock) as made:
        made.timeout = httpx.Timeout(60)
        yield made


def client(mock: MockService) -> httpx.AsyncClient:
    bearer = {"Authorization": f"Bearer {FULL}"}
    return httpx.AsyncClient(transport=mock.transport(), base_url=mock.url, headers=bearer, timeout=60)


async def test_a_reader_leaves_other_tasks_their_turns(mock: MockService) -> None:
    seen: list[float] = []
    async with client(mock) as http, anyio.create_task_group() as tasks:
        tasks.start_soon(http.get, STREAM)
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
            seen.append(mock.clock.now())
    assert seen == [START] * 10
    assert mock.clock.now() == START + 15


async def test_sleepers_and_readers_wake_in_the_order_of_their_times(mock: MockService) -> None:
    woken: list[tuple[float, float]] = []

    async def sleep(seconds: float) -> None:
        await mock.clock.sleep_async(seconds)
        woken.append((seconds, mock.clock.now() - START))

    async with client(mock) as http, anyio.create_task_group() as tasks:
        tasks.start_soon(http.get, STREAM)
        for seconds in (14.0, 5.0, 10.0):
            tasks.start_soon(sleep, seconds)
    assert woken == [(5.0, 5.0), (10.0, 10.0), (14.0, 14.0)]
    assert mock.clock.now() == START + 15
