"""Cancelling an async call in the middle, wherever it is: nothing is sent again, and its connection's place is free."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import count
from urllib.parse import unquote

import anyio
import anyio.to_thread
import httpx
import pytest

from tradesdk import AsyncTradeClient
from tradesdk._async.connection_pool import AsyncConnectionPool
from tradesdk._http.settings import Origin

from .._answers import ACCOUNT, KEY, Service, failed, page, summary
from .._answers import agent as whole
from .._async._client import client_of
from .._clock import START, VirtualClock
from .._hostile import Visit, answer, hostile
from .._rows import each_of
from ._cancelling import MODES, Cancelling

GOOD = answer(json.dumps(ACCOUNT).encode())
HALFWAY = {"waiting for the answer": b"", "in its headers": GOOD[:20], "in its body": GOOD[:-5]}


def single(url: str) -> AsyncTradeClient:
    """A client with one connection: a place that is lost blocks it for good."""
    client = AsyncTradeClient(api_key=KEY, base_url=url, clock=VirtualClock())
    client._session.sender = AsyncConnectionPool(Origin.of(client.base_url), max_connections=1)
    return client


@each_of("sent", HALFWAY.values(), ids=HALFWAY)
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
                    await anyio.to_thread.run_sync(arrived.wait, 60)
                    group.cancel_scope.cancel()
                arrived.clear()
                assert (await client.account.get()).id == "acc_1"
                # The server may learn of the end a little later.
                assert await anyio.to_thread.run_sync(partial(server.settled, open_connections=1))
        assert len(server.visits) == 10
        assert server.most_open <= 2


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
                connection.settimeout(60)
                connection.recv(1)
                begun.set()
                while connection.recv(65_536):
                    pass
            over.append(True)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        async with single(url) as client, anyio.create_task_group() as server:
            server.start_soon(anyio.to_thread.run_sync, serve, listener)
            for _ in range(3):
                async with anyio.create_task_group() as group:
                    group.start_soon(client.account.get)
                    assert await anyio.to_thread.run_sync(begun.wait, 60)
                    begun.clear()
                    group.cancel_scope.cancel()
        assert over == [True] * 3


async def test_while_waiting_for_a_connection() -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def answering(visit: Visit) -> None:
        arrived.set()
        go_on.wait(60)
        visit.send(GOOD)

    with hostile(answering) as server:
        async with single(server.url) as client, anyio.create_task_group() as group:
            group.start_soon(client.account.get)
            await anyio.to_thread.run_sync(arrived.wait, 60)
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


async def test_while_waiting_to_retry() -> None:
    class Stopped(VirtualClock):
        async def sleep_async(self, seconds: float) -> None:
            await anyio.sleep_forever()

    service = Service(failed(503))
    http = httpx.AsyncClient(transport=httpx.MockTransport(service))
    client = client_of(service, Stopped(), http_client=http)
    async with anyio.create_task_group() as group:
        group.start_soon(client.account.get)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert len(service.requests) == 1


async def test_a_timeout_around_a_call_is_the_users() -> None:
    """It is not mistaken for one of ours, and nothing is retried."""
    arrived = threading.Event()

    def answering(visit: Visit) -> None:
        arrived.set()
        visit.hold()

    async def ends(scope: anyio.CancelScope) -> None:
        await anyio.to_thread.run_sync(arrived.wait, 60)
        scope.deadline = anyio.current_time()

    with hostile(answering) as server:
        async with single(server.url) as client, anyio.create_task_group() as group:

            async def call() -> None:
                with anyio.fail_after(60) as scope:
                    group.start_soon(ends, scope)
                    await client.account.get()

            with pytest.raises(TimeoutError):
                await call()
        assert len(server.visits) == 1


async def cancelled_everywhere(call: Callable[[], Awaitable[object]], after: Callable[[], Awaitable[None]]) -> int:
    """Cancel `call` once at each of its suspensions, in each mode, and do `after` each time; how many there were."""
    most = 0
    for mode in MODES:
        at, reached = 0, True
        while reached:
            at += 1
            cancelling = Cancelling(call(), at, mode)
            task = await cancelling.in_a_task()
            assert task.cancelled() or task.exception() is None
            reached = cancelling.reached
            await after()
        most = max(most, at - 1)
    return most


@pytest.mark.usefixtures("_nothing_is_collected")
@pytest.mark.parametrize("kept", [True, False], ids=["a connection that is kept", "a new connection"])
def test_at_every_suspension(kept: bool) -> None:
    """The one connection is there for the next call, and none is left open beside it."""

    def answering(visit: Visit) -> None:
        visit.send(GOOD)
        if not kept:
            visit.close()

    async def run() -> None:
        async with single(server.url) as client:

            async def next_one() -> None:
                assert (await asyncio.wait_for(client.account.get(), 60)).id == "acc_1"
                assert await asyncio.to_thread(partial(server.settled, open_connections=1))

            assert await cancelled_everywhere(client.account.get, next_one) >= (2 if kept else 3)

    with hostile(answering) as server:
        asyncio.run(run())


def test_at_every_suspension_while_others_want_the_place() -> None:
    """Also when it has just been given to the one that is cancelled."""

    others: list[asyncio.Task[object]] = []

    async def run() -> None:
        async with single(server.url) as client:

            async def beside_others() -> object:
                before = asyncio.create_task(client.account.get())
                await asyncio.sleep(0)
                try:
                    return await client.account.get()
                finally:
                    others.append(before)

            async def all_of_them() -> None:
                for other in [*others, asyncio.create_task(client.account.get())]:
                    await asyncio.wait_for(other, 60)
                others.clear()

            assert await cancelled_everywhere(beside_others, all_of_them) >= 4

    with hostile(lambda visit: None if visit.send(GOOD) else visit.close()) as server:
        asyncio.run(run())


@pytest.mark.usefixtures("_nothing_is_collected")
@pytest.mark.parametrize(
    "lost", [False, pytest.param(True, marks=pytest.mark.long)], ids=["answered", "whose answer is lost"]
)
def test_a_create_at_every_suspension(lost: bool) -> None:
    """It is sent once at most, also where it is looked for; and the next one has nothing to do with it."""
    posted: list[str] = []
    names = map("agent {}".format, count())

    def answering(visit: Visit) -> None:
        if visit.head.startswith(b"POST"):
            posted.append(json.loads(visit.body)["name"])
            visit.reset() if lost else visit.send(answer(json.dumps(whole(posted[-1], name=posted[-1])).encode()))
        elif visit.head.startswith(b"GET /v1/agents?"):
            visit.send(
                answer(
                    json.dumps(
                        page([summary(name, name=name, created_at=START + 10**6) for name in posted[-50:]])
                    ).encode()
                )
            )
        elif visit.head.startswith(b"GET /v1/agents/"):
            name = unquote(visit.head.split()[1].decode()).rpartition("/")[2]
            visit.send(answer(json.dumps(whole(name, name=name)).encode()))
        else:
            visit.send(GOOD)

    async def run() -> None:
        async with single(server.url) as client:

            async def next_one() -> None:
                assert (await asyncio.wait_for(client.account.get(), 60)).id == "acc_1"
                assert client._session.creating == []

            def create() -> Awaitable[object]:
                return client.agents.create(name=next(names), wallet_id="w1", chain_id=8453)

            assert await cancelled_everywhere(create, next_one) >= (8 if lost else 2)
            assert len(posted) == len(set(posted)) > 5

    with hostile(answering) as server:
        asyncio.run(run())
