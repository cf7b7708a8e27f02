"""Random courses of a store beside a slow, plain model of it: same answers, same sums, no budget ever exceeded."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

import pytest

from tradesdk import (
    Budget,
    Ledger,
    Payment,
    PaymentProof,
    PaymentRefusedError,
    PaymentStage,
    ReasonCode,
    Receipt,
)
from tradesdk._values.payment import GRACE, LONGEST_VALIDITY
from tradesdk.payments.budget import LIMITS

from ._ledger import (
    ADDRESS,
    HEADER,
    MIDNIGHT,
    ORIGIN,
    OTHER,
    budget_of,
    claim,
    collect,
    draft,
    mark,
    release,
    reopen,
    resubmit,
    set_budget,
    spent_by,
    told,
    trust,
    trusted,
    wanted,
)

T = TypeVar("T")

CALLS, OWNERS = "ab", ("me", "you")
AMOUNTS = (10_000, 20_000, 30_000, 70_001)
LIMIT = (None, None, 20_000, 60_000, 100_000, 250_000)
FORWARD = (0.0, 0.25, 1.0, 5.0, 29.0, 30.0, 31.5, 59.0, 60.0, 89.0, 90.0, 600.0, 1799.75, 3600.0, 40_000.0, 2_600_000.0)
BACKWARD = (-0.5, -5.0, -30.0, -31.0, -1000.0, -3600.0, -90_000.0)
STEPS = (*FORWARD, *BACKWARD)
NAMES = (None, None, "monday", "tuesday")
RUNS = (None, None, "run 1", "run 2")
ORIGINS = (ORIGIN, ORIGIN, f"{ORIGIN}:8443")
FINGERPRINTS = [
    "monday",
    "tuesday",
    *(f"{call} at {origin}" for call in CALLS for origin in (ORIGIN, f"{ORIGIN}:8443")),
]
RECIPIENTS = (ADDRESS, ADDRESS, ADDRESS.lower(), OTHER)
PAY_TO: tuple[tuple[str, ...], ...] = ((), (), (), (ADDRESS,), (OTHER.lower(),))
RECEIPTS = (
    None,
    *(Receipt(success=success, transaction="0x1", network="eip155:8453", raw={}) for success in (True, False)),
    *(Receipt(success=True, transaction="0x1", network="eip155:8453", amount=told, raw={}) for told in (1, 2**80)),
)
SENT, ANSWERED, TAKEN = PaymentStage
STAGES = {
    ReasonCode.DELIVERED: ANSWERED,
    **dict.fromkeys((ReasonCode.UNDELIVERED, ReasonCode.SUSPECT, ReasonCode.TAKEN_ELSEWHERE), TAKEN),
}
CONCLUSIVE = (ReasonCode.DELIVERED, ReasonCode.UNDELIVERED)
REFUSALS = (ReasonCode.REJECTED, ReasonCode.REFUSED, ReasonCode.NOT_RECEIVED)
CODES = [code for code in ReasonCode if code is not ReasonCode.NONE]
NEEDLESS = ("submit", "submit", "trust", "pass_time", "set_budget")
NEEDY = ("resubmit", "record", "collect", "reopen", "claim", "release", "mark")


class Pick(Protocol):
    """Picks one of several values."""

    def __call__(self, options: Sequence[T], /) -> T: ...


class Course:
    """A random course of calls to a store, and what a plain model says that it must answer.

    Args:
        store: an empty store.
        pick: picks one of several values.
    """

    def __init__(self, store: Ledger, pick: Pick) -> None:
        self.store = store
        self.pick = pick
        self.now = MIDNIGHT + 80_000.0
        self.own = Budget()
        self.payments: list[Payment] = []
        self.claims: dict[str, tuple[str, float]] = {}
        self.known: dict[str, list[str]] = {}
        self.before: dict[str, Payment] = {}
        """Each as it was before its newest signature."""
        self.runs: set[tuple[str | None, str]] = set()

    # The model

    def sums(self, payments: Sequence[Payment]) -> dict[str, int]:
        """What payments count by their signatures: in the hour, today, this month, and at all."""
        day, hour = self.now // 86400 * 86400, (self.now - 3600) // 60 * 60
        month = datetime.fromtimestamp(day, UTC).replace(day=1).timestamp()
        found = dict.fromkeys(LIMITS, 0)
        for payment in payments:
            amount = 0 if payment.paid is False else payment.counted
            found["total"] += amount
            found["per_hour"] += amount * (payment.counts_until > hour)
            found["per_day"] += amount * (payment.counts_until > day)
            found["per_month"] += amount * (payment.counts_until > month)
        return found

    def is_expired(self, payment: Payment) -> bool:
        return max(payment.valid_before, payment.counts_until) + GRACE <= self.now

    def of_run(self, run: str | None) -> list[Payment]:
        """All that ever belonged to a run."""
        return [one for one in self.payments if run and (run, one.id) in self.runs]

    def held(self, payments: Sequence[Payment]) -> dict[str, int]:
        """Those without proof, and what a receipt of a smaller amount leaves."""
        without = [one for one in payments if one.paid is None]
        by_receipt = [one for one in payments if one.paid and one.proof is PaymentProof.RECEIPT]
        rests = [replace(one, counted=one.counted - one.amount) for one in by_receipt if one.counted > one.amount]
        return self.sums([*without, *rests])

    def is_unproven(self, payment: Payment) -> bool:
        is_part = payment.proof is PaymentProof.RECEIPT and payment.amount < payment.counted
        return payment.paid is None or is_part

    def blocking(self, fingerprint: str, since: float, over: float) -> list[Payment]:
        return [
            payment
            for payment in self.payments
            if payment.fingerprint == fingerprint
            and (self.is_open(payment, since, over) or self.is_waiting(payment) or self.is_kept(payment))
        ]

    def is_open(self, payment: Payment, since: float, over: float) -> bool:
        """Whether it is continued without a name: it is recent, or was handed over and its bytes can be resent."""
        is_early = payment.counts_until - self.now > LONGEST_VALIDITY + GRACE
        alive = payment.is_open and payment.valid_before > math.floor(over) and not is_early
        closed = payment.proof is PaymentProof.PERSON and payment.paid
        return alive or (payment.stage is not ANSWERED and not closed and payment.created >= since)

    def is_kept(self, payment: Payment) -> bool:
        """Whether it is found forever, by its name."""
        return payment.purchase is not None

    def is_waiting(self, payment: Payment) -> bool:
        """Whether its answer was not collected, and is not too old."""
        recent = self.now - 60 < payment.updated <= self.now + 5
        return payment.waits and payment.reply is not None and recent

    def is_refused(self, origin: str, recipient: str, pay_to: tuple[str, ...]) -> bool:
        accepted = [address.lower() for address in pay_to or self.known.get(origin, [])]
        return bool(accepted) and recipient.lower() not in accepted

    def put(self, payment: Payment, **changes: object) -> Payment:
        changed = replace(payment, **changes)  # type: ignore[arg-type]
        if changed.stage is not SENT or changed.paid is not None:
            changed = replace(changed, header=None)
        proven = changed.paid is not payment.paid and changed.stage is not ANSWERED
        if changed.stage is not payment.stage or proven or changed.signatures > payment.signatures:
            changed = replace(changed, updated=self.now)
        self.payments[self.payments.index(payment)] = changed
        self.runs.add((changed.run, changed.id))
        return changed

    def may_be_signed(self, payment: Payment, owner: str) -> bool:
        """Whether a call may sign its nonce again: it was not handed over, has expired, or is proven unpaid."""
        over = payment.paid is False or (payment.paid is None and payment.valid_before <= self.now + 6)
        is_free = not self.is_claimed_by_another(payment, owner)
        return payment.stage is SENT and (payment.submissions == 0 or over) and is_free

    def is_claimed_by_another(self, payment: Payment, owner: str) -> bool:
        holder, until = self.claims.get(payment.id, (owner, 0.0))
        return holder != owner and self.now < until <= self.now + 330

    def is_own(self, payment: Payment, owner: str | None) -> bool:
        return owner is None or self.claims.get(payment.id, ("", 0.0))[0] == owner

    def give_up(self, payment: Payment, owner: str) -> None:
        if self.claims.get(payment.id, ("", 0.0))[0] == owner:
            del self.claims[payment.id]

    def any_payment(self) -> Payment:
        return self.pick(self.payments)

    def any_budget(self) -> Budget:
        if self.pick((False, True)):
            return Budget.unlimited()
        limits = {name: self.pick(LIMIT) for name in LIMITS}
        return Budget.from_micro(limits)

    # What is done to both

    def submit(self) -> None:
        amount = self.pick(AMOUNTS)
        call = self.pick(CALLS)
        budget = self.any_budget()
        since, run = self.pick((0.0, self.now - 600)), self.pick(RUNS)
        max_total = self.pick(LIMIT) if run else None
        recipient = self.pick(RECIPIENTS)
        pay_to = self.pick(PAY_TO)
        origin = self.pick(ORIGINS)
        purchase = self.pick(NAMES)
        owner = self.pick(OWNERS)
        claim_for = self.pick([0.0, 60.0, 300.0])
        identified = self.pick((False, True))
        validity = self.pick([60, 60, 10])
        asked = draft(
            purchase or f"{call} at {origin}",
            amount=amount,
            pay_to=recipient,
            valid_before=int(self.now) + validity,
            counts_until=int(self.now) + validity + 30,
            url=f"{origin}/v1/token-prices",
            purchase=purchase,
            identified=identified,
            run=run,
            created=self.now,
            updated=self.now,
        )
        for payment in list(self.payments):
            collected = payment.stage is ANSWERED and (not payment.waits or payment.purchase is not None)
            if collected and payment.updated < self.now - 30 * 86400:
                self.put(payment, reply=None)
        found = next(iter(self.blocking(asked.fingerprint, since, self.now + 6)[::-1]), None)
        # What the call saw when it looked; another one may have gone on since.
        same = [one for one in self.payments if one.fingerprint == asked.fingerprint]
        older = [] if found is None else [replace(found, signatures=found.signatures - 1)]
        seen = self.pick([found, found, found, None, *older, *same[:1]])
        is_next = found is seen is None
        if found is not None and seen is not None:
            is_same = (found.id, found.signatures) == (seen.id, seen.signatures)
            is_next = is_same and self.may_be_signed(found, owner)
            origin = found.origin
        limits = {
            name: min(filter(None, (getattr(budget, name), getattr(self.own, name))), default=None) for name in LIMITS
        }
        forgotten = found is None or (found.paid is False and found.proof is PaymentProof.CHAIN)
        counts = amount if found is None or forgotten else max(found.counted, amount)
        spent = self.sums([one for one in self.payments if one is not found])
        by_run = self.sums([one for one in self.of_run(run) if found is None or one.id != found.id])
        expected: str | Payment | None
        if not is_next:
            expected = None
        elif self.is_refused(origin, recipient, pay_to):
            expected = "recipient_changed"
        elif max_total is not None and by_run["total"] + counts > max_total:
            expected = "over_total"
        elif max_total is None and not any(limits.values()) and not (budget.is_unlimited or self.own.is_unlimited):
            expected = "no_budget"
        elif any(
            limit is not None and spent[name] + (amount if name == "per_call" else counts) > limit
            for name, limit in limits.items()
        ):
            expected = "over_budget"
        else:
            if not pay_to and not self.known.get(origin):
                self.known[origin] = [recipient]
            expected = self.written(found, asked, counts)
            self.claims[expected.id] = (owner, self.now + claim_for)
        change = wanted(
            asked,
            budget,
            earlier=seen,
            pay_to=pay_to,
            owner=owner,
            until=self.now + claim_for,
            over=self.now + 6,
            since=since,
            max_total=max_total,
            now=self.now,
        )
        done: str | Payment | None
        try:
            row = self.store.submit(change)
            done = None if row is None else row.payment
        except PaymentRefusedError as refusal:
            done = refusal.code
        assert done == expected

    def written(self, earlier: Payment | None, asked: Payment, counts: int) -> Payment:
        """A signature of a new payment, or another one of an earlier one's nonce."""
        if earlier is None:
            self.before[asked.id] = asked
            made = replace(asked, counted=counts, submissions=1, signatures=1, header=HEADER)
            self.payments.append(made)
            self.runs.add((made.run, made.id))
            return made
        self.before[earlier.id] = earlier
        return self.put(
            earlier,
            amount=asked.amount,
            pay_to=asked.pay_to,
            identified=asked.identified,
            valid_before=asked.valid_before,
            counts_until=max(earlier.counts_until, asked.counts_until),
            run=asked.run or earlier.run,
            stage=SENT,
            proof=PaymentProof.NONE,
            paid=None,
            code=ReasonCode.NONE,
            reason="",
            counted=counts,
            header=HEADER,
            submissions=(0 if earlier.paid is False else earlier.submissions) + 1,
            settle_failed=0 if earlier.paid is False else earlier.settle_failed,
            signatures=earlier.signatures + 1,
        )

    def resubmit(self) -> None:
        older = self.pick([0, 0, 0, 1])
        owner = self.pick(OWNERS)
        payment = self.any_payment()
        signatures = payment.signatures - older
        until = self.now + self.pick([0.0, 60.0, 300.0])
        changes = {"signatures": signatures, "owner": owner, "until": until, "now": self.now}
        if not payment.is_open or older or self.is_claimed_by_another(payment, owner):
            assert resubmit(self.store, payment, **changes) == payment
            return
        expected = self.put(payment, code=ReasonCode.NONE, reason="", submissions=payment.submissions + 1)
        self.claims[payment.id] = (owner, until)
        assert resubmit(self.store, payment, **changes) == expected

    def record(self) -> None:
        code = self.pick([*CODES, *[ReasonCode.DELIVERED, ReasonCode.REJECTED] * 3])
        reason = self.pick(["", "why"])
        receipt = self.pick(RECEIPTS)
        reply = self.pick([b"prices", b"prices", None])
        older = self.pick([0, 0, 1])
        payment = self.any_payment()
        owner = self.pick((None, *OWNERS))
        before = self.before[payment.id]
        handed_over = 0 if before.paid is False else before.submissions
        # Of a signature: how many of its submissions may have arrived.
        since = payment.submissions - handed_over if payment.is_open and payment.signatures > before.signatures else 0
        if code in (ReasonCode.NOT_RECEIVED, ReasonCode.UNKNOWN) and since and self.pick((False, True)):
            sent, receipt, reply = False, None, None
        else:
            sent, code = True, ReasonCode.REJECTED if code is ReasonCode.NOT_RECEIVED else code
        settled = receipt is not None and receipt.success
        stage = STAGES.get(code, TAKEN if settled else SENT)
        own = self.is_own(payment, owner)
        if code in CONCLUSIVE or settled:
            counts = not (payment.stage is ANSWERED and stage is TAKEN)
        else:
            counts = payment.is_open or payment.is_unsent
            counts = counts and not older and (own or (sent and code not in REFUSALS))
        expected = payment
        if counts:
            changes: dict[str, Any] = {"stage": stage, "code": code, "reason": reason}
            if code is ReasonCode.SUSPECT:
                changes["settle_failed"] = max(payment.settle_failed, payment.signatures - older)
            if not sent and since == 1:
                expected = replace(before, code=code, reason=reason)
                expected = replace(expected, signatures=payment.signatures)
                self.payments[self.payments.index(payment)] = expected
                self.before[payment.id] = expected
            else:
                if not sent:
                    changes["submissions"] = payment.submissions - 1
                changes |= self.proof_of(payment, receipt, stage)
                if reply is not None and payment.stage is not ANSWERED:
                    changes |= {"reply": reply, "waits": stage is ANSWERED}
                expected = self.put(payment, **changes)
        found = told(
            self.store,
            replace(payment, signatures=payment.signatures - older),
            code,
            reason,
            receipt=receipt,
            reply=reply,
            owner=owner,
            now=self.now,
            before=before,
            sent=sent,
        )
        assert found == expected

    def proof_of(self, payment: Payment, receipt: Receipt | None, stage: PaymentStage) -> dict[str, Any]:
        if receipt is not None and receipt.success:
            told = payment.amount if receipt.amount is None else receipt.amount
            told = min(payment.counted, told)
            if payment.paid:  # more than one receipt said before is taken, and not less
                by_receipt = payment.proof is PaymentProof.RECEIPT
                return {"receipt": receipt, "amount": max(told, payment.amount) if by_receipt else payment.amount}
            return {"receipt": receipt, "proof": PaymentProof.RECEIPT, "paid": True, "amount": told}
        before = payment.receipt
        kept = before if receipt is None or (before is not None and before.success) else receipt
        wrong = payment.paid is False and stage is not SENT
        return {"receipt": kept} | ({"proof": PaymentProof.NONE, "paid": None} if wrong else {})

    def collect(self) -> None:
        owner = self.pick(OWNERS)
        keep = self.pick((False, True))
        payment = self.any_payment()
        collect(self.store, payment, owner, keep=keep)
        if payment.stage is ANSWERED and payment.waits:
            payment = self.put(payment, waits=False, reply=payment.reply if keep or payment.purchase else None)
        self.give_up(payment, owner)

    def reopen(self) -> None:
        owner = self.pick(OWNERS)
        payment = self.any_payment()
        reopen(self.store, payment, owner, b"again")
        if payment.stage is ANSWERED:
            payment = self.put(payment, waits=True, reply=payment.reply or b"again")
        self.give_up(payment, owner)

    def claim(self) -> None:
        owner = self.pick(OWNERS)
        seconds = self.pick([0.0, 60.0, 300.0])
        payment = self.any_payment()
        expected = not self.is_claimed_by_another(payment, owner)
        if expected:
            self.claims[payment.id] = (owner, self.now + seconds)
        assert claim(self.store, payment, owner, until=self.now + seconds, now=self.now) is expected

    def release(self) -> None:
        owner = self.pick(OWNERS)
        payment = self.any_payment()
        self.give_up(payment, owner)
        assert release(self.store, payment, owner) == payment

    def mark(self) -> None:
        paid = self.pick((False, True))
        evidence = self.pick(["", "chain: paid in 0x1"])
        payment = self.any_payment()
        is_taken = payment.stage is TAKEN and payment.proof is not PaymentProof.PERSON
        is_part = self.is_unproven(payment) and payment.paid is not None
        unproven = payment.stage is ANSWERED and (payment.paid is None or (is_part and paid))
        late = self.is_expired(payment)
        if (payment.is_open and (late or evidence)) or ((is_taken or unproven) and (paid or evidence or late)):
            stage = payment.stage if unproven else TAKEN if paid else SENT
            proof = PaymentProof.CHAIN if evidence else PaymentProof.PERSON
            marked = mark(self.store, payment, paid=paid, evidence=evidence, now=self.now)
            counted = payment.amount if is_part and not evidence else payment.counted
            changes = {"stage": stage, "proof": proof, "paid": paid, "counted": counted}
            assert marked == self.put(payment, **changes, reason=evidence or payment.reason)
            return
        with pytest.raises(PaymentRefusedError, match="not_unresolved") as refused:
            mark(self.store, payment, paid=paid, evidence=evidence, now=self.now)
        assert refused.value.payment == payment

    def trust(self) -> None:
        origin = self.pick(ORIGINS)
        address = self.pick(RECIPIENTS)
        trust(self.store, origin, address)
        known = self.known.setdefault(origin, [])
        if address.lower() not in [one.lower() for one in known]:
            known.append(address)

    def pass_time(self) -> None:
        seconds = self.pick(STEPS)
        self.now += seconds

    def set_budget(self) -> None:
        self.own = Budget() if self.pick((True, False)) else self.any_budget()
        set_budget(self.store, self.own)

    def play(self, steps: int) -> None:
        """Do so many steps, and compare after each."""
        for _ in range(steps):
            step = self.pick((*NEEDLESS, *(NEEDY if self.payments else ())))
            getattr(self, step)()
            self.the_same_is_spent()
            self.the_same_payments_block()
            self.the_same_payments_are_kept()
        self.finish()

    # What is compared after each step

    def the_same_is_spent(self) -> None:
        spending = self.store.spending(Budget(), now=self.now)
        spent, held = self.sums(self.payments), self.held(self.payments)
        for name, window in spending.by_limit().items():
            assert (window.counted, window.held) == (spent[name], held[name])
        assert spending.budget == budget_of(self.store) == self.own
        for run in RUNS:
            mine = self.of_run(run)
            by_run = self.sums(mine)["total"], self.held(mine)["total"]
            assert spent_by(self.store, run or "", now=self.now) == by_run

    def the_same_payments_block(self) -> None:
        for call in FINGERPRINTS:
            for since in (0.0, self.now - 600):
                found = self.store.find(call, now=self.now, since=since)
                assert found == next(iter(self.blocking(call, since, self.now)[::-1]), None)

    def the_same_payments_are_kept(self) -> None:
        assert self.store.history(limit=1000) == self.payments[::-1]

    def finish(self) -> None:
        newest = self.payments[::-1]
        for stage in PaymentStage:
            assert self.store.history(stages=[stage]) == [one for one in newest if one.stage is stage]
        for at, payment in enumerate(newest):
            assert (
                self.store.history(stages=(SENT, TAKEN), unproven=True, limit=2, before=payment.id)
                == [one for one in newest[at + 1 :] if one.stage in (SENT, TAKEN) and self.is_unproven(one)][:2]
            )
        for origin in (ORIGIN, f"{ORIGIN}:8443"):
            assert sorted(trusted(self.store, origin)) == sorted(self.known.get(origin, []))
        self.store.check()


def play_course(make_store: Callable[[], Ledger], seed: int, *, steps: int = 60) -> None:
    """The random course of a seed, on an empty store."""
    with closing(make_store()) as store:
        Course(store, random.Random(seed).choice).play(steps)
