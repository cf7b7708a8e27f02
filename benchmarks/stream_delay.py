"""How late a signal is when a bot gets it, at 1,000 a second over a real socket: the SDK beside httpx-sse and pydantic.

    stream_delay.py [--rate 1000] [--seconds 2] [--rounds 10]

The server is another process and writes each event on its own, with the time of writing as its price. Here that counts
which is subtracted from the time when the loop body runs. The clock is the one that all processes share.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from statistics import median, quantiles

import httpx
from _measure import finish, verdict
from httpx_sse import connect_sse

from tradesdk import StreamSignal, TradeClient

WARM_UP = 0.2  # of the events
FACTOR = 1.25  # times the peer's delay, and
ALLOWED = 1e-4  # seconds beside that, for what the scheduler does


# The server


async def serve(rate: int, seconds: float) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        date = f"HTTP/1.1 200 OK\r\nDate: {formatdate(usegmt=True)}\r\n"
        if b"/signals/stream" not in head.partition(b"\r\n")[0]:
            body = b'{"data":[],"next_cursor":null}'
            writer.write(f"{date}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n".encode())
            writer.write(b"Connection: close\r\n\r\n" + body)
        else:
            writer.write(f"{date}Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
            await writer.drain()
            await publish(writer, rate, round(rate * seconds))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


async def publish(writer: asyncio.StreamWriter, rate: int, count: int) -> None:
    await asyncio.sleep(0.2)
    began = time.monotonic()
    try:
        for number in range(count):
            early = began + number / rate - time.monotonic()
            if early > 0:
                await asyncio.sleep(early)
            fields = {
                "type": "signal",
                "id": f"sig_{number:024x}",
                "token_address": f"0x{number % 600:040x}",
                "token_symbol": "BRETT",
                "chain_id": 8453,
                "direction": "BUY",
                "confidence": 0.8731,
                "timestamp": int(time.time()),
                "price_usd": time.monotonic(),
            }
            event = b"data: " + json.dumps(fields).encode() + b"\n\n"
            writer.write(b"%x\r\n%b\r\n" % (len(event), event))
        await writer.drain()
    except ConnectionError:
        pass


# Both sides


def ours(url: str) -> Iterator[StreamSignal]:
    with TradeClient(api_key="mock_full_me", base_url=url) as client, client.signals.stream(chain=8453) as stream:
        yield from stream


def theirs(url: str) -> Iterator[StreamSignal]:
    with httpx.Client() as http, connect_sse(http, "GET", f"{url}/v1/signals/stream?chain=8453") as source:
        for event in source.iter_sse():
            yield StreamSignal.model_validate(json.loads(event.data))


def delays(signals: Iterator[StreamSignal], count: int) -> list[float]:
    """Of `count` signals, without the first ones."""
    late = []
    for number, signal in enumerate(signals, 1):
        late.append(time.monotonic() - signal.price_usd)
        assert signal.id == f"sig_{number - 1:024x}", "lost, twice or out of order"
        if number == count:
            break
    assert len(late) == count, f"{count - len(late)} never came"
    return late[int(count * WARM_UP) :]


def main() -> bool:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rate", type=int, default=1_000, help="signals a second (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each stream (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=10, help="streams of each side (default: %(default)s)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.rate, options.seconds))
        return True
    count = round(options.rate * options.seconds)
    sides: dict[str, Callable[[str], Iterator[StreamSignal]]] = {"tradesdk": ours, "httpx-sse": theirs}
    figures: dict[str, list[tuple[float, float, float]]] = {name: [] for name in sides}
    command = [sys.executable, __file__, "--serve", "--rate", str(options.rate), "--seconds", str(options.seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        for number in range(-1, options.rounds):
            for name in sorted(sides, reverse=bool(number % 2)):
                cpu = time.process_time()
                late = delays(sides[name](url), count)
                cpu = (time.process_time() - cpu) / count
                percent = quantiles(late, n=100)
                if number >= 0:
                    figures[name].append((percent[49], percent[98], cpu))
        server.stdin.close()
    print(f"{options.rate:,} signals a second over a socket, {options.rounds} streams of {count:,} each\n")
    print(f"{'':10}  {'p50 µs':>8}  {'p99 µs':>8}  {'CPU µs':>8}")
    middle = {name: [median(column) for column in zip(*rows, strict=True)] for name, rows in figures.items()}
    for name, row in middle.items():
        print(f"{name:10}  " + "  ".join(f"{value * 1e6:8.0f}" for value in row))
    print()
    held = True
    for what, place in (("p50", 0), ("p99", 1)):
        mine, peer = middle["tradesdk"][place], middle["httpx-sse"][place]
        good = mine <= peer * FACTOR + ALLOWED
        held &= verdict(good, f"{what}: {mine / peer:.2f} x httpx-sse  (bar {FACTOR:g} and 100 µs)")
    return held


if __name__ == "__main__":
    finish(main())
