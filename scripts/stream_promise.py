"""What a live stream loses, doubles and reorders under faults drawn from seeds: the service's own count, as a table."""

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests._async._streamrun import AsyncStreamRun
from tests._streamservice_outages import KINDS as OUTAGES
from tests._streamservice_outages import Outage, during, most_within
from tests._streamservice_plan import KINDS, STALLS, Plan
from tests._sync._streamrun import StreamRun

COLUMNS = {
    "seed": 5,
    "flavour": 8,
    "signals": 8,
    "cuts": 5,
    "stalls": 7,
    "opened": 7,
    "history": 8,
    "refused": 8,
    "replayed": 9,
    "doubles": 8,
    "bad": 4,
    "lost": 5,
    "twice": 6,
    "order": 6,
    "late": 5,
    "gaps": 5,
    "virtual": 8,
    "CPU": 6,
}


def line(*cells: object) -> str:
    return " ".join(f"{cell!s:>{width}}" for cell, width in zip(cells, COLUMNS.values(), strict=True))


def row(seed: int, flavour: str, run: Any, seconds: float) -> dict[str, Any]:
    judge, service, plan = run.judge, run.service, run.plan
    kinds = Counter(fate.kind for fate in plan.fates)
    return {
        "seed": seed,
        "flavour": flavour,
        "signals": judge.taken,
        "cuts": sum(kinds[kind] for kind in KINDS) - service.unfinished,
        "stalls": sum(kinds[kind] for kind in STALLS),
        "opened": len(service.connects),
        "history": service.looks,
        "refused": sum(number < service.looks for number in plan.refusals),
        "replayed": judge.replayed,
        "doubles": run.stats.duplicates,
        "bad": len(service.invalid),
        "lost": len(judge.missing),
        "twice": judge.twice,
        "order": judge.misplaced,
        "late": judge.late,
        "gaps": len(judge.gaps),
        "virtual": f"{service.now / 3600:.1f} h",
        "CPU": f"{seconds:.1f} s",
    }


def play(run: Any, *, blocking: bool) -> tuple[str, float]:
    """What was wrong with it, if anything, and the seconds of CPU."""
    began = time.process_time()
    run.to_the_end = True
    try:
        if blocking:
            run.play()
        else:
            asyncio.run(run.play())
    except Exception as error:
        return str(error) or type(error).__name__, time.process_time() - began
    return "", time.process_time() - began


def plans(chosen: argparse.Namespace) -> int:
    wrong = 0
    if not chosen.json:
        print(line(*COLUMNS))
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        for flavour, make in (("blocking", StreamRun), ("async", AsyncStreamRun)):
            run = make(Plan.of(seed))
            problem, seconds = play(run, blocking=flavour == "blocking")
            cells = row(seed, flavour, run, seconds)
            print(json.dumps({**cells, "problem": problem}) if chosen.json else line(*cells.values()), flush=True)
            if problem:
                wrong += 1
                print(problem, file=sys.stderr)
    if not chosen.json:
        print(f"{2 * chosen.seeds} runs, {wrong} of them wrong")
    return wrong


def outages() -> int:
    wrong = 0
    print(f"{'two hours of':<41} {'tries':>6} {'most in 5 min':>14} {'signals':>8} {'lost':>5} {'gaps':>5}")
    for kind in OUTAGES:
        outage = Outage(kind)
        run = StreamRun(outage.plan(), hook=outage, gaps_allowed=True)
        problem, _ = play(run, blocking=True)
        tries, judge = run.service.tries, run.judge
        cells = f"{during(tries):>6} {most_within(tries):>14} {judge.taken:>8} {len(judge.missing):>5}"
        print(f"{kind:<41} {cells} {len(judge.gaps):>5}", flush=True)
        if problem or most_within(tries) > 20:
            wrong += 1
            print(problem, file=sys.stderr)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="how many plans, each in both flavours (default 3)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--outages", action="store_true", help="hours of outage instead")
    parser.add_argument("--json", action="store_true", help="the plans as JSON lines")
    chosen = parser.parse_args()
    return 1 if (outages() if chosen.outages else plans(chosen)) else 0


if __name__ == "__main__":
    sys.exit(main())
