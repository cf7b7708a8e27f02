"""Random courses of the ledger beside a slow, plain model of it: same answers, same sums, no budget ever passed."""

import sqlite3
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tradesdk._values.payment import FREE, GRACE, LIVE, UNRESOLVED, Payment, PaymentState
from tradesdk.errors import PaymentRefusedError
from tradesdk.payments.budget import LIMITS, Budget
from tradesdk.payments.ledger import schema
from tradesdk.payments.ledger.sqlite import Ledger

from ._ledger import ADDRESS, HEADER, MIDNIGHT, ORIGIN, OTHER, draft

AMOUNTS = st.sampled_from([10_000, 20_000, 30_000, 70_001])
LIMIT = st.sampled_from([None, None, 20_000, 60_000, 100_000, 250_000])
BUDGETS = st.builds(
    lambda *limits: Budget.from_micro(dict(zip(LIMITS, limits, strict=True))), LIMIT, LIMIT, LIMIT, LIMIT
)
STEPS = st.sampled_from([0.25, 1.0, 31.5, 59.0, 600.0, 1799.75, 3600.0, 40_000.0, -0.5, -1000.0, -3600.0, -90_000.0])
ENDS = {PaymentState.RESERVED: PaymentState.CANCELLED, PaymentState.REJECTED_LIVE: PaymentState.EXPIRED_UNPAID}
PAID = (PaymentState.DELIVERED, PaymentState.PAID_UNDELIVERED)


