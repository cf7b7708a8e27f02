"""Streams that are cancelled, wherever they wait: reads in virtual time, and whole runs on real sockets."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest

from tradesdk import AsyncTradeClient, RetryPolicy, StreamSignal, TradeClient, TradeError
from tradesdk._stream import checkpoint

from .._answers import BASE, KEY, failed
from .._async._following import opened
from .._hostile import Visit, answer, hostile
from .._rows import each_of
from .._streamscript import CHAIN, Step, StreamScript, fields, live
from .._streamservice_outages import most_within
from ._cancelling import Cancelling
from ._streamplaces import EMPTY, OPEN, signal_event

EVERY = 7.0


class Reader:
    """Cancels its own reads when the service's script says so."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.cancelled = 0
        self.ids: list[str] = []

    def cancel(self) -> None:
        self.scope.cancel()
        self.cancelled += 1

    async def read(self, stream: Any) -> None:
        with anyio.CancelScope() as self.scope:
            item = await anext(stream)
            if isinstance(item, StreamSignal):
                self.ids.append(item.id)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.long
@each_of("each", [1, 2, 3, 10])
async def test_reads_that_are_cancelled_lose_nothing_and_cause_no_storm(each: int) -> None:
    """Before every signal, before every second one, …; for a service that sends one in seven seconds."""
    reader = Reader()
    last = 300

    def lively() -> Iterator[Step]:
        while True:
            number = int(script.now / EVERY + 1e-6) + 1
            yield number * EVERY - script.now
            if number % each == 0:
                yield reader.cancel
            yield live(f"s{number}", number * EVERY)

    listed = [fields(f"s{number}", number * EVERY) for number in range(1, 2 * last)]
    script = StreamScript(*[lively() for _ in range(2 * last)], listed=listed)
    async with opened(script) as stream, stream:
        while len(reader.ids) < last:
            await reader.read(stream)
    assert reader.ids[:last] == [f"s{number}" for number in range(1, last + 1)]
    assert reader.cancelled >= 20
    assert most_within(script.connects) <= 20
    assert stream.stats.gaps == stream.stats.late == 0


async def test_a_cancelled_look_is_made_again() -> None:
    reader = Reader()
    times = 0

    def history(script: StreamScript, query: dict[str, str]) -> httpx.Response:
        nonlocal times
        times += "from" in query
        if "from" in query and times in (1, 3, 4, 8):
            reader.cancel()
        return script.honest(query)

    later: list[Step] = [30.0, live("b", 0)]
    script = StreamScript(
        [5.0, live("a", 5), 5.0],
        *[later] * 9,
        listed=[fields("a", 5), fields("h1", 11), fields("h2", 12)],
        history=history,
    )
    async with opened(script) as stream, stream:
        while "b" not in reader.ids:
            await reader.read(stream)
    assert reader.ids == ["a", "h1", "h2", "b"]
    assert reader.cancelled >= 2


async def test_a_second_task_is_refused_and_the_first_reads_on() -> None:
    refused: list[str] = []

    def second() -> None:
        with pytest.raises(TradeError) as caught:
            anext(stream).__await__().send(None)
        refused.append(str(caught.value))

    script = StreamScript([live("a", 1), second, live("b", 2)])
    async with opened(script, reports=False) as stream, stream:
        assert [getattr(await anext(stream), "id", "") for _ in range(2)] == ["a", "b"]
    assert refused == ["a stream has one consumer at a time, and another one is reading it"]


def test_a_second_thread_is_refused_and_the_first_reads_on() -> None:
    refused: list[str] = []

    def second() -> None:
        with pytest.raises(TradeError) as caught:
            next(stream)
        refused.append(str(caught.value))

    script = StreamScript([live("a", 1), second, live("b", 2)])
    with (
        httpx.Client(transport=script) as http,
        TradeClient(api_key=KEY, base_url=BASE, clock=script.clock, http_client=http) as client,
        client.signals.stream(chain=CHAIN) as stream,
    ):
        assert [next(stream).id for _ in range(2)] == ["a", "b"]
    assert refused == ["a stream has one consumer at a time, and another one is reading it"]


def test_an_error_after_another_thread_has_closed_it_is_not_raised() -> None:
    def history(script: StreamScript, query: dict[str, str]) -> httpx.Response:
        if not script.connects:
            return script.honest(query)
        stream.close()
        return failed(401)

    script = StreamScript([live("a", 1)], [], history=history)
    with (
        httpx.Client(transport=script) as http,
        TradeClient(api_key=KEY, base_url=BASE, clock=script.clock, http_client=http) as client,
        client.signals.stream(chain=CHAIN) as stream,
    ):
        assert [signal.id for signal in stream] == ["a"]


async def test_cancelled_while_it_connects_for_the_first_time() -> None:
    reader = Reader()
    script = StreamScript([reader.cancel, live("a", 1)], [live("b", 2)], listed=[fields("a", 1), fields("b", 2)])
    http = httpx.AsyncClient(transport=script)
    async with http, AsyncTradeClient(api_key=KEY, base_url=BASE, clock=script.clock, http_client=http) as client:
        stream = client.signals.stream(chain=CHAIN)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anext(stream)
        assert script.connects == []
        await reader.read(stream)
        assert reader.ids == []
        await reader.read(stream)
        assert reader.ids
        await stream.aclose()
    assert script.open == 0


