"""One clock for the mock and a client that comes back: outages of minutes, stalls and late answers, in no time."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import anyio
import httpx
import pytest

from tradesdk_mock import JournalEntry, MockService

from ._oneclock import NotingClock
from ._support import FULL, START

STREAM = "/v1/signals/stream"
HISTORY = "/v1/signals/history"
HEADERS = {"Authorization": f"Bearer {FULL}"}
QUIET = 40.0  # a read that takes longer means that the other side is gone; heartbeats come every 15 seconds
MINUTES = 20
CHAINS = (8453, 56)


@pytest.fixture
def clock() -> NotingClock:
    return NotingClock(START)


@pytest.fixture
def mock(clock: NotingClock) -> Iterator[MockService]:
    """Twenty minutes with a signal of each chain in two seconds, and with everything that ends a stream."""
    with MockService(seed=7, clock=clock, signals="scripted") as service:
        service.set_gaps(history_lag_spread=2)
        # Of the rules that end a stream, the oldest that is due is played; the stall comes before any end.
        service.add_fault("drop", route=STREAM, every=2, after=20, how="clean")
        service.add_fault("half_event", route=STREAM, every=3, after=20, at="character", how="reset")
        service.add_fault("silence", route=STREAM, every=5, after=10)
        service.add_fault("drop", route=STREAM, after=30, how="reset")
        service.add_fault("duplicate", share=0.05)
        service.add_fault("garbage", share=0.01)
        service.add_fault("split_utf8")
        service.add_fault("status", route=HISTORY, status=503, count=3, retry_after=2)
        service.add_fault("status", route=STREAM, status=503, since=START + 300, until=START + 600)
        yield service


def publish(mock: MockService) -> dict[int, list[str]]:
    """The ids of each chain, in the order of their publication."""
    count = MINUTES * 30
    return {
        chain: [each.id for each in mock.emit_signals({"after": 2 * n, "chain_id": chain} for n in range(1, count))]
        for chain in CHAINS
    }


class Follower:
    """What a simple client knows: everything that it was shown, and how long to wait before the next try."""

    def __init__(self, chain: int) -> None:
        self.ask = {"chain": str(chain)}
        self.page: dict[str, Any] = {**self.ask, "from": START, "limit": 100}
        self.seen: set[str] = set()
        self.tries = 0
        self.rest = b""

    def opened(self) -> None:
        self.rest = b""

    def take(self, piece: bytes) -> bool:
        """Bytes of the stream; whether there was a sign of life in them."""
        *lines, self.rest = (self.rest + piece).split(b"\n")
        return [self._line(line) for line in lines].count(True) > 0

    def _line(self, line: bytes) -> bool:
        try:
            event = json.loads(line.removeprefix(b"data: "))
        except ValueError:
            return False
        if not isinstance(event, dict) or "timestamp" not in event:
            return False
        self.seen |= {event["id"]} if "id" in event else set()
        self.tries = 0
        return True

    def answer(self, answer: httpx.Response) -> bool:
        """Take a page of the history; whether there is another."""
        if answer.status_code != 200:
            return False
        found = answer.json()
        self.seen |= {signal["id"] for signal in found["data"]}
        self.page["cursor"] = found.get("next_cursor")
        return "next_cursor" in found

    def pause(self) -> float:
        self.tries += 1
        return min(60.0, 2.0**self.tries)


def follow(http: httpx.Client, clock: NotingClock, chain: int, until: float) -> Follower:
    me = Follower(chain)
    while clock.now() < until:
        try:
            with http.stream("GET", STREAM, params=me.ask) as opened:
                me.opened()
                for piece in opened.iter_raw():
                    if me.take(piece) and clock.now() >= until:
                        break
        except httpx.TransportError:
            pass
        clock.sleep(me.pause())
    for _ in range(5):
        while me.answer(http.get(HISTORY, params={k: v for k, v in me.page.items() if v})):
            pass
        clock.sleep(3)
    return me


def pieces(opened: httpx.Response) -> AsyncGenerator[bytes, None]:
    """The body as it comes. trio wants every generator closed, and `aiter_raw` would leave one of its own behind."""
    assert isinstance(opened.stream, httpx.AsyncByteStream)
    found = aiter(opened.stream)
    assert isinstance(found, AsyncGenerator)
    return found


async def follow_async(http: httpx.AsyncClient, clock: NotingClock, chain: int, until: float) -> Follower:
    me = Follower(chain)
    while clock.now() < until:
        try:
            async with http.stream("GET", STREAM, params=me.ask) as opened, aclosing(pieces(opened)) as came:
                me.opened()
                async for piece in came:
                    if me.take(piece) and clock.now() >= until:
                        break
        except httpx.TransportError:
            pass
        await clock.sleep_async(me.pause())
    for _ in range(5):
        while me.answer(await http.get(HISTORY, params={k: v for k, v in me.page.items() if v})):
            pass
        await clock.sleep_async(3)
    return me


def openings(mock: MockService, chain: int) -> list[JournalEntry]:
    return [each for each in mock.journal() if each.path == STREAM and each.query["chain"] == str(chain)]


def check(mock: MockService, chain: int, emitted: list[str], me: Follower, real: float) -> None:
    """Nothing is missing, by whichever way it came, and the story is the one that was told."""
    assert me.seen == set(emitted)
    opened = openings(mock, chain)
    assert {kind for each in opened for kind in each.faults} >= {"drop", "half_event", "silence", "status"}
    refused = [each for each in opened if each.status == 503]
    assert 3 < len(refused) < 20
    assert all(START + 300 <= each.at < START + 600 for each in refused)
    assert not any(START + 300 <= each.at < START + 600 for each in opened if each.status == 200)
    for each in opened:
        assert sum(each.at <= other.at < each.at + 300 for other in opened) <= 20
    end = START + MINUTES * 60
    assert end <= mock.clock.now() < end + 200
    assert real < MINUTES * 60 / 20


def test_a_blocking_client_comes_back(mock: MockService, clock: NotingClock) -> None:
    emitted, real, mono = publish(mock), time.monotonic(), clock.monotonic()
    with httpx.Client(transport=mock.transport(), base_url=mock.url, headers=HEADERS, timeout=QUIET) as http:
        me = follow(http, clock, 8453, START + MINUTES * 60)
    check(mock, 8453, emitted[8453], me, time.monotonic() - real)
    assert clock.monotonic() - mono == pytest.approx(clock.now() - START)
    assert {2.0, 4.0, 8.0, 60.0} <= set(clock.waits)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_two_tasks_come_back_on_the_same_clock(mock: MockService, clock: NotingClock) -> None:
    """Each waits for itself, and their waits don't add up."""
    emitted, real = publish(mock), time.monotonic()
    found: dict[int, Follower] = {}

    async def run(http: httpx.AsyncClient, chain: int) -> None:
        found[chain] = await follow_async(http, clock, chain, START + MINUTES * 60)

    async with (
        httpx.AsyncClient(transport=mock.transport(), base_url=mock.url, headers=HEADERS, timeout=QUIET) as http,
        anyio.create_task_group() as tasks,
    ):
        for chain in CHAINS:
            tasks.start_soon(run, http, chain)
    for chain in CHAINS:
        check(mock, chain, emitted[chain], found[chain], time.monotonic() - real)
    assert sum(clock.waits) > MINUTES * 60 * 0.5
