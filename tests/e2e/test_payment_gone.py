"""The service goes away between the offer and the payment: what was never sent is free again when it has expired."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from tradesdk import APIConnectionError, Budget, Ledger, LocalSigner, MarketClient, PaymentRefusedError, PaymentState
from tradesdk_mock import MockClock, MockServer

from .._clock import START

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


def test_the_service_stops_while_it_is_signed() -> None:
    clock, ledger = MockClock(START), Ledger.memory()
    server = MockServer(seed=5, clock=clock).start()
    signer = Late(server.stop)
    # One connection for each request: a kept one that the end of the server breaks would leave a doubt.
    http = httpx.Client(limits=httpx.Limits(max_keepalive_connections=0))
    with (
        http,
        MarketClient(
            base_url=server.market_url,
            signer=signer,
            budget=Budget(total="0.03"),
            ledger=ledger,
            clock=clock,
            http_client=http,
        ) as client,
    ):
        for tried in (1, 2):
            with pytest.raises(APIConnectionError) as caught:
                client.token_prices(["ETH"])
            assert not caught.value.sent
            payment = caught.value.payment
            assert payment is not None
            assert (payment.state, payment.charged) == (PaymentState.REJECTED_LIVE, False)
            assert signer.signed == 1, f"signed again when tried {tried} times"
            spending = client.payments.spending()
            assert (spending.held, spending.left) == (PRICE, 0)
            assert clock.now() < payment.valid_before
        clock.advance(3000)
        found = client.payments.reconcile()
        assert [one.nonce for one in found.released] == [one.nonce for one in ledger.history()]
        assert client.payments.spending().total == 0


def test_a_signer_that_takes_longer_than_the_payment_is_valid() -> None:
    clock, ledger = MockClock(START), Ledger.memory()
    signer = Late(lambda: clock.advance(60))
    with (
        MockServer(seed=5, clock=clock) as server,
        MarketClient(
            base_url=server.market_url, signer=signer, budget=Budget(total="0.03"), ledger=ledger, clock=clock
        ) as client,
    ):
        with pytest.raises(PaymentRefusedError) as caught:
            client.token_prices(["ETH"])
        assert caught.value.code == "signer_too_slow"
        assert client.payments.spending().total == 0
        assert [payment.state for payment in ledger.history()] == [PaymentState.CANCELLED]
        assert server.payments.submissions() == []
