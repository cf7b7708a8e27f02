"""How many random schedules are played. `TRADE_SCHEDULES=100000 pytest -m long -k schedules` plays so many."""

import os

CHUNK = 100
QUICK = 100


def chunks(*, quick: bool) -> list[int]:
    """The first seed of each hundred."""
    count = QUICK if quick else max(CHUNK, int(os.environ.get("TRADE_SCHEDULES", "2000")))
    return list(range(0, count, CHUNK)) if quick else list(range(QUICK, QUICK + count, CHUNK))
