"""What follows an answer to a payment: the same bytes again, or an end, and what the ledger says then."""

from dataclasses import replace
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from tradesdk import Payment, PaymentStage, Receipt, RetryPolicy
from tradesdk._http.service_time import Moment
from tradesdk.payments.state_machine import (
    BARE,
    DELIVERED,
    MAX_RESENDS,
    NOT_RECEIVED,
    OPEN,
    REFUSED,
    REJECTED,
    SUSPECT,
    TAKEN_ELSEWHERE,
    UNDELIVERED,
    UNSETTLED,
    Meaning,
    Report,
    Tries,
)
from tradesdk.types import Failure, FailureCause

from .._rows import each_of
from ._ledger import draft

NOW = 1_800_000_000.0
STATUS = {
    DELIVERED: 200,
    OPEN: 500,
    BARE: 402,
    UNSETTLED: 402,
    REJECTED: 402,
    REFUSED: 404,
    UNDELIVERED: 402,
    NOT_RECEIVED: 0,
}
"""What an answer may mean, and its status."""
DOUBTS = (OPEN, UNSETTLED, BARE)


def answer(meaning: Meaning, headers: dict[str, str] | None = None) -> Report:
    failure = Failure(FailureCause.STATUS, STATUS[meaning], headers or {})
    return Report(meaning, meaning.code.value, failure, sent=meaning is not NOT_RECEIVED)


def slow_down(headers: dict[str, str]) -> Report:
    return Report(OPEN, "429", Failure(FailureCause.STATUS, 429, headers))


class Judged(NamedTuple):
    report: Report
    wait: float | None
    signs: bool


class Walk:
    """The submissions of one payment in one call."""

    def __init__(self, policy: RetryPolicy, payment: Payment, tries: Tries) -> None:
        self._policy, self._payment, self.tries = policy, payment, tries

    def next(self, report: Report, *, at: float, now: float, time_left: float) -> Judged:
        moment = Moment(now, 0.0, at, at, is_known=True)
        wait = self.tries.judge(report, self._payment, self._policy, moment, time_left, random=lambda: 0.0)
        return Judged(self.tries.end(), wait, self.tries.signs)


def flow(
    before: Meaning | None = None,
    *,
    valid: float = 10_000,
    policy: RetryPolicy | None = None,
    again: bool = False,
    paid: bool | None = None,
    settle_failed: int = 0,
    purchase: str | None = None,
    expired: bool = False,
) -> Walk:
    """A payment that was sent with that result, and is resent or signed `again`; without a result: its first time."""
    fresh = draft(valid_before=int(NOW + valid), purchase=purchase, settle_failed=settle_failed)
    sent = replace(fresh, stage=PaymentStage.SENT, submissions=1, signatures=1)
    earlier = fresh if before is None else replace(sent, code=before.code, paid=paid)
    signed = replace(sent, submissions=2, signatures=2) if again else sent
    return Walk(policy or RetryPolicy(), signed, Tries(earlier, expired))


def next_of(
    walk: Walk, meaning: Meaning, *, at: float = NOW, time_left: float = 10_000
) -> tuple[Meaning, float | None]:
    step = walk.next(answer(meaning), at=at, now=NOW, time_left=time_left)
    return step.report.meaning, step.wait


@each_of(
    ("meaning", "then", "again"),
    [
        (DELIVERED, DELIVERED, False),
        (UNDELIVERED, OPEN, False),
        (REJECTED, REJECTED, False),
        (REFUSED, REFUSED, False),
        (OPEN, OPEN, True),
        (UNSETTLED, UNSETTLED, True),
        (BARE, BARE, True),
        (NOT_RECEIVED, NOT_RECEIVED, True),
    ],
)
def test_after_the_first_answer(meaning: Meaning, then: Meaning, again: bool) -> None:
    found, wait = next_of(flow(), meaning)
    assert found is then
    assert (wait is not None) == again


def test_a_name_whose_nonce_is_used_at_once_was_bought_elsewhere() -> None:
    assert next_of(flow(purchase="tuesday"), UNDELIVERED) == (TAKEN_ELSEWHERE, None)


@each_of("again", [False, True])
@each_of(
    ("meaning", "then"),
    [
        (DELIVERED, DELIVERED),
        (UNDELIVERED, UNDELIVERED),
        (REJECTED, OPEN),
        (REFUSED, OPEN),
        (OPEN, OPEN),
        (BARE, BARE),
        (NOT_RECEIVED, OPEN),
    ],
)
def test_after_a_submission_in_doubt_a_refusal_proves_nothing(meaning: Meaning, then: Meaning, again: bool) -> None:
    """Of the same bytes, or of the same nonce that was signed again."""
    assert next_of(flow(OPEN, again=again), meaning)[0] is then


