"""What becomes of a payment: submitted, settled, expired, marked; and what is kept of it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tradesdk import InvalidArgumentError
from tradesdk._values.payment import FREE, GRACE, LIVE, UNRESOLVED, Payment, PaymentState, Receipt, SignedHeader
from tradesdk.errors import LedgerError, PaymentRefusedError
from tradesdk.payments.budget import Budget
from tradesdk.payments.ledger.sqlite import Ledger

from ._ledger import HEADER, NOW, OTHER, PLENTY, draft, in_state, reserve, submitted

FINAL = frozenset(PaymentState) - LIVE
PROOF = (PaymentState.DELIVERED, PaymentState.PAID_UNDELIVERED)
LATE = frozenset(
    {(state, proof) for state in ("expired_unpaid", "expired_unknown", "marked_unpaid") for proof in PROOF}
    | {("paid_undelivered", PaymentState.DELIVERED)}
)
RECEIPT = Receipt(
    success=True,
    transaction="0x" + "ab" * 32,
    network="eip155:8453",
    payer="0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1",
    amount=30_000,
    raw={"success": True, "extra": {"deep": [1, None, 2.5]}, "odd": "\ud800 \x00"},
)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger.memory() as ledger:
        yield ledger


def counted(ledger: Ledger) -> int:
    return ledger.spending(Budget(), now=NOW).total


def test_submitting_writes_the_signed_payment_down(ledger: Ledger) -> None:
    payment = ledger.submit(reserve(ledger).id, HEADER, now=NOW + 1)
    assert (payment.state, payment.header, payment.submissions) == (PaymentState.SUBMITTED, HEADER, 1)
    assert (payment.created, payment.updated) == (NOW, NOW + 1)
    assert ledger.get(payment.id) == payment
    assert HEADER not in repr(payment)


@pytest.mark.parametrize("state", sorted(set(PaymentState) - {PaymentState.RESERVED}))
def test_only_a_reservation_can_be_submitted(ledger: Ledger, state: PaymentState) -> None:
    payment = in_state(ledger, state)
    with pytest.raises(PaymentRefusedError) as caught:
        ledger.submit(payment.id, SignedHeader("another cheque"), now=NOW)
    assert (caught.value.code, caught.value.payment) == ("reservation_lost", payment)
    assert ledger.get(payment.id) == payment


def test_each_submission_is_counted(ledger: Ledger) -> None:
    payment = submitted(ledger)
    for number in (2, 3):
        payment = ledger.resubmit(payment.id, now=NOW + number)
        assert (payment.submissions, payment.state, payment.header) == (number, PaymentState.SUBMITTED, HEADER)
        assert payment.updated == NOW  # its state is the same
    assert ledger.get(payment.id) == payment


@pytest.mark.parametrize("state", [PaymentState.RESERVED, PaymentState.CANCELLED])
def test_what_was_never_signed_cannot_be_submitted_again(ledger: Ledger, state: PaymentState) -> None:
    payment = in_state(ledger, state)
    with pytest.raises(PaymentRefusedError) as caught:
        ledger.resubmit(payment.id, now=NOW)
    assert caught.value.code == "not_submitted"
    assert ledger.get(payment.id) == payment


@pytest.mark.parametrize("told", sorted(PaymentState))
@pytest.mark.parametrize("state", sorted(LIVE))
def test_what_is_live_goes_anywhere(ledger: Ledger, state: PaymentState, told: PaymentState) -> None:
    payment = in_state(ledger, state)
    settled = ledger.settle(payment.id, told, reason="why", now=NOW + 9)
    assert (settled.state, settled.reason) == (told, "why")
    assert settled.updated == (NOW if told is state else NOW + 9)
    assert settled.header == (payment.header if told in LIVE else None)
    assert ledger.get(payment.id) == settled
    assert counted(ledger) == (0 if told in FREE else 30_000)


@pytest.mark.parametrize("told", sorted(PaymentState))
@pytest.mark.parametrize("state", sorted(FINAL))
def test_what_is_final_stays_but_for_late_proof(ledger: Ledger, state: PaymentState, told: PaymentState) -> None:
    payment = in_state(ledger, state)
    settled = ledger.settle(payment.id, told, reason="late", receipt=RECEIPT, reply=b"late", now=NOW + 9)
    if told is state:
        assert (settled.state, settled.reason, settled.updated) == (state, "late", payment.updated)
        assert (settled.receipt, settled.reply) == (RECEIPT, b"late")
    elif (state, told) in LATE:
        assert (settled.state, settled.receipt, settled.reply, settled.updated) == (told, RECEIPT, b"late", NOW + 9)
    else:
        assert settled == payment
    assert settled.header is None
    assert ledger.get(payment.id) == settled
    # Money that was taken counts again, in the window of its reservation.
    free = settled.state in FREE
    assert counted(ledger) == (0 if free else 30_000)
    assert ledger.spending(Budget(), now=NOW + 10).reserved == 0


def test_what_is_not_given_stays(ledger: Ledger) -> None:
    payment = submitted(ledger)
    full = ledger.settle(
        payment.id,
        PaymentState.PENDING,
        reason="settlement_pending",
        receipt=RECEIPT,
        reply=b"\x00",
        submissions=3,
        now=NOW,
    )
    assert (full.reason, full.receipt, full.reply, full.submissions) == ("settlement_pending", RECEIPT, b"\x00", 3)
    assert ledger.get(payment.id) == full
    same = ledger.settle(payment.id, PaymentState.PENDING, now=NOW + 1)
    assert same == full
    moved = ledger.settle(payment.id, PaymentState.DELIVERED, now=NOW + 1)
    assert (moved.receipt, moved.reply, moved.submissions) == (RECEIPT, b"\x00", 3)
    assert moved.reason == ""  # the old one was about the old state


def test_no_submission_is_a_number_too(ledger: Ledger) -> None:
    payment = ledger.settle(submitted(ledger).id, PaymentState.REJECTED_LIVE, submissions=0, now=NOW)
    assert payment.submissions == 0
    assert payment.charged is False


def deep(levels: int) -> Any:
    return [deep(levels - 1)] if levels else []


@pytest.mark.parametrize("raw", [{"deep": deep(900)}, {"set": {1}}, {"number": 10**5000}], ids=["deep", "type", "int"])
def test_an_odd_receipt_does_not_keep_the_rest_from_being_written(ledger: Ledger, raw: dict[str, Any]) -> None:
    odd = Receipt(success=True, transaction="0x\ud800", network="eip155:8453", raw=raw)
    payment = submitted(ledger)
    ledger.settle(payment.id, PaymentState.DELIVERED, reason="odd \ud800\x00", receipt=odd, now=NOW)
    kept = ledger.get(payment.id)
    assert kept is not None
    assert kept.receipt is not None
    assert (kept.state, kept.receipt.success, kept.receipt.transaction) == (PaymentState.DELIVERED, True, "0x\ud800")
    assert kept.reason == "odd \\ud800\x00"
    assert kept.receipt.raw in (raw, {})


@pytest.mark.parametrize("state", sorted(LIVE))
def test_expiry(ledger: Ledger, state: PaymentState) -> None:
    payment = in_state(ledger, state, valid_before=int(NOW) + 60)
    live = in_state(ledger, state, valid_before=int(NOW) + 61)
    final = in_state(ledger, PaymentState.DELIVERED, valid_before=int(NOW) + 60)
    assert ledger.expire(NOW + 60 + GRACE - 0.001, now=NOW) == []
    [closed] = ledger.expire(NOW + 60 + GRACE, now=NOW + 7)
    assert closed.id == payment.id
    expected = {
        PaymentState.RESERVED: PaymentState.CANCELLED,
        PaymentState.REJECTED_LIVE: PaymentState.EXPIRED_UNPAID,
    }
    assert closed.state is expected.get(state, PaymentState.EXPIRED_UNKNOWN)
    assert (closed.header, closed.updated) == (None, NOW + 7)
    assert ledger.get(payment.id) == closed
    assert ledger.get(live.id) == live
    assert ledger.get(final.id) == final
    assert ledger.expire(NOW + 60 + GRACE, now=NOW) == []


def test_expiry_keeps_the_reason_and_tells_in_order(ledger: Ledger) -> None:
    ids = [submitted(ledger, draft(valid_before=int(NOW) - number)).id for number in range(4)]
    ledger.settle(ids[2], PaymentState.REJECTED_LIVE, reason="insufficient_funds", now=NOW)
    closed = ledger.expire(NOW + 1000, now=NOW)
    assert [payment.id for payment in closed] == ids
    assert [payment.reason for payment in closed] == ["", "", "insufficient_funds", ""]


@pytest.mark.parametrize("paid", [True, False])
@pytest.mark.parametrize("state", sorted(PaymentState))
def test_a_persons_word_counts_for_what_is_unresolved(ledger: Ledger, state: PaymentState, paid: bool) -> None:
    payment = in_state(ledger, state, valid_before=int(NOW) + 60)
    late = NOW + 60 + GRACE
    for now in (late - 0.001, late):
        if state in UNRESOLVED or (state in LIVE and now == late):
            marked = ledger.mark(payment.id, paid=paid, now=now)
            assert marked.state is (PaymentState.MARKED_PAID if paid else PaymentState.MARKED_UNPAID)
            assert (marked.header, marked.updated) == (None, now)
            assert ledger.get(payment.id) == marked
            assert counted(ledger) == (30_000 if paid else 0)
            return
        with pytest.raises(PaymentRefusedError) as caught:
            ledger.mark(payment.id, paid=paid, now=now)
        assert (caught.value.code, caught.value.payment) == ("not_unresolved", payment)
        assert ledger.get(payment.id) == payment


def test_after_the_mark_the_call_may_be_made_again(ledger: Ledger) -> None:
    payment = in_state(ledger, PaymentState.EXPIRED_UNKNOWN, fingerprint="call")
    assert ledger.find("call", now=NOW) == payment
    ledger.mark(payment.id, paid=False, now=NOW)
    assert ledger.find("call", now=NOW) is None


def test_an_unknown_id(ledger: Ledger) -> None:
    assert ledger.get("pay_nobody") is None
    with pytest.raises(InvalidArgumentError, match="no payment pay_nobody"):
        ledger.mark("pay_nobody", paid=True, now=NOW)
    with pytest.raises(InvalidArgumentError, match="no payment pay_nobody"):
        ledger.claim("pay_nobody", owner="me", until=NOW + 1, now=NOW)
    with pytest.raises(InvalidArgumentError, match="no payment pay_nobody"):
        ledger.history(before="pay_nobody")
    moves: list[Callable[[], object]] = [
        lambda: ledger.submit("pay_nobody", HEADER, now=NOW),
        lambda: ledger.resubmit("pay_nobody", now=NOW),
        lambda: ledger.settle("pay_nobody", PaymentState.DELIVERED, now=NOW),
    ]
    for move in moves:
        with pytest.raises(LedgerError, match="pay_nobody is no longer in the ledger") as caught:
            move()
        assert caught.value.code == "ledger_failed"
    ledger.give_back("pay_nobody", owner="me")


def test_history_is_newest_first_by_the_page(ledger: Ledger) -> None:
    # In the order in which they were written down, whatever the clock did.
    ids = [reserve(ledger, now=NOW - 100 * number).id for number in range(7)][::-1]
    assert [payment.id for payment in ledger.history()] == ids
    assert [payment.id for payment in ledger.history(limit=3)] == ids[:3]
    assert [payment.id for payment in ledger.history(limit=3, before=ids[2])] == ids[3:6]
    assert [payment.id for payment in ledger.history(limit=3, before=ids[5])] == ids[6:]
    assert ledger.history(before=ids[6]) == []
    with pytest.raises(InvalidArgumentError, match="limit"):
        ledger.history(limit=0)


def test_history_of_some_states(ledger: Ledger) -> None:
    made = [in_state(ledger, state) for _ in range(3) for state in sorted(PaymentState)][::-1]
    for states in (LIVE, UNRESOLVED, frozenset(PaymentState), {PaymentState.DELIVERED}):
        wanted = [payment for payment in made if payment.state in states]
        assert ledger.history(states=tuple(states)) == wanted
        assert ledger.history(states=tuple(states) * 2, limit=2, before=wanted[0].id) == wanted[1:3]


def test_what_a_job_has_got(ledger: Ledger) -> None:
    in_state(ledger, PaymentState.DELIVERED, job="tuesday", fingerprint="call")
    assert ledger.delivered("tuesday", "call") is None  # without its reply it is of no use
    first = submitted(ledger, draft("call", job="tuesday"))
    first = ledger.settle(first.id, PaymentState.DELIVERED, reply=b"old prices", now=NOW)
    assert ledger.delivered("tuesday", "call") == first
    second = submitted(ledger, draft("call", job="tuesday"), new_purchase=True)
    assert ledger.delivered("tuesday", "call") == first
    second = ledger.settle(second.id, PaymentState.DELIVERED, reply=b"prices", now=NOW)
    assert ledger.delivered("tuesday", "call") == second
    in_state(ledger, PaymentState.DELIVERED, fingerprint="other")
    assert ledger.delivered("monday", "call") is None
    assert ledger.delivered("tuesday", "other") is None


def test_memory_keeps_what_it_knows_when_it_is_closed() -> None:
    with Ledger.memory() as ledger:
        payment = reserve(ledger)
    ledger.close()
    assert ledger.path is None
    assert ledger.get(payment.id) == payment
    assert Ledger.memory().history() == []
    assert ledger.spending(PLENTY, now=NOW).reserved == 30_000


def answered(ledger: Ledger, **changes: Any) -> Payment:
    """A payment for "call" whose answer nobody has collected, claimed by "me"."""
    payment = submitted(ledger, draft("call", **changes), owner="me", until=NOW + 200)
    return ledger.settle(payment.id, PaymentState.DELIVERED, reply=b"prices", now=NOW)


@pytest.mark.parametrize(
    ("seconds", "given"),
    [(0, True), (59.999, True), (60, False), (1e6, False), (-5, True), (-5.001, False), (-1e6, False)],
)
def test_an_answer_waits_for_a_minute(ledger: Ledger, seconds: float, given: bool) -> None:
    """By a clock that was put back by more than five seconds, nobody knows how old it is."""
    payment = answered(ledger)
    now = NOW + seconds
    assert ledger.find("call", now=now) == (payment if given else None)
    asked = draft("call", pay_to=OTHER)
    # Neither the recipient nor the budget is looked at: nothing new is bought.
    if given:
        assert reserve(ledger, asked, budget=Budget(), now=now) == payment
    else:
        assert reserve(ledger, asked, pay_to=[OTHER], now=now).id == asked.id
    assert ledger.get(payment.id) == payment  # its reply stays


@pytest.mark.parametrize(
    ("owned", "keep", "job", "kept"),
    [
        (None, False, None, False),
        (None, True, None, True),
        (None, False, "tuesday", True),
        ("monday", False, None, True),
        ("monday", False, "tuesday", True),
    ],
)
def test_an_answer_is_collected_once(
    ledger: Ledger, owned: str | None, keep: bool, job: str | None, kept: bool
) -> None:
    payment = answered(ledger, job=owned)
    after = replace(payment, reply=b"prices" if kept else None, job=owned or job)
    for _ in range(2):
        ledger.collect(payment.id, owner="me", keep=keep, job=job)
        assert ledger.get(payment.id) == after
        assert ledger.find("call", now=NOW) is None
        assert ledger.claim(payment.id, owner="other", until=NOW + 1, now=NOW)  # its claim was given back
    ledger.reopen(payment.id, owner="other", reply=b"prices")
    opened = replace(after, reply=b"prices")
    assert ledger.get(payment.id) == opened
    assert ledger.find("call", now=NOW) == (opened if opened.job is None else None)
    assert ledger.claim(payment.id, owner="another", until=NOW + 1, now=NOW)


def test_a_claim_of_somebody_else_stays(ledger: Ledger) -> None:
    payment = answered(ledger)
    ledger.reopen(payment.id, owner="other", reply=b"")
    assert not ledger.claim(payment.id, owner="other", until=NOW + 1, now=NOW)
    ledger.collect(payment.id, owner="other")
    assert not ledger.claim(payment.id, owner="other", until=NOW + 1, now=NOW)


@pytest.mark.parametrize("state", sorted(PaymentState))
def test_only_a_delivered_answer_waits(ledger: Ledger, state: PaymentState) -> None:
    payment = in_state(ledger, state, fingerprint="call")
    payment = ledger.settle(payment.id, state, reply=b"bytes", now=NOW)
    ledger.collect(payment.id, owner="me")
    assert ledger.get(payment.id) == payment
    ledger.reopen(payment.id, owner="me", reply=b"others")
    assert ledger.get(payment.id) == payment
    found = ledger.find("call", now=NOW)
    assert (found is not None) == (state in LIVE | UNRESOLVED | {PaymentState.DELIVERED})


def test_the_same_outcome_once_more_opens_nothing(ledger: Ledger) -> None:
    payment = answered(ledger)
    ledger.collect(payment.id, owner="me")
    ledger.settle(payment.id, PaymentState.DELIVERED, reply=b"prices", now=NOW)
    assert ledger.find("call", now=NOW) is None


def test_a_new_purchase_closes_the_earlier_answer(ledger: Ledger) -> None:
    first = answered(ledger)
    second = submitted(ledger, draft("call"), new_purchase=True)
    assert second.id != first.id
    ledger.settle(second.id, PaymentState.DELIVERED, reply=b"newer", now=NOW)
    ledger.collect(second.id, owner="nobody")
    assert ledger.find("call", now=NOW) is None
    assert ledger.get(first.id) == replace(first, superseded=True)


def test_what_is_in_doubt_comes_before_an_older_answer(ledger: Ledger) -> None:
    answered(ledger)
    doubtful = ledger.settle(submitted(ledger, draft("call"), now=NOW + 70).id, PaymentState.UNKNOWN, now=NOW + 70)
    assert ledger.find("call", now=NOW + 30) == doubtful
