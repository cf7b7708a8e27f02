"""A buyer is killed at every step, in the ledger and on the wire; the next one pays nothing twice and loses nothing.

All courses of that, with all that a service may say, are walked in `tests/unit/test_every_course.py`. Here processes
die, and files and claims are what they leave.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tradesdk import Budget, Ledger, LocalSigner, MarketClient
from tradesdk_mock import MockServer

from .._seeds import EVERY_STEP

pytestmark = [pytest.mark.long, pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")]
ROOT = Path(__file__).parents[2]
PRICE = 30_000
KEYS = 1 << 100

# For each step of a purchase, a child is killed right before it or right after it, and a second child goes on.
DRIVER = """
import json, signal, sys
import httpx
from tests._eventful import EventfulLedger
from tests._killing import child, die
from tradesdk import Budget, LocalSigner, MarketClient, PaymentError, RetryPolicy

url, folder, name, keys, turn = sys.argv[1:]
name, turn, ways = name or None, int(turn), ("call", "resume", "reconcile")

class Wire(httpx.HTTPTransport):
    # A payment's way over the network is a step like those of the ledger; the answer to the first one is lost.
    def __init__(self, ledger):
        super().__init__()
        self.ledger, self.paid = ledger, 0

    def handle_request(self, request):
        if "payment-signature" not in request.headers:
            return super().handle_request(request)
        self.paid += 1
        answer = self.ledger._step("send", self.sent, request)
        if self.paid == 1 and name is None:
            raise httpx.ReadError("lost", request=request)
        return answer

    def sent(self, request):
        answer = super().handle_request(request)
        answer.read()
        return answer

def bought(number, way, at=0, after=False):
    def buy(tell):
        ledger = EventfulLedger(f"{folder}/{number}", sync=False)
        ledger.at, ledger.after, ledger.event = at, after, die
        outcome = used(ledger, number, way)
        tell(json.dumps({"outcome": outcome, "steps": ledger.calls}).encode())

    told, status = child(buy)
    return (json.loads(told) if told else None), status

def used(ledger, number, way):
    signer, quickly = LocalSigner.from_key(f"0x{int(keys) + number:064x}"), RetryPolicy(base=0, jitter=0)
    with httpx.Client(transport=Wire(ledger)) as http, ledger:
        client = MarketClient(
            base_url=url, signer=signer, budget=Budget(total="0.09"), ledger=ledger, retry=quickly, http_client=http
        )
        try:
            if way == "call":
                return "kept" if client.token_prices(["ETH"], purchase=name).again else "delivered"
            if way == "reconcile":
                return "delivered" if client.payments.reconcile().delivered else "nothing"
            for payment in client.payments.list(limit=1):
                client.payments.resume(payment.id)
                return "delivered"
            return "nothing"
        except PaymentError as error:
            return error.code

used(EventfulLedger.memory(), 10**6, "call")  # so that the children need not import everything
told, status = bought(0, "call")
assert (told["outcome"], status) == ("delivered" if name else "paid_undelivered", 0), told
cases, number = [], 0
for at, step in enumerate(told["steps"], 1):
    for after in (False, True):
        for way in ways if turn < 0 else [ways[(2 * at + after + turn) % len(ways)]]:
            number += 1
            _, status = bought(number, "call", at, after)
            assert status == signal.SIGKILL, (step, after, status)
            with EventfulLedger(f"{folder}/{number}", sync=False) as ledger:  # the dead one's, from outside
                left = [payment.stage.value for payment in ledger.history()]
            told, status = bought(number, way)
            assert status == 0
            cases.append([number, step, after, way, left, told["outcome"]])
print(json.dumps(cases))
"""


@pytest.fixture
def server() -> Iterator[MockServer]:
    """One for each case, as its clock is moved at the end, and the children pay by the machine's."""
    with MockServer(seed=5) as running:
        yield running


@pytest.mark.parametrize("name", [None, "today"])
def test_killed_at_any_step(tmp_path: Path, server: MockServer, name: str | None) -> None:
    """One way to go on after each: others with another seed; scripts/soak plays all."""
    turn = -1 if EVERY_STEP else int(os.environ.get("TRADE_SEED") or 0)
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", DRIVER, server.market_url, tmp_path, name or "", str(KEYS), str(turn)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    cases = json.loads(process.stdout)
    assert {"submit", "send", "record"} <= {case[1] for case in cases}
    for number, step, after, way, left, outcome in cases:
        told = f"killed {'after' if after else 'before'} {step}, which left {left}; then {way}: {outcome}"
        settled = len(server.payments.settlements(payer_of(number)))
        # What was written down is kept for the next call, until the dead one could have had it.
        anew = (left, way, step, after, name) == (["answered"], "call", "record", True, None)
        # What had never left may be signed again; then nothing of the first one ever arrived.
        assert server.payments.signatures(payer_of(number)) <= 1 + anew, told
        assert settled <= 1 + anew, told
        assert outcome not in ("crashed", "in_progress", "over_budget"), told
        if way == "call":
            assert settled == 1 + anew, told
            usual = ("kept",) if left == ["answered"] and not anew else ("delivered", "paid_undelivered")
            assert outcome in (("unresolved_payment",) if left == ["taken"] else usual), told
    check_ledgers(tmp_path, server, [case[0] for case in cases])


def payer_of(number: int) -> str:
    return LocalSigner.from_key(f"0x{KEYS + number:064x}").address


def check_ledgers(folder: Path, server: MockServer, numbers: list[int]) -> None:
    """Each agrees with the mock to the unit, once everything has expired and a person has looked at the wallet."""
    settled = {settlement.nonce for settlement in server.payments.settlements()}
    server.clock.advance(3000)
    for number in numbers:
        spent = server.payments.spent(payer_of(number))
        with (
            Ledger(folder / f"{number}", sync=False) as ledger,
            MarketClient(
                base_url=server.market_url, ledger=ledger, budget=Budget(total="0.09"), clock=server.clock
            ) as client,
        ):
            assert client.payments.spending().total.counted >= spent, "it knows of less than was taken"
            found = client.payments.reconcile()
            assert found.live == ()
            for payment in found.unresolved:
                client.payments.mark(payment.id, paid=payment.nonce in settled)
            assert client.payments.spending().total.counted == spent <= 2 * PRICE
