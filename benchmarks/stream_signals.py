"""A live stream from bytes to typed signals, without a network: the SDK beside httpx-sse with pydantic, and openai.

Ours is the public call with all that it promises: nothing twice, nothing lost, positions, a watchdog. The others parse.
Each measurement is a process of its own, which prints what a signal took after some that don't count.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import httpx
from _measure import Bar, Probe, finish, installed, measure, report

READ = 64 * 1024
EVENTS = 10_000
WARM_UP = 500
ROUNDS = 25
GROWTH = (5_000, 50_000, 500_000)
KEPT = (5_000, 50_000)  # signals with a checkpoint
GROWTH_ROUNDS = 5
BEGIN = 1_800_000_000
A_SECOND = 100  # signals
URL = "http://127.0.0.1:1"
PATH = "/v1/signals/stream"
BULK, ONE = "reads of 64 KiB", "one event a chunk"


def event(number: int) -> bytes:
    fields = {
        "type": "signal",
        "id": f"sig_{number:024x}",
        "token_address": f"0x{number % 600:040x}",
        "token_symbol": "BRETT",
        "chain_id": 8453,
        "direction": "BUY",
        "confidence": 0.8731,
        "price_usd": 0.0872847,
        "timestamp": BEGIN + number // A_SECOND,
    }
    return b"data: " + json.dumps(fields, separators=(",", ":")).encode() + b"\n\n"


def chunks_of(way: str, count: int) -> list[bytes]:
    """The warm-up in one chunk, then `count` events."""
    events = [event(number) for number in range(WARM_UP + count)]
    warm_up = b"".join(events[:WARM_UP])
    if way == ONE:
        return [warm_up, *events[WARM_UP:]]
    stream = b"".join(events[WARM_UP:])
    return [warm_up, *(stream[start : start + READ] for start in range(0, len(stream), READ))]


class Chunks(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that is there already."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        yield from self._chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


class Service(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Has no history, and streams the chunks. No signal is ahead of its clock."""

    def __init__(self, chunks: Sequence[bytes], count: int) -> None:
        self._chunks = chunks
        now = datetime.fromtimestamp(BEGIN + (WARM_UP + count) // A_SECOND + 1, UTC)
        self._date = {"Date": format_datetime(now, usegmt=True)}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path != PATH:
            return httpx.Response(200, headers=self._date, json={"data": [], "next_cursor": None})
        headers = self._date | {"Content-Type": "text/event-stream"}
        return httpx.Response(200, headers=headers, stream=Chunks(self._chunks))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return self.handle_request(request)


class Lap:
    """Takes signals, and the time from the last one of the warm-up to the last of all."""

    def __init__(self, count: int) -> None:
        self._last = WARM_UP + count
        self._count = count
        self._taken = 0
        self._began = 0.0, 0.0
        self.cpu = self.wall = 0.0

    def took(self, signal: Any) -> bool:
        """Whether that was the last."""
        self._taken += 1
        if self._taken == WARM_UP:
            self._began = time.process_time(), time.perf_counter()
        if self._taken < self._last:
            return False
        self.cpu = (time.process_time() - self._began[0]) / self._count
        self.wall = (time.perf_counter() - self._began[1]) / self._count
        assert signal.id == f"sig_{self._last - 1:024x}"
        return True


def ours(service: Service, lap: Lap) -> None:
    from tradesdk import TradeClient

    with (
        httpx.Client(transport=service) as http,
        TradeClient(api_key="mock_full_me", base_url=URL, http_client=http) as client,
        client.signals.stream(chain=8453, since=BEGIN, settle=0) as stream,
    ):
        for signal in stream:
            if lap.took(signal):
                break
        assert stream.stats.signals - stream.stats.replayed - stream.stats.late >= EVENTS // 2


def ours_kept(service: Service, lap: Lap) -> None:
    """With a checkpoint, in which each signal is acknowledged."""
    from tradesdk import TradeClient

    with (
        tempfile.TemporaryDirectory() as folder,
        httpx.Client(transport=service) as http,
        TradeClient(api_key="mock_full_me", base_url=URL, http_client=http) as client,
        client.signals.stream(chain=8453, since=BEGIN, settle=0, checkpoint=f"{folder}/checkpoint.json") as stream,
    ):
        for signal in stream:
            if lap.took(signal):
                break


def ours_async(service: Service, lap: Lap) -> None:
    from tradesdk import AsyncTradeClient

    async def follow() -> None:
        async with (
            httpx.AsyncClient(transport=service) as http,
            AsyncTradeClient(api_key="mock_full_me", base_url=URL, http_client=http) as client,
            client.signals.stream(chain=8453, since=BEGIN, settle=0) as stream,
        ):
            async for signal in stream:
                if lap.took(signal):
                    break

    asyncio.run(follow())


def theirs(service: Service, lap: Lap) -> None:
    from httpx_sse import connect_sse

    from tradesdk import StreamSignal

    with httpx.Client(transport=service) as http, connect_sse(http, "GET", URL + PATH) as source:
        for each in source.iter_sse():
            if lap.took(StreamSignal.model_validate(json.loads(each.data))):
                break


def theirs_async(service: Service, lap: Lap) -> None:
    from httpx_sse import aconnect_sse

    from tradesdk import StreamSignal

    async def follow() -> None:
        async with httpx.AsyncClient(transport=service) as http, aconnect_sse(http, "GET", URL + PATH) as source:
            async for each in source.aiter_sse():
                if lap.took(StreamSignal.model_validate(json.loads(each.data))):
                    break

    asyncio.run(follow())


def openai(service: Service, lap: Lap) -> None:
    from openai import BaseModel, OpenAI, Stream

    class TheirSignal(BaseModel):
        type: str
        id: str
        token_address: str
        token_symbol: str
        chain_id: int
        direction: str
        confidence: float
        price_usd: float
        timestamp: int

    with httpx.Client(transport=service) as http, OpenAI(api_key="k", base_url=URL, http_client=http) as client:
        for signal in client.get(PATH, cast_to=TheirSignal, stream=True, stream_cls=Stream[TheirSignal]):
            if lap.took(signal):
                break


KEEPING = "tradesdk, with a checkpoint"
SUBJECTS: dict[str, Callable[[Service, Lap], None]] = {
    "tradesdk": ours,
    "httpx-sse": theirs,
    "openai": openai,
    "tradesdk, async": ours_async,
    "httpx-sse, async": theirs_async,
    KEEPING: ours_kept,
}


def one_process(subject: str, way: str, count: int) -> None:
    """What a process of its own does: one stream, and what a signal of it took."""
    lap = Lap(count)
    SUBJECTS[subject](Service(chunks_of(way, count), count), lap)
    assert lap.wall > 0, "it ended early"
    print(lap.cpu, lap.wall)


def in_a_process(subject: str, way: str, count: int = EVENTS) -> Probe:
    def probe() -> tuple[float, float]:
        command = [sys.executable, __file__, subject, way, str(count)]
        cpu, wall = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        return float(cpu), float(wall)

    return probe


def main() -> bool:
    peers = ["httpx", "httpx-sse", "pydantic", *(name for name in ("openai",) if installed(name))]
    names = [name for name in SUBJECTS if name != KEEPING and (name != "openai" or name in peers)]
    probes = {f"{name}, {way}": in_a_process(name, way) for way in (BULK, ONE) for name in names}
    bars = [
        Bar(f"tradesdk{flavour}, {way}", f"httpx-sse{flavour}, {way}", most)
        for flavour, way, most in (("", BULK, 0.7), ("", ONE, 0.9), (", async", BULK, 0.7), (", async", ONE, 1.4))
    ]
    bars += [
        Bar(f"tradesdk, {way}", f"openai, {way}", most) for way, most in ((BULK, 0.1), (ONE, 0.25)) if "openai" in peers
    ]
    title = f"A signal of {len(event(0))} bytes, from bytes to a model; {EVENTS:,} in a fresh process"
    held = report(title, measure(probes, rounds=ROUNDS, warm_up=1), bars, unit="µs", peers=peers)

    sizes = {f"{count:,} signals": in_a_process("tradesdk", BULK, count) for count in GROWTH}
    small, *large = sizes
    title = f"A signal of tradesdk in streams of different length, {BULK}"
    figures = measure(sizes, rounds=GROWTH_ROUNDS, warm_up=1)
    held = report(title, figures, [Bar(name, small, 1.2) for name in large], unit="µs", peers=peers) and held

    sizes = {f"{count:,} signals": in_a_process(KEEPING, BULK, count) for count in KEPT}
    small, *large = sizes
    title = f"The same with a checkpoint, {A_SECOND} signals a second"
    figures = measure(sizes, rounds=GROWTH_ROUNDS, warm_up=1)
    return report(title, figures, [Bar(name, small, 1.2) for name in large], unit="µs", peers=peers) and held


if __name__ == "__main__":
    if len(sys.argv) > 1:
        one_process(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    else:
        finish(main())