class Course(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger.memory()
        self.now = MIDNIGHT + 80_000.0
        self.own = Budget()
        self.payments: list[Payment] = []
        self.uncollected: set[str] = set()
        self.known: list[str] = []

    def counts(self) -> list[Payment]:
        return [payment for payment in self.payments if payment.state not in FREE]

    def spent(self) -> dict[str, int]:
        day = self.now // 86400 * 86400
        return {
            "per_call": 0,
            "per_hour": sum(payment.amount for payment in self.counts() if payment.created > self.now - 3600),
            "per_day": sum(payment.amount for payment in self.counts() if payment.created >= day),
            "total": sum(payment.amount for payment in self.counts()),
        }

    def standing(self, fingerprint: str) -> list[Payment]:
        return [
            payment
            for payment in self.payments
            if payment.fingerprint == fingerprint
            and not payment.superseded
            and (payment.state in LIVE | UNRESOLVED or self.is_waiting(payment))
        ]

    def is_waiting(self, payment: Payment) -> bool:
        return payment.id in self.uncollected and payment.job is None and -5 <= self.now - payment.updated < 60

    def put(self, payment: Payment, **changes: object) -> Payment:
        changed = replace(payment, **changes)  # type: ignore[arg-type]
        if changed.state not in LIVE:
            changed = replace(changed, header=None)
        if changed.state is not payment.state:
            changed = replace(changed, updated=self.now)
        self.payments[self.payments.index(payment)] = changed
        return changed

    def close_expired(self) -> list[Payment]:
        closed = []
        for payment in list(self.payments):
            if payment.live and payment.valid_before + GRACE <= self.now:
                reason = "expired before it was signed" if payment.state is PaymentState.RESERVED else payment.reason
                state = ENDS.get(payment.state, PaymentState.EXPIRED_UNKNOWN)
                closed.append(self.put(payment, state=state, reason=payment.reason or reason))
        return closed

    @rule(
        amount=AMOUNTS,
        call=st.sampled_from("abcd"),
        budget=BUDGETS,
        new_purchase=st.booleans(),
        pay_to=st.sampled_from([ADDRESS, ADDRESS, ADDRESS.lower(), OTHER]),
    )
    def reserve(self, amount: int, call: str, budget: Budget, new_purchase: bool, pay_to: str) -> None:
        asked = draft(call, amount=amount, pay_to=pay_to, valid_before=int(self.now) + 60)
        self.close_expired()
        expected: str | Payment
        standing = self.standing(call)
        limits = {
            name: min(filter(None, (getattr(budget, name), getattr(self.own, name))), default=None) for name in LIMITS
        }
        if standing and not new_purchase:
            expected = standing[-1]
        elif self.known and pay_to.lower() not in self.known:
            expected = "recipient_changed"
        elif not any(limits.values()):
            expected = "no_budget"
        elif any(limit is not None and self.spent()[name] + amount > limit for name, limit in limits.items()):
            expected = "over_budget"
        else:
            expected = replace(asked, created=self.now, updated=self.now)
            self.payments.append(expected)
        got: str | Payment
        try:
            got = self.ledger.reserve(
                asked,
                budget,
                origin=ORIGIN,
                pay_to=(),
                owner="me",
                until=0.0,
                expired=self.now,
                now=self.now,
                new_purchase=new_purchase,
            )
        except PaymentRefusedError as refusal:
            got = refusal.code
        assert got == expected

    @rule(data=st.data(), told=st.sampled_from(PaymentState))
    def settle(self, data: st.DataObject, told: PaymentState) -> None:
        if not self.payments:
            return
        payment = data.draw(st.sampled_from(self.payments))
        late = told in PAID and payment.state in FREE | {PaymentState.EXPIRED_UNKNOWN}
        moves = payment.live or (late and payment.state is not PaymentState.CANCELLED)
        moves = moves or (told is PaymentState.DELIVERED and payment.state is PaymentState.PAID_UNDELIVERED)
        expected = payment
        reply = data.draw(st.sampled_from([None, b"prices"]))
        if moves or told is payment.state:
            if told is PaymentState.DELIVERED is not payment.state and reply is not None:
                self.uncollected.add(payment.id)
            expected = self.put(payment, state=told, reason="told", reply=payment.reply if reply is None else reply)
        assert self.ledger.settle(payment.id, told, reason="told", reply=reply, now=self.now) == expected

    @rule(data=st.data(), keep=st.booleans(), job=st.sampled_from([None, None, "tuesday"]))
    def collect(self, data: st.DataObject, keep: bool, job: str | None) -> None:
        if not self.payments:
            return
        payment = data.draw(st.sampled_from(self.payments))
        self.ledger.collect(payment.id, owner="me", keep=keep, job=job)
        if payment.id in self.uncollected:
            self.uncollected.remove(payment.id)
            job = payment.job or job
            payment = self.put(payment, job=job, reply=payment.reply if keep or job else None)
        assert self.ledger.get(payment.id) == payment

    @rule(data=st.data())
    def reopen(self, data: st.DataObject) -> None:
        if not self.payments:
            return
        payment = data.draw(st.sampled_from(self.payments))
        self.ledger.reopen(payment.id, owner="me", reply=b"prices")
        if payment.state is PaymentState.DELIVERED:
            payment = self.put(payment, reply=payment.reply or b"prices")
            self.uncollected.add(payment.id)
        assert self.ledger.get(payment.id) == payment

    @rule(data=st.data())
    def submit(self, data: st.DataObject) -> None:
        reserved = [payment for payment in self.payments if payment.state is PaymentState.RESERVED]
        if reserved:
            payment = data.draw(st.sampled_from(reserved))
            if self.known and payment.pay_to.lower() not in self.known:
                with pytest.raises(PaymentRefusedError, match="recipient_changed"):
                    self.ledger.submit(payment.id, HEADER, now=self.now)
                return
            self.known = self.known or [payment.pay_to.lower()]
            for earlier in self.payments[: self.payments.index(payment)]:
                of_the_call = earlier.fingerprint == payment.fingerprint and not earlier.superseded
                kept = earlier.id in self.uncollected and earlier.job is None
                stands = earlier.state in LIVE | UNRESOLVED and earlier.state is not PaymentState.RESERVED
                if of_the_call and (stands or kept):
                    self.put(earlier, superseded=True)
            expected = self.put(payment, state=PaymentState.SUBMITTED, header=HEADER, submissions=1, reason="")
            assert self.ledger.submit(payment.id, HEADER, now=self.now) == expected

    @rule(data=st.data(), paid=st.booleans())
    def mark(self, data: st.DataObject, paid: bool) -> None:
        unresolved = [payment for payment in self.payments if payment.state in UNRESOLVED]
        if unresolved:
            payment = data.draw(st.sampled_from(unresolved))
            state = PaymentState.MARKED_PAID if paid else PaymentState.MARKED_UNPAID
            assert self.ledger.mark(payment.id, paid=paid, now=self.now) == self.put(payment, state=state)

    @rule()
    def expire(self) -> None:
        assert self.ledger.expire(self.now, now=self.now) == self.close_expired()

    @rule(seconds=STEPS)
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule(budget=BUDGETS)
    def set_budget(self, budget: Budget) -> None:
        self.ledger.set_budget(budget)
        self.own = budget

    @invariant()
    def the_same_is_spent(self) -> None:
        spending = self.ledger.spending(Budget(), now=self.now)
        spent = self.spent()
        assert (spending.last_hour, spending.today, spending.total) == (
            spent["per_hour"],
            spent["per_day"],
            spent["total"],
        )
        assert spending.reserved == sum(payment.amount for payment in self.payments if payment.live)
        assert spending.budget == self.own

    @invariant()
    def the_same_stands_in_the_way(self) -> None:
        for call in "abcd":
            assert self.ledger.find(call, now=self.now) == next(iter(self.standing(call)[::-1]), None)

    def teardown(self) -> None:
        newest = self.payments[::-1]
        assert self.ledger.history(limit=1000) == newest
        for state in PaymentState:
            assert self.ledger.history(states=[state]) == [one for one in newest if one.state is state]


TestCourses = Course.TestCase
TestCourses.settings = settings(max_examples=40, stateful_step_count=30)


@pytest.mark.long
def test_many_courses() -> None:
    run_state_machine_as_test(Course, settings=settings(max_examples=400, stateful_step_count=60))


@pytest.mark.parametrize(
    ("statement", "values", "index"),
    [
        (schema.BLOCKING, {"fingerprint": "a", "after": 0, "until": 0}, "standing"),
        (schema.SUPERSEDE, ("a", "pay_1"), "standing"),
        (schema.EXPIRING, (0,), "by_state"),
        (schema.EXPIRING_OF, (ORIGIN, ORIGIN, 0), "INDEX live (url>? AND url<?"),
        (schema.SPENT, dict.fromkeys(("since", "second", "minute", "day", "today"), 0), "INDEX counted"),
        (schema.COUNTED, (0,), "counted"),
        (schema.DELIVERED, ("a", "b"), "by_job"),
        (schema.newest_of(2), ("delivered", 9, 9, "unknown", 9, 9, 9), "by_state"),
        (schema.BY_ID, ("a",), "autoindex"),
    ],
)
def test_no_question_reads_the_whole_ledger(
    statement: str, values: tuple[object, ...] | dict[str, object], index: str
) -> None:
    db = sqlite3.connect(":memory:")
    for step in schema.MIGRATIONS:
        for line in step:
            db.execute(line)
    plan = " / ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", values))
    db.close()
    assert index in plan
    assert "SCAN payments" not in plan
    assert "SCAN sums" not in plan
