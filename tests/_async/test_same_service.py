"""A service is the same however its address is written: one purchase, one known recipient."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx
import pytest

from tradesdk import Ledger, PaymentOutcomeUnknownError

from .._rows import each_of
from .._seller import TWO, Seller, settled
from .._spellings import PAIRS
from ..unit._offers import prices
from ._market import market_of

pytestmark = pytest.mark.twin


@each_of(("one", "other", "same"), PAIRS, ids=ascii)
async def test_a_lost_answer_is_bought_once(one: str, other: str, same: bool) -> None:
    def lost(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("reset", request=request)

    seller, ledger = Seller(sold=lost), Ledger.memory()
    first = market_of(seller, ledger=ledger, base_url=one, max_retries=0)
    with pytest.raises(PaymentOutcomeUnknownError) as caught:
        await first.token_prices(TWO)
    seller.sold = lambda request: httpx.Response(200, json=prices("ETH", "BRETT"))
    second = market_of(seller, ledger=ledger, base_url=other)
    result = await second.token_prices(TWO)
    assert caught.value.payment is not None
    assert result.payment is not None
    assert (result.payment.id == caught.value.payment.id) is same
    nonces = {payment["payload"]["authorization"]["nonce"] for payment in seller.payments}
    assert len(nonces) == len(await second.payments.list()) == (1 if same else 2)


@each_of(("one", "other", "same"), PAIRS, ids=ascii)
async def test_a_named_purchase_and_its_recipient_are_known(one: str, other: str, same: bool) -> None:
    seller, ledger = Seller(receipt=settled()), Ledger.memory()
    first, second = (market_of(seller, ledger=ledger, base_url=url) for url in (one, other))
    await first.token_prices(TWO, purchase="today")
    known = await first.payments.trusted()
    assert len(known) == 1
    same_origin = urlsplit(first.base_url)[:2] == urlsplit(second.base_url)[:2]
    assert await second.payments.trusted() == (known if same_origin else [])
    if same:
        assert (await second.token_prices(TWO, purchase="today")).again is True
