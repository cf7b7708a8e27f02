"""Which random schedules are played. `TRADE_SCHEDULES=100000 pytest -m long -k schedules` plays so many.

`TRADE_SEED` is the seed of the first one that only a long run plays; scripts/long draws it.
"""

import os

CHUNK = 100
QUICK = 100


def chunks(*, quick: bool) -> list[int]:
    """The first seed of each hundred."""
    first = 0 if quick else int(os.environ.get("TRADE_SEED", QUICK))
    count = QUICK if quick else max(CHUNK, int(os.environ.get("TRADE_SCHEDULES", "2000")))
    return list(range(first, first + count, CHUNK))
