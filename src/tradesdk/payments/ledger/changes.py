"""What can happen to a payment in the ledger: one page of transitions, pure.

```
── Submit ──▶ sent ── Record ──▶ answered      an answer
              ▲ │ │
              │ │ └── Record, Mark ──▶ taken   the nonce is used, or money was taken without an answer
              │ └────── Resubmit ───┐    │
              └─────────────────────┴────┘     Mark as unpaid
```

Nothing is reserved: a signature is made first, and binds nobody until it is written down. `Submit` signs the nonce of
an earlier payment again once that has expired, is proven unpaid, or was not handed over. A signature that was not
handed over is as if it had not been made, but it was counted. A late answer to a taken one is an answer. Expiry is no
change: it is computed when a row is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ..._values.payment import Payment, PaymentProof, PaymentStage, ReasonCode
from ...errors import PaymentRefusedError
from ..budget import Budget
from ..messages import already_known, not_expired, purchase_secret_changed
from ..state_machine import Report
from . import errors
from .claims import holds
from .rules import (
    Sum,
    Sums,
    budget_refusal,
    empty_refusal,
    is_signable,
    limits_of,
    recipient_refusal,
    to_count,
    total_refusal,
)
from .settings import EmptyWallet, addresses, addresses_text, empty_of, recipients_of, secret_of

SENT, ANSWERED, TAKEN = PaymentStage
UNWRITTEN = -1


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A payment in the ledger with its claim, and what else a change asked for.

    Attributes:
        payment: the payment.
        owner: the call that has claimed it.
        until: when the claim ends, in Unix seconds by the local clock.
        revision: a number that each writing changes; `UNWRITTEN` if the ledger may not have it like this.
        run: what the other payments of the change's `run` count.
        settings: settings that are written with it, by name; None: this payment no longer asks for an empty wallet.
        mine: whether the call that made the last change goes on with it; False if another call was faster.
    """

    payment: Payment
    owner: str | None = None
    until: float = field(default=0.0, compare=False)
    revision: int = 0
    run: Sum | None = field(default=None, compare=False)
    settings: Mapping[str, str | None] = field(default_factory=dict, compare=False)
    mine: bool = field(default=False, compare=False)

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
class ReleaseClaim(LedgerChange):
    """The end of a call: its claim is over."""

    consequence: ClassVar[str] = errors.CLAIM_STAYS

    def __call__(self, row: LedgerRow) -> LedgerRow:
        return _released(row, row.payment) if self.is_of(row) else row


