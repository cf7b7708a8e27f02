"""An hour of a live stream at 10 signals a second: what is lost or doubled, the delay, and the memory it takes.

The service is a small one of its own in another process: the mock keeps every signal, and would be what grows. It cuts
the stream every ten minutes. The last line is the verdict; a run under three minutes says nothing about memory.
"""

import argparse
import asyncio
import gc
import json
import os
import resource
import subprocess
import sys
import time
import tracemalloc
from array import array
from collections import deque
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

MIB = 1 << 20
KEPT = 60  # seconds that the history reaches back
SHORTEST = 180  # seconds after which memory can be judged
ROOM = 8 * MIB  # that memory may grow by without being called growing: the allocator's own ups and downs


class Service:
    """Publishes `rate` signals a second, and remembers those of the last minute."""

    def __init__(self, rate: int, cut_every: float) -> None:
        self.kept: deque[tuple[int, int, bytes]] = deque(maxlen=rate * KEPT)
        self.listeners: set[asyncio.StreamWriter] = set()
        self.rate = rate
        self.cut_every = cut_every

    async def run(self) -> None:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        start, number = time.monotonic(), 0
        cut_at = start + self.cut_every
        while True:
            await asyncio.sleep(0.001)
            now = time.monotonic()
            while number < (now - start) * self.rate:
                number += 1
                self.publish(number)
            if now >= cut_at:
                cut_at += self.cut_every
                for listener in self.listeners:
                    listener.transport.abort()
                self.listeners.clear()

    def publish(self, number: int) -> None:
        now = time.time()
        fields = {"id": f"sig_{number}", "token_address": "0x" + "ab" * 20, "token_symbol": "BRETT", "chain_id": 8453}
        fields |= {"direction": "BUY", "confidence": 0.9, "price_usd": now, "timestamp": int(now)}
        self.kept.append((number, int(now), json.dumps(fields).encode()))
        event = b"data: %s\n\n" % json.dumps({"type": "signal", **fields}).encode()
        for listener in self.listeners:
            listener.write(b"%x\r\n%s\r\n" % (len(event), event))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                target = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1].decode()
                parts = urlsplit(target)
                date = b"date: %s\r\n" % formatdate(usegmt=True).encode()
                if parts.path.endswith("/stream"):
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n" + date)
                    writer.write(b"transfer-encoding: chunked\r\n\r\n")
                    self.listeners.add(writer)
                else:
                    body = self.history({name: int(values[0]) for name, values in parse_qs(parts.query).items()})
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + date)
                    writer.write(b"content-length: %d\r\n\r\n%s" % (len(body), body))
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self.listeners.discard(writer)
            writer.close()

    def history(self, query: dict[str, int]) -> bytes:
        first, last = query.get("from", 0), query.get("to", sys.maxsize)
        newest = self.kept[-1][0] if self.kept else 0
        below = query.get("cursor", newest + 1)  # a cursor is the number of the oldest one that was sent
        place = len(self.kept) - 1 - (newest - (below - 1))
        found: list[tuple[int, bytes]] = []
        more = False
        while place >= 0 and self.kept[place][1] >= first:
            number, moment, data = self.kept[place]
            place -= 1
            if moment > last:
                continue
            if len(found) == query.get("limit", 20):
                more = True
                break
            found.append((number, data))
        cursor = b',"next_cursor":"%d"' % found[-1][0] if more else b""
        return b'{"data":[%s]%s}' % (b",".join(data for _, data in found), cursor)


