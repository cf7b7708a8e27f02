"""Another client makes the same call while a payment for it is under way: it is handed over by one at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tradesdk import AsyncMarketClient, Ledger, PaymentRefusedError

from .._eventful import BUDGET
from .._paidservice import BASE, PRICE, CountingSigner, JumpingClock, PaidService
from .._payments import how


class Both:
    """Two clients over one ledger, as in two processes. `meanwhile` happens while a payment is on its way."""

    def __init__(self) -> None:
        self.clock = JumpingClock()
        self.service = PaidService(self.clock)
        self.ledger = Ledger.memory()
        self.signers = [CountingSigner(), CountingSigner()]
        self.meanwhile: Callable[[], Any] | None = None
        self.one, self.other = (self._client(signer) for signer in self.signers)

    def _client(self, signer: CountingSigner) -> AsyncMarketClient:
        return AsyncMarketClient(
            base_url=BASE,
            signer=signer,
            budget=BUDGET,
            ledger=self.ledger,
            clock=self.clock,
            deadline=20,
            check_tokens=False,
            http_client=httpx.AsyncClient(transport=httpx.MockTransport(self._handle)),
        )

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        if "payment-signature" in request.headers and self.meanwhile is not None:
            happens, self.meanwhile = self.meanwhile, None
            await happens()
        return self.service.handle(request)


async def test_it_waits_for_its_turn_and_no_longer_than_its_deadline() -> None:
    both = Both()
    codes, waited = [], list[float]()

    async def meanwhile() -> None:
        with pytest.raises(PaymentRefusedError) as caught:
            await both.other.token_prices(["ETH"])
        codes.append(caught.value.code)
        waited.extend(both.clock.waits)

    both.meanwhile = meanwhile
    result = await both.one.token_prices(["ETH"])
    assert codes == ["in_progress"]
    assert 10 < sum(waited) <= 20
    assert result.payment is not None
    assert (how(result.payment), result.payment.submissions) == ("answered", 1)
    assert [len(signer.digests) for signer in both.signers] == [1, 0]
    assert both.service.total == PRICE


async def test_resuming_waits_for_nobody() -> None:
    both = Both()
    codes = []

    async def meanwhile() -> None:
        (payment,) = await both.other.payments.list()
        assert how(payment) == "sent"
        with pytest.raises(PaymentRefusedError) as caught:
            await both.other.payments.resume(payment.id)
        codes.append(caught.value.code)

    both.meanwhile = meanwhile
    await both.one.token_prices(["ETH"])
    assert codes == ["in_progress"]
    assert both.clock.waits == []
    assert both.service.requests == 2


async def test_another_call_does_not_wait() -> None:
    both = Both()
    waits = []

    async def meanwhile() -> None:
        await both.other.token_prices(["BRETT"])
        waits.append(list(both.clock.waits))

    both.meanwhile = meanwhile
    await both.one.token_prices(["ETH"])
    assert waits == [[]]
    assert both.service.total == 2 * PRICE