@each_of(("before", "paid"), [(REJECTED, None), (OPEN, False)])
def test_the_next_signature_of_a_nonce_that_was_not_taken_as_far_as_is_known(
    before: Meaning, paid: bool | None
) -> None:
    """A used nonce means that an earlier signature was taken after all; a refusal is one again."""
    used, rejected = UNDELIVERED, REJECTED
    assert next_of(flow(before, again=True, paid=paid), used) == (used, None)
    assert next_of(flow(before, again=True, paid=paid), rejected) == (rejected, None)
    assert next_of(flow(rejected), rejected) == (rejected, None)
    assert next_of(flow(rejected), used)[0] is used


@each_of(("settle_failed", "then"), [(0, UNSETTLED), (2, UNSETTLED), (1, SUSPECT)])
def test_two_signatures_that_were_not_settled_are_suspect(settle_failed: int, then: Meaning) -> None:
    """The second refusal is the end; of one signature there may be several."""
    found, wait = next_of(flow(OPEN, again=True, settle_failed=settle_failed), UNSETTLED)
    assert (found, wait) == (then, 2 if then is UNSETTLED else None)


@each_of("doubt", DOUBTS)
@each_of("refusal", [REJECTED, REFUSED])
def test_doubt_within_the_call_counts_as_well(doubt: Meaning, refusal: Meaning) -> None:
    walk = flow()
    assert next_of(walk, doubt)[1] is not None
    assert next_of(walk, refusal) == (UNSETTLED if doubt is UNSETTLED else OPEN, None)


FIVE = [2, 4, 8, 16, 32, None, None]


@each_of(
    ("meanings", "options", "waits"),
    [
        ([OPEN] * 7, {}, FIVE),
        ([NOT_RECEIVED] * 7, {}, FIVE),
        ([BARE] * 4, {}, [2, 4, None, None]),
        ([OPEN, BARE, OPEN, BARE, BARE], {}, [2, 4, 8, 16, None]),
        ([OPEN] * 2, {"policy": RetryPolicy(max_retries=1)}, [2, None]),
        ([OPEN], {"valid": 2 + 6}, [None]),
        ([OPEN], {"valid": 2 + 7}, [2]),
    ],
)
def test_how_often_it_is_resent(meanings: list[Meaning], options: dict[str, Any], waits: list[float | None]) -> None:
    """At most five times, or as the policy allows; twice after a bare 402; never in the last six seconds."""
    walk = flow(**options)
    assert [next_of(walk, meaning) for meaning in meanings] == list(zip(meanings, waits, strict=True))


def test_nothing_is_handed_over_past_the_deadline() -> None:
    assert next_of(flow(), OPEN, time_left=1.9)[1] is None
    assert next_of(flow(), OPEN, time_left=2.0)[1] == 2.0


def test_a_wait_that_the_service_asks_for_is_kept_or_given_up() -> None:
    asked = slow_down({"retry-after": "20"})
    assert flow().next(asked, at=NOW, now=NOW, time_left=1000).wait == 20
    assert flow(valid=25).next(asked, at=NOW, now=NOW, time_left=1000).wait is None
    too_long = slow_down({"retry-after": "121"})
    assert flow().next(too_long, at=NOW, now=NOW, time_left=1000).wait is None


def test_a_first_answer_that_says_it_was_settled_before() -> None:
    """A receipt is believed; a used nonce that was never shown to anybody is not."""
    settled = Receipt(success=True, transaction="0x1", network="eip155:8453", raw={})
    report = replace(answer(UNDELIVERED), receipt=settled)
    assert flow().next(report, at=NOW, now=NOW, time_left=1000)[:2] == (report, None)


def test_a_receipt_of_success_counts_whatever_the_service_says_later() -> None:
    """It settles, and answers 503; when the same bytes come once more, it fails to settle them a second time."""
    settled, walk = Receipt(success=True, transaction="0x1", network="eip155:8453", raw={}), flow()
    walk.next(replace(answer(OPEN), receipt=settled), at=NOW, now=NOW, time_left=1000)
    for meaning in (UNSETTLED, OPEN):
        found = walk.next(answer(meaning), at=NOW, now=NOW, time_left=1000).report
        assert (found.receipt, found.stage) == (settled, PaymentStage.TAKEN)


