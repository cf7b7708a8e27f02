"""Members of a fleet in a process of their own: they ask for the account as fast as they may, until the end.

`python -m tests.fleet._rate_member JSON` reads when that is, and prints how many requests were answered and refused,
and how many records of each event were logged.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections import Counter
from typing import Any

from tradesdk import RateLimitError, TradeClient
from tradesdk.fleet import RedisRateLimiter


class FastClock:
    """The mock's clock in this process: real time, so many times faster."""

    def __init__(self, shown: float, real: float, speed: float) -> None:
        self._shown, self._real, self.speed = shown, real, speed

    def now(self) -> float:
        return self._shown + (time.time() - self._real) * self.speed

    def monotonic(self) -> float:
        return self.now()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / self.speed)

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)


class Counts(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.events: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        self.events[vars(record)["event"]] += 1


def ask(settings: dict[str, Any], clock: FastClock, counts: Counter[str]) -> None:
    with (
        RedisRateLimiter(settings["redis"], clock=clock) as limiter,
        TradeClient(
            api_key=settings["key"],
            base_url=settings["mock"],
            clock=clock,
            rate_limiter=limiter,
            max_retries=0,
            timeout=30,
            deadline=10**6,
        ) as client,
    ):
        while clock.now() < settings["until"]:
            try:
                client.account.get()
                counts["answered"] += 1
            except RateLimitError:
                counts["refused"] += 1


def main() -> None:
    settings = json.loads(sys.argv[1])
    clock = FastClock(*settings["clock"])
    counts: Counter[str] = Counter()
    events = Counts()
    logging.getLogger("tradesdk").addHandler(events)
    logging.getLogger("tradesdk").setLevel(logging.INFO)
    threads = [threading.Thread(target=ask, args=(settings, clock, counts)) for _ in range(settings["members"])]
    print("started", flush=True)
    settings["until"] = float(sys.stdin.readline())
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(counts | events.events), flush=True)


if __name__ == "__main__":
    main()
