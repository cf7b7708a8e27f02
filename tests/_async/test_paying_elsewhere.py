"""Another client makes the same call while a payment for it is under way: it is handed over by one at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from tradesdk import AsyncMarketClient, Ledger, PaymentRefusedError

from .._paidservice import PRICE, CountingSigner, JumpingClock, PaidService
from .._payments import how
from ._market import market_of


class Both:
    """Two clients over one ledger, as in two processes. `meanwhile` happens while a payment of `one` is on its way."""

    def __init__(self, meanwhile: Callable[[AsyncMarketClient], Awaitable[object]]) -> None:
        self.clock, self.meanwhile = JumpingClock(), [meanwhile]
        self.service, ledger = PaidService(self.clock), Ledger.memory()
        self.signers = [CountingSigner(), CountingSigner()]
        self.one, self.other = (
            market_of(self._handle, signer=signer, ledger=ledger, clock=self.clock, deadline=20)
            for signer in self.signers
        )

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        if "payment-signature" in request.headers and self.meanwhile:
            await self.meanwhile.pop()(self.other)
        return self.service.handle(request)


async def buys_the_same(other: AsyncMarketClient) -> None:
    with pytest.raises(PaymentRefusedError, match="in_progress"):
        await other.token_prices(["ETH"])


async def resumes(other: AsyncMarketClient) -> None:
    (payment,) = await other.payments.list()
    assert how(payment) == "sent"
    with pytest.raises(PaymentRefusedError, match="in_progress"):
        await other.payments.resume(payment.id)


async def buys_something_else(other: AsyncMarketClient) -> Any:
    return await other.token_prices(["BRETT"])


@pytest.mark.parametrize("meanwhile", [buys_the_same, resumes, buys_something_else])
async def test_only_an_equal_call_waits_for_its_turn_and_no_longer_than_its_deadline(
    meanwhile: Callable[[AsyncMarketClient], Awaitable[object]],
) -> None:
    both = Both(meanwhile)
    payment = (await both.one.token_prices(["ETH"])).payment
    assert payment is not None
    assert (how(payment), payment.submissions) == ("answered", 1)
    waited, pays = sum(both.clock.waits), meanwhile is buys_something_else
    assert 10 < waited <= 20 if meanwhile is buys_the_same else waited == 0
    assert [len(signer.digests) for signer in both.signers] == [1, pays]
    assert (both.service.requests, both.service.total) == (2 + 2 * pays, (1 + pays) * PRICE)
