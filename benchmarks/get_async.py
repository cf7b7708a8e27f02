"""Many typed GETs at once, async: ours beside httpx, httpx2 and openai over aiohttp, with 50 and with 200 tasks.

What counts is the CPU time of this process for one call. Ours sends a key, retries, reads the rate limit, and returns a
typed agent; httpx and httpx2 return a dict. Each client has as many connections as there are tasks.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
from _measure import Bar, Probe, finish, installed, measure, report

from tradesdk import AsyncTradeClient

ROUNDS = 15
CALLS = 1_000
AGENT = "agt_1cee9c02f91dee7667e2b87f"
KEY = "mock_full_me"

server = subprocess.Popen(
    [sys.executable, str(Path(__file__).with_name("_server.py"))], stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
assert server.stdin is not None
assert server.stdout is not None
url = f"http://127.0.0.1:{int(server.stdout.readline())}"
path = f"/v1/agents/{AGENT}"
headers = {"Authorization": f"Bearer {KEY}", "Accept": "application/json"}
runner = asyncio.Runner()


def tasks_at_once(tasks: int, call: Callable[[], Awaitable[object]]) -> Probe:
    """Times one call of `CALLS`, made by so many tasks."""

    async def work() -> None:
        for _ in range(CALLS // tasks):
            await call()

    async def everything() -> None:
        await asyncio.gather(*(work() for _ in range(tasks)))

    def probe() -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        runner.run(everything())
        return (time.process_time() - cpu) / CALLS, (time.perf_counter() - wall) / CALLS

    return probe


calls: dict[str, Probe] = {}
names: dict[str, Callable[[], Awaitable[object]]] = {}
client = AsyncTradeClient(api_key=KEY, base_url=url)
raw = httpx.AsyncClient(base_url=url, headers=headers, timeout=60)
opened: list[Any] = [client, raw]


async def of_httpx() -> object:
    return json.loads((await raw.get(path)).content)


names["tradesdk"] = lambda: client.agents.get(AGENT)
names["httpx"] = of_httpx
bars = [("httpx", 50, 0.4), ("httpx", 200, 0.2)]
peers = ["httpx"]
if installed("httpx2"):
    import httpx2

    raw2 = httpx2.AsyncClient(base_url=url, headers=headers, timeout=60)
    opened.append(raw2)

    async def of_httpx2() -> object:
        return json.loads((await raw2.get(path)).content)

    names["httpx2"] = of_httpx2
    peers.append("httpx2")
    bars.append(("httpx2", 50, 0.5))
if installed("openai") and installed("aiohttp"):
    from openai import AsyncOpenAI, DefaultAioHttpClient

    openai = AsyncOpenAI(api_key="k", base_url=f"{url}/v1", http_client=DefaultAioHttpClient())
    opened.append(openai)
    names["openai + aiohttp"] = lambda: openai.models.retrieve("m")
    peers += ["openai", "aiohttp"]
    bars += [("openai + aiohttp", 50, 0.5), ("openai + aiohttp", 200, 0.5)]

for tasks in (50, 200):
    for name, call in names.items():
        calls[f"{name}, {tasks} tasks"] = tasks_at_once(tasks, call)

held = report(
    f"A typed GET, async, {CALLS} calls a round",
    measure(calls, rounds=ROUNDS),
    [
        *(Bar(f"tradesdk, {tasks} tasks", f"{name}, {tasks} tasks", factor) for name, tasks, factor in bars),
        Bar("tradesdk, 200 tasks", "tradesdk, 50 tasks", 1.3),
    ],
    unit="µs",
    peers=peers,
)
for one in opened:
    runner.run(one.close() if hasattr(one, "close") else one.aclose())
runner.close()
server.stdin.close()
server.wait()
finish(held)
