"""Reserving: the order of its steps, the recipient, and what a refusal leaves behind."""

from collections.abc import Iterator

import pytest

from tradesdk import InvalidArgumentError
from tradesdk._values.payment import GRACE, LIVE, UNRESOLVED, PaymentState
from tradesdk.errors import PaymentRefusedError
from tradesdk.payments.budget import Budget
from tradesdk.payments.ledger.protocol import LedgerStore
from tradesdk.payments.ledger.sqlite import Ledger

from ._ledger import ADDRESS, HEADER, NOW, ORIGIN, OTHER, PLENTY, draft, in_state, reserve, submitted

STANDING = sorted(LIVE | UNRESOLVED)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger.memory() as ledger:
        yield ledger


def refused(ledger: Ledger, code: str, **changes: object) -> PaymentRefusedError:
    with pytest.raises(PaymentRefusedError) as caught:
        reserve(ledger, **changes)  # type: ignore[arg-type]
    assert caught.value.code == code
    assert caught.value.charged is False
    return caught.value


def test_it_is_a_budget_store(ledger: Ledger) -> None:
    store: LedgerStore = ledger
    assert isinstance(store, LedgerStore)


def test_a_reservation_is_kept_as_it_was_given(ledger: Ledger) -> None:
    asked = draft(body=b"\x00\xff", job="tuesday", identified=True, amount=10**18, version=1, reason="why not")
    payment = reserve(ledger, asked, budget=Budget.unlimited())
    assert payment == asked
    assert ledger.get(asked.id) == asked
    assert ledger.find(asked.fingerprint, now=NOW) == asked


def test_created_is_the_moment_of_the_reservation(ledger: Ledger) -> None:
    payment = reserve(ledger, draft(created=1.0, updated=2.0), now=NOW + 5.25)
    assert (payment.created, payment.updated) == (NOW + 5.25, NOW + 5.25)
    assert ledger.get(payment.id) == payment


@pytest.mark.parametrize("state", sorted(set(PaymentState) - {PaymentState.RESERVED}))
def test_only_what_is_reserved_can_be(ledger: Ledger, state: PaymentState) -> None:
    with pytest.raises(InvalidArgumentError, match="RESERVED"):
        reserve(ledger, draft(state=state))
    assert ledger.history() == []


@pytest.mark.parametrize("state", STANDING)
def test_another_payment_for_the_call_stands_in_the_way(ledger: Ledger, state: PaymentState) -> None:
    first = in_state(ledger, state, fingerprint="call")
    assert ledger.find("call", now=NOW) == first
    # Neither the recipient nor the budget is looked at: nothing new is bought.
    assert reserve(ledger, draft("call", pay_to=OTHER), budget=Budget()) == first
    assert ledger.history() == [first]


@pytest.mark.parametrize("state", sorted(set(PaymentState) - LIVE - UNRESOLVED))
def test_what_ended_well_stands_in_nobodys_way(ledger: Ledger, state: PaymentState) -> None:
    first = in_state(ledger, state, fingerprint="call")
    assert ledger.find("call", now=NOW) is None
    second = reserve(ledger, draft("call"))
    assert second.id != first.id
    assert ledger.find("call", now=NOW) == second


@pytest.mark.parametrize("state", STANDING)
def test_a_new_purchase_supersedes_the_earlier_ones_when_it_is_signed(ledger: Ledger, state: PaymentState) -> None:
    first = in_state(ledger, state, fingerprint="call")
    second = reserve(ledger, draft("call"), new_purchase=True)
    third = reserve(ledger, draft("call"), new_purchase=True)
    other = submitted(ledger, draft("other call"))
    assert not any(payment.superseded for payment in ledger.history())
    # Both can still be taken, so both count.
    assert ledger.spending(PLENTY, now=NOW).total == 4 * 30_000
    third = ledger.submit(third.id, HEADER, now=NOW)
    found = {payment.id: payment.superseded for payment in ledger.history()}
    reserved = state is PaymentState.RESERVED
    assert found == {first.id: not reserved, second.id: False, third.id: False, other.id: False}
    assert ledger.find("call", now=NOW) == third
    assert ledger.spending(PLENTY, now=NOW).total == 4 * 30_000
    # One that is signed later stands as well, and not in the way of the one that was ordered after it.
    second = ledger.submit(second.id, HEADER, now=NOW)
    assert ledger.find("call", now=NOW) == third
    ledger.settle(third.id, PaymentState.DELIVERED, now=NOW)
    assert ledger.find("call", now=NOW) == second


@pytest.mark.parametrize("state", STANDING)
def test_a_new_purchase_that_is_never_signed_changes_nothing(ledger: Ledger, state: PaymentState) -> None:
    first = in_state(ledger, state, fingerprint="call")
    second = reserve(ledger, draft("call"), new_purchase=True)
    ledger.settle(second.id, PaymentState.CANCELLED, now=NOW)
    assert ledger.find("call", now=NOW) == first
    assert reserve(ledger, draft("call")) == first


def test_what_was_superseded_does_not_come_back(ledger: Ledger) -> None:
    submitted(ledger, draft("call"))
    second = submitted(ledger, draft("call"), new_purchase=True)
    ledger.settle(second.id, PaymentState.DELIVERED, now=NOW)
    assert ledger.find("call", now=NOW) is None


def test_a_refused_new_purchase_supersedes_nothing(ledger: Ledger) -> None:
    first = reserve(ledger, draft("call"))
    refused(ledger, "over_budget", payment=draft("call"), budget=Budget(total="0.05"), new_purchase=True)
    assert ledger.find("call", now=NOW) == first
    assert ledger.history() == [first]