def test_what_cannot_be_helped_is_not_tried_again() -> None:
    """A certificate that is refused, a host that is not known."""
    refused = Report(NOT_RECEIVED, "certificate", Failure(FailureCause.HOPELESS), sent=False)
    assert flow().next(refused, at=NOW, now=NOW, time_left=1000)[:2] == (refused, None)


def test_what_is_written_if_a_call_ends() -> None:
    """What the last answer meant; before the first one, that nothing was handed over, as far as this call knows."""
    walk = flow()
    for _ in range(2):
        assert (walk.tries.end("canceled").meaning, walk.tries.end().sent) == (NOT_RECEIVED, False)
        next_of(walk, NOT_RECEIVED)
    next_of(walk, OPEN)
    assert (walk.tries.end("canceled").meaning, walk.tries.end().sent) == (OPEN, True)
    doubt = flow(OPEN).tries.end("canceled")
    assert (doubt.meaning, doubt.reason, doubt.sent) == (OPEN, "canceled", False)


def test_a_node_that_was_asked_may_have_handed_it_on() -> None:
    """So it counts as handed over, whatever the service says, and a used nonce is no contradiction."""
    for meaning, then in ((NOT_RECEIVED, OPEN), (REJECTED, REJECTED), (UNDELIVERED, UNDELIVERED)):
        walk = flow()
        walk.tries.shown = True
        assert (walk.tries.end().meaning, walk.tries.end().sent) == (OPEN, True)
        assert next_of(walk, meaning)[0] is then
        assert walk.tries.end().sent


def test_a_failed_settlement_is_not_forgotten_before_the_call_ends() -> None:
    """Only its end is written, and the next signature that is not settled is suspect then."""
    walk = flow()
    assert [next_of(walk, meaning)[0] for meaning in (UNSETTLED, OPEN, BARE, REJECTED)] == [UNSETTLED] * 4
    assert next_of(walk, DELIVERED)[0] is DELIVERED


@each_of(
    ("meaning", "then", "signs"),
    [
        (DELIVERED, DELIVERED, False),
        (BARE, BARE, True),
        (UNSETTLED, OPEN, True),
        (REJECTED, OPEN, True),
        (REFUSED, OPEN, True),
        (OPEN, OPEN, False),
        (NOT_RECEIVED, OPEN, False),
        (UNDELIVERED, UNDELIVERED, False),
    ],
)
def test_an_expired_one_is_sent_once_for_an_answer_that_may_be_kept(
    meaning: Meaning, then: Meaning, signs: bool
) -> None:
    """A refusal says that none is kept, so that its nonce may be signed again. Nothing is known without an answer."""
    walk = flow(OPEN, valid=3, expired=True)
    step = walk.next(answer(meaning), at=NOW, now=NOW, time_left=1000)
    assert (step.report.meaning, step.wait, step.signs) == (then, None, signs)


def test_an_expired_one_that_was_settled_is_not_signed_again() -> None:
    settled = Receipt(success=True, transaction="0x1", network="eip155:8453", raw={})
    report = replace(answer(BARE), receipt=settled)
    step = flow(OPEN, valid=3, expired=True).next(report, at=NOW, now=NOW, time_left=1000)
    assert (step.report.stage, step.signs) == (PaymentStage.TAKEN, False)


@given(
    before=st.sampled_from([None, REJECTED, OPEN]),
    meanings=st.lists(st.sampled_from(list(STATUS)), min_size=1, max_size=12),
    valid=st.integers(7, 600),
    deadline=st.floats(1, 600),
)
def test_a_call_always_ends_and_never_forgets_a_doubt(
    before: Meaning | None, meanings: list[Meaning], valid: int, deadline: float
) -> None:
    walk = flow(before, valid=valid)
    doubt, clock, sent = before is OPEN, 0.0, 0
    for meaning in meanings:
        sent += 1
        doubt = doubt or meaning in DOUBTS
        step = walk.next(answer(meaning), at=NOW + clock, now=NOW + clock, time_left=deadline - clock)
        if doubt:
            assert not step.report.meaning.refused
        if step.wait is None:
            break
        assert step.report.meaning in (*DOUBTS, NOT_RECEIVED)
        clock += step.wait
        assert clock <= deadline
        assert clock + 6 < valid
    assert sent <= 1 + MAX_RESENDS
