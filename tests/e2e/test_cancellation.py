"""Cancelling an async call in the middle, wherever it is: nothing is sent again, and its connection's place is free."""

from __future__ import annotations

import gc
import json
import socket
import threading
from collections.abc import Iterator

import anyio
import anyio.to_thread
import httpx
import pytest

from tradesdk import AsyncTradeClient
from tradesdk._async.transport import AsyncConnections

from .._answers import ACCOUNT, KEY, Service, failed
from .._async._client import client_of
from .._clock import VirtualClock
from .._hostile import Visit, answer, hostile

GOOD = answer(json.dumps(ACCOUNT).encode())
HALFWAY = {"waiting for the answer": b"", "in its headers": GOOD[:20], "in its body": GOOD[:-5]}


def single(url: str) -> AsyncTradeClient:
    """A client with one connection: a place that is lost blocks it for good."""
    client = AsyncTradeClient(api_key=KEY, base_url=url, clock=VirtualClock())
    client._calls.http = httpx.AsyncClient(transport=AsyncConnections(max_connections=1))
    return client


@pytest.mark.parametrize("sent", HALFWAY.values(), ids=HALFWAY)
async def test_in_the_middle(sent: bytes) -> None:
    arrived = threading.Event()

    def answering(visit: Visit) -> None:
        if visit.number % 2 == 0:
            visit.send(sent)
            arrived.set()
            visit.hold()
        else:
            visit.send(GOOD)

    with hostile(answering) as server:
        async with single(server.url) as client:
            for _ in range(5):
                async with anyio.create_task_group() as group:
                    group.start_soon(client.account.get)
                    await anyio.to_thread.run_sync(arrived.wait, 10)
                    group.cancel_scope.cancel()
                arrived.clear()
                assert (await client.account.get()).id == "acc_1"
        assert len(server.visits) == 10
        assert server.most_open <= 2  # the server may learn of the end a little later


@pytest.fixture
def _nothing_is_collected() -> Iterator[None]:
    """What is left open stays open."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_nothing_is_collected")
async def test_in_a_handshake_that_is_never_answered() -> None:
    """The server sees the end of every connection, and the collector has no part in it."""
    begun, over = threading.Event(), []

    def serve(listener: socket.socket) -> None:
        for _ in range(3):
            connection, _address = listener.accept()
            with connection:
                connection.settimeout(2)
                connection.recv(1)
                begun.set()
                while connection.recv(65_536):
                    pass
            over.append(True)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        async with single(url) as client, anyio.create_task_group() as server:
            server.start_soon(anyio.to_thread.run_sync, serve, listener)
            for _ in range(3):
                async with anyio.create_task_group() as group:
                    group.start_soon(client.account.get)
                    assert await anyio.to_thread.run_sync(begun.wait, 10)
                    begun.clear()
                    group.cancel_scope.cancel()
        assert over == [True] * 3


async def test_while_waiting_for_a_connection() -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def answering(visit: Visit) -> None:
        arrived.set()
        go_on.wait(10)
        visit.send(GOOD)

    with hostile(answering) as server:
        async with single(server.url) as client, anyio.create_task_group() as group:
            group.start_soon(client.account.get)
            await anyio.to_thread.run_sync(arrived.wait, 10)
            async with anyio.create_task_group() as waiting:
                for _ in range(5):
                    waiting.start_soon(client.account.get)
                await anyio.wait_all_tasks_blocked()
                waiting.cancel_scope.cancel()
            go_on.set()
            assert (await client.account.get()).id == "acc_1"
        assert len(server.visits) == 2


async def test_before_it_begins() -> None:
    with hostile(lambda visit: None if visit.send(GOOD) else visit.close()) as server:
        async with single(server.url) as client:
            for _ in range(3):
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await client.account.get()
                assert scope.cancelled_caught
            assert (await client.account.get()).id == "acc_1"
        assert len(server.visits) == 1


async def test_many_at_every_point_in_time() -> None:
    """Whatever the moment, the one connection is there for the next call."""
    with hostile(lambda visit: None if visit.send(GOOD) else visit.close()) as server:
        async with single(server.url) as client:
            for step in range(40):
                with anyio.move_on_after(step / 20_000):
                    await client.account.get()
            with anyio.fail_after(5):
                assert (await client.account.get()).id == "acc_1"


async def test_while_waiting_to_retry() -> None:
    class Stopped(VirtualClock):
        async def sleep_async(self, seconds: float) -> None:
            await anyio.sleep_forever()

    service = Service(failed(503))
    client = client_of(service, Stopped())
    async with anyio.create_task_group() as group:
        group.start_soon(client.account.get)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert len(service.requests) == 1


async def test_a_timeout_around_a_call_is_the_users() -> None:
    """It is not mistaken for one of ours, and nothing is retried."""
    with hostile(lambda visit: visit.hold()) as server:
        async with single(server.url) as client:
            with pytest.raises(TimeoutError):
                with anyio.fail_after(0.05):
                    await client.account.get()
        assert len(server.visits) == 1