@pytest.mark.long
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_leaving_it_leaves_nothing_to_the_garbage_collector() -> None:
    """Warnings are errors here: trio warns of generators that nobody ended."""

    def answering(visit: Visit) -> None:
        if b"/v1/signals/history" in visit.head:
            visit.send(answer(b'{"data": []}'))
        else:
            visit.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n", live("a", 1))
            visit.hold()

    with hostile(answering) as server:
        async with AsyncTradeClient(api_key=KEY, base_url=server.url) as client:
            async with client.signals.stream(chain=CHAIN) as stream:
                assert (await anext(stream)).id == "a"
            del stream
            gc.collect()


# Whole runs: entering, reading, acknowledging, reconnecting, leaving.


async def in_a_task(run: Coroutine[Any, Any, object], at: int, mode: str) -> tuple[bool, int]:
    """Whether it was cancelled, and how often it waited."""
    cancelling = Cancelling(run, at, mode)
    task = await cancelling.in_a_task()
    if not task.cancelled():
        task.result()
    return task.cancelled(), cancelling.waits


async def in_a_scope(run: Coroutine[Any, Any, object], at: int, mode: str) -> tuple[bool, int]:
    scope = anyio.CancelScope()
    cancelling = Cancelling(run, at, mode, scope.cancel)
    with scope:
        await cancelling
    return scope.cancel_called, cancelling.waits  # what it cleaned up shielded may have been the last


Driver = Callable[[Coroutine[Any, Any, object], int, str], Awaitable[tuple[bool, int]]]


async def swept(path: Path, runs: Iterable[int], driver: Driver, mode: str = "early") -> int:
    """Cancels a run at each of `runs`, until one ends before; how often that one waited.

    After each, nothing is held any more, and no signal lost.
    """
    now = int(time.time())

    streams = 0

    def answering(visit: Visit) -> None:
        nonlocal streams
        if b"/stream" in visit.head:
            streams += 1
            first = streams == 1
            visit.send(OPEN, *(signal_event(number, now) for number in range(1, 3 if first else 5)))
            if first:
                visit.send(b"0\r\n\r\n")  # the third signal comes on another connection
            else:
                visit.hold()
        else:
            visit.send(EMPTY)

    options: dict[str, Any] = {"chain": CHAIN, "since": now - 5, "settle": 0.0}
    at_once = RetryPolicy(base=0, jitter=0, cap=0.001)
    with hostile(answering) as server:
        waits = 0
        for at in runs:
            streams = 0
            options["checkpoint"] = path / f"{at}.json"
            async with AsyncTradeClient(api_key=KEY, base_url=server.url, retry=at_once) as client:
                got: list[str] = []

                async def run(client: AsyncTradeClient = client, got: list[str] = got) -> None:
                    async with client.signals.stream(**options) as stream:
                        async for signal in stream:
                            got.append(signal.id)
                            if len(got) == 3:
                                return

                was, waits = await driver(run(), at, mode)
                assert was or waits < at, f"at wait {at}, nobody was told of the cancellation"
                async with client.signals.stream(**options) as stream:  # the checkpoint and its lock are free
                    again = int((await anext(stream)).id.removeprefix("sig_"))
                # Of those that were handed out, only the last one may be acknowledged or not.
                assert again in (len(got), len(got) + 1), (at, got)
            assert server.settled(open_connections=0), at
            if waits < at:
                break
    return waits


HOW: dict[str, tuple[Driver, str]] = {
    "a task, early": (in_a_task, "early"),
    "a task, late": (in_a_task, "late"),
    "a task, again and again": (in_a_task, "storm"),
    "a scope": (in_a_scope, "early"),
}


@pytest.mark.long
@pytest.mark.parametrize("how", ["a task, early", "a task, again and again"])
async def test_cancelled_where_it_waits(tmp_path: Path, how: str) -> None:
    """At some of the waits, and at all with which it ends."""
    driver, mode = HOW[how]
    waits = await swept(tmp_path, [1000], driver)
    await swept(tmp_path, [3, 12, *range(waits - 3, waits + 1)], driver, mode)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("wait", [0.0, 0.5])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.long
async def test_cancelled_wherever_it_waits(
    tmp_path: Path, how: str, wait: float, anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`wait` 0: the checkpoint is written for each signal, in a thread."""
    driver, mode = HOW[how]
    if driver is in_a_task and anyio_backend == "trio":
        return  # has no other way than scopes
    monkeypatch.setattr(checkpoint, "WAIT", wait)
    assert await swept(tmp_path, range(1, 1000), driver, mode) > 20


async def test_a_checkpoint_waits_for_no_thread_of_the_program(tmp_path: Path) -> None:
    """All of anyio's threads are busy while the stream is entered, read and left."""
    limiter, released = anyio.to_thread.current_default_thread_limiter(), []
    borrowers = [object() for _ in range(int(limiter.total_tokens))]
    for one in borrowers:
        limiter.acquire_on_behalf_of_nowait(one)

    def release() -> None:
        released.extend(borrowers)
        for one in borrowers:
            limiter.release_on_behalf_of(one)

    later = asyncio.get_running_loop().call_later(30, release)
    ids: list[str] = []
    script = StreamScript([1.0, live("a", 1), live("b", 2), live("end", 3)])
    async with opened(script, checkpoint=tmp_path / "place.json", manual_ack=True, reports=False) as stream, stream:
        async for signal in stream:
            assert isinstance(signal, StreamSignal)
            await stream.ack(signal)
            ids.append(signal.id)
            if signal.id == "end":
                break
    later.cancel()
    assert (ids, released) == (["a", "b", "end"], [])
    release()