def _released(row: LedgerRow, payment: Payment) -> LedgerRow:
    return replace(row, payment=payment, owner=None, until=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redate(LedgerChange):
    """Treat it as created now, not in the future: the clock was set back since, or was ahead."""

    def __call__(self, row: LedgerRow) -> LedgerRow:
        return replace(row, payment=replace(row.payment, created=min(row.payment.created, self.now)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """Write down a signature before it is sent, if nothing has changed since the call looked.

    Attributes:
        payment: as it was signed, with its header: a new one, or `earlier` with new terms.
        earlier: the payment whose nonce it signs again, as it was seen.
        budget: the limits of the call, besides the ledger's.
        pay_to: the only recipients; empty: those known for the origin. If none is known, this one is remembered.
        secret_id: of a named purchase: the id of its secret, which must be the one that the ledger knows, or the first.
        owner: the call, which then has claimed it until `until`, in Unix seconds by the local clock.
        over: the service's time until which a signature is too old to be sent.
        since: when an unnamed payment must have been created to be continued.
        max_price: micro-dollars that it may cost.
        max_total: micro-dollars that all payments of the payment's `run` may count.
        funded: a node says that the wallet has enough.
        now: the local time in Unix seconds.
    """

    payment: Payment
    earlier: Payment | None
    budget: Budget
    pay_to: Sequence[str] = ()
    secret_id: str | None = None
    owner: str
    until: float
    over: float
    since: float = 0.0
    max_price: int | None = None
    max_total: int | None = None
    funded: bool = False
    now: float

    def is_next(self, row: LedgerRow | None) -> bool:
        """Whether the purchase is still as the call saw it, and no other call works on it."""
        earlier = self.earlier
        if row is None or earlier is None:
            return row is None and earlier is None
        # `Record` would undo what else has changed. Receipts may be stored shorter, and `Redate` changes dates.
        found = replace(row.payment, receipt=earlier.receipt, created=earlier.created)
        return found == earlier and is_signable(found, self.over) and row.is_free_for(self.owner, self.now)

    def refusal(
        self, row: LedgerRow | None, sums: Sums, run: Sum | None, settings: Mapping[str, str]
    ) -> PaymentRefusedError | None:
        """Why it may not be written: recipient, secret, empty wallet, budget.

        `run`: what the other payments of its run count.
        """
        payment, before = self.payment, None if row is None else row.payment
        origin = payment.origin
        known, secret = addresses(settings.get(recipients_of(origin))), settings.get(secret_of(payment.payer))
        refused = recipient_refusal(payment.pay_to, origin=origin, configured=self.pay_to, known=known)
        if refused is not None:
            return refused
        if self.secret_id is not None and secret not in (None, self.secret_id):
            return purchase_secret_changed(payment.payer, secret or "", self.secret_id)
        empty = EmptyWallet.of(settings, payment.payer, origin)
        if empty is not None and not self.funded and empty.blocks(payment.id, self.now):
            return empty_refusal(payment.payer, origin, payment.amount, empty)
        limits = limits_of(self.budget, settings, self.max_price)
        counts, has_total = to_count(before, payment.amount), self.max_total is not None
        return total_refusal(counts, self.max_total, run) or budget_refusal(
            payment.amount, counts, sums.without(before), limits, has_total=has_total
        )

    def remembers(self, settings: Mapping[str, str]) -> dict[str, str | None]:
        """The settings that it sets: the first recipient of an origin, the first secret of a payer, who asks for an
        empty wallet."""
        payment, found = self.payment, dict[str, str | None]()
        if not self.pay_to:
            found[recipients_of(payment.origin)] = addresses_text([payment.pay_to])
        if self.secret_id is not None:
            found[secret_of(payment.payer)] = self.secret_id
        found = {name: value for name, value in found.items() if name not in settings}
        empty = EmptyWallet.of(settings, payment.payer, payment.origin)
        if empty is not None:
            asks = EmptyWallet(payment.id, empty.since, self.now)
            found[empty_of(payment.payer, payment.origin)] = str(asks)
        return found

    def written(self, row: LedgerRow | None) -> LedgerRow:
        """The row with it, claimed."""
        payment, before = self.payment, None if row is None else row.payment
        counts, submissions, failed = to_count(before, payment.amount), 1, 0
        if before is None:
            payment = replace(payment, created=self.now)
        else:
            payment = with_terms(before, payment)
            # What was handed over before it was proven unpaid can no longer be taken.
            if before.paid is not False:
                submissions, failed = before.submissions + 1, before.settle_failed
        payment = _moved(
            payment,
            SENT,
            now=self.now,
            proof=PaymentProof.NONE,
            paid=None,
            code=ReasonCode.NONE,
            reason="",
            counted=counts,
            header=self.payment.header,
            submissions=submissions,
            settle_failed=failed,
            signatures=payment.signatures + 1,
        )
        return LedgerRow(payment, self.owner, self.until, UNWRITTEN, mine=True)


def with_terms(payment: Payment, terms: Payment) -> Payment:
    """A payment with the terms that are to be signed."""
    # A service's date may have made the new validity end before the old one.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(LedgerChange):
    """Write down what a call was told about the signature with this number.

    `before`: the payment before the call wrote that signature down, to be put back if it was not handed over.
    `empty`: what the call knew of an empty wallet. `ends`: what the end of the call changes besides, in the same
    transaction.
    """

    consequence: ClassVar[str] = errors.NOT_WRITTEN_DOWN
    report: Report
    signatures: int
    before: Payment | None = None
    empty: EmptyWallet | None = None
    ends: Collect | ReleaseClaim | Reopen | None = None

    def __call__(self, row: LedgerRow) -> LedgerRow:
        row = self._recorded(row)
        return row if self.ends is None else self.ends(row)

    def _recorded(self, row: LedgerRow) -> LedgerRow:
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
        if meaning.unsettled:
            changes["settle_failed"] = max(payment.settle_failed, self.signatures)
        if not report.sent:
            changes["submissions"] = payment.submissions - 1
            if (before := self.before) is not None:
                handed_over = 0 if before.paid is False else before.submissions
                if payment.submissions == handed_over + 1:  # with more, it was resent since
                    changes |= {"submissions": before.submissions, "signatures": self.signatures}
                    changes["created"] = payment.created
                    return replace(row, payment=replace(before, **changes))
        if report.reply is not None:
            changes["reply"] = report.reply
            changes["waits"] = payment.waits or payment.stage is not ANSWERED is stage
        changes |= self._proof(payment, stage)
        settings = self._wallet(payment)
        if report.sent and self.empty is not None and self.empty.payment == payment.id:
            changes["created"] = self.now  # nothing was answered before, so an equal call continues it from now on
        return replace(row, payment=_moved(payment, stage, now=self.now, **changes), settings=settings)

    def _wallet(self, payment: Payment) -> dict[str, str | None]:
        """Whether the wallet is empty now, by the service's word."""
        report, empty, name = self.report, self.empty, empty_of(payment.payer, payment.origin)
        if report.unfunded and not report.is_settled:
            since = self.now if empty is None else empty.since
            return {name: str(EmptyWallet(payment.id, since, self.now))}
        return {name: None} if report.sent and empty is not None else {}

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
    """The caller has the answer: no other unnamed call gets it. It stays in the ledger with a name, or with `keep`.

    If it was collected before, the row is not `mine`.
    """

    consequence: ClassVar[str] = errors.NOT_COLLECTED
    keep: bool = False

    def __call__(self, row: LedgerRow) -> LedgerRow:
        payment = row.payment
        waited = payment.stage is ANSWERED and payment.waits
        if waited:
            reply = payment.reply if self.keep or payment.purchase is not None else None
            payment = replace(payment, waits=False, reply=reply)
        row = _released(row, payment) if self.is_of(row) else replace(row, payment=payment)
        return replace(row, mine=waited)


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
        if not (payment.needs_proof or payment.is_open) or self.signatures not in (None, payment.signatures):
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
