"""Which random courses a long run plays.

The first seed is `TRADE_SEED`, which scripts/long draws: each run plays others. A variable of each test says how many,
and scripts/soak plays thousands. One course again: `TRADE_SEED=SEED TRADE_SCHEDULES=1 pytest -m long -k schedules`.

Where a walk is long, a run takes a sample of its steps by the same seed, and with TRADE_EVERY_STEP all of them.
"""

import itertools
import os
import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

EVERY_STEP = "TRADE_EVERY_STEP" in os.environ
"""Whether nothing is left out, as in scripts/soak."""
_SEED = int(os.environ.get("TRADE_SEED") or 100)
T = TypeVar("T")


def drawn(variable: str, count: int, *, together: int) -> list[range]:
    """The seeds of each test: `count` in all, or as many as the variable says."""
    first = _SEED
    last = first + int(os.environ.get(variable) or count)
    return [range(seed, min(seed + together, last)) for seed in range(first, last, together)]


def one_of(choices: Sequence[T]) -> list[T]:
    """The one that the seed draws; all of them with TRADE_EVERY_STEP, and where no seed was named."""
    everything = EVERY_STEP or not os.environ.get("TRADE_SEED")
    return list(choices) if everything else [choices[_SEED % len(choices)]]


def one_of_each(width: int) -> Iterator[int]:
    """Numbers from 1 on without end: one of the first `width`, one of the next, and so on."""
    chance = random.Random(_SEED)
    for first in itertools.count(1, 1 if EVERY_STEP else width):
        yield first if EVERY_STEP else first + chance.randrange(width)
