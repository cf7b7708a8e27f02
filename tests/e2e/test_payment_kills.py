"""A buyer is killed at every step, in the ledger and on the wire; the next one pays nothing twice and loses nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tradesdk import Budget, Ledger, MarketClient
from tradesdk_mock import MockServer

from .._seeds import EVERY_STEP

pytestmark = [pytest.mark.long, pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")]
ROOT = Path(__file__).parents[2]
PRICE = 30_000

# For each step of a purchase, a child is killed right before it or right after it, and a second child goes on.
DRIVER = """
import json, signal, sys
import httpx
from tests._clock import VirtualClock
from tests._eventful import EventfulLedger
from tests._killing import child, die
from tradesdk import Budget, LocalSigner, MarketClient, PaymentError, RetryPolicy, SystemClock

url, folder, kind, base, ways, turn = sys.argv[1:]
quickly = RetryPolicy(base=0, jitter=0)
name = "today" if kind in ("named", "ledger lost") else None

class Wire(httpx.HTTPTransport):
    # A payment's way over the network is a step like those of the ledger; `kind` is what happens to the first one.
    def __init__(self, ledger):
        super().__init__()
        self.ledger, self.paid = ledger, 0

    def handle_request(self, request):
        if "payment-signature" not in request.headers:
            return super().handle_request(request)
        self.paid += 1
        if kind == "429" and self.paid == 1:
            return httpx.Response(429)
        answer = self.ledger._step("send", self.sent, request)
        if kind == "lost" and self.paid == 1:
            raise httpx.ReadError("lost", request=request)
        return answer

    def sent(self, request):
        answer = super().handle_request(request)
        answer.read()
        return answer

def bought(number, way, at=0, after=False, place=""):
    def buy(tell):
        ledger = EventfulLedger(f"{folder}/{kind}-{number}{place}", sync=False)
        ledger.at, ledger.after, ledger.event = at, after, die
        outcome = used(ledger, number, way)
        tell(json.dumps({"outcome": outcome, "steps": ledger.calls}).encode())

    told, status = child(buy)
    return (json.loads(told) if told else None), status

class Lost(httpx.BaseTransport):
    # A service some minutes ago: it asked, and then the payment was lost on its way.
    def __init__(self):
        self.offer = httpx.post(f"{url}/v1/token-prices", json={"tokens": [{"identifier": "ETH"}]}, trust_env=False)

    def handle_request(self, request):
        if "payment-signature" in request.headers:
            raise httpx.ReadError("lost", request=request)
        header = "payment-required"
        return httpx.Response(402, json={}, headers={header: self.offer.headers[header]})

def lost_minutes_ago(number):
    clock = VirtualClock()
    clock.advance(SystemClock().now() - 300 - clock.now())
    with httpx.Client(transport=Lost()) as http, EventfulLedger(f"{folder}/{kind}-{number}", sync=False) as ledger:
        try:
            client_of(http, ledger, number, clock=clock, check_tokens=False).token_prices(["ETH"])
        except PaymentError as error:
            assert error.code == "outcome_unknown", error
        else:
            raise AssertionError("it was not lost")

def client_of(http, ledger, number, **more):
    return MarketClient(
        base_url=url,
        signer=LocalSigner.from_key(f"0x{int(base) + number:064x}"),
        budget=Budget(total="0.09"),
        ledger=ledger,
        retry=quickly,
        http_client=http,
        **more,
    )

def used(ledger, number, way):
    with httpx.Client(transport=Wire(ledger)) as http, ledger:
        client = client_of(http, ledger, number)
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

def seen(number):
    # By the dead one's ledger, from outside.
    with EventfulLedger(f"{folder}/{kind}-{number}", sync=False) as ledger:
        return [payment.stage.value for payment in ledger.history()]

used(EventfulLedger.memory(), 10**6, "call")  # so that the children need not import everything
if kind == "signed again":
    lost_minutes_ago(0)
