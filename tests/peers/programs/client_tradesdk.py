"""Buy with our client, again and again, until standard input ends.

Each line of it is a JSON object: `url`, `key`, `buy`, a list of `[path, body]`, `ahead`, seconds by which the
computer's clock is wrong, and `ledger`, a file. The answer to it is one line of JSON too.

There is a clock for each key: what one purchase has waited is not the next one's time.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

from tradesdk import Budget, Ledger, LocalSigner, MarketClient, TradeError


class HurriedClock:
    """The computer's time, except that waiting is done at once.

    Args:
        offset: seconds that it is wrong by.
    """

    def __init__(self, offset: float = 0) -> None:
        self.offset = offset
        self._waited = 0.0

    def now(self) -> float:
        return time.time() + self.offset + self._waited

    def monotonic(self) -> float:
        return time.monotonic() + self._waited

    def sleep(self, seconds: float) -> None:
        self._waited += seconds

    async def sleep_async(self, seconds: float) -> None:
        self._waited += seconds


CLOCKS: dict[str, HurriedClock] = {}


def buy(asked: dict[str, Any], ledger: Ledger) -> list[dict[str, Any]]:
    clock = CLOCKS.setdefault(asked["key"], HurriedClock())
    clock.offset = asked["ahead"]
    bought: list[dict[str, Any]] = []
    with MarketClient(
        base_url=asked["url"],
        signer=LocalSigner.from_key(asked["key"]),
        budget=Budget(per_call="0.25", per_day="5.00"),
        ledger=ledger,
        clock=clock,
    ) as client:
        for path, body in asked["buy"]:
            try:
                client.request(path, json=body, purchase=asked.get("name"))
                bought.append({"status": 200})
            except TradeError as error:
                bought.append({"raised": type(error).__name__, "code": error.code})
            except KeyboardInterrupt as error:
                bought.append({"raised": type(error).__name__})
    return bought


def main() -> None:
    logging.disable()
    for line in sys.stdin:
        asked = json.loads(line)
        with Ledger(asked["ledger"]) as ledger:
            bought = buy(asked, ledger)
        print(json.dumps(bought), flush=True)


if __name__ == "__main__":
    main()
