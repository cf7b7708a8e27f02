"""A clock that stands still is moved by those who read in process, but not while other work is under way."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx
import pytest

from tradesdk_mock import MockClock, MockService

from ._support import FULL, START


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def mock() -> Iterator[MockService]:
    """A stream of it ends behind the first event, a heartbeat."""
    with MockService(clock=MockClock(START), signals="scripted") as service:
        service.add_fault("drop", how="clean", after=1)
        yield service


def client(mock: MockService) -> httpx.AsyncClient:
    bearer = {"Authorization": f"Bearer {FULL}"}
    return httpx.AsyncClient(transport=mock.transport(), base_url=mock.url, headers=bearer, timeout=60)


async def test_a_reader_leaves_other_tasks_their_turns(mock: MockService) -> None:
    seen: list[float] = []
    async with client(mock) as http, anyio.create_task_group() as tasks:
        tasks.start_soon(http.get, "/v1/signals/stream?chain=8453")
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
            seen.append(mock.clock.now())
    assert seen == [START] * 10
    assert mock.clock.now() == START + 15


async def test_work_in_a_thread_takes_no_time_of_a_clock_that_is_held(mock: MockService) -> None:
    async with client(mock) as http, anyio.create_task_group() as tasks:
        with mock.clock.hold():
            tasks.start_soon(http.get, "/v1/signals/stream?chain=8453")
            while not mock.journal():
                await anyio.lowlevel.checkpoint()
            for _ in range(20):
                await anyio.to_thread.run_sync(lambda: None)
            assert mock.clock.held
            assert mock.clock.now() == START
    assert not mock.clock.held
    assert mock.clock.now() == START + 15


def test_a_thread_that_reads_waits_for_the_clock_as_well(mock: MockService) -> None:
    bearer = {"Authorization": f"Bearer {FULL}"}
    with (
        httpx.Client(transport=mock.transport(), base_url=mock.url, headers=bearer, timeout=60) as http,
        ThreadPoolExecutor(1) as pool,
    ):
        with mock.clock.hold():
            answer = pool.submit(http.get, "/v1/signals/stream?chain=8453")
            while not mock.journal():
                pass
            assert not answer.done()
            assert mock.clock.now() == START
        assert answer.result(timeout=30).status_code == 200
    assert mock.clock.now() == START + 15


def test_holds_nest() -> None:
    clock = MockClock(START)
    with clock.hold():
        with clock.hold():
            assert clock.held
        assert clock.held
    assert not clock.held


async def test_sleepers_wake_in_the_order_of_their_times() -> None:
    clock = MockClock(START)
    woken: list[tuple[float, float]] = []

    async def sleep(seconds: float) -> None:
        await clock.sleep_async(seconds)
        woken.append((seconds, clock.now() - START))

    async with anyio.create_task_group() as tasks:
        for seconds in (20.0, 5.0, 10.0):
            tasks.start_soon(sleep, seconds)
    assert woken == [(5.0, 5.0), (10.0, 10.0), (20.0, 20.0)]


async def test_a_sleeper_wakes_before_a_reader_whose_event_comes_later(mock: MockService) -> None:
    woken: list[float] = []

    async def sleep() -> None:
        await mock.clock.sleep_async(5)
        woken.append(mock.clock.now() - START)

    async with client(mock) as http, anyio.create_task_group() as tasks:
        tasks.start_soon(http.get, "/v1/signals/stream?chain=8453")
        tasks.start_soon(sleep)
    assert woken == [5.0]
    assert mock.clock.now() == START + 15


@pytest.mark.parametrize("held", [True, False])
def test_a_read_of_whoever_holds_the_clock_ends_with_its_timeout(mock: MockService, held: bool) -> None:
    bearer = {"Authorization": f"Bearer {FULL}"}
    with (
        httpx.Client(transport=mock.transport(), base_url=mock.url, headers=bearer, timeout=0.05) as http,
        mock.clock.hold() if held else nullcontext(),
        pytest.raises(httpx.ReadTimeout),
    ):
        http.get("/v1/signals/stream?chain=8453")
    assert (mock.clock.now() == START) is held


def test_what_is_emitted_reaches_a_reader_while_the_clock_is_held(mock: MockService) -> None:
    bearer = {"Authorization": f"Bearer {FULL}"}
    with (
        httpx.Client(transport=mock.transport(), base_url=mock.url, headers=bearer, timeout=60) as http,
        ThreadPoolExecutor(1) as pool,
        mock.clock.hold(),
    ):
        answer = pool.submit(http.get, "/v1/signals/stream?chain=8453")
        while not mock.journal():
            pass
        mock.emit_signal(token="BRETT")
        assert '"BRETT"' in answer.result(timeout=30).text
        assert mock.clock.now() == START