class Minute:
    """What is told of a minute. Every signal of the run has a place in `seen`, which is there from the beginning."""

    def __init__(self, seconds: float, rate: int, *, traced: bool) -> None:
        self.began = time.monotonic()
        self.ends = self.began + seconds
        self.traced = traced
        self.every = min(60.0, seconds / 4)
        self.next = self.began + self.every
        self.delays = array("d")
        self.seen = bytearray(b"\1") * (int(seconds + 600) * rate)
        self.all = self.first = self.last = self.twice = self.disordered = 0
        self.sizes: list[float] = []

    def take(self, signal: Any) -> bool:
        """A signal has come. Whether to continue."""
        number = int(signal.id.removeprefix("sig_"))
        self.all += 1
        self.twice += self.seen[number] == 2
        self.seen[number] = 2
        if not self.first:
            self.first = self.last = number
        if not signal.late:
            self.disordered += number < self.last
        self.last = max(self.last, number)
        if not signal.replayed:
            self.delays.append(time.time() - signal.price_usd)
        return bool(self.all % 100) or time.monotonic() < self.ends

    @property
    def lost(self) -> int:
        return self.seen.count(1, self.first, self.last)

    def due(self) -> bool:
        return self.all % 100 == 0 and time.monotonic() >= self.next

    def tell(self, stats: Any) -> None:
        self.next += self.every
        delays = sorted(self.delays)
        del self.delays[:]
        p50, p99, most = (1000 * delays[round(part * (len(delays) - 1))] if delays else 0.0 for part in (0.5, 0.99, 1))
        del delays
        gc.collect()
        size = resident()
        self.sizes.append(size)
        traced = f"  traced {tracemalloc.get_traced_memory()[0] / MIB:6.1f} MiB" if self.traced else ""
        print(
            f"{(time.monotonic() - self.began) / 60:6.1f} min  {self.all:>9,} signals"
            f"  p50 {p50:7.2f} ms  p99 {p99:7.2f} ms"
            f" max {most:8.1f} ms  memory {size / MIB:6.1f} MiB{traced}  connects {stats.connects}"
            f"  replayed {stats.replayed:,}  late {stats.late}  gaps {stats.gaps}  lost {self.lost}  twice {self.twice}"
            f"  disordered {self.disordered}",
            flush=True,
        )

    def verdict(self, stats: Any) -> int:
        seconds = time.monotonic() - self.began
        half = len(self.sizes) // 2
        growth = max(self.sizes[half:], default=0) - max(self.sizes[:half], default=0)
        wrong = [
            f"{count} {what}"
            for count, what in (
                (self.lost, "lost"),
                (self.twice, "twice"),
                (self.disordered, "disordered"),
                (stats.gaps, "gaps"),
            )
            if count
        ]
        if seconds >= SHORTEST and growth > ROOM:
            wrong.append(f"memory grew by {growth / MIB:.1f} MiB")
        memory = f"{growth / MIB:+.1f} MiB in the second half" if seconds >= SHORTEST else "too short to judge memory"
        print(f"{'WRONG: ' + ', '.join(wrong) if wrong else 'good'}: {self.all:,} signals in {seconds:.0f} s, {memory}")
        return 1 if wrong else 0


def resident() -> float:
    """Bytes of memory that this process has; where the system doesn't tell, the most it ever had."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * float(os.sysconf("SC_PAGE_SIZE"))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)


def follow(url: str, minute: Minute) -> int:
    from tradesdk import TradeClient

    with TradeClient(api_key="hour", base_url=url) as client, client.signals.stream(chain=8453) as stream:
        for signal in stream:
            if not minute.take(signal):
                break
            if minute.due():
                minute.tell(stream.stats)
    minute.tell(stream.stats)
    return minute.verdict(stream.stats)


async def follow_async(url: str, minute: Minute) -> int:
    from tradesdk import AsyncTradeClient

    async with AsyncTradeClient(api_key="hour", base_url=url) as client, client.signals.stream(chain=8453) as stream:
        async for signal in stream:
            if not minute.take(signal):
                break
            if minute.due():
                minute.tell(stream.stats)
    minute.tell(stream.stats)
    return minute.verdict(stream.stats)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600, help="how long (default 3600)")
    parser.add_argument("--rate", type=int, default=10, help="signals a second (default 10)")
    parser.add_argument("--cut-every", type=float, default=600, help="seconds from cut to cut (default 600)")
    parser.add_argument("--async", action="store_true", dest="awaited", help="the async client instead of the blocking")
    parser.add_argument(
        "--trace", action="store_true", help="count what Python allocates too, which is slow: with --rate 5"
    )
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        asyncio.run(Service(chosen.rate, chosen.cut_every).run())
        return 0
    command = [sys.executable, __file__, "--serve", "--rate", str(chosen.rate), "--cut-every", str(chosen.cut_every)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        try:
            assert service.stdout is not None  # noqa: S101 - it was asked for
            url = f"http://127.0.0.1:{int(service.stdout.readline())}"
            if chosen.trace:
                tracemalloc.start()
            minute = Minute(chosen.seconds, chosen.rate, traced=chosen.trace)
            return asyncio.run(follow_async(url, minute)) if chosen.awaited else follow(url, minute)
        finally:
            service.kill()


if __name__ == "__main__":
    sys.exit(main())
