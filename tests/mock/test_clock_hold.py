"""A frozen clock is moved by those who read in process, but not while `hold` keeps it for other work."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

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


async def test_work_in_a_thread_takes_no_time_of_a_clock_that_is_held(mock: MockService) -> None:
    async with client(mock) as http, anyio.create_task_group() as tasks:
        with mock.clock.hold():
            tasks.start_soon(http.get, STREAM)
            while not mock.journal():
                await anyio.lowlevel.checkpoint()
            for _ in range(20):
                await anyio.to_thread.run_sync(lambda: None)
            with mock.clock.hold():  # holds nest
                assert mock.clock.held
            assert mock.clock.held
            assert mock.clock.now() == START
    assert not mock.clock.held
    assert mock.clock.now() == START + 15


@pytest.mark.parametrize("emitted", [False, True])
def test_a_thread_that_reads_waits_for_the_clock_or_for_an_event(
    mock: MockService, http: httpx.Client, emitted: bool
) -> None:
    with ThreadPoolExecutor(1) as pool:
        with mock.clock.hold():
            answer = pool.submit(http.get, STREAM)
            while not mock.journal():
                pass
            assert not answer.done()
            if emitted:
                mock.emit_signal(token="BRETT")
                assert '"BRETT"' in answer.result(timeout=30).text
            assert mock.clock.now() == START
        assert answer.result(timeout=30).status_code == 200
    assert mock.clock.now() == START + (0 if emitted else 15)


@pytest.mark.parametrize("held", [True, False])
def test_a_read_of_whoever_holds_the_clock_ends_with_its_timeout(
    mock: MockService, http: httpx.Client, held: bool
) -> None:
    http.timeout = httpx.Timeout(0.05)
    if held:
        with mock.clock.hold(), pytest.raises(httpx.ReadTimeout):
            http.get(STREAM)
    else:
        with pytest.raises(httpx.ReadTimeout):
            http.get(STREAM)
    assert (mock.clock.now() == START) is held


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
