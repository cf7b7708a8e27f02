"""The service goes away between the offer and the payment: what was never sent is free again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tradesdk import APIConnectionError, Budget, Ledger, LocalSigner, MarketClient, PaymentRefusedError
from tradesdk_mock import MockClock, MockServer

from .._clock import START
from .._payments import how
from .._stock import stocked

PRICE = 30_000


class Late:
    """A signer that takes its time: something happens before it signs."""

    def __init__(self, before: Callable[[], object]) -> None:
        self._signer = LocalSigner.from_key("0x" + "5c" * 32)
        self._before = before
        self.signed = 0

    @property
    def address(self) -> str:
        return self._signer.address

    def sign_digest(self, digest: bytes, /) -> bytes:
        self.signed += 1
        self._before()
        return self._signer.sign_digest(digest)


@pytest.mark.long
def test_the_service_stops_while_it_is_signed() -> None:
    clock, ledger = MockClock(START), Ledger.memory()
    server = MockServer(seed=5, clock=clock).start()
    signer = Late(server.stop)
    with MarketClient(
        base_url=server.market_url, signer=signer, budget=Budget(total="0.03"), ledger=ledger, clock=clock
    ) as client:
        with pytest.raises(APIConnectionError) as caught:
            client.token_prices(["ETH"])
        assert not caught.value.sent
        payment = caught.value.payment
        assert payment is not None
        assert (how(payment), payment.charged, payment.header) == ("unsent, not_received", False, None)
        spending = client.payments.spending()
        assert (spending.held, spending.left) == (0, PRICE)
        with pytest.raises(APIConnectionError) as again:
            client.token_prices(["ETH"])
        assert (again.value.payment, signer.signed) == (None, 1)
        assert ledger.history() == [payment]


def test_a_signer_that_takes_longer_than_the_payment_is_valid() -> None:
    clock, ledger = MockClock(START), Ledger.memory()
    signer = Late(lambda: clock.advance(60))
    with (
        MockServer(seed=7, clock=clock, signals="scripted") as server,
        MarketClient(
            base_url=server.market_url, signer=signer, budget=Budget(total="0.03"), ledger=ledger, clock=clock
        ) as client,
    ):
        stocked(server, START)
        with pytest.raises(PaymentRefusedError) as caught:
            client.token_prices(["ETH"])
        assert caught.value.code == "signer_too_slow"
        assert client.payments.spending().total.counted == 0
        assert ledger.history() == []
        assert server.payments.submissions() == []
