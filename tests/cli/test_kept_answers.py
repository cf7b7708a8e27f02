"""What was paid for is kept, so that it can be printed again when printing it fails."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tradesdk_mock import MockServer

from ._terminal import TRADE, Terminal


def test_answers_are_kept_and_the_same_command_buys_anew(buyer: Terminal, shop: MockServer) -> None:
    first, second = (buyer("market", "metrics", "--max-price", "0.06") for _ in range(2))
    shop.payments.assert_charged(times=2)
    kept = [buyer("pay", "resume", one["id"]) for one in buyer("pay", "history").lines]
    assert [one.json for one in reversed(kept)] == [first.json, second.json]
    shop.payments.assert_charged(times=2)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("line", ["prices ETH BRETT", "top --sort ROI --receipt", "prices ETH BRETT --batches"])
def test_what_was_paid_for_is_kept_when_it_cannot_be_printed(buyer: Terminal, shop: MockServer, line: str) -> None:
    """In a process of its own: Python flushes once more at the end, which must not change the exit code."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(  # the program under test
            [*TRADE, "market", *line.split(), "--max-price", "0.10"],
            env=buyer.environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    problem = json.loads(done.stderr.splitlines()[-1])
    assert problem["code"] == "system"
    assert "No space left on device" in problem["message"]
    (name,) = [one["id"] for one in buyer("pay", "history").lines]
    assert problem["hint"] == f"your answer is kept: trade pay resume {name}"
    del buyer.env["TRADE_WALLET_KEY"]
    again = buyer("pay", "resume", name, *(["--receipt"] if "--receipt" in line else []))
    assert again.code == 0, again.err
    assert len(again.out) > 100
    shop.payments.assert_charged(times=1)
