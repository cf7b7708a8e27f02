"""Eight processes, one budget: exactly what it allows is settled, whatever is killed, paused or cut meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ._paying import play

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="SIGSTOP needs a system that has it")


@pytest.mark.long
def test_exactly_what_the_budget_allows(tmp_path: Path) -> None:
    """`scripts/fleet_money.py` plays more."""
    seed = int(os.environ.get("TRADE_SEED", "1"))
    outcome = play(tmp_path, seed, purchases=60, calls=20, engine=("redis", "valkey")[seed % 2])
    print(outcome)
    assert outcome.happened.total() > 0
