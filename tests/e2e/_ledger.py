"""Scripts about the ledger, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HEAD = """
import json, os, random, signal, sys, threading
from tests.unit._ledger import (
    ADDRESS, HEADER, NOW, PLENTY, claim, draft, resubmit, standing, submitted, told, trusted
)
from tradesdk import Budget, Ledger, LedgerError, PaymentRefusedError, PaymentStage
from tradesdk.payments import ReasonCode
from tradesdk.payments.buyer import owner_name


path = sys.argv[1]

def sums_agree(ledger):
    ledger.check()
    counts = [payment for payment in ledger.history(limit=10**6) if payment.counted and payment.paid is not False]
    spending = ledger.spending(PLENTY, now=NOW)
    assert spending.total.counted == sum(payment.counted for payment in counts), spending
    assert spending.held == sum(payment.counted for payment in counts if not payment.paid), spending
    return counts
"""
LOOK = """
with Ledger(path) as ledger:
    print(json.dumps(len(sums_agree(ledger))))
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", HEAD + script, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> Any:
    out, errors = process.communicate(timeout=540)
    assert (process.returncode, errors) == (0, "")
    return json.loads(out)
