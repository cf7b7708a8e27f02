"""Payments for the checks of a ledger: drafts, and the way to each state."""

from __future__ import annotations

import itertools
from typing import Any

from tradesdk import Budget, LedgerStore, Payment, PaymentState, SignedHeader

NOW = 1_760_000_000.0
"""Not the start of an hour, nor of a day."""
MIDNIGHT = 1_759_968_000
ORIGIN = "https://market.example"
ADDRESS = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
OTHER = "0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1"
HEADER = SignedHeader("c2lnbmVkIGNoZXF1ZQ==")
PLENTY = Budget(total="1000")

_numbers = itertools.count(1)


def draft(fingerprint: str | None = None, **changes: Any) -> Payment:
    """A payment of $0.03 that nobody has seen yet."""
    number = next(_numbers)
    values: dict[str, Any] = {
        "id": f"pay_{number:024x}",
        "state": PaymentState.RESERVED,
        "fingerprint": fingerprint or f"call {number}",
        "method": "POST",
        "url": f"{ORIGIN}/v1/token-prices",
        "body": b'{"tokens":["ETH"]}',
        "network": "eip155:8453",
        "asset": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
        "payer": OTHER,
        "pay_to": ADDRESS,
        "amount": 30_000,
        "nonce": f"0x{number:064x}",
        "valid_before": int(NOW) + 120,
        "created": NOW,
        "updated": NOW,
    }
    values |= changes
    return Payment(**{"counted": values["amount"], "counts_until": values["valid_before"], **values})


def reserve(store: LedgerStore, payment: Payment | None = None, budget: Budget = PLENTY, **changes: Any) -> Payment:
    """Reserve it, by an owner whose time has passed; or the payment that blocks it."""
    values: dict[str, Any] = {
        "origin": ORIGIN,
        "pay_to": (),
        "owner": "nobody",
        "until": 0.0,
        "expired": 0.0,
        "over": 0.0,
        "now": NOW,
    }
    return store.reserve(draft() if payment is None else payment, budget, **{**values, **changes})[0]


def submitted(store: LedgerStore, payment: Payment | None = None, **changes: Any) -> Payment:
    """Reserve it and write it down as signed."""
    return store.submit(reserve(store, payment, **changes), HEADER, now=NOW)


def in_state(store: LedgerStore, state: PaymentState, **changes: Any) -> Payment:
    """A payment that has come to a state on the way it comes there."""
    if state is PaymentState.RESERVED:
        return reserve(store, draft(**changes))
    if state is PaymentState.CANCELLED:
        return store.settle(reserve(store, draft(**changes)).id, state, now=NOW)
    payment = submitted(store, draft(**changes))
    if state is PaymentState.SUBMITTED:
        return payment
    if state in (PaymentState.MARKED_PAID, PaymentState.MARKED_UNPAID):
        store.settle(payment.id, PaymentState.EXPIRED_UNKNOWN, now=NOW)
        over = payment.counts_until + 30
        return store.mark(payment.id, paid=state is PaymentState.MARKED_PAID, now=over)
    return store.settle(payment.id, state, now=NOW)
