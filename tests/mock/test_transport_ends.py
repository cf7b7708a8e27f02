"""The end of an exchange in process: whatever ends it, the body is closed and nothing is left running."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import anyio
import httpx
import pytest

from tradesdk_mock import MockClock, MockServerError, MockService
from tradesdk_mock.core.messages import BodyStep, Delay, Disconnect, Reply, Request, WaitForEvent
from tradesdk_mock.core.subscribers import Notifier

from ._scripted import FLAVOURS, FOR_EVER, Bell, Body, fetch, in_process, once, plain
from ._support import START


def test_closing_ends_a_read_in_another_thread() -> None:
    bell = Bell()
    body = Body(once(bell, WaitForEvent(None, bell)))
    got: list[bytes] = []
    with (
        in_process(lambda request: plain(body)) as service,
        httpx.Client(transport=service.transport(), timeout=FOR_EVER) as http,
        http.stream("GET", "http://x/") as response,
    ):
        reader = threading.Thread(target=lambda: got.extend(response.iter_raw()))
        reader.start()
        assert bell.awaited.wait(10)
        response.close()
        reader.join(10)
        assert not reader.is_alive()
    assert got == []
    assert body.closed


def test_closing_waits_for_a_step_that_is_being_made() -> None:
    """A generator can't be closed while it runs: the reader does it when it comes back."""
    begun, go_on = threading.Event(), threading.Event()

    def steps() -> Iterator[BodyStep]:
        begun.set()
        assert go_on.wait(10)
        yield b"too late"

    body = Body(steps())
    got: list[bytes] = []
    with (
        in_process(lambda request: plain(body)) as service,
        httpx.Client(transport=service.transport(), timeout=FOR_EVER) as http,
        http.stream("GET", "http://x/") as response,
    ):
        reader = threading.Thread(target=lambda: got.extend(response.iter_raw()))
        reader.start()
        assert begun.wait(10)
        response.close()
        assert not body.closed
        go_on.set()
        reader.join(10)
        assert (got, bool(body.closed)) == ([], True)


async def test_closing_ends_a_read_in_another_task() -> None:
    bell = Bell()
    body = Body(once(bell, WaitForEvent(None, bell)))
    got: list[bytes] = []
    with in_process(lambda request: plain(body)) as service:
        async with httpx.AsyncClient(transport=service.transport(), timeout=FOR_EVER) as http:
            response = await http.send(http.build_request("GET", "http://x/"), stream=True)

            async def read() -> None:
                async for piece in response.stream:  # type: ignore[union-attr]  # an async client's
                    got.append(piece)

            async with anyio.create_task_group() as group:
                group.start_soon(read)
                await anyio.to_thread.run_sync(bell.awaited.wait, 10)
                await response.aclose()
    assert got == []
    assert body.closed


async def test_cancelling_ends_a_read() -> None:
    bell = Bell()
    body = Body(once(bell, WaitForEvent(None, bell)))
    with in_process(lambda request: plain(body)) as service:
        async with httpx.AsyncClient(transport=service.transport(), timeout=FOR_EVER) as http:
            async with anyio.create_task_group() as group:
                group.start_soon(http.get, "http://x/")
                await anyio.to_thread.run_sync(bell.awaited.wait, 10)
                group.cancel_scope.cancel()
            assert body.closed


def refusing(body: Body) -> Reply:
    return plain(body, before=[Disconnect.RESET])


def slow(body: Body) -> Reply:
    return plain(body, before=[Delay(60)])


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("make", [plain, refusing, slow])
def test_a_body_is_closed_whatever_happens(make: Callable[[Body], Reply], flavour: str) -> None:
    bodies: list[Body] = []

    def answer(request: Request) -> Reply:
        bodies.append(Body(iter([b"a", Disconnect.CLOSE])))
        return make(bodies[-1])

    with in_process(answer, MockClock(START)) as service:
        assert fetch(flavour, service).error is not None
        assert fetch(flavour, service, "HEAD").error is None or make is not plain
    assert [bool(body.closed) for body in bodies] == [True, True]


def test_a_body_that_nobody_reads_is_closed() -> None:
    body = Body(iter([b"a"]))
    with in_process(lambda request: plain(body)) as service, httpx.Client(transport=service.transport()) as http:
        with http.stream("GET", "http://x/"):
            assert not body.closed
        assert body.closed


def test_it_starts_no_threads_and_no_tasks() -> None:
    bell = Notifier()
    with in_process(
        lambda request: plain(iter([b"a", WaitForEvent(START + 9, bell), b"b"])), MockClock(START)
    ) as service:
        before = threading.active_count()
        with (
            httpx.Client(transport=service.transport()) as http,
            http.stream("GET", "http://x/", timeout=FOR_EVER) as response,
        ):
            assert next(response.iter_raw()) == b"a"
            assert threading.active_count() == before

        async def look() -> None:
            async with (
                httpx.AsyncClient(transport=service.transport()) as http,
                http.stream("GET", "http://x/", timeout=FOR_EVER) as response,
            ):
                assert await anext(aiter(response.stream)) == b"a"  # type: ignore[arg-type]  # an async client's
                assert len(asyncio.all_tasks()) == 1

        asyncio.run(look())
        assert threading.active_count() == before


LIGHT = """
import sys
import httpx
from tradesdk_mock import MockService

with MockService() as mock, httpx.Client(transport=mock.transport(), base_url=mock.url) as http:
    assert http.get("/v1/account", headers={"Authorization": "Bearer mock_full_me"}).status_code == 200
print(*sorted({"uvicorn", "asyncio", "anyio", "eth_account", "tradesdk"} & set(sys.modules)))
"""


def test_nothing_heavy_is_loaded_for_it() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=60)
    assert (done.stdout.split(), done.stderr) == ([], "")


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_closed_service_cannot_be_reached(flavour: str) -> None:
    service = MockService()
    service.close()
    # No error of httpx: a client would take it for a failure of the network, and try again.
    with pytest.raises(MockServerError, match="the mock is closed: make requests while it is open"):
        fetch(flavour, service)
    with (
        httpx.Client(transport=service.transport()) as http,
        pytest.raises(MockServerError, match="the mock is closed"),
    ):
        http.get("http://x/v1/account")
    assert repr(service.transport()) == "<MockTransport of MockService(seed=7)>"
