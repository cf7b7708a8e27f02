"""All trades, page by page, as models: beside httpx with dicts, and beside fetching the pages when each takes 5 ms.

Then one walk of 1,000,000 trades, and what memory it takes. On Linux only, where a process can read that.
"""

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
from _measure import Bar, finish, in_process, measure, report, verdict

from tradesdk import TradeClient

PAGES = 100
"""For each measurement."""
TRADES = 1_000_000
MEMORY = 10.0  # MiB

server = subprocess.Popen(
    [sys.executable, str(Path(__file__).with_name("_server.py"))], stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
assert server.stdin is not None
assert server.stdout is not None
url = f"http://127.0.0.1:{int(server.stdout.readline())}"


def of_ours(base_url: str) -> tuple[TradeClient, Callable[[], None]]:
    client = TradeClient(api_key="mock_full_me", base_url=base_url)

    def walk() -> None:
        for _ in itertools.islice(client.trades.list(), 100 * PAGES):
            pass

    return client, walk


def of_httpx(base_url: str, cursor_of: Callable[[bytes], str]) -> tuple[httpx.Client, Callable[[], None]]:
    client = httpx.Client(base_url=base_url, headers={"Authorization": "Bearer mock_full_me"})

    def walk() -> None:
        cursor = None
        for _ in range(PAGES):
            params = {"limit": "100"} if cursor is None else {"limit": "100", "cursor": cursor}
            cursor = cursor_of(client.get("/v1/trades", params=params).content)

    return client, walk


def rows(content: bytes) -> str:
    page = json.loads(content)
    for _ in page["data"]:
        pass
    return str(page["next_cursor"])


def nothing_but_the_cursor(content: bytes) -> str:
    found = re.search(rb'"next_cursor":"([^"]*)"', content)
    assert found is not None
    return found[1].decode()


def memory() -> float:
    """MiB of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) / 256


client, walk = of_ours(url)
raw, dicts = of_httpx(url, rows)
slow_client, slow_walk = of_ours(f"{url}/slow")
slow_raw, slow_bytes = of_httpx(f"{url}/slow", nothing_but_the_cursor)

walk()
before = memory()
count = sum(1 for _ in client.trades.list())
grown = memory() - before
assert count == TRADES, count

fast = measure(
    {"tradesdk: 100 pages": in_process(walk, times=1), "httpx, json.loads: 100 pages": in_process(dicts, times=1)},
    rounds=25,
)
held = report(
    "Walking trades, 100 pages of 100",
    fast,
    [Bar("tradesdk: 100 pages", "httpx, json.loads: 100 pages", 1.05)],
    unit="ms",
    peers=["httpx", "pydantic"],
)
slow = measure(
    {"tradesdk: 100 pages": in_process(slow_walk, times=1), "httpx, bytes: 100 pages": in_process(slow_bytes, times=1)},
    rounds=8,
)
ratio = sum(slow["httpx, bytes: 100 pages"].wall) / sum(slow["tradesdk: 100 pages"].wall)
held &= verdict(ratio >= 0.9, f"pages of 5 ms: {ratio:.2f} of the pages a second of httpx  (bar 0.9)")
held &= verdict(grown < MEMORY, f"a walk of {count:,} trades: {grown:.1f} MiB more  (bar {MEMORY:g})")
for one in (client, raw, slow_client, slow_raw):
    one.close()
server.stdin.close()
server.wait()
finish(held)