def test_what_has_expired_is_closed_first(ledger: Ledger) -> None:
    first = reserve(ledger, draft("call", valid_before=int(NOW) + 100))
    assert reserve(ledger, draft("call"), expired=NOW + 100 + GRACE - 1) == first
    second = reserve(ledger, draft("call"), budget=Budget(total="0.03"), expired=NOW + 100 + GRACE, now=NOW + 131)
    assert second.id != first.id
    closed = ledger.get(first.id)
    assert closed is not None
    assert (closed.state, closed.updated) == (PaymentState.CANCELLED, NOW + 131)


def test_an_expired_unknown_payment_stands_in_the_way(ledger: Ledger) -> None:
    first = submitted(ledger, draft("call"))
    found = reserve(ledger, draft("call"), expired=NOW + 1000)
    assert (found.id, found.state) == (first.id, PaymentState.EXPIRED_UNKNOWN)


def test_what_has_expired_is_closed_even_when_the_rest_is_refused(ledger: Ledger) -> None:
    first = reserve(ledger)
    refused(ledger, "no_budget", budget=Budget(), expired=NOW + 1000)
    closed = ledger.get(first.id)
    assert closed is not None
    assert closed.state is PaymentState.CANCELLED


def test_the_first_recipient_is_remembered_when_a_payment_to_it_was_signed(ledger: Ledger) -> None:
    first = reserve(ledger, draft(pay_to=ADDRESS))
    assert ledger.trusted(ORIGIN) == []
    ledger.submit(first.id, HEADER, now=NOW)
    assert ledger.trusted(ORIGIN) == [ADDRESS]
    submitted(ledger, draft(pay_to=ADDRESS.lower()))
    submitted(ledger, draft(pay_to="0x" + ADDRESS[2:].upper()))
    assert ledger.trusted(ORIGIN) == [ADDRESS]


def test_of_two_first_recipients_only_one_is_paid(ledger: Ledger) -> None:
    first, second = reserve(ledger, draft(pay_to=ADDRESS)), reserve(ledger, draft("call", pay_to=OTHER))
    ledger.submit(first.id, HEADER, now=NOW)
    with pytest.raises(PaymentRefusedError) as caught:
        ledger.submit(second.id, HEADER, now=NOW)
    assert (caught.value.code, caught.value.charged, caught.value.payment) == ("recipient_changed", False, second)
    assert ledger.find("call", now=NOW) == second, "nothing of it is written down"
    assert ledger.trusted(ORIGIN) == [ADDRESS]


def test_another_recipient_is_refused_until_it_is_trusted(ledger: Ledger) -> None:
    submitted(ledger, draft(pay_to=ADDRESS))
    error = refused(ledger, "recipient_changed", payment=draft(pay_to=OTHER))
    assert ADDRESS in error.message
    assert OTHER in error.message
    assert f"trade pay trust {OTHER}" in error.hint
    assert "pay_to=" in error.hint
    assert len(ledger.history()) == 1
    ledger.trust(ORIGIN, OTHER.lower(), now=NOW + 1)
    ledger.trust(ORIGIN, OTHER, now=NOW + 2)  # known already
    submitted(ledger, draft(pay_to=OTHER))
    submitted(ledger, draft(pay_to=ADDRESS))
    assert ledger.trusted(ORIGIN) == [ADDRESS, OTHER.lower()]


def test_each_origin_has_its_own_recipients(ledger: Ledger) -> None:
    submitted(ledger, draft(pay_to=ADDRESS))
    submitted(ledger, draft(pay_to=OTHER, url="https://other.example/v1"), origin="https://other.example")
    assert ledger.trusted(ORIGIN) == [ADDRESS]
    assert ledger.trusted("https://other.example") == [OTHER]
    assert ledger.trusted("https://third.example") == []


def test_configured_recipients_are_the_only_ones(ledger: Ledger) -> None:
    submitted(ledger, draft(pay_to=ADDRESS))
    other = reserve(ledger, draft(pay_to=OTHER), pay_to=[OTHER.lower()])
    ledger.submit(other.id, HEADER, pay_to=[OTHER.lower()], now=NOW)
    error = refused(ledger, "recipient_changed", payment=draft(pay_to=ADDRESS), pay_to=[OTHER])
    assert ADDRESS in error.message
    assert OTHER in error.message
    assert "add it to pay_to=" in error.hint  # to trust it would not help
    assert ledger.trusted(ORIGIN) == [ADDRESS]  # what is configured is not remembered


def test_a_refused_call_remembers_no_recipient(ledger: Ledger) -> None:
    refused(ledger, "no_budget", budget=Budget())
    assert ledger.trusted(ORIGIN) == []


def test_the_recipient_comes_before_the_budget(ledger: Ledger) -> None:
    submitted(ledger)
    refused(ledger, "recipient_changed", payment=draft(pay_to=OTHER), budget=Budget())


def test_a_hostile_recipient_cannot_write_to_the_terminal(ledger: Ledger) -> None:
    submitted(ledger)
    error = refused(ledger, "recipient_changed", payment=draft(pay_to="0x\x1b[2J\n" + "A" * 500))
    assert (error.message + error.hint).isprintable()
    assert len(str(error)) < 1000


def test_the_same_id_cannot_be_reserved_twice(ledger: Ledger) -> None:
    from tradesdk.errors import LedgerError

    first = reserve(ledger)
    with pytest.raises(LedgerError) as caught:
        reserve(ledger, draft(id=first.id))
    assert caught.value.code == "ledger_failed"
    assert ledger.history() == [first]
