"""Payments for the tests of a ledger: drafts, what happens to them, and the way to wherever they may be."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, replace
from typing import Any

from tradesdk import Budget, Ledger, Payment
from tradesdk.payments import ReasonCode, SignedHeader
from tradesdk.payments.ledger.changes import (
    LedgerChange,
    LedgerRow,
    Lookup,
    Mark,
    Record,
    Resubmit,
    Submit,
    with_terms,
)
from tradesdk.payments.ledger.rules import BUDGET, EmptyWallet, Sum, addresses, empty_of, recipients_of, with_address
from tradesdk.payments.state_machine import (
    DELIVERED,
    NOT_RECEIVED,
    OPEN,
    REFUSED,
    REJECTED,
    SUSPECT,
    TAKEN_ELSEWHERE,
    UNDELIVERED,
    Report,
)

NOW = 1_760_000_000.0
"""Not the start of an hour, nor of a day."""
MIDNIGHT = 1_759_968_000
ORIGIN = "https://market.example"
ADDRESS = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
OTHER = "0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1"
HEADER = SignedHeader("c2lnbmVkIGNoZXF1ZQ==")
PLENTY = Budget(total="1000")
REPLY = b"prices"

MEANINGS = {
    meaning.code: meaning
    for meaning in (DELIVERED, OPEN, NOT_RECEIVED, REJECTED, REFUSED, UNDELIVERED, SUSPECT, TAKEN_ELSEWHERE)
}

_numbers = itertools.count(1)


def draft(fingerprint: str | None = None, **changes: Any) -> Payment:
    """A payment of $0.03 that nobody has seen yet."""
    number = next(_numbers)
    values: dict[str, Any] = {
        "id": f"pay_{number:024x}",
        "fingerprint": fingerprint or f"call {number}",
        "url": f"{ORIGIN}/v1/token-prices",
        "body": b'{"tokens":["ETH"]}',
        "payer": OTHER,
        "pay_to": ADDRESS,
        "amount": 30_000,
        "nonce": f"0x{number:064x}",
        "valid_before": int(NOW) + 120,
        "created": NOW,
        "updated": NOW,
    }
    values |= changes
    return Payment(**{"counts_until": values["valid_before"], **values})


# What happens to one


def wanted(payment: Payment | None = None, budget: Budget = PLENTY, **changes: Any) -> Submit:
    """A signature to write down, by an owner whose time has passed; `earlier` is signed again with the new terms."""
    payment, earlier = draft() if payment is None else payment, changes.get("earlier")
    header = changes.pop("header", HEADER)
    payment = payment if earlier is None else with_terms(earlier, payment)
    asked: dict[str, Any] = {
        "now": NOW,
        "fingerprint": payment.fingerprint,
        "name": payment.purchase,
        "payer": payment.payer,
        "wallet": empty_of(payment.payer, payment.origin),
        "run": payment.run,
        "signs": payment.id,
    }
    asked |= {name: changes.pop(name) for name in ("now", "over", "since", "max_price") if name in changes}
    values: dict[str, Any] = {"earlier": None, "owner": "nobody", "until": 0.0}
    lookup = Lookup(budget=budget, **asked)
    return Submit(payment=payment, header=header, lookup=lookup, **{**values, **changes})


def submit(store: Ledger, payment: Payment | None = None, budget: Budget = PLENTY, **changes: Any) -> Payment | None:
    """Write it down as signed; None if another call was faster."""
    row = store.submit(wanted(payment, budget, **changes))
    return None if row is None else row.payment


def submitted(store: Ledger, payment: Payment | None = None, budget: Budget = PLENTY, **changes: Any) -> Payment:
    """Write it down as signed."""
    found = submit(store, payment, budget, **changes)
    assert found is not None
    return found


def resubmit(store: Ledger, payment: Payment, **changes: Any) -> Payment:
    """Count one more submission."""
    given = {"signatures": payment.signatures, "until": NOW + 300, "now": NOW, **changes}
    return store.update(payment.id, Resubmit(**given)).payment


def put_right(store: Any, change: Submit) -> None:
    """What a ledger writes if nobody knows whether the signature is written."""
    ledger = store if isinstance(store, Ledger) else store.ledgers[0]
    late = ledger._late(change.payment.id, change.payment.signatures + 1, change.undo())
    ledger._engine.run(late.step, write=True)


def told(
    store: Ledger,
    payment: Payment,
    code: ReasonCode,
    reason: str = "",
    *,
    owner: str | None = None,
    now: float = NOW,
    before: Payment | None = None,
    empty: EmptyWallet | None = None,
    **report: Any,
) -> Payment:
    """Write down what an answer to its newest signature means.

    `before`: as it was before that was written down; `empty`: what the call knew of its wallet.
    """
    if code is ReasonCode.NOT_RECEIVED:
        report = {"sent": False, **report}
    if before is None and payment.submissions == 1:
        before = replace(payment, counted=0, submissions=0, signatures=0, header=None)
    what = Report(MEANINGS[code], reason, **report)
    change = Told(report=what, signatures=payment.signatures, before=before, empty=empty, owner=owner, now=now)
    return store.update(payment.id, change).payment


def mark(store: Ledger, payment: Payment, *, paid: bool, **changes: Any) -> Payment:
    """Mark it."""
    return store.update(payment.id, Mark(paid=paid, **{"now": NOW, **changes})).payment


@dataclass(frozen=True, slots=True, kw_only=True)
class Told(Record):
    """A report as such, while the claim of the call stays."""

    def __call__(self, row: LedgerRow) -> LedgerRow:
        return row if self.report is None else self._recorded(row, self.report)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(LedgerChange):
    """A claim as such, as another call has it between its writes."""

    until: float

    def __call__(self, row: LedgerRow) -> LedgerRow:
        is_free = row.is_free_for(self.owner, self.now)
        return replace(row, owner=self.owner, until=self.until) if is_free else row


def claim(store: Ledger, payment: Payment, owner: str, *, until: float = NOW + 1, now: float = NOW) -> bool:
    """Claim it, if nobody else has."""
    return store.update(payment.id, Claim(owner=owner, until=until, now=now)).owner == owner


def collect(store: Ledger, payment: Payment, owner: str, *, keep: bool = False) -> LedgerRow:
    return store.update(payment.id, Record(owner=owner, collected=True, keep=keep))


def reopen(store: Ledger, payment: Payment, owner: str, reply: bytes) -> LedgerRow:
    return store.update(payment.id, Record(owner=owner, collected=False, reply=reply))


def release(store: Ledger, payment: Payment, owner: str | None = None) -> Payment:
    return store.update(payment.id, Record(owner=owner)).payment


def spent_by(store: Ledger, run: str, *, now: float = NOW) -> Sum:
    """What the payments of a batch run count, and the part that is held."""
    found = store.overview(Lookup(now=now, budget=PLENTY, run=run)).run
    assert found is not None
    return found


# Settings


def set_budget(store: Ledger, budget: Budget) -> None:
    store.set_setting(BUDGET, lambda before: budget.to_json())


def budget_of(store: Ledger) -> Budget:
    return Budget.from_json(store.setting(BUDGET))


def trust(store: Ledger, origin: str, address: str) -> None:
    store.set_setting(recipients_of(origin), lambda known: with_address(known, address))


def trusted(store: Ledger, origin: str) -> list[str]:
    return addresses(store.setting(recipients_of(origin)))


# Wherever one may be

IN_DOUBT = ("sent", ReasonCode.UNKNOWN.value)
NOT_TAKEN = (ReasonCode.REJECTED.value, ReasonCode.REFUSED.value)
TAKEN = tuple(code.value for code in (ReasonCode.UNDELIVERED, ReasonCode.SUSPECT, ReasonCode.TAKEN_ELSEWHERE))
MARKED = ("marked paid", "marked unpaid", "paid by the chain", "unpaid by the chain")
UNSENT = ReasonCode.NOT_RECEIVED.value
PLACES = (UNSENT, *IN_DOUBT, *NOT_TAKEN, "delivered", *TAKEN, *MARKED)
"""Wherever a payment may be, by the way there: what was told of it, or by whom it was marked."""
COUNTS_NOTHING = (UNSENT, "marked unpaid", "unpaid by the chain")


def at(store: Ledger, place: str, **changes: Any) -> Payment:
    """A payment at a place, on the way it comes there."""
    payment = submitted(store, draft(**changes))
    if place == "sent":
        return payment
    if place not in MARKED:
        return told(store, payment, ReasonCode(place))
    evidence = "chain: at block 1" if "chain" in place else ""
    return mark(store, payment, paid="unpaid" not in place, evidence=evidence, now=payment.counts_until + 30)


class Machines:
    """Ledgers over the same store, as of several machines: each call goes to any of them."""

    def __init__(self, *ledgers: Ledger) -> None:
        self.ledgers, self._pick = ledgers, random.Random(len(ledgers)).choice

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pick(self.ledgers), name)

    def close(self) -> None:
        for ledger in self.ledgers:
            ledger.close()


def standing(
    ledger: Ledger, fingerprint: str, *, now: float, since: float = 0.0, over: float | None = None
) -> Payment | None:
    """The payment that another call for the same purchase continues, or whose answer it gets."""
    over = now if over is None else over
    return ledger.overview(Lookup(now=now, budget=PLENTY, fingerprint=fingerprint, since=since, over=over)).payment
