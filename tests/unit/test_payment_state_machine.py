"""What follows an answer to a payment: the same bytes again, or an end, and what the ledger says then."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tradesdk import Failure, FailureCause, PaymentState, Receipt, RetryPolicy
from tradesdk._values.payment import LIVE, Earlier
from tradesdk.payments.state_machine import (
    MAX_RESENDS,
    MAX_RESENDS_NO_REASON,
    Classification,
    PaymentResponse,
    PaymentStateMachine,
    Transition,
)

from .._rows import each_of
from ._ledger import draft

NOW = 1_800_000_000.0
STATUS = {
    Classification.DELIVERED: 200,
    Classification.PENDING: 402,
    Classification.UNKNOWN: 500,
    Classification.SETTLE_FAILED: 402,
    Classification.NO_REASON: 402,
    Classification.REJECTED: 402,
    Classification.REFUSED: 404,
    Classification.ALREADY_USED: 402,
    Classification.NOT_RECEIVED: 0,
    Classification.REDIRECTED: 302,
}
DOUBTS = (Classification.PENDING, Classification.UNKNOWN, Classification.SETTLE_FAILED, Classification.NO_REASON)
IN_DOUBT = (PaymentState.SUBMITTED, PaymentState.PENDING, PaymentState.UNKNOWN)


def answer(verdict: Classification, headers: dict[str, str] | None = None) -> PaymentResponse:
    return PaymentResponse(verdict, verdict.value, Failure(FailureCause.STATUS, STATUS[verdict], headers or {}))


def slow_down(headers: dict[str, str]) -> PaymentResponse:
    return PaymentResponse(Classification.UNKNOWN, "429", Failure(FailureCause.STATUS, 429, headers))


def flow(
    state: PaymentState = PaymentState.RESERVED,
    *,
    valid: float = 10_000,
    policy: RetryPolicy | None = None,
    earlier: PaymentState | None = None,
    settle_failed: int = 0,
) -> PaymentStateMachine:
    """A payment in that state; RESERVED: signed just now, for the second time if there is an `earlier` state."""
    fresh, signatures = state is PaymentState.RESERVED, 1 if earlier is None else 2
    payment = draft(
        state=PaymentState.SUBMITTED if fresh else state,
        valid_before=int(NOW + valid),
        submissions=signatures if fresh else 1,
        signatures=signatures,
        earlier=None if earlier is None else Earlier(earlier, 30_000, 0, 0),
        settle_failed=settle_failed,
    )
    return PaymentStateMachine(policy or RetryPolicy(), payment, fresh=fresh, random=lambda: 0.0)


def next_of(
    walk: PaymentStateMachine, verdict: Classification, *, at: float = NOW, time_left: float = 10_000
) -> Transition:
    return walk.next(answer(verdict), at=at, now=NOW, time_left=time_left)


@each_of(
    ("verdict", "state", "again"),
    [
        (Classification.DELIVERED, PaymentState.DELIVERED, False),
        (Classification.ALREADY_USED, PaymentState.UNKNOWN, False),
        (Classification.REJECTED, PaymentState.REJECTED_LIVE, False),
        (Classification.REFUSED, PaymentState.REJECTED_LIVE, False),
        (Classification.PENDING, PaymentState.PENDING, True),
        (Classification.UNKNOWN, PaymentState.UNKNOWN, True),
        (Classification.SETTLE_FAILED, PaymentState.UNKNOWN, True),
        (Classification.NO_REASON, PaymentState.UNKNOWN, True),
        (Classification.NOT_RECEIVED, PaymentState.REJECTED_LIVE, True),
        (Classification.REDIRECTED, PaymentState.UNKNOWN, False),
    ],
)
def test_after_the_first_answer(verdict: Classification, state: PaymentState, again: bool) -> None:
    step = next_of(flow(), verdict)
    assert step.state is state
    assert (step.wait is not None) == again


@each_of("before", [*IN_DOUBT, PaymentState.EXPIRED_UNKNOWN])
@each_of(
    ("verdict", "state"),
    [
        (Classification.DELIVERED, PaymentState.DELIVERED),
        (Classification.ALREADY_USED, PaymentState.PAID_UNDELIVERED),
        (Classification.REJECTED, PaymentState.UNKNOWN),
        (Classification.REFUSED, PaymentState.UNKNOWN),
        (Classification.PENDING, PaymentState.PENDING),
        (Classification.UNKNOWN, PaymentState.UNKNOWN),
        (Classification.NO_REASON, PaymentState.UNKNOWN),
        (Classification.NOT_RECEIVED, PaymentState.UNKNOWN),
    ],
)
def test_after_a_submission_in_doubt_a_refusal_proves_nothing(
    before: PaymentState, verdict: Classification, state: PaymentState
) -> None:
    again = before is PaymentState.EXPIRED_UNKNOWN  # the same nonce was signed again
    assert next_of(flow(earlier=before) if again else flow(before), verdict).state is state


@each_of("earlier", [PaymentState.EXPIRED_UNPAID, PaymentState.MARKED_UNPAID])
def test_the_next_signature_of_a_nonce_that_was_not_taken_as_far_as_is_known(earlier: PaymentState) -> None:
    """A used nonce means that an earlier signature was taken after all; a refusal is one again."""
    assert next_of(flow(earlier=earlier), Classification.ALREADY_USED) == Transition(PaymentState.PAID_UNDELIVERED)
    assert next_of(flow(earlier=earlier), Classification.REJECTED) == Transition(PaymentState.REJECTED_LIVE)
    assert next_of(flow(PaymentState.REJECTED_LIVE), Classification.ALREADY_USED).state is PaymentState.PAID_UNDELIVERED


def test_two_signatures_that_were_not_settled_are_suspect() -> None:
    """The same bytes are still resent; at the end nothing more is signed for that nonce."""
    walk = flow(earlier=PaymentState.EXPIRED_UNKNOWN, settle_failed=1)
    steps = [next_of(walk, Classification.SETTLE_FAILED) for _ in range(6)]
    assert [step.state for step in steps] == [*[PaymentState.UNKNOWN] * 5, PaymentState.SUSPECT_PAID]
    assert [step.wait for step in steps] == [2, 4, 8, 16, 32, None]
    assert walk.settle_failed == 2


@each_of("settle_failed", [0, 2])
def test_one_signature_that_was_not_settled_is_not(settle_failed: int) -> None:
    walk = flow(earlier=PaymentState.EXPIRED_UNKNOWN, settle_failed=settle_failed)
    steps = [next_of(walk, Classification.SETTLE_FAILED) for _ in range(6)]
    assert steps[-1] == Transition(PaymentState.UNKNOWN)


@each_of("doubt", DOUBTS)
@each_of("refusal", [Classification.REJECTED, Classification.REFUSED])
def test_doubt_within_the_call_counts_as_well(doubt: Classification, refusal: Classification) -> None:
    walk = flow()
    assert next_of(walk, doubt).wait is not None
    assert next_of(walk, refusal) == Transition(PaymentState.UNKNOWN)


def test_a_refused_payment_that_is_handed_over_again_and_refused_again_stays_refused() -> None:
    assert next_of(flow(PaymentState.REJECTED_LIVE), Classification.REJECTED) == Transition(PaymentState.REJECTED_LIVE)


@each_of("verdict", [Classification.UNKNOWN, Classification.PENDING, Classification.NOT_RECEIVED])
def test_at_most_five_repeats(verdict: Classification) -> None:
    walk = flow()
    waits = [next_of(walk, verdict).wait for _ in range(7)]
    assert waits == [2, 4, 8, 16, 32, None, None]
    assert walk.resends == MAX_RESENDS


def test_at_most_two_repeats_after_a_bare_402() -> None:
    walk = flow()
    waits = [next_of(walk, Classification.NO_REASON).wait for _ in range(4)]
    assert waits == [2, 4, None, None]
    assert walk.resends == MAX_RESENDS_NO_REASON


def test_bare_ones_count_apart_from_the_others() -> None:
    walk = flow()
    verdicts = [
        Classification.UNKNOWN,
        Classification.NO_REASON,
        Classification.UNKNOWN,
        Classification.NO_REASON,
        Classification.NO_REASON,
    ]
    assert [next_of(walk, verdict).wait for verdict in verdicts] == [2, 4, 8, 16, None]


def test_the_policy_may_allow_fewer() -> None:
    walk = flow(policy=RetryPolicy(max_retries=1))
    assert [next_of(walk, Classification.UNKNOWN).wait for _ in range(2)] == [2, None]


@each_of(("valid", "again"), [(2 + 6, False), (2 + 7, True)])
def test_nothing_is_handed_over_in_the_last_six_seconds(valid: float, again: bool) -> None:
    step = next_of(flow(valid=valid), Classification.UNKNOWN)
    assert step.state is PaymentState.UNKNOWN
    assert (step.wait is not None) == again


def test_nothing_is_handed_over_past_the_deadline() -> None:
    assert next_of(flow(), Classification.UNKNOWN, time_left=1.9).wait is None
    assert next_of(flow(), Classification.UNKNOWN, time_left=2.0).wait == 2.0


def test_a_wait_that_the_service_asks_for_is_kept_or_given_up() -> None:
    asked = slow_down({"retry-after": "20"})
    assert flow().next(asked, at=NOW, now=NOW, time_left=1000).wait == 20
    assert flow(valid=25).next(asked, at=NOW, now=NOW, time_left=1000).wait is None
    too_long = slow_down({"retry-after": "121"})
    assert flow().next(too_long, at=NOW, now=NOW, time_left=1000).wait is None


def test_a_first_answer_that_says_it_was_settled_before() -> None:
    """A receipt is believed; a used nonce that was never shown to anybody is not."""
    settled = Receipt(success=True, transaction="0x1", network="eip155:8453", raw={})
    walk = flow()
    assert walk.next(
        replace(answer(Classification.ALREADY_USED), receipt=settled), at=NOW, now=NOW, time_left=1000
    ) == Transition(PaymentState.PAID_UNDELIVERED)


def test_what_cannot_be_helped_is_not_tried_again() -> None:
    """A certificate that is refused, a host that is not known."""
    refused = PaymentResponse(Classification.NOT_RECEIVED, "certificate", Failure(FailureCause.HOPELESS))
    assert flow().next(refused, at=NOW, now=NOW, time_left=1000) == Transition(PaymentState.REJECTED_LIVE)


def test_what_never_arrived_is_no_submission() -> None:
    walk = flow()
    next_of(walk, Classification.NOT_RECEIVED)
    assert walk.submissions == 0
    next_of(walk, Classification.UNKNOWN)
    assert walk.submissions == 1


@given(
    before=st.sampled_from([PaymentState.RESERVED, PaymentState.REJECTED_LIVE, *IN_DOUBT]),
    verdicts=st.lists(st.sampled_from(list(Classification)), min_size=1, max_size=12),
    valid=st.integers(7, 600),
    deadline=st.floats(1, 600),
)
def test_a_call_always_ends_and_never_forgets_a_doubt(
    before: PaymentState, verdicts: list[Classification], valid: int, deadline: float
) -> None:
    walk = flow(before, valid=valid)
    doubt, clock, sent = before in IN_DOUBT, 0.0, 0
    for verdict in verdicts:
        sent += 1
        doubt = doubt or verdict in DOUBTS
        step = walk.next(answer(verdict), at=NOW + clock, now=NOW + clock, time_left=deadline - clock)
        if doubt:
            assert step.state is not PaymentState.REJECTED_LIVE
        if verdict is Classification.REDIRECTED:
            assert step == Transition(PaymentState.UNKNOWN)
        if step.wait is None:
            break
        assert step.state in LIVE
        clock += step.wait
        assert clock <= deadline
        assert clock + 6 < valid
    assert sent <= 1 + MAX_RESENDS
