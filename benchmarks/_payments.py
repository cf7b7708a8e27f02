"""Payments that the ledger's benchmarks write."""

import itertools
from collections import Counter
from dataclasses import replace

from tradesdk._values.payment import Payment, PaymentStage, Receipt, SignedHeader
from tradesdk.payments.budget import Budget
from tradesdk.payments.ledger.changes import Lookup, Record, Submit
from tradesdk.payments.ledger.rules import UNITS, unit_numbers
from tradesdk.payments.ledger.schema import to_row
from tradesdk.payments.ledger.store import Ledger
from tradesdk.payments.state_machine import DELIVERED, Report

NOW = 1_795_276_800.0
ORIGIN = "https://market.example"
HEADER = SignedHeader("A" * 1_200)
BUDGET = Budget(per_call="1", per_hour="1000000", per_day="10000000", total="1000000000")
RECEIPT = Receipt(
    success=True, transaction="0x" + "ab" * 32, network="eip155:8453", payer="0x" + "1a" * 20, raw={"success": True}
)

numbers = itertools.count()


def payment(created: float = NOW) -> Payment:
    number = next(numbers)
    return Payment(
        id=f"pay_{number:024x}",
        fingerprint=f"{number:064x}",
        url=f"{ORIGIN}/v1/token-prices",
        body=b'{"tokens":[{"identifier":"ETH"},{"identifier":"BRETT"}]}',
        payer="0x" + "1a" * 20,
        pay_to="0x" + "2b" * 20,
        amount=60_000,
        nonce=f"0x{number:064x}",
        valid_before=int(created) + 60,
        counts_until=int(created) + 60,
        created=created,
        updated=created,
    )


def signed(one: Payment, budget: Budget) -> Submit:
    return Submit(
        payment=one,
        header=HEADER,
        earlier=None,
        lookup=Lookup(now=NOW, budget=budget, fingerprint=one.fingerprint, over=NOW, signs=one.id),
        owner="me",
        until=NOW + 60,
    )


def written(ledger: Ledger) -> None:
    """One payment, from its signature to its end."""
    one = payment()
    row = ledger.submit(signed(one, BUDGET))
    report = Report(DELIVERED, "delivered", receipt=RECEIPT)
    done = ledger.update(one.id, Record(report=report, signatures=1, owner="me", now=NOW), row).payment
    assert done.stage is PaymentStage.ANSWERED


def past(size: int, apart: float) -> tuple[list[list[object]], list[tuple[str, int, int, int]]]:
    """So many that were delivered, the newest a moment ago: rows for `ADD`, and for `count` what they count."""
    paid = [
        replace(payment(NOW - apart * (size - number)), stage=PaymentStage.ANSWERED, paid=True, counted=60_000)
        for number in range(size)
    ]
    sums = Counter(at for one in paid for at in zip(UNITS, unit_numbers(one.counts_until), strict=True))
    return [[*to_row(one), None, 0.0] for one in paid], [(*at, 60_000 * times, 0) for at, times in sums.items()]
