"""Ctrl-C wherever a paid call waits, for network, clock or ledger: nothing is paid twice, nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import pytest

from tradesdk import PaymentError

from .._eventful import agree
from .._paidservice import PRICE
from .._payments import how
from .._rows import each_of
from .._sync._paidshop import ANSWERS, Shop, lost, outcome
from ._interrupting import Interrupting

Calls = tuple[Callable[[], Any], Callable[[], Any]]
"""The call that is interrupted, and the one that comes next."""


def a_call(shop: Shop) -> Calls:
    return shop.buy, shop.buy


def a_batch(shop: Shop) -> Calls:
    run = shop.client.batches.token_prices(["ETH"], max_total="0.03")

    def act() -> Any:
        return next(run).result

    return act, act


def a_batch_of_a_job(shop: Shop) -> Calls:
    def act() -> Any:
        return next(shop.client.batches.token_prices(["ETH"], job="tuesday")).result

    return act, act


def in_doubt(shop: Shop) -> str:
    shop.service.kinds = ["lost before"]
    with pytest.raises(PaymentError) as caught:
        shop.client.with_options(max_retries=0).token_prices(["ETH"])
    assert caught.value.payment is not None
    return caught.value.payment.id


def a_kept_answer(shop: Shop) -> Calls:
    lost(shop)
    return shop.buy, shop.buy


def resume(shop: Shop) -> Calls:
    name = in_doubt(shop)
    return lambda: shop.client.payments.resume(name), shop.buy


def reconcile(shop: Shop) -> Calls:
    in_doubt(shop)
    return lambda: shop.client.payments.reconcile().delivered[0], shop.buy


OTHERS = a_batch, a_batch_of_a_job, a_kept_answer, resume, reconcile


@pytest.mark.parametrize("of", [a_call, *(pytest.param(call, marks=pytest.mark.long) for call in OTHERS)])
def test_the_next_call_gets_the_answer(of: Callable[[Shop], Calls], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made at once, and waits for nobody; what was delivered before is not paid for again."""
    interrupting = Interrupting(monkeypatch)
    for after in (False, True):
        for at in count(1):
            shop = Shop([], monkeypatch)
            act, then = of(shop)
            if not interrupting.at(at, act, after=after):
                break
            agree(shop.service, shop.ledger)
            delivered = [payment for payment in shop.ledger.history() if how(payment) == "answered"]
            waited, found = len(shop.clock.waits), None
            with suppress(PaymentError):
                found = then()
            place = f"wait {at}, {'after' if after else 'before'} it"
            assert sum(shop.clock.waits[waited:]) < 4, f"{place}: it waited for somebody who is gone"
            assert shop.service.total == PRICE, f"{place}: paid twice for one answer"
            if delivered:
                assert found is not None, place
                assert (found.again, found.answered_at) == (True, delivered[0].updated_at), place
            agree(shop.service, shop.ledger)
        assert at > 4


@pytest.mark.long
@each_of("kinds", ANSWERS.values(), ids=ANSWERS)
def test_whatever_the_service_says(kinds: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    interrupting = Interrupting(monkeypatch)
    for after in (False, True):
        for at in count(1):
            shop = Shop(kinds, monkeypatch)
            if not interrupting.at(at, partial(outcome, shop), after=after):
                break
            agree(shop.service, shop.ledger)
            shop.end()
        assert at > 4
