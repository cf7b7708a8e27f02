"""Expiry by the clock of one service does not touch payments for another one."""

from collections.abc import Iterator

import pytest

from tradesdk._values.payment import GRACE, LIVE, PaymentState
from tradesdk.payments.ledger.sqlite import Ledger

from ._ledger import NOW, ORIGIN, draft, in_state, reserve, submitted

OTHERS = [
    "http://127.0.0.1:8000",
    "http://market.example",
    "https://market.example:8443",
    "https://market.example0",
    "https://market.example.evil.example",
    "https://market",
    "https://a.market.example",
    "https://MARKET.example",
    "https://m%rket.example",
    "https://zebra.example",
]
LATE = NOW + 10**6


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger.memory() as ledger:
        yield ledger


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("other", OTHERS)
def test_each_has_its_own_clock(ledger: Ledger, other: str, first: bool) -> None:
    origins = (ORIGIN, other) if first else (other, ORIGIN)
    one, two = [submitted(ledger, draft(url=f"{origin}/v1/a")) for origin in origins]
    assert [closed.id for closed in ledger.expire(LATE, now=NOW, origin=origins[0])] == [one.id]
    assert ledger.get(two.id) == two
    assert [closed.id for closed in ledger.expire(LATE, now=NOW, origin=origins[1])] == [two.id]
    assert [payment.state for payment in ledger.history()] == [PaymentState.EXPIRED_UNKNOWN] * 2


def test_all_of_an_origin_in_order(ledger: Ledger) -> None:
    urls = [f"{ORIGIN}/z", f"{ORIGIN}/", f"{ORIGIN}/a/b?c=d", f"{ORIGIN}/\u00fc"]
    made = [submitted(ledger, draft(url=url)) for url in urls]
    assert [one.id for one in ledger.expire(LATE, now=NOW, origin=ORIGIN)] == [one.id for one in made]


def test_without_an_origin_all_are_closed(ledger: Ledger) -> None:
    made = [submitted(ledger, draft(url=f"{origin}/v1/a")) for origin in (*OTHERS, ORIGIN)]
    assert [one.id for one in ledger.expire(LATE, now=NOW)] == [one.id for one in made]


def test_the_moment_is_the_same(ledger: Ledger) -> None:
    payment = submitted(ledger, draft(valid_before=int(NOW) + 100))
    assert ledger.expire(NOW + 100 + GRACE - 1, now=NOW, origin=ORIGIN) == []
    assert [one.id for one in ledger.expire(NOW + 100 + GRACE, now=NOW, origin=ORIGIN)] == [payment.id]


@pytest.mark.parametrize("state", sorted(set(PaymentState) - LIVE))
def test_what_has_ended_stays(ledger: Ledger, state: PaymentState) -> None:
    payment = in_state(ledger, state)
    assert ledger.expire(LATE, now=NOW, origin=ORIGIN) == []
    assert ledger.get(payment.id) == payment


def test_a_reservation_closes_what_its_own_service_says(ledger: Ledger) -> None:
    """A mock whose clock is ahead must not free money that a real service can still take."""
    real = submitted(ledger, draft(url=f"{ORIGIN}/v1/a"))
    ledger.settle(real.id, PaymentState.REJECTED_LIVE, now=NOW)
    reserve(ledger, draft(url="http://127.0.0.1:8000/v1/a"), origin="http://127.0.0.1:8000", expired=LATE)
    found = ledger.get(real.id)
    assert found is not None
    assert found.state is PaymentState.REJECTED_LIVE
    reserve(ledger, draft(), expired=LATE)
    found = ledger.get(real.id)
    assert found is not None
    assert found.state is PaymentState.EXPIRED_UNPAID
