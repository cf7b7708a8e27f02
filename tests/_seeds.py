"""Which random courses a long run plays.

The first seed is `TRADE_SEED`, which scripts/long draws: each run plays others. A variable of each test says how many,
and scripts/soak plays thousands. One course again: `TRADE_SEED=SEED TRADE_SCHEDULES=1 pytest -m long -k schedules`.
"""

import os


def drawn(variable: str, count: int, *, together: int) -> list[range]:
    """The seeds of each test: `count` in all, or as many as the variable says."""
    first = int(os.environ.get("TRADE_SEED") or 100)
    last = first + int(os.environ.get(variable) or count)
    return [range(seed, min(seed + together, last)) for seed in range(first, last, together)]
