"""Random courses of a store beside a slow, plain model of it: same answers, same sums, no budget ever exceeded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from tradesdk import Budget, LedgerStore, Payment, PaymentRefusedError, PaymentState, Receipt
from tradesdk._values.payment import FREE, GRACE, LIVE, RENEWABLE, UNRESOLVED, Earlier
from tradesdk.payments.budget import LIMITS, Release

from .expectations import raises
from .ledger_payments import ADDRESS, HEADER, MIDNIGHT, ORIGIN, OTHER, draft

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
)
EXPIRED_UNKNOWN = PaymentState.EXPIRED_UNKNOWN
TERMS = ("amount", "pay_to", "identified")
PAID = (PaymentState.DELIVERED, PaymentState.PAID_UNDELIVERED)
NEEDLESS = ("reserve", "expire", "trust", "pass_time", "set_budget")
NEEDY = ("submit", "resubmit", "settle", "collect", "reopen", "claim", "give_back", "mark")


class Pick(Protocol):
    """Picks one of several values."""

    def __call__(self, options: Sequence[T], /) -> T: ...


class Course:
    """A random course of calls to a store, and what a plain model says that it must answer.

    Args:
        store: an empty store.
        pick: picks one of several values.
    """

    def __init__(self, store: LedgerStore, pick: Pick) -> None:
        self.store = store
        self.pick = pick
        self.now = MIDNIGHT + 80_000.0
        self.own = Budget()
        self.release = "proof"
        self.payments: list[Payment] = []
        self.uncollected: set[str] = set()
        self.claims: dict[str, tuple[str, float]] = {}
        self.known: dict[str, list[str]] = {}
        self.terms: dict[str, dict[str, Any]] = {}

    # The model

    def counts(self) -> list[Payment]:
        released = {PaymentState.EXPIRED_UNPAID} if self.release == "service" else set()
        return [payment for payment in self.payments if payment.state not in FREE | released]

    def spent(self) -> dict[str, int]:
        day = self.now // 86400 * 86400
        return {
            "per_call": 0,
            "per_hour": sum(payment.counted for payment in self.counts() if payment.counts_until > self.now - 3600),
            "per_day": sum(payment.counted for payment in self.counts() if payment.counts_until >= day),
            "total": sum(payment.counted for payment in self.counts()),
        }

    def is_proven(self, payment: Payment) -> bool:
        by_receipt = payment.receipt is not None and payment.receipt.success
        return payment.state is PaymentState.MARKED_PAID or payment.witnessed or by_receipt

    def spent_by(self, run: str | None) -> int:
        return sum(one.counted for one in self.payments if one.run == run and run and one.state not in FREE)

    def held(self) -> dict[str, int]:
        proven = [one for one in self.payments if self.is_proven(one)]
        every, self.payments = self.payments, [one for one in self.payments if one not in proven]
        try:
            return self.spent()
        finally:
            self.payments = every

    def blocking(self, fingerprint: str, since: float) -> list[Payment]:
        return [
            payment
            for payment in self.payments
            if payment.fingerprint == fingerprint
            and (self.is_open(payment, since) or self.is_waiting(payment) or self.is_kept(payment))
        ]

    def is_open(self, payment: Payment, since: float) -> bool:
        """Whether it is continued without a name: it is recent, or may still be taken."""
        alive = payment.live and payment.counts_until > self.now - GRACE
        return payment.state in LIVE | UNRESOLVED | RENEWABLE and (payment.created >= since or alive)

    def is_kept(self, payment: Payment) -> bool:
        """Whether it is found forever, by its name."""
        return payment.purchase is not None and payment.state is not PaymentState.CANCELLED

    def is_waiting(self, payment: Payment) -> bool:
        """Whether its answer was not collected, and is not too old."""
        recent = self.now - 60 < payment.updated <= self.now + 5
        return payment.id in self.uncollected and payment.reply is not None and recent

    def is_refused(self, origin: str, recipient: str, pay_to: tuple[str, ...]) -> bool:
        accepted = [address.lower() for address in pay_to or self.known.get(origin, [])]
        return bool(accepted) and recipient.lower() not in accepted

    def put(self, payment: Payment, **changes: object) -> Payment:
        changed = replace(payment, **changes)  # type: ignore[arg-type]
        if changed.state not in (LIVE | RENEWABLE if changed.identified else LIVE):
            changed = replace(changed, header=None)
        if changed.state is not payment.state:
            changed = replace(changed, updated=self.now)
        self.payments[self.payments.index(payment)] = changed
        return changed

    def close_expired(self, origin: str | None = None) -> list[Payment]:
        closed = []
        for payment in list(self.payments):
            if payment.live and payment.valid_before + GRACE <= self.now and origin in (None, payment.origin):
                reason = "expired before it was signed" if payment.state is PaymentState.RESERVED else payment.reason
                after: dict[str, Any] = {"state": EXPIRED_UNKNOWN}
                if payment.state is PaymentState.RESERVED:
                    after = self.unsent(payment)
                elif payment.submissions == 0:
                    after = {"state": PaymentState.CANCELLED}
                elif payment.state is PaymentState.REJECTED_LIVE:
                    after = {"state": PaymentState.EXPIRED_UNPAID}
                closed.append(self.put(payment, **after, reason=payment.reason or reason))
        return closed

    def unsent(self, payment: Payment) -> dict[str, Any]:
        if payment.earlier is None:
            return {"state": PaymentState.CANCELLED}
        before = payment.earlier._asdict()
        return before if payment.state is PaymentState.RESERVED else {"state": before["state"]}

    def renewed(self, earlier: Payment, wanted: Payment, owner: str) -> Payment | None:
        """The same payment, reserved again; None where it can still be sent, or somebody else has claimed it."""
        closed = (PaymentState.DELIVERED, PaymentState.MARKED_PAID)
        over = earlier.state not in (*UNRESOLVED, PaymentState.RESERVED, *closed)
        over = over and (not earlier.live or earlier.valid_before <= self.now + 6)
        if not over or self.is_claimed_by_another(earlier, owner):
            return None
        expired = PaymentState.EXPIRED_UNPAID if earlier.state is PaymentState.REJECTED_LIVE else EXPIRED_UNKNOWN
        if earlier.submissions == 0:
            expired = PaymentState.CANCELLED
        return replace(
            earlier,
            state=PaymentState.RESERVED,
            earlier=Earlier(
                expired if earlier.live else earlier.state, earlier.counted, earlier.valid_before, earlier.counts_until
            ),
            counted=max(earlier.counted, wanted.amount),
            valid_before=wanted.valid_before,
            counts_until=max(earlier.counts_until, wanted.counts_until),
            updated=self.now,
            run=wanted.run or earlier.run,
        )

    def is_claimed_by_another(self, payment: Payment, owner: str) -> bool:
        holder, until = self.claims.get(payment.id, (owner, 0.0))
        return holder != owner and self.now < until <= self.now + 330

    def is_of_another(self, payment: Payment, owner: str | None) -> bool:
        return owner is not None and self.claims.get(payment.id, (owner, 0.0))[0] != owner

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
        release: Release = self.pick(("proof", "service"))
        return Budget.from_micro(limits, release if any(limits.values()) else "proof")

    # What is done to both

    def reserve(self) -> None:
        amount = self.pick(AMOUNTS)
        call = self.pick(CALLS)
        budget = self.any_budget()
        since, run, max_total = self.pick((0.0, self.now - 600)), self.pick(RUNS), self.pick(LIMIT)
        recipient = self.pick(RECIPIENTS)
        pay_to = self.pick(PAY_TO)
        origin = self.pick(ORIGINS)
        purchase = self.pick(NAMES)
        owner = self.pick(OWNERS)
        claim = self.pick([0.0, 60.0, 300.0])
        identified = self.pick((False, True))
        wanted = draft(
            purchase or f"{call} at {origin}",
            amount=amount,
            pay_to=recipient,
            valid_before=int(self.now) + 60,
            counts_until=int(self.now) + 90,
            url=f"{origin}/v1/token-prices",
            purchase=purchase,
            identified=identified,
            run=run,
        )
        call = wanted.fingerprint
        self.close_expired(origin)
        for payment in list(self.payments):
            collected = payment.state is PaymentState.DELIVERED and (
                payment.id not in self.uncollected or payment.purchase is not None
            )
            if collected and payment.updated < self.now - 30 * 86400:
                self.put(payment, reply=None)
        expected: str | tuple[Payment, bool]
        blocking = self.blocking(call, since)
        limits = {
            name: min(filter(None, (getattr(budget, name), getattr(self.own, name))), default=None) for name in LIMITS
        }
        earlier = blocking[-1] if blocking else None
        again = None if earlier is None else self.renewed(earlier, wanted, owner)
        self.release = budget.strictest(self.own).release
        counted = 0 if again is None else again.counted - amount
        spent, spent_by_run = self.spent(), self.spent_by(run)
        if earlier is not None and again is not None:
            self.payments.remove(earlier)
            spent, spent_by_run = self.spent(), self.spent_by(run)
            self.payments = sorted([*self.payments, earlier], key=lambda one: int(one.id[4:], 16))
        self.release = self.own.release
        if earlier is not None and again is None:
            expected = (earlier, False)
        elif self.is_refused(origin, recipient, pay_to):
            expected = "recipient_changed"
        elif max_total is not None and spent_by_run + amount + counted > max_total:
            expected = "over_total"
        elif max_total is None and not any(limits.values()) and not (budget.is_unlimited or self.own.is_unlimited):
            expected = "no_budget"
        elif any(
            limit is not None and spent[name] + amount + (0 if name == "per_call" else counted) > limit
            for name, limit in limits.items()
        ):
            expected = "over_budget"
        elif earlier is not None and again is not None:
            self.payments[self.payments.index(earlier)] = again
            self.claims[again.id] = (owner, self.now + claim)
            self.terms[again.id] = {name: getattr(wanted, name) for name in TERMS}
            expected = (again, True)
        else:
            made = replace(wanted, created=self.now, updated=self.now)
            self.payments.append(made)
            self.claims[wanted.id] = (owner, self.now + claim)
            expected = (made, True)
        found: str | tuple[Payment, bool]
        try:
            found = self.store.reserve(
                wanted,
                budget,
                origin=origin,
                pay_to=pay_to,
                owner=owner,
                until=self.now + claim,
                expired=self.now,
                over=self.now + 6,
                since=since,
                max_total=max_total,
                now=self.now,
            )
        except PaymentRefusedError as refusal:
            found = refusal.code
        assert found == expected

    def submit(self) -> None:
        pay_to = self.pick(PAY_TO)
        owner = self.pick([None, *OWNERS])
        reserved = [payment for payment in self.payments if payment.state is PaymentState.RESERVED]
        payment = self.pick(reserved or self.payments)
        terms = self.terms.get(payment.id, {})
        expected: str | Payment
        if payment.state is not PaymentState.RESERVED or self.is_of_another(payment, owner):
            expected = "reservation_lost"
        elif not pay_to and self.is_refused(payment.origin, terms.get("pay_to", payment.pay_to), ()):
            expected = "recipient_changed"
        else:
            if not pay_to and not self.known.get(payment.origin):
                self.known[payment.origin] = [terms.get("pay_to", payment.pay_to)]
            expected = self.put(
                payment,
                **terms,
                state=PaymentState.SUBMITTED,
                header=HEADER,
                submissions=payment.submissions + 1,
                signatures=payment.signatures + 1,
                reason="",
            )
        found: str | Payment
        try:
            signed = replace(payment, **terms)
            found = self.store.submit(signed, HEADER, pay_to=pay_to, owner=owner, now=self.now)
        except PaymentRefusedError as refusal:
            found = refusal.code
        assert found == expected

    def resubmit(self) -> None:
        older = self.pick([0, 0, 0, 1])
        owner = self.pick([None, *OWNERS])
        payment = self.any_payment()
        signatures = payment.signatures - older
        if payment.state in (PaymentState.RESERVED, PaymentState.CANCELLED):
            with raises(PaymentRefusedError, "not_submitted"):
                self.store.resubmit(payment.id, signatures=signatures, now=self.now)
            return
        may_be_sent = payment.live and not older and self.is_own(payment, owner)
        if may_be_sent:
            state = PaymentState.SUBMITTED if payment.state is PaymentState.REJECTED_LIVE else payment.state
            payment = self.put(payment, state=state, submissions=payment.submissions + 1)
        found = self.store.resubmit(payment.id, signatures=signatures, owner=owner, now=self.now)
        assert found == (payment, may_be_sent)

    def settle(self) -> None:
        reported = self.pick([*PaymentState, *[PaymentState.DELIVERED, PaymentState.REJECTED_LIVE] * 3])
        reason = self.pick(["", "why"])
        receipt = self.pick(RECEIPTS)
        reply = self.pick([b"prices", b"prices", None])
        submissions = self.pick([None, 0, 3])
        settle_failed = self.pick([None, 0, 1])
        older = self.pick([None, 0, 0, 1])
        payment = self.any_payment()
        signatures = None if older is None else payment.signatures - older
        asked, owner = reported, self.pick((None, *OWNERS))
        if reported is PaymentState.CANCELLED:
            own = owner is not None and self.is_own(payment, owner)
            unsent = payment.state is PaymentState.RESERVED or (own and payment.state is PaymentState.SUBMITTED)
            if not unsent or self.is_of_another(payment, owner):
                assert self.store.settle(payment.id, asked, owner=owner, now=self.now) == payment
                return
            reported = self.unsent(payment)["state"]
        moves = payment.live or (reported in PAID and payment.state in RENEWABLE)
        moves = moves or (reported is PaymentState.DELIVERED and payment.state in UNRESOLVED)
        expected = payment
        counts = not older and (reported is not PaymentState.REJECTED_LIVE or self.is_own(payment, owner))
        if (moves or reported is payment.state) and (counts or reported in PAID):
            if reported is PaymentState.DELIVERED is not payment.state and reply is not None:
                self.uncollected.add(payment.id)
            before = payment.receipt
            counts_then = self.unsent(payment) if reported is not PaymentState.RESERVED else {}
            is_first_proof = receipt is not None and receipt.success and not self.is_proven(payment)
            if is_first_proof:  # it counts at the moment of the receipt
                until = counts_then.get("counts_until", payment.counts_until)
                counts_then |= {"counts_until": min(until, math.ceil(self.now))}
            kept = before is not None and (receipt is None or (before.success and not receipt.success))
            expected = self.put(
                payment,
                **counts_then | {"state": reported},
                reason=payment.reason if not reason and reported is payment.state else reason,
                receipt=before if kept else receipt,
                reply=payment.reply if reply is None else reply,
                submissions=payment.submissions if submissions is None else submissions,
                settle_failed=payment.settle_failed if settle_failed is None else settle_failed,
            )
        found = self.store.settle(
            payment.id,
            asked,
            reason=reason,
            receipt=receipt,
            reply=reply,
            submissions=submissions,
            settle_failed=settle_failed,
            signatures=signatures,
            owner=owner,
            now=self.now,
        )
        assert found == expected

    def collect(self) -> None:
        owner = self.pick(OWNERS)
        keep = self.pick((False, True))
        payment = self.any_payment()
        self.store.collect(payment.id, owner=owner, keep=keep)
        self.give_up(payment, owner)
        if payment.id in self.uncollected:
            self.uncollected.remove(payment.id)
            self.put(payment, reply=payment.reply if keep or payment.purchase else None)

    def reopen(self) -> None:
        owner = self.pick(OWNERS)
        payment = self.any_payment()
        self.store.reopen(payment.id, owner=owner, reply=b"again")
        self.give_up(payment, owner)
        if payment.state is PaymentState.DELIVERED:
            self.put(payment, reply=payment.reply or b"again")
            self.uncollected.add(payment.id)

    def claim(self) -> None:
        owner = self.pick(OWNERS)
        seconds = self.pick([0.0, 60.0, 300.0])
        payment = self.any_payment()
        expected = not self.is_claimed_by_another(payment, owner)
        if expected:
            self.claims[payment.id] = (owner, self.now + seconds)
        assert self.store.claim(payment.id, owner=owner, until=self.now + seconds, now=self.now) is expected

    def give_back(self) -> None:
        owner = self.pick(OWNERS)
        payment = self.any_payment()
        self.store.give_back(payment.id, owner=owner)
        self.give_up(payment, owner)

    def mark(self) -> None:
        paid = self.pick((False, True))
        evidence = self.pick(["", "chain: paid in 0x1"])
        payment = self.any_payment()
        markable = (*UNRESOLVED, PaymentState.EXPIRED_UNPAID, EXPIRED_UNKNOWN)
        late = max(payment.valid_before, payment.counts_until) + GRACE <= self.now
        unproven = payment.state is PaymentState.DELIVERED and payment.charged == "unknown"
        if unproven and (paid or evidence or late):
            marked = self.store.mark(payment.id, paid=paid, evidence=evidence, now=self.now)
            counted = payment.counted if paid else 0
            changed = self.put(payment, reason=evidence or payment.reason, witnessed=paid, counted=counted)
            assert marked == changed
            return
        if (payment.state in markable and (paid or evidence or late)) or (payment.live and late):
            taken = PaymentState.PAID_UNDELIVERED if evidence else PaymentState.MARKED_PAID
            state, reason = taken if paid else PaymentState.MARKED_UNPAID, evidence or payment.reason
            marked = self.store.mark(payment.id, paid=paid, evidence=evidence, now=self.now)
            witnessed = payment.witnessed or (paid and bool(evidence))
            assert marked == self.put(payment, state=state, reason=reason, witnessed=witnessed)
            return
        with raises(PaymentRefusedError, "not_unresolved") as refused:
            self.store.mark(payment.id, paid=paid, now=self.now)
        assert refused.value.payment == payment

    def expire(self) -> None:
        origin = self.pick([None, ORIGIN, f"{ORIGIN}:8443"])
        assert self.store.expire(self.now, now=self.now, origin=origin) == self.close_expired(origin)

    def trust(self) -> None:
        origin = self.pick(ORIGINS)
        address = self.pick(RECIPIENTS)
        self.store.trust(origin, address, now=self.now)
        known = self.known.setdefault(origin, [])
        if address.lower() not in [one.lower() for one in known]:
            known.append(address)

    def pass_time(self) -> None:
        seconds = self.pick(STEPS)
        self.now += seconds

    def set_budget(self) -> None:
        budget = Budget() if self.pick((True, False)) else self.any_budget()
        self.store.set_budget(budget)
        self.own, self.release = budget, budget.release

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
        spent = self.spent()
        assert (spending.last_hour, spending.today, spending.total) == (
            spent["per_hour"],
            spent["per_day"],
            spent["total"],
        )
        held = self.held()
        assert (spending.held_last_hour, spending.held_today, spending.held) == (
            held["per_hour"],
            held["per_day"],
            held["total"],
        )
        assert spending.budget == self.store.budget() == self.own
        for run in RUNS:
            assert self.store.run_spending(run or "").total == self.spent_by(run)

    def the_same_payments_block(self) -> None:
        for call in FINGERPRINTS:
            for since in (0.0, self.now - 600):
                found = self.store.find(call, now=self.now, since=since)
                assert found == next(iter(self.blocking(call, since)[::-1]), None)

    def the_same_payments_are_kept(self) -> None:
        assert self.store.history(limit=1000) == self.payments[::-1]

    def finish(self) -> None:
        newest = self.payments[::-1]
        for state in PaymentState:
            assert self.store.history(states=[state]) == [one for one in newest if one.state is state]
        for at, payment in enumerate(newest):
            assert (
                self.store.history(states=tuple(LIVE), limit=2, before=payment.id)
                == [one for one in newest[at + 1 :] if one.live][:2]
            )
        for origin in (ORIGIN, f"{ORIGIN}:8443"):
            assert sorted(self.store.trusted(origin)) == sorted(self.known.get(origin, []))
