"""Many live streams at once: each must get every signal once and in order. The server has a core of its own.

    mock_streams.py [--streams 1000] [--seconds 60]

A signal is published every second. The client is another process: it reads raw sockets, and parses only the ids.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import sys
import time
from collections import Counter
from statistics import quantiles

from _measure import verdict
from _mocks import KEY, Process, Subject, served

AT_ONCE = 50
SPARE_FILES = 100
GRACE = 20.0
ID = re.compile(rb'"id":"(sig_[0-9a-f]+)"')


class Stream(asyncio.Protocol):
    """One open stream: the ids that came, and when, on the clock that the server's follows."""

    def __init__(self, opened: asyncio.Future[None], wanted: int, complete: asyncio.Event) -> None:
        self.came: list[tuple[bytes, float]] = []
        self.ended = False
        self.complete = complete
        self._opened = opened
        self._wanted = wanted
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        now = time.time()
        data = self._rest + data
        if not self._opened.done():
            head, found, data = data.partition(b"\r\n\r\n")
            if not found:
                self._rest = head
                return
            assert head.startswith(b"HTTP/1.1 200 "), head
            self._opened.set_result(None)
        events, _, self._rest = data.rpartition(b"\n\n")
        self.came += [(found, now) for found in ID.findall(events)]
        if len(self.came) >= self._wanted:
            self.complete.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        self.complete.set()
        if not self._opened.done():
            self._opened.set_exception(exc or ConnectionResetError("closed before the head of the answer"))


async def open_streams(port: int, count: int, wanted: int) -> list[Stream]:
    loop = asyncio.get_running_loop()
    request = (
        f"GET /v1/signals/stream?chain=8453 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Accept: text/event-stream\r\nAuthorization: Bearer {KEY}\r\n\r\n"
    )

    async def one() -> Stream:
        opened = loop.create_future()
        transport, stream = await loop.create_connection(
            lambda: Stream(opened, wanted, asyncio.Event()), "127.0.0.1", port
        )
        transport.write(request.encode())
        await opened
        return stream

    streams: list[Stream] = []
    while len(streams) < count:
        streams += await asyncio.gather(*(one() for _ in range(min(AT_ONCE, count - len(streams)))))
    return streams


async def listen(server: Process, count: int, seconds: int) -> bool:
    """Open the streams, have the signals published, wait until each stream has them, and judge."""
    began = server.cpu(), time.perf_counter()
    streams = await open_streams(server.port, count, seconds)
    assert json.loads(server.ask("GET", "/_mock/status")[1])["streams"] == count
    each = (server.cpu() - began[0]) / count
    print(f"{count:,} streams opened in {time.perf_counter() - began[1]:.1f} s, {each * 1e6:.0f} µs of CPU each")

    start, published = time.time() + 2, dict[bytes, float]()
    for second in range(seconds):
        status, content = server.ask("POST", "/_mock/signals", {"chain_id": 8453, "at": start + second})
        assert status == 200, content
        signal = json.loads(content)
        published[signal["id"].encode()] = signal["published_at"]
    await asyncio.sleep(start - time.time())
    began = server.cpu(), time.perf_counter()
    with contextlib.suppress(TimeoutError):  # what is missing then is counted
        async with asyncio.timeout(seconds + GRACE):
            for stream in streams:
                await stream.complete.wait()
    cpu, wall = server.cpu() - began[0], time.perf_counter() - began[1]
    return judge(streams, published, cpu, wall)


def judge(streams: list[Stream], published: dict[bytes, float], cpu: float, wall: float) -> bool:
    lost = twice = foreign = disordered = 0
    for stream in streams:
        counts = Counter(ident for ident, _ in stream.came)
        lost += len(published.keys() - counts.keys())
        foreign += len(counts.keys() - published.keys())
        twice += sum(number - 1 for number in counts.values())
        # They are published, and so numbered, in the order in which they were asked for.
        disordered += [ident for ident, _ in stream.came] != [ident for ident in published if ident in counts]
    delays = [at - published[ident] for stream in streams for ident, at in stream.came if ident in published]
    expected = len(streams) * len(published)
    percent = quantiles(delays, n=100) if len(delays) > 1 else [float("inf")] * 99
    each = cpu / max(1, len(delays)) * 1e6
    print(f"{len(published)} signals on each in {wall:.1f} s: {len(delays):,} of {expected:,} arrived")
    print(f"the server's CPU: {cpu:.1f} s, {cpu / wall:.0%} of a core, {each:.0f} µs for a signal on a stream")
    print(f"delay from publication to arrival: p50 {percent[49] * 1e3:.0f} ms, p99 {percent[98] * 1e3:.0f} ms\n")
    checks = {
        f"{lost:,} lost": lost == 0,
        f"{twice:,} twice": twice == 0,
        f"{foreign:,} that nobody published": foreign == 0,
        f"{disordered:,} streams out of order": disordered == 0,
        f"{sum(stream.ended for stream in streams):,} streams ended": not any(stream.ended for stream in streams),
    }
    held = True
    for text, good in checks.items():
        held &= verdict(good, text)
    return held


def allow_files(count: int) -> None:
    """So many open files for this process and those that it starts."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        if hard != resource.RLIM_INFINITY and hard < count:
            sys.exit(f"{count:,} open files are needed and {hard:,} are allowed: see ulimit -Hn")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--streams", type=int, default=1_000, help="how many at once (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=60, help="and so many signals (default: %(default)s)")
    options = parser.parse_args()
    if not sys.platform.startswith("linux"):
        sys.exit("This needs Linux: it has a clock of the CPU time of another process.")
    allow_files(options.streams + SPARE_FILES)
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, set(cores[1:]))
    command = [sys.executable, "-m", "tradesdk_mock", "--port", "{port}", "--scripted"]
    with served(Subject(command, "/v1/account"), core=cores[0]) as server:
        held = asyncio.run(listen(server, options.streams, options.seconds))
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