told, status = bought(0, "call")
assert (told["outcome"], status) in (("delivered", 0), ("paid_undelivered", 0)), told
steps, cases, number = told["steps"], [], 0
ways, turn = ways.split(","), int(turn)
for at, step in enumerate(steps, 1):
    for after in (False, True):
        if turn < 0:
            some = ways
        elif len(ways) > 1:
            some = [ways[(2 * at + after + turn) % len(ways)]]
        else:  # right after one step is nearly right before the next, but not on the wire
            some = ways if step == "send" or (at + after + turn) % 2 else []
        for way in some:
            number += 1
            if kind == "signed again":
                lost_minutes_ago(number)
            _, status = bought(number, "call", at, after)
            assert status == signal.SIGKILL, (step, after, status)
            left = seen(number)
            told, status = bought(number, way, place="-new" if kind == "ledger lost" else "")
            assert status == 0
            cases.append([number, step, after, way, left, told["outcome"]])
print(json.dumps(cases))
"""


@pytest.fixture
def server() -> Iterator[MockServer]:
    """One for each case, as its clock is moved at the end, and the children pay by the machine's."""
    with MockServer(seed=5) as running:
        yield running


@pytest.mark.parametrize(
    ("kind", "ways"),
    [
        *((kind, "call") for kind in ("named", "ledger lost", "signed again")),
        *((kind, "call,resume,reconcile") for kind in ("clean", "429", "lost")),
    ],
)
def test_killed_at_any_step(tmp_path: Path, server: MockServer, kind: str, ways: str) -> None:
    """Before or after each step, and of several ways to go on one: others with another seed; scripts/soak plays all."""
    base = 1 << 100
    turn = -1 if EVERY_STEP else int(os.environ.get("TRADE_SEED") or 0)
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", DRIVER, server.market_url, tmp_path, kind, str(base), ways, str(turn)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    cases = json.loads(process.stdout)
    assert len(cases) >= 5
    assert {"submit", "send", "record"} <= {case[1] for case in cases}
    for number, step, after, way, left, outcome in cases:
        told = f"killed {'after' if after else 'before'} {step}, which left {left}; then {way}: {outcome}"
        payer = payer_of(base + number)
        settled = len(server.payments.settlements(payer))
        # What was written down is kept for the next call, until the dead one could have had it.
        named = kind in ("named", "ledger lost")
        anew = left == ["answered"] and way == "call" and (step, after) == ("record", True) and not named
        if kind == "ledger lost":
            # The name makes the same nonce again, which the chain takes once.
            assert settled == 1, told
            assert outcome in ("delivered", "taken_elsewhere"), told
            continue
        # What had never left may be signed again; then nothing of the first one ever arrived.
        assert server.payments.signatures(payer) <= 1 + anew, told
        assert settled <= 1 + anew, told
        assert outcome not in ("crashed", "in_progress", "over_budget"), told
        if kind == "signed again" and not anew:
            with Ledger(tmp_path / f"{kind}-{number}", sync=False) as ledger:
                assert [one.signatures for one in ledger.history()] == [2], told
        if way == "call":
            assert settled == 1 + anew, told
            known = left == ["taken"]
            kept = left == ["answered"] and not anew
            usual = ("kept",) if kept else ("delivered", "paid_undelivered")
            assert outcome in (("unresolved_payment",) if known else usual), told
    if kind == "ledger lost":
        return
    check_ledgers(tmp_path, server, kind, base, [case[0] for case in cases])


def payer_of(key: int) -> str:
    from tradesdk import LocalSigner

    return LocalSigner.from_key(f"0x{key:064x}").address


def check_ledgers(folder: Path, server: MockServer, kind: str, base: int, numbers: list[int]) -> None:
    """Each agrees with the mock to the unit, once everything has expired and a person has looked at the wallet."""
    settlements: dict[str, Any] = {settlement.nonce: settlement for settlement in server.payments.settlements()}
    server.clock.advance(3000)
    for number in numbers:
        payer = payer_of(base + number)
        spent = server.payments.spent(payer)
        with (
            Ledger(folder / f"{kind}-{number}", sync=False) as ledger,
            MarketClient(
                base_url=server.market_url, ledger=ledger, budget=Budget(total="0.09"), clock=server.clock
            ) as client,
        ):
            assert client.payments.spending().total.counted >= spent, "it knows of less than was taken"
            found = client.payments.reconcile()
            assert found.live == ()
            for payment in found.unresolved:
                client.payments.mark(payment.id, paid=payment.nonce in settlements)
            assert client.payments.spending().total.counted == spent <= 2 * PRICE
