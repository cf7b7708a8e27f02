"""What can happen to a payment in the ledger: one page of transitions, pure.

```
reserved ── Submit ──▶ sent ── Record ──▶ answered      an answer
    ▲                 │  ▲ │
    └── Record ───────┘  │ └── Record, Mark ──▶ taken   the nonce is used, or money was taken without an answer
        never handed     └───── Mark as unpaid ───┘
        over
```

A payment that is sent is resent (`Resubmit`), or its nonce is reserved and signed again (`Submit`) once it has expired
or is proven unpaid. A late answer to a taken one is an answer. Expiry is no change: it is computed when a row is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ..._values.payment import Payment, PaymentProof, PaymentStage, ReasonCode, SignedHeader
from ...errors import PaymentRefusedError
from ..budget import Spending
from ..messages import already_known, blocking_error, in_doubt, not_expired, purchase_secret_changed
from ..state_machine import Report
from . import errors
from .claims import holds
from .rules import recipient_refusal, total_refusal
from .settings import addresses, addresses_text, recipients_of, secret_of

RESERVED, SENT, ANSWERED, TAKEN = PaymentStage


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A payment in the ledger with its claim, and what else a change asked for.

    Attributes:
        payment: the payment.
        owner: the call that has claimed it.
        until: when the claim ends, in Unix seconds by the local clock.
        revision: a number that each writing changes.
        settings: the ledger's settings by name; those that the change sets are written.
        run: what the other payments of the change's `run` count.
    """

    payment: Payment
    owner: str | None = None
    until: float = field(default=0.0, compare=False)
    revision: int = 0
    settings: Mapping[str, str] = field(default_factory=dict, compare=False)
    run: Spending | None = field(default=None, compare=False)

    def is_free_for(self, owner: str | None, now: float) -> bool:
        """Whether no other call's claim is in force."""
        return self.owner is None or self.owner == owner or not holds(self.owner, self.until, now=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerChange:
    """A pure function from a row to the row after it, for `Ledger.update`. A refusal changes nothing.

    Attributes:
        owner: the call that makes the change; None: whoever.
        run: the batch run whose spending it compares.
        now: the local time in Unix seconds.
        consequence: what it means for the call if it can't be written.
    """

    consequence: ClassVar[str] = errors.NOTHING_CHANGED
    owner: str | None = None
    run: str | None = None
    now: float = 0.0

    def reads(self) -> tuple[str, ...]:
        """The settings that it compares, in the same transaction."""
        return ()

    def __call__(self, row: LedgerRow) -> LedgerRow:
        """The row after the change.

        Raises:
            PaymentError: it is refused.
        """
        raise NotImplementedError

    def is_of(self, row: LedgerRow) -> bool:
        """Whether the row is claimed for this call."""
        return self.owner is None or row.owner == self.owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(LedgerChange):
    """Claim it until a local time. The claim of another call that is in force stays: compare `owner` afterwards."""

    consequence: ClassVar[str] = errors.NOTHING_SENT
    until: float

    def __call__(self, row: LedgerRow) -> LedgerRow:
        if not row.is_free_for(self.owner, self.now):
            return row
        return replace(row, owner=self.owner, until=self.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseClaim(LedgerChange):
    """The end of a call: its claim is over, and so is what it had reserved and not signed."""

    consequence: ClassVar[str] = errors.CLAIM_STAYS

    def __call__(self, row: LedgerRow) -> LedgerRow:
        return _released(row, row.payment) if self.is_of(row) else row


def _released(row: LedgerRow, payment: Payment) -> LedgerRow:
    return replace(row, payment=replace(payment, reserved=0, reserved_until=0), owner=None, until=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redate(LedgerChange):
    """Treat it as created now, not in the future: the clock was set back since, or was ahead."""

    def __call__(self, row: LedgerRow) -> LedgerRow:
        return replace(row, payment=replace(row.payment, created=min(row.payment.created, self.now)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit(LedgerChange):
    """Write down a signature before it is sent: a reserved payment is sent, with one more submission.

    Without `pay_to`, the recipient must be known for the origin, and is remembered if none is: another call may have
    been faster than the reservation. The purchase secret must be the one that the ledger knows, or the first.
    """

    consequence: ClassVar[str] = errors.NOTHING_SENT
    terms: Payment
    header: SignedHeader
    pay_to: Sequence[str] = ()
    secret_id: str | None = None

    def reads(self) -> tuple[str, ...]:
        names = () if self.pay_to else (recipients_of(self.terms.origin),)
        return names if self.secret_id is None else (*names, secret_of(self.terms.payer))

    def __call__(self, row: LedgerRow) -> LedgerRow:
        payment = row.payment
        if not (payment.is_reserved(self.now) and self.is_of(row)):
            raise PaymentRefusedError(
                "its reservation has expired or was canceled, so it was not sent",
                code="reservation_lost",
                hint="make the call again",
                payment=payment,
            )
        written = dict(row.settings)
        if not self.pay_to:
            name = recipients_of(payment.origin)
            known = addresses(written.get(name))
            refusal = recipient_refusal(self.terms.pay_to, origin=payment.origin, configured=(), known=known)
            if refusal is not None:
                refusal.payment = payment
                raise refusal
            if not known:
                written[name] = addresses_text([self.terms.pay_to])
        if self.secret_id is not None:
            name = secret_of(payment.payer)
            if written.setdefault(name, self.secret_id) != self.secret_id:
                raise purchase_secret_changed(payment.payer, written[name], self.secret_id)
        after = _moved(
            payment,
            SENT,
            now=self.now,
            **_terms(payment, self.terms),
            proof=PaymentProof.NONE,
            paid=None,
            code=ReasonCode.NONE,
            reason="",
            refused=False,
            counted=payment.reserved,
            reserved=0,
            reserved_until=0,
            header=self.header,
            # What was handed over before it was proven unpaid can no longer be taken.
            submissions=(0 if payment.paid is False else payment.submissions) + 1,
            settle_failed=0 if payment.paid is False else payment.settle_failed,
            signatures=payment.signatures + 1,
        )
        return replace(row, payment=after, settings=written)


def with_terms(payment: Payment, terms: Payment) -> Payment:
    """A payment with the terms that are to be signed."""
    return replace(payment, **_terms(payment, terms))


def _terms(payment: Payment, terms: Payment) -> dict[str, Any]:
    # A service's date may have made the new validity end before the old one.
    until = max(payment.counts_until, terms.counts_until) if payment.signatures else terms.counts_until
    return {
        "network": terms.network,
        "asset": terms.asset,
        "pay_to": terms.pay_to,
        "amount": terms.amount,
        "valid_before": terms.valid_before,
        "counts_until": until,
        "identified": terms.identified,
        "run": terms.run or payment.run,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Resubmit(LedgerChange):
    """Count one more submission of the same bytes before they are sent. It then belongs to the batch `run`, if any.

    Refused: it is no longer live, was signed again, is claimed by another call, or the run's `max_total` has no room.
    """

    consequence: ClassVar[str] = errors.NOT_RESENT
    signatures: int
    max_total: int | None = None

    def __call__(self, row: LedgerRow) -> LedgerRow:
        payment = row.payment
        if payment.stage is RESERVED:
            text = "it was never signed, so it cannot be sent"
            raise PaymentRefusedError(text, code="not_submitted", payment=payment)
        if payment.stage is not SENT or payment.paid is not None:
            raise blocking_error(payment)
        if not self.is_of(row) or payment.signatures != self.signatures or payment.header is None:
            raise in_doubt(payment, "another call has continued it")
        refusal = total_refusal(payment.counted, self.max_total, row.run)
        if refusal is not None:
            raise refusal
        # From now on it may be taken, whatever the service said before.
        run, submissions = self.run or payment.run, payment.submissions + 1
        return replace(row, payment=replace(payment, refused=False, submissions=submissions, run=run))


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(LedgerChange):
    """Write down what a call was told about the signature with this number."""

    consequence: ClassVar[str] = errors.NOT_WRITTEN_DOWN
    report: Report
    signatures: int

    def __call__(self, row: LedgerRow) -> LedgerRow:
        payment, report, meaning, stage = row.payment, self.report, self.report.meaning, self.report.stage
        if not (meaning.is_final or report.is_settled):
            is_open = payment.stage is SENT and payment.paid is None and payment.signatures == self.signatures
            # That it was not taken says only the call that has claimed it: another one may have sent it since.
            is_cautious = report.sent and not meaning.refused
            if not (is_open and (is_cautious or self.is_of(row))):
                return row
        elif payment.stage is ANSWERED is not stage:
            return row
        changes: dict[str, Any] = {"code": meaning.code, "reason": storable(report.reason)}
        changes["refused"] = meaning.refused
        if meaning.unsettled:
            changes["settle_failed"] = max(payment.settle_failed, self.signatures)
        if not report.sent:
            changes["submissions"] = payment.submissions - 1
            if payment.submissions == 1:  # nothing was ever handed over
                return replace(row, payment=_moved(payment, RESERVED, now=self.now, counted=0, **changes))
        if report.reply is not None:
            changes["reply"] = report.reply
            changes["waits"] = payment.waits or payment.stage is not ANSWERED is stage
        changes |= self._proof(payment, stage)
        return replace(row, payment=_moved(payment, stage, now=self.now, **changes))

    def _proof(self, payment: Payment, stage: PaymentStage) -> dict[str, Any]:
        """What the receipt proves. A success is never undone, and says in which hour and day it counts."""
        receipt = self.report.receipt
        if receipt is not None and receipt.success:
            if payment.paid:
                return {"receipt": receipt}
            # Not before it was signed: the clock may have been set back since.
            until = min(payment.counts_until, math.floor(max(self.now, payment.updated)) + 1)
            return {"receipt": receipt, "proof": PaymentProof.RECEIPT, "paid": True, "counts_until": until}
        before = payment.receipt
        kept = before if receipt is None or (before is not None and before.success) else receipt
        if payment.paid is False and stage is not SENT:  # the service knows better than whoever said that
            return {"receipt": kept, "proof": PaymentProof.NONE, "paid": None}
        return {"receipt": kept}


@dataclass(frozen=True, slots=True, kw_only=True)
class Collect(LedgerChange):
    """The caller has the answer: no other unnamed call gets it. It stays in the ledger with a name, or with `keep`."""

    consequence: ClassVar[str] = errors.NOT_COLLECTED
    keep: bool = False

    def __call__(self, row: LedgerRow) -> LedgerRow:
        payment = row.payment
        if payment.stage is ANSWERED and payment.waits:
            reply = payment.reply if self.keep or payment.purchase is not None else None
            payment = replace(payment, waits=False, reply=reply)
        return _released(row, payment) if self.is_of(row) else replace(row, payment=payment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopen(LedgerChange):
    """Undo `Collect`: the caller did not get the answer, so the next equal call does."""

    consequence: ClassVar[str] = errors.ANSWER_MAY_BE_LOST
    reply: bytes

    def __call__(self, row: LedgerRow) -> LedgerRow:
        payment = row.payment
        if payment.stage is ANSWERED:
            payment = replace(payment, waits=True, reply=payment.reply or self.reply)
        return _released(row, payment) if self.is_of(row) else replace(row, payment=payment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark(LedgerChange):
    """Mark it as paid or unpaid, on the word of a person, or of the chain: then `evidence` is what it says.

    `signatures`: how many there were when that was found out. With others since, it is refused.
    """

    paid: bool
    evidence: str = ""
    signatures: int | None = None

    def __call__(self, row: LedgerRow) -> LedgerRow:
        payment, by_chain = row.payment, bool(self.evidence)
        is_open = payment.needs_proof or (payment.stage is SENT and payment.paid is None)
        if not is_open or self.signatures not in (None, payment.signatures):
            raise already_known(payment)
        # The chain's own time says that a nonce can no longer be used.
        if not (by_chain or payment.is_expired(self.now)) and (payment.stage is SENT or not self.paid):
            raise not_expired(payment)
        stage = payment.stage
        if stage is not ANSWERED:
            stage = TAKEN if self.paid else SENT
        proof = PaymentProof.CHAIN if by_chain else PaymentProof.PERSON
        reason = storable(self.evidence) or payment.reason
        return replace(row, payment=_moved(payment, stage, now=self.now, proof=proof, paid=self.paid, reason=reason))


def _moved(payment: Payment, stage: PaymentStage, *, now: float, **changes: Any) -> Payment:
    """The payment at a stage. Its header is deleted when nothing can be done with it any more."""
    paid = changes.get("paid", payment.paid)
    if stage in (ANSWERED, TAKEN):
        changes |= {"reserved": 0, "reserved_until": 0}
    if stage is not SENT or paid is not None:
        changes["header"] = None
    # The proof of an answered one says nothing about when the answer came.
    is_proven = paid is not payment.paid and stage is not ANSWERED
    if stage is not payment.stage or is_proven or "signatures" in changes:
        changes["updated"] = now
    return replace(payment, stage=stage, **changes)


def storable(text: str) -> str:
    """`text` as databases can store it: lone surrogates and NUL, which a service may send, are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")
