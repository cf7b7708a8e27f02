"""How many plans of a stream are played: 20 in each flavour, or more with TRADE_STREAM_SEEDS (in fives).

`TRADE_STREAM_SEEDS=1000 pytest -m long -k stream_promise` plays a thousand. `TRADE_SEED` is the seed of the
first one that only a long run plays; scripts/long draws it.
"""

import os

BACKEND = "asyncio"  # what is decided is the same under trio, and one seed is ten thousand signals
CHUNK = 5
QUICK = 1


def quick() -> list[int]:
    """Each of them is a test of its own."""
    return list(range(QUICK))


def chunks() -> list[int]:
    """The first seed of each five."""
    count = max(20, int(os.environ.get("TRADE_STREAM_SEEDS", "20")))
    first = int(os.environ.get("TRADE_SEED", QUICK))
    return list(range(first, first + count, CHUNK))
