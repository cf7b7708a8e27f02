"""What can happen to a payment, and the result: signatures and settlements as the mock counts them."""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import json

from tests._clock import START
from tests._paidscenarios import SCENARIOS
from tests._sync._paidrun import Play

from tradesdk_mock import MockClock, MockServer

HEAD = (
    "scenario",
    "the caller gets",
    "charged",
    "ledger",
    "sent",
    "signed",
    "settled",
    "the same call again",
    "in all",
)
WIDTHS = (49, 27, 8, 17, 5, 7, 8, 20, 30)
MONEY = "ledger ${:.2f}, mock ${:.2f}"


def line(*cells: object) -> str:
    return " ".join(f"{cell!s:<{width}}" for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="everything, as JSON lines")
    chosen = parser.parse_args()
    wrong = 0
    if not chosen.json:
        print(line(*HEAD))
    with MockServer(seed=5, clock=MockClock(START)) as server:
        for scenario in SCENARIOS:
            came = Play(server, scenario).run()
            agrees = came.ledger == came.mock and came.signatures_after == came.operations
            wrong += not agrees
            if chosen.json:
                print(json.dumps({"scenario": scenario.name, **asdict(came)}))
                continue
            got = came.error or "the data"
            charged = {True: "yes", False: "no"}.get(came.charged, "unknown")
            cells = (got, charged, came.state, came.submissions, came.signatures, came.settled, came.again)
            print(line(scenario.name, *cells, MONEY.format(came.ledger / 1e6, came.mock / 1e6)))
    if not chosen.json:
        print(f"{len(SCENARIOS)} scenarios, {wrong} of them wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
