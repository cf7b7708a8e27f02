"""All changes of a payment in the ledger: pure functions from row to row.

```
── Submit ──▶ sent ── Record ──▶ answered      an answer
              ▲ │ │
              │ │ └── Record, Mark ──▶ taken   the nonce is used, or money was taken without an answer
              │ └────── Resubmit ───┐    │
              └─────────────────────┴────┘     Mark as unpaid
```

Nothing is reserved: a signature has no effect until it is written down. `Submit` signs the nonce of an earlier payment
again if that has expired, is proven unpaid, or was not sent. If a signature was not sent, `Record` restores the row
before it, but keeps its number. A late answer moves a taken payment to answered. Expiry is not a change: it is computed
when a row is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ..._values.payment import Payment, PaymentProof, PaymentStage, ReasonCode, SignedHeader
from ...errors import LedgerError, PaymentRefusedError
from ..budget import Budget
from ..messages import already_known, not_expired, purchase_changed, purchase_secret_changed
from ..state_machine import Report, Tries
from . import errors
from .claims import holds
from .rules import (
    EmptyWallet,
    NextStep,
    Sum,
    Sums,
    addresses,
    empty_of,
    next_step,
    recipient_refusal,
    recipients_of,
    refusal,
    secret_of,
    to_count,
    total_refusal,
    with_address,
)

SENT, ANSWERED, TAKEN = PaymentStage
UNWRITTEN = -1


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A payment in the ledger with its claim, and what else a change needs.

    Attributes:
        payment: the payment.
        owner: the call that has claimed it.
        until: when the claim ends, in Unix seconds by the local clock.
        revision: a number that each write changes; `UNWRITTEN` if the ledger does not have this row.
        run: what the other payments of the change's `run` count.
        settings: settings that are written with it, by name; None: this payment no longer asks for an empty wallet.
        mine: whether the call that made the last change may continue; False if another call was faster.
        unwritten: the error, if the last change is not written yet.
    """

    payment: Payment
    owner: str | None = None
    until: float = field(default=0.0, compare=False)
    revision: int = UNWRITTEN
    run: Sum | None = field(default=None, compare=False)
    settings: Mapping[str, str | None] = field(default_factory=dict, compare=False)
    mine: bool = field(default=False, compare=False)
    unwritten: LedgerError | None = field(default=None, compare=False)

    def is_free_for(self, owner: str | None, now: float) -> bool:
        """Whether no other call has a valid claim on it."""
        return self.owner is None or self.owner == owner or not holds(self.owner, self.until, now=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """What a call asks the ledger: for the earlier payment of its purchase, and what it may spend.

    The earlier payment is the one with the `payment_id`, or the newest for the same purchase that a call continues, or
    whose answer it gets. A payment that was never signed counts only while a call may be about to sign it. With a name,
    any other payment of that name counts, forever. Without a name:

    - one that asks whether an empty wallet was funded;
    - any that has no answer, unless a person says that it was paid, and `created` at `since` or later, or valid after
      `over`, by the service's time: its bytes can be resent. But none that ends later than any can, as a clock was
      ahead;
    - answered, while its answer `waits`, and if it was `updated` after `now - 60`. One `updated` more than 5 seconds
      after `now` is ignored: the clock was set back since.

    Attributes:
        now: the local time in Unix seconds.
        budget: the limits of the call, besides the ledger's.
        fingerprint: of the purchase.
        since: when an unnamed payment must have been created to be continued.
        over: the service's time until which a signature is too old to be sent.
        max_price: micro-dollars that the call may cost.
        payment_id: the payment to resume.
        name: of the purchase.
        payer: the address of the wallet.
        wallet: the name of the setting that tells that it is empty.
        run: the batch run of the call.
        signs: the id of the payment that is signed now.
    """

    now: float
    budget: Budget
    fingerprint: str = ""
    since: float = 0.0
    over: float = 0.0
    max_price: int | None = None
    payment_id: str | None = None
    name: str | None = None
    payer: str = ""
    wallet: str = ""
    run: str | None = None
    signs: str = ""


@dataclass(frozen=True, slots=True)
class Overview:
    """What the ledger knows at a moment.

    Attributes:
        lookup: what was asked.
        row: the earlier payment, with its claim.
        sums: what is spent and held.
        limits: the lowest limits of all budgets.
        settings: settings by name.
        empty: which purchase asks for the wallet, if it is empty.
        run: what the other payments count that ever belonged to the call's batch run, and the part that is held.
        other: a payment of another wallet, by the same name, that may have been taken.
    """

    lookup: Lookup
    row: LedgerRow | None
    sums: Sums
    limits: Budget
    settings: Mapping[str, str] = field(default_factory=dict)
    empty: EmptyWallet | None = None
    run: Sum | None = None
    other: Payment | None = None

    @property
    def payment(self) -> Payment | None:
        return None if self.row is None else self.row.payment


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerChange:
    """A pure function from a row to the row after it, for `Ledger.update`. A refusal changes nothing.

    Attributes:
        owner: the call that makes the change; None: a person or the witness.
        run: the batch run whose spending it compares.
        now: the local time in Unix seconds.
        consequence: what it means for the call if it can't be written.
    """

    consequence: ClassVar[str] = errors.NOTHING_CHANGED
    owner: str | None = None
    run: str | None = None
    now: float = 0.0

    def __call__(self, row: LedgerRow) -> LedgerRow:
        """The row after the change. Raises a `PaymentError` if it is refused."""
        raise NotImplementedError

    def is_of(self, row: LedgerRow) -> bool:
        """Whether this call has claimed the row."""
        return self.owner is None or row.owner == self.owner

    def undo(self, row: LedgerRow) -> LedgerChange | None:
        """The change to write later if it is unknown whether this one was written."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Redate(LedgerChange):
    """Set its creation time to now: it is in the future, as the clock was ahead or was set back since."""

    def __call__(self, row: LedgerRow) -> LedgerRow:
        return replace(row, payment=replace(row.payment, created=min(row.payment.created, self.now)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """Write down a signature before it is sent, if nothing has changed since the call looked.

    Attributes:
        payment: as it was signed: a new one, or `earlier` with new terms.
        header: its header.
        earlier: the payment whose nonce it signs again, as it was seen.
        lookup: what is looked up again.
        pay_to: the only recipients; empty: those known for the service. If none is known, this one is remembered.
        secret_id: of a named purchase: the id of its secret, which must be the one that the ledger knows, or the first.
        owner: the call, which then has claimed it until `until`, in Unix seconds by the local clock.
        max_total: micro-dollars that all payments of the `run` may count.
        funded: a node says that the wallet has enough.
    """

    payment: Payment
    header: SignedHeader
    earlier: Payment | None
    lookup: Lookup
    pay_to: Sequence[str] = ()
    secret_id: str | None = None
    owner: str
    until: float
    max_total: int | None = None
    funded: bool = False

    def __call__(self, seen: Overview) -> LedgerRow | PaymentRefusedError | None:
        """The claimed row with the signature, or the refusal, or None if another call was faster. `seen`: now.

        The row has the settings that are to be written: the first recipient of an origin, the first secret of a payer,
        and which purchase asks for an empty wallet.
        """
        if not self._is_next(seen.row):
            return None
        payment, before, origin, settings = self.payment, seen.payment, self.payment.origin, seen.settings
        if seen.other is not None:  # after a change of keys, each name would be paid for again
            return purchase_changed(seen.other, payer=payment.payer)
        recipients, secret, empty, now = recipients_of(origin), secret_of(payment.payer), seen.empty, self.lookup.now
        refused = recipient_refusal(payment.pay_to, self.pay_to or addresses(settings.get(recipients)))
        if refused is not None:
            return refused
        if self.secret_id is not None and (other_id := settings.get(secret, self.secret_id)) != self.secret_id:
            return purchase_secret_changed(payment.payer, other_id, self.secret_id)
        if empty is not None and not self.funded:
            amount = payment.amount
            refused = empty.refusal(payment.id, now, payer=payment.payer, service=origin, amount=amount)
        refused = refused or refusal(
            payment.amount, before, seen.sums, seen.limits, max_total=self.max_total, run=seen.run
        )
        if refused is not None:
            return refused
        remembered: dict[str, str | None] = {}
        if not (self.pay_to or recipients in settings):
            remembered[recipients] = with_address(None, payment.pay_to)
        if self.secret_id is not None and secret not in settings:
            remembered[secret] = self.secret_id
        if empty is not None:
            remembered[self.lookup.wallet] = str(EmptyWallet(payment.id, empty.since, now))
        return LedgerRow(self._signed(before), self.owner, self.until, settings=remembered, mine=True)

    def _is_next(self, row: LedgerRow | None) -> bool:
        """Whether the purchase is still as the call saw it, and no other call works on it."""
        earlier = self.earlier
        if row is None or earlier is None:
            return row is None and earlier is None
        # `Record` changes these fields too. Receipts may be stored shortened, and `Redate` changes dates.
        found = replace(row.payment, receipt=earlier.receipt, created=earlier.created)
        is_signable = next_step(found, self.lookup.over) in (NextStep.SIGN, NextStep.ASK)
        return found == earlier and is_signable and row.is_free_for(self.owner, self.lookup.now)

    def _signed(self, before: Payment | None) -> Payment:
        payment, submissions, failed = self.payment, 1, 0
        if before is not None and before.paid is not False:  # else what was sent before can no longer be taken
            submissions, failed = before.submissions + 1, before.settle_failed
        return replace(
            payment,
            stage=SENT,
            proof=PaymentProof.NONE,
            paid=None,
            code=ReasonCode.NONE,
            reason="",
            receipt=None if before is None else before.receipt,
            created=self.lookup.now if before is None else before.created,
            updated=self.lookup.now,
            counted=to_count(before, payment.amount),
            header=self.header,
            submissions=submissions,
            settle_failed=failed,
            signatures=payment.signatures + 1,
        )

    def undo(self) -> Record:
        """The change to write later if it is unknown whether this one was written: the signature was not sent."""
        before = self.earlier or self.payment
        return Record(
            report=Tries(before).end(),
            signatures=self.payment.signatures + 1,
            before=before,
            owner=self.owner,
            now=self.lookup.now,
        )


def with_terms(payment: Payment, terms: Payment) -> Payment:
    """A payment with new terms, to be signed."""
    # The new validity may end before the old one, if the service's clock was wrong.
    until = max(payment.counts_until, terms.counts_until) if payment.signatures else terms.counts_until
    return replace(
        payment,
        pay_to=terms.pay_to,
        amount=terms.amount,
        valid_before=terms.valid_before,
        counts_until=until,
        identified=terms.identified,
        run=terms.run or payment.run,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resubmit(LedgerChange):
    """Claim it until a local time, and count one more submission of the same bytes, before they are sent.

    It then belongs to the batch `run`, if any. Refused: the run's `max_total` has no room. If it is no longer open, was
    signed again, or is claimed by another call, nothing changes.
    """

    consequence: ClassVar[str] = errors.NOT_RESENT
    signatures: int
    until: float
    max_total: int | None = None

    def __call__(self, row: LedgerRow) -> LedgerRow:
        payment = row.payment
        is_same = payment.is_open and payment.signatures == self.signatures and payment.header is not None
        if not (is_same and row.is_free_for(self.owner, self.now)):
            return replace(row, mine=False)
        refusal = total_refusal(payment.counted, self.max_total, row.run)
        if refusal is not None:
            raise refusal
        # From now on it may be taken, whatever the service said before.
        changes: dict[str, Any] = {"code": ReasonCode.NONE, "reason": "", "submissions": payment.submissions + 1}
        payment = replace(payment, run=self.run or payment.run, **changes)
        return replace(row, payment=payment, owner=self.owner, until=self.until, mine=True)

    def undo(self, row: LedgerRow) -> LedgerChange | None:
        if row.owner == self.owner:  # the call's end undoes it, and one submission too many does no harm
            return None
        return Record(report=Tries(row.payment).end(), signatures=self.signatures, owner=self.owner, now=self.now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(LedgerChange):
    """Write down what a call learned, and end its claim. If it can't be written now, it is written later.

    Attributes:
        report: about the signature with the number `signatures`; None: nothing.
        before: the payment before the call signed or resent it, to restore if the signature was not sent.
        empty: what the call knew of an empty wallet.
        collected: True: the caller has the answer, so no other unnamed call gets it; if it was collected before, the
            row is not `mine`. False: the caller did not get it after all, so the next equal call does.
        keep: whether the ledger keeps a collected answer; with a name it always does.
        reply: the answer, to restore.
    """

    report: Report | None = None
    signatures: int = 0
    before: Payment | None = None
    empty: EmptyWallet | None = None
    collected: bool | None = None
    keep: bool = False
    reply: bytes | None = None

    def __call__(self, row: LedgerRow) -> LedgerRow:
        if self.report is not None:
            row = self._recorded(row, self.report)
        payment, mine = row.payment, False
        if payment.stage is ANSWERED and self.collected is not None:
            mine = self.collected and payment.waits
            if mine:
                reply = payment.reply if self.keep or payment.purchase is not None else None
                payment = replace(payment, waits=False, reply=reply)
            elif not self.collected:
                payment = replace(payment, waits=True, reply=payment.reply or self.reply)
        owner, until = (None, 0.0) if self.is_of(row) else (row.owner, row.until)
        return replace(row, payment=payment, owner=owner, until=until, mine=mine)

    def _recorded(self, row: LedgerRow, report: Report) -> LedgerRow:
        payment, meaning, stage = row.payment, report.meaning, report.stage
        if not (meaning.is_final or report.is_settled):
            is_open = payment.stage is SENT and payment.paid is None and payment.signatures == self.signatures
            # Only the call that has claimed it can say that it was not taken: another one may have sent it since.
            is_cautious = report.sent and not meaning.refused
            if not (is_open and (is_cautious or self.is_of(row))):
                return row
        elif payment.stage is ANSWERED is not stage:
            return row
        changes: dict[str, Any] = {"code": meaning.code, "reason": storable(report.reason)}
        if meaning.unsettled:
            changes["settle_failed"] = self.signatures
        if not report.sent:
            changes["submissions"] = payment.submissions - 1
            if (before := self.before) is not None and before.signatures != self.signatures:
                handed_over = 0 if before.paid is False else before.submissions
                if payment.submissions == handed_over + 1:  # a higher number: it was resent since
                    changes |= {"submissions": before.submissions, "signatures": self.signatures}
                    changes["created"] = payment.created
                    return replace(row, payment=replace(before, **changes))
        if report.reply is not None and payment.stage is not ANSWERED:
            changes |= {"reply": report.reply, "waits": stage is ANSWERED}
        changes |= self._proof(payment, report)
        settings = self._wallet(payment, report)
        if report.sent and self.empty is not None and self.empty.payment == payment.id:
            changes["created"] = self.now  # there was no answer before, so equal calls continue it from now on
        return replace(row, payment=_moved(payment, stage, now=self.now, **changes), settings=settings)

    def _wallet(self, payment: Payment, report: Report) -> dict[str, str | None]:
        """Whether the wallet is empty now, as the service says."""
        empty = self.empty
        if report.unfunded and not report.is_settled:
            found: str | None = str(EmptyWallet(payment.id, self.now if empty is None else empty.since, self.now))
        elif report.sent and empty is not None:
            found = None
        else:
            return {}
        return {empty_of(payment.payer, payment.origin): found}

    def _proof(self, payment: Payment, report: Report) -> dict[str, Any]:
        """What the receipt proves. A success is never undone. The amount that counts, and for how long, stay: a smaller
        amount or an earlier time is only the service's word.
        """
        receipt = report.receipt
        if receipt is not None and receipt.success:
            settled = min(payment.counted, payment.amount if receipt.amount is None else receipt.amount)
            if not payment.paid:
                return {"receipt": receipt, "proof": PaymentProof.RECEIPT, "paid": True, "amount": settled}
            is_more = payment.proof is PaymentProof.RECEIPT and settled > payment.amount
            return {"receipt": receipt, "amount": settled if is_more else payment.amount}
        before = payment.receipt
        kept = before if receipt is None or (before is not None and before.success) else receipt
        if payment.paid is False and report.stage is not SENT:  # the service's receipt overrides a person's mark
            return {"receipt": kept, "proof": PaymentProof.NONE, "paid": None}
        return {"receipt": kept}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark(LedgerChange):
    """Mark it as paid or unpaid, as a person or the chain says; `evidence` is what the chain says.

    If a person marks it as paid and there is a receipt, the receipt's amount counts. The chain does not tell an amount.

    `signatures`: how many there were when that was found out. If there are more now, the mark is refused.
    """

    paid: bool
    evidence: str = ""
    signatures: int | None = None

    def __call__(self, row: LedgerRow) -> LedgerRow:
        payment, by_chain = row.payment, bool(self.evidence)
        is_known = not (payment.needs_proof or payment.is_open)
        is_known |= payment.stage is ANSWERED and payment.is_partly_held and not self.paid
        if is_known or self.signatures not in (None, payment.signatures):
            raise already_known(payment)
        # Only the chain's own time can say that a nonce can no longer be used.
        if not (by_chain or payment.is_expired(self.now)) and (payment.stage is SENT or not self.paid):
            raise not_expired(payment)
        stage = payment.stage
        if stage is not ANSWERED:
            stage = TAKEN if self.paid else SENT
        counted = payment.amount if payment.is_partly_held and not by_chain else payment.counted
        proof = PaymentProof.CHAIN if by_chain else PaymentProof.PERSON
        changes: dict[str, Any] = {"reason": storable(self.evidence) or payment.reason, "counted": counted}
        return replace(row, payment=_moved(payment, stage, now=self.now, proof=proof, paid=self.paid, **changes))


def _moved(payment: Payment, stage: PaymentStage, *, now: float, **changes: Any) -> Payment:
    """The payment at a stage. Its header is deleted when nobody can use it any more."""
    paid = changes.get("paid", payment.paid)
    if stage is not SENT or paid is not None:
        changes["header"] = None
    # The proof for an answered one does not say when the answer came.
    is_proven = paid is not payment.paid and stage is not ANSWERED
    if stage is not payment.stage or is_proven or "signatures" in changes:
        changes["updated"] = now
    return replace(payment, stage=stage, **changes)


def storable(text: str) -> str:
    """`text` as databases can store it: lone surrogates and NUL, which a service may send, are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")
