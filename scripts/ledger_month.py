"""Months of the mock's market, judged at random moments: what was traded, and whether its ledger balances."""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.mock import test_ledger as judge

from tradesdk_mock.market.scenarios import SCENARIOS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="how many, from the first one on (5)")
    parser.add_argument("--first", type=int, default=1, help="the first one (1)")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), help="one for all; by default each seed has another")
    parser.add_argument(
        "--busy", type=int, default=judge.BUSY, help=f"how many agents of the background tenant trade ({judge.BUSY})"
    )
    parser.add_argument("--moments", type=int, default=2, help="at which each month is judged (2)")
    asked = parser.parse_args()
    if asked.moments < 1:
        parser.error("--moments takes 1 or more")
    judge.BUSY = asked.busy
    names = sorted(SCENARIOS)
    print("seed  scenario  trades  open  played  signals  taken     profit  win rate  seconds  wrong")
    bad = 0
    for seed in range(asked.first, asked.first + asked.seeds):
        each = judge.month(seed, asked.scenario or names[seed % len(names)], asked.moments)
        print(
            f"{each.seed:4}  {each.scenario:8}  {each.trades:6}  {each.open:4}  {each.played:6}  {each.signals:7}"
            f"  {each.taken:5}  {each.profit:9.0f}  {each.win_rate:7.1f}%  {each.seconds:7.1f}  {len(each.wrong):5}",
            flush=True,
        )
        for line in each.wrong[:5]:
            print(f"      {line}")
        bad += len(each.wrong)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
