"""The sum of a batch run, `max_total`. What services that cash and lie take of one is in `test_paying_hostile.py`."""

from __future__ import annotations

import httpx
import pytest

from tradesdk import PaymentOutcomeUnknownError, PaymentRefusedError

from .._seller import Seller
from ..unit._offers import offer_2, requirement_2
from ._market import market_of

pytestmark = pytest.mark.twin

ONE = offer_2(requirement_2(amount="30000"))


async def test_a_total_that_is_used_up_asks_for_no_offer() -> None:
    seller = Seller(offer=ONE)
    run = market_of(seller).batches.token_prices(["A", "B"], size=1, max_total="0.03")
    assert (await anext(run)).spent == run.spent == 30_000
    before = len(seller.requests)
    with pytest.raises(PaymentRefusedError, match=r"over_total: .*\$0\.03 leaves \$0\.00"):
        await anext(run)
    assert len(seller.requests) == before


async def test_a_nonce_that_another_run_signs_again_stays_in_the_sum_of_the_first() -> None:
    """Either signature may be taken. The run has room for one batch more, and not for two."""
    seller = Seller(offer=ONE)
    seller.sold = lambda request: httpx.Response(500)
    client = market_of(seller, max_retries=0)
    first = client.batches.token_prices(["A", "B"], size=1, max_total="0.06")
    with pytest.raises(PaymentOutcomeUnknownError):
        await anext(first)
    seller.clock.advance(100)
    seller.sold = None
    await anext(client.batches.token_prices(["A"], max_total="0.03"))
    nonces = [one["payload"]["authorization"]["nonce"] for one in seller.payments]
    assert nonces[0] == nonces[1]
    await anext(first)
    with pytest.raises(PaymentRefusedError, match="over_total"):
        await anext(first)
    assert len({one["payload"]["authorization"]["nonce"] for one in seller.payments}) == 2
    with pytest.raises(PaymentRefusedError, match="over_total"):
        await anext(client.batches.token_prices(["B"], max_total="0.02", max_price="0.03"))
