"""Ctrl-C wherever a paid call waits, for network, clock or ledger: nothing is paid twice, nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

import pytest

from .._eventful import agree
from .._rows import each_of
from .._sync._paidshop import OTHERS, SOME, Calls, Shop, a_call, goes_on, outcome
from ._interrupting import Interrupting


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
            goes_on(shop, then)
            agree(shop.service, shop.ledger)
        assert at > 2


@pytest.mark.long
@each_of("kinds", SOME)
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
