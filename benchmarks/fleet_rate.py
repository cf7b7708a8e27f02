"""What it takes to claim a request of a shared rate limit, beside the shortest script that the same server can run.

Starts a real Valkey server on loopback (a package of the test extra), and stops it.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from _measure import Bar, finish, in_process, measure, report

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests._redis_server import RedisServer

from tradesdk import SystemClock
from tradesdk.fleet import RedisRateLimiter

TIMES, ROUNDS = 50, 40
P50 = 0.3
"""Milliseconds by the wall that a claim may take."""
OURS, PEER = "tradesdk: claim", "redis-py: an empty script"

with tempfile.TemporaryDirectory() as folder, RedisServer("valkey", Path(folder), durable=False) as server:
    limiter, clock, plain = (
        RedisRateLimiter(server.url, api_key="key-of-this-benchmark"),
        SystemClock(),
        server.client(),
    )
    headers = {"x-ratelimit-limit": "300000", "x-ratelimit-remaining": "299999"}
    headers["x-ratelimit-reset"] = str(int(time.time()) + 60)
    limiter.answered(limiter.claim(clock), 200, headers, clock)
    empty = plain.register_script("return 1")
    calls: dict[str, Callable[[], object]] = {OURS: lambda: limiter.claim(clock), PEER: empty}
    figures = measure({name: in_process(call, times=TIMES) for name, call in calls.items()}, rounds=ROUNDS)
    held = report(f"A claim on loopback, {TIMES} a round", figures, [Bar(OURS, PEER, 2.0)], unit="µs", peers=["redis"])
    p50 = 1000 * median(figures[OURS].wall)
    print(f"\na claim by the wall, p50: {p50:.3f} ms; bar {P50} ms")
    assert limiter.claim(clock).wait == 0
    limiter.close()
    plain.close()
finish(held and p50 <= P50)
