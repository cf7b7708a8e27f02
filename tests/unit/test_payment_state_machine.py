"""What follows an answer to a payment: the same bytes again, or an end, and what the ledger says then."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tradesdk import Failure, FailureCause, PaymentStage, ReasonCode, Receipt, RetryPolicy
from tradesdk._values.payment import NOT_TAKEN
from tradesdk.payments.state_machine import (
    MAX_RESENDS,
    MAX_RESENDS_NO_REASON,
    PaymentStateMachine,
    Report,
    Step,
)

from .._rows import each_of
from ._ledger import draft

NOW = 1_800_000_000.0
STATUS = {
    ReasonCode.DELIVERED: 200,
    ReasonCode.PENDING: 402,
    ReasonCode.UNKNOWN: 500,
    ReasonCode.SETTLE_FAILED: 402,
    ReasonCode.NO_REASON: 402,
    ReasonCode.REJECTED: 402,
    ReasonCode.REFUSED: 404,
    ReasonCode.ALREADY_USED: 402,
    ReasonCode.NOT_RECEIVED: 0,
    ReasonCode.REDIRECTED: 302,
}
"""What an answer may mean, and its status."""
DOUBTS = (ReasonCode.PENDING, ReasonCode.UNKNOWN, ReasonCode.SETTLE_FAILED, ReasonCode.NO_REASON)
IN_DOUBT = (ReasonCode.NONE, *DOUBTS, ReasonCode.REDIRECTED)


def answer(code: ReasonCode, headers: dict[str, str] | None = None) -> Report:
    failure = Failure(FailureCause.STATUS, STATUS[code], headers or {})
    return Report(code, code.value, failure, sent=code is not ReasonCode.NOT_RECEIVED)


def slow_down(headers: dict[str, str]) -> Report:
    return Report(ReasonCode.UNKNOWN, "429", Failure(FailureCause.STATUS, 429, headers))


def flow(
    before: ReasonCode | None = None,
    *,
    valid: float = 10_000,
    policy: RetryPolicy | None = None,
    again: bool = False,
    paid: bool | None = None,
    settle_failed: int = 0,
    purchase: str | None = None,
) -> PaymentStateMachine:
    """A payment that was sent with that result, and is resent or signed `again`; without a result: its first time."""
    fresh = draft(valid_before=int(NOW + valid), purchase=purchase, settle_failed=settle_failed)
    sent = replace(fresh, stage=PaymentStage.SENT, submissions=1, signatures=1)
    earlier = fresh if before is None else replace(sent, code=before, paid=paid)
    signed = replace(sent, submissions=2, signatures=2) if again else sent
    return PaymentStateMachine(policy or RetryPolicy(), signed, earlier, random=lambda: 0.0)


def next_of(
    walk: PaymentStateMachine, code: ReasonCode, *, at: float = NOW, time_left: float = 10_000
) -> tuple[ReasonCode, float | None]:
    step = walk.next(answer(code), at=at, now=NOW, time_left=time_left)
    return step.report.code, step.wait


@each_of(
    ("code", "then", "again"),
    [
        (ReasonCode.DELIVERED, ReasonCode.DELIVERED, False),
        (ReasonCode.ALREADY_USED, ReasonCode.UNKNOWN, False),
        (ReasonCode.REJECTED, ReasonCode.REJECTED, False),
        (ReasonCode.REFUSED, ReasonCode.REFUSED, False),
        (ReasonCode.PENDING, ReasonCode.PENDING, True),
        (ReasonCode.UNKNOWN, ReasonCode.UNKNOWN, True),
        (ReasonCode.SETTLE_FAILED, ReasonCode.SETTLE_FAILED, True),
        (ReasonCode.NO_REASON, ReasonCode.NO_REASON, True),
        (ReasonCode.NOT_RECEIVED, ReasonCode.NOT_RECEIVED, True),
        (ReasonCode.REDIRECTED, ReasonCode.REDIRECTED, False),
    ],
)
def test_after_the_first_answer(code: ReasonCode, then: ReasonCode, again: bool) -> None:
    found, wait = next_of(flow(), code)
    assert found is then
    assert (wait is not None) == again


def test_a_name_whose_nonce_is_used_at_once_was_bought_elsewhere() -> None:
    assert next_of(flow(purchase="tuesday"), ReasonCode.ALREADY_USED) == (ReasonCode.TAKEN_ELSEWHERE, None)


@each_of("again", [False, True])
@each_of("before", IN_DOUBT)
@each_of(
    ("code", "then"),
    [
        (ReasonCode.DELIVERED, ReasonCode.DELIVERED),
        (ReasonCode.ALREADY_USED, ReasonCode.ALREADY_USED),
        (ReasonCode.REJECTED, ReasonCode.UNKNOWN),
        (ReasonCode.REFUSED, ReasonCode.UNKNOWN),
        (ReasonCode.PENDING, ReasonCode.PENDING),
        (ReasonCode.UNKNOWN, ReasonCode.UNKNOWN),
        (ReasonCode.NO_REASON, ReasonCode.NO_REASON),
        (ReasonCode.NOT_RECEIVED, ReasonCode.UNKNOWN),
    ],
)
def test_after_a_submission_in_doubt_a_refusal_proves_nothing(
    before: ReasonCode, code: ReasonCode, then: ReasonCode, again: bool
) -> None:
    """Of the same bytes, or of the same nonce that was signed again."""
    assert next_of(flow(before, again=again), code)[0] is then


@each_of(("before", "paid"), [(ReasonCode.REJECTED, None), (ReasonCode.UNKNOWN, False)])
def test_the_next_signature_of_a_nonce_that_was_not_taken_as_far_as_is_known(
    before: ReasonCode, paid: bool | None
) -> None:
    """A used nonce means that an earlier signature was taken after all; a refusal is one again."""
    used, rejected = ReasonCode.ALREADY_USED, ReasonCode.REJECTED
    assert next_of(flow(before, again=True, paid=paid), used) == (used, None)
    assert next_of(flow(before, again=True, paid=paid), rejected) == (rejected, None)
    assert next_of(flow(rejected), used)[0] is used


def test_two_signatures_that_were_not_settled_are_suspect() -> None:
    """The same bytes are still resent; at the end nothing more is signed for that nonce."""
    walk = flow(ReasonCode.UNKNOWN, again=True, settle_failed=1)
    steps = [next_of(walk, ReasonCode.SETTLE_FAILED) for _ in range(6)]
    assert [code for code, _ in steps] == [*[ReasonCode.SETTLE_FAILED] * 5, ReasonCode.SUSPECT]
    assert [wait for _, wait in steps] == [2, 4, 8, 16, 32, None]
    assert walk.settle_failed == 2


@each_of("settle_failed", [0, 2])
def test_one_signature_that_was_not_settled_is_not(settle_failed: int) -> None:
    walk = flow(ReasonCode.UNKNOWN, again=True, settle_failed=settle_failed)
    steps = [next_of(walk, ReasonCode.SETTLE_FAILED) for _ in range(6)]
    assert steps[-1] == (ReasonCode.SETTLE_FAILED, None)


@each_of("doubt", DOUBTS)
@each_of("refusal", [ReasonCode.REJECTED, ReasonCode.REFUSED])
def test_doubt_within_the_call_counts_as_well(doubt: ReasonCode, refusal: ReasonCode) -> None:
    walk = flow()
    assert next_of(walk, doubt)[1] is not None
    assert next_of(walk, refusal) == (ReasonCode.UNKNOWN, None)


def test_a_refused_payment_that_is_handed_over_again_and_refused_again_stays_refused() -> None:
    assert next_of(flow(ReasonCode.REJECTED), ReasonCode.REJECTED) == (ReasonCode.REJECTED, None)


@each_of("code", [ReasonCode.UNKNOWN, ReasonCode.PENDING, ReasonCode.NOT_RECEIVED])
def test_at_most_five_repeats(code: ReasonCode) -> None:
    walk = flow()
    waits = [next_of(walk, code)[1] for _ in range(7)]
    assert waits == [2, 4, 8, 16, 32, None, None]
    assert walk.resends == MAX_RESENDS


def test_at_most_two_repeats_after_a_bare_402() -> None:
    walk = flow()
    waits = [next_of(walk, ReasonCode.NO_REASON)[1] for _ in range(4)]
    assert waits == [2, 4, None, None]
    assert walk.resends == MAX_RESENDS_NO_REASON


def test_bare_ones_count_apart_from_the_others() -> None:
    walk = flow()
    verdicts = [
        ReasonCode.UNKNOWN,
        ReasonCode.NO_REASON,
        ReasonCode.UNKNOWN,
        ReasonCode.NO_REASON,
        ReasonCode.NO_REASON,
    ]
    assert [next_of(walk, verdict)[1] for verdict in verdicts] == [2, 4, 8, 16, None]


def test_the_policy_may_allow_fewer() -> None:
    walk = flow(policy=RetryPolicy(max_retries=1))
    assert [next_of(walk, ReasonCode.UNKNOWN)[1] for _ in range(2)] == [2, None]


@each_of(("valid", "again"), [(2 + 6, False), (2 + 7, True)])
def test_nothing_is_handed_over_in_the_last_six_seconds(valid: float, again: bool) -> None:
    code, wait = next_of(flow(valid=valid), ReasonCode.UNKNOWN)
    assert code is ReasonCode.UNKNOWN
    assert (wait is not None) == again


def test_nothing_is_handed_over_past_the_deadline() -> None:
    assert next_of(flow(), ReasonCode.UNKNOWN, time_left=1.9)[1] is None
    assert next_of(flow(), ReasonCode.UNKNOWN, time_left=2.0)[1] == 2.0


def test_a_wait_that_the_service_asks_for_is_kept_or_given_up() -> None:
    asked = slow_down({"retry-after": "20"})
    assert flow().next(asked, at=NOW, now=NOW, time_left=1000).wait == 20
    assert flow(valid=25).next(asked, at=NOW, now=NOW, time_left=1000).wait is None
    too_long = slow_down({"retry-after": "121"})
    assert flow().next(too_long, at=NOW, now=NOW, time_left=1000).wait is None


def test_a_first_answer_that_says_it_was_settled_before() -> None:
    """A receipt is believed; a used nonce that was never shown to anybody is not."""
    settled = Receipt(success=True, transaction="0x1", network="eip155:8453", raw={})
    report = replace(answer(ReasonCode.ALREADY_USED), receipt=settled)
    assert flow().next(report, at=NOW, now=NOW, time_left=1000) == Step(report)


def test_what_cannot_be_helped_is_not_tried_again() -> None:
    """A certificate that is refused, a host that is not known."""
    refused = Report(ReasonCode.NOT_RECEIVED, "certificate", Failure(FailureCause.HOPELESS), sent=False)
    assert flow().next(refused, at=NOW, now=NOW, time_left=1000) == Step(refused)


def test_what_never_arrived_was_not_handed_over() -> None:
    walk = flow()
    next_of(walk, ReasonCode.NOT_RECEIVED)
    assert (walk.handed_over, walk.unsent("canceled").code) == (False, ReasonCode.NOT_RECEIVED)
    next_of(walk, ReasonCode.UNKNOWN)
    assert (walk.handed_over, walk.unsent("canceled").code) == (True, ReasonCode.UNKNOWN)
    assert not walk.unsent("canceled").sent


@given(
    before=st.sampled_from([None, ReasonCode.REJECTED, *IN_DOUBT]),
    codes=st.lists(st.sampled_from(list(STATUS)), min_size=1, max_size=12),
    valid=st.integers(7, 600),
    deadline=st.floats(1, 600),
)
def test_a_call_always_ends_and_never_forgets_a_doubt(
    before: ReasonCode | None, codes: list[ReasonCode], valid: int, deadline: float
) -> None:
    walk = flow(before, valid=valid)
    doubt, clock, sent = before in IN_DOUBT, 0.0, 0
    for code in codes:
        sent += 1
        doubt = doubt or code in DOUBTS
        step = walk.next(answer(code), at=NOW + clock, now=NOW + clock, time_left=deadline - clock)
        if doubt:
            assert step.report.code not in NOT_TAKEN
        if code is ReasonCode.REDIRECTED:
            assert (step.report.code, step.wait) == (code, None)
        if step.wait is None:
            break
        assert step.report.code in (*DOUBTS, ReasonCode.NOT_RECEIVED)
        clock += step.wait
        assert clock <= deadline
        assert clock + 6 < valid
    assert sent <= 1 + MAX_RESENDS
