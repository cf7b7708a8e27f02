"""Jobs: what one has paid for is not paid for again, and what it hands over becomes its own."""

import threading
from collections.abc import Iterator

import pytest

from tradesdk._values.payment import FREE, LIVE, UNRESOLVED, Payment, PaymentState
from tradesdk.payments.budget import Budget
from tradesdk.payments.ledger.sqlite import Ledger

from ._ledger import NOW, OTHER, PLENTY, draft, in_state, reserve, submitted

REPLY = b'{"data": 1}'
NOT_LIVE = sorted(set(PaymentState) - LIVE - {PaymentState.CANCELLED})


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger.memory() as ledger:
        yield ledger


def delivered(ledger: Ledger, reply: bytes | None = REPLY, *, job: str | None = "tuesday") -> Payment:
    payment = submitted(ledger, draft("call", job=job))
    return ledger.settle(payment.id, PaymentState.DELIVERED, reply=reply, now=NOW)


def test_what_a_job_has_got_is_not_reserved_again(ledger: Ledger) -> None:
    first = delivered(ledger)
    # Neither the recipient nor the budget is looked at: nothing new is bought.
    again = reserve(ledger, draft("call", job="tuesday", pay_to=OTHER), budget=Budget(), owner="me", until=NOW + 60)
    assert again == first
    assert again.reply == REPLY
    assert ledger.history() == [first]
    assert ledger.claim(first.id, owner="other", until=NOW + 60, now=NOW)  # nothing was claimed


@pytest.mark.parametrize(("call", "job"), [("call", "wednesday"), ("call", None), ("other call", "tuesday")])
def test_another_job_or_call_is_bought(ledger: Ledger, call: str, job: str | None) -> None:
    delivered(ledger)
    asked = draft(call, job=job)
    assert reserve(ledger, asked).id == asked.id


def test_without_its_reply_it_is_bought_again(ledger: Ledger) -> None:
    first = delivered(ledger)
    delivered(ledger, None, job=None)
    assert ledger.delivered("tuesday", "call") == first
    without = submitted(ledger, draft("other", job="tuesday"))
    ledger.settle(without.id, PaymentState.DELIVERED, now=NOW)
    assert ledger.delivered("tuesday", "other") is None
    asked = draft("other", job="tuesday")
    assert reserve(ledger, asked).id == asked.id


def test_the_newest_reply_counts(ledger: Ledger) -> None:
    delivered(ledger)
    asked = reserve(ledger, draft("call", job="tuesday"), new_purchase=True)
    ledger.settle(asked.id, PaymentState.DELIVERED, reply=b"newer", now=NOW)
    assert reserve(ledger, draft("call", job="tuesday")).reply == b"newer"


def test_a_new_purchase_is_one(ledger: Ledger) -> None:
    delivered(ledger)
    asked = draft("call", job="tuesday")
    assert reserve(ledger, asked, new_purchase=True).id == asked.id
    assert ledger.spending(PLENTY, now=NOW).total == 60_000


def test_what_was_delivered_comes_before_what_stands_in_the_way(ledger: Ledger) -> None:
    first = delivered(ledger)
    standing = reserve(ledger, draft("call"))
    assert reserve(ledger, draft("call", job="tuesday")) == first
    assert reserve(ledger, draft("call", job="wednesday")) == standing


def test_threads_of_one_job_pay_once(ledger: Ledger) -> None:
    """Each looks, sees nothing, and is late by any amount: the reservation itself has to notice."""
    start, got, lock = threading.Barrier(8), [], threading.Lock()

    def run() -> None:
        start.wait()
        while True:
            payment = reserve(ledger, asked := draft("call", job="tuesday"))
            if payment.id == asked.id:
                payment = ledger.settle(payment.id, PaymentState.DELIVERED, reply=REPLY, now=NOW)
            if payment.state is PaymentState.DELIVERED:
                with lock:
                    got.append(payment)
                return

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8
    assert [payment.id for payment in ledger.history()] == list({payment.id for payment in got})


@pytest.mark.parametrize("state", sorted(LIVE - {PaymentState.RESERVED}))
def test_a_job_takes_over_what_it_hands_over(ledger: Ledger, state: PaymentState) -> None:
    payment = in_state(ledger, state, fingerprint="call")
    taken = ledger.resubmit(payment.id, now=NOW, job="tuesday")
    assert taken.job == "tuesday"
    assert ledger.get(payment.id) == taken
    assert ledger.resubmit(payment.id, now=NOW).job == "tuesday"
    assert ledger.resubmit(payment.id, now=NOW, job="wednesday").job == "tuesday"
    ledger.settle(payment.id, PaymentState.DELIVERED, reply=REPLY, now=NOW)
    assert reserve(ledger, draft("call", job="tuesday")).id == payment.id
    assert len(ledger.history()) == 1


@pytest.mark.parametrize("state", NOT_LIVE)
def test_what_has_ended_is_not_taken_over(ledger: Ledger, state: PaymentState) -> None:
    assert state in FREE | UNRESOLVED | {PaymentState.DELIVERED, PaymentState.MARKED_PAID}
    payment = in_state(ledger, state)
    assert ledger.resubmit(payment.id, now=NOW, job="tuesday") == payment
    assert ledger.get(payment.id) == payment
