"""The relay of a fleet: from bytes of the service's stream to entries on the server, on one core.

The peer is what one would write by hand: httpx-sse, `json.loads`, and XADD in pipelines of 256. It keeps no position,
drops no doubles, and nobody takes over when it dies. The server is a real Valkey on loopback, which syncs nothing; its
CPU time counts too.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

import httpx
from _measure import Bar, Probe, finish, measure, report
from stream_signals import PATH, URL, Service, chunks_of

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests._redis_server import RedisServer

from tradesdk import TradeClient

EVENTS = 10_000
WARM_UP = 500
READ = 64 * 1024
AT_ONCE = 256
A_SECOND = 5_000
"""Signals a second that the relay has to write, on one core."""


class Lasting(Service):
    """Says nothing more after the chunks, and stays open."""

    def __init__(self, count: int) -> None:
        super().__init__(chunks_of("reads of 64 KiB", count), count)
        self.over = threading.Event()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        if request.url.path == PATH:
            return httpx.Response(200, headers=response.headers, stream=Open(self._chunks, self.over))
        return response


class Open(httpx.SyncByteStream):
    def __init__(self, chunks: Sequence[bytes], over: threading.Event) -> None:
        self._chunks = chunks
        self._over = over

    def __iter__(self) -> Iterator[bytes]:
        yield from self._chunks
        while not self._over.wait(0.05):
            yield b":\n"


def ours(server: RedisServer) -> None:
    service = Lasting(EVENTS)
    with (
        httpx.Client(transport=service) as http,
        TradeClient(api_key="mock_full_me", base_url=URL, http_client=http) as client,
        client.signals.relay(chain=8453, redis=server.url, settle=0, keep=2 * EVENTS) as relay,
    ):
        while relay.stats.published < WARM_UP + EVENTS:
            time.sleep(0.005)
        service.over.set()


def theirs(server: RedisServer) -> None:
    import redis
    from httpx_sse import connect_sse

    service = Service(chunks_of("reads of 64 KiB", EVENTS), EVENTS)
    with (
        redis.Redis(port=server.port) as to,
        httpx.Client(transport=service) as http,
        connect_sse(http, "GET", URL + PATH) as source,
    ):
        pipeline = to.pipeline(transaction=False)
        for each in source.iter_sse():
            signal = json.loads(each.data)
            pipeline.xadd("signals", {"payload": json.dumps(signal)}, maxlen=2 * EVENTS, approximate=False)
            if len(pipeline) >= AT_ONCE:
                pipeline.execute()
        pipeline.execute()


def probe(server: RedisServer, write: Callable[[RedisServer], None]) -> Probe:
    def run() -> tuple[float, float]:
        server.command("FLUSHALL")
        cpu, wall = time.process_time() + server_seconds(server), time.perf_counter()
        write(server)
        took = time.process_time() + server_seconds(server) - cpu
        return took / (WARM_UP + EVENTS), (time.perf_counter() - wall) / (WARM_UP + EVENTS)

    return run


def server_seconds(server: RedisServer) -> float:
    with server.client() as client:
        found = client.info("cpu")
    return float(found["used_cpu_sys"]) + float(found["used_cpu_user"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder, RedisServer("valkey", Path(folder), durable=False) as server:
        subjects = {"the relay": probe(server, ours), "by hand": probe(server, theirs)}
        figures = measure(subjects, rounds=rounds, warm_up=1)
    held = report(
        "a signal, from the service's bytes to the server",
        figures,
        [Bar("the relay", "by hand", 2)],
        unit="µs",
        peers=("httpx", "httpx-sse", "redis"),
    )
    rate = 1 / median(figures["the relay"].cpu)
    print(f"the relay and its server write {rate:,.0f} signals in a second of CPU (bar {A_SECOND:,})")
    finish(held and rate >= A_SECOND)


if __name__ == "__main__":
    main()
