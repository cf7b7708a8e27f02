"""Offers in the body of a 402, and services that take the money before they do the work."""

from __future__ import annotations

import httpx
import pytest

from tradesdk import (
    APIStatusError,
    ConfigError,
    Ledger,
    LocalSigner,
    NotFoundError,
    PaymentOutcomeUnknownError,
    PaymentRefusedError,
    PaymentRejectedError,
    PaymentUndeliveredError,
)
from tradesdk_mock import MockService

from .._rows import each_of
from .._seller import PRICE, TWO, Seller, settled
from ..unit._offers import DOMAIN, encoded, offer_2, requirement_2
from ._market import buyer_of, in_doubt, market_of, refused

pytestmark = pytest.mark.twin

PAYER = LocalSigner.from_key("0x" + "01" * 32).address
UPFRONT = requirement_2(extra=DOMAIN | {"paymentFlow": "upfront"})


@each_of("offer_in", ["header", "body", "both"])
@each_of("reason_in", ["header", "body"])
async def test_wherever_the_offer_is(offer_in: str, reason_in: str) -> None:
    """A refusal is understood, too: the wallet is funded, and the same call buys."""
    with MockService(gaps={"offer_in": offer_in, "reason_in": reason_in}) as mock:
        client = buyer_of(mock)
        mock.payments.set_balance(PAYER, 0)
        with pytest.raises(PaymentRejectedError) as caught:
            await client.token_prices(["ETH"])
        assert caught.value.code == "insufficient_funds"
        mock.payments.set_balance(PAYER, 1_000_000)
        assert (await client.token_prices(["ETH"])).charged is True
        mock.payments.assert_charged(times=1, amount=30_000)


async def test_upfront_is_refused_unless_it_is_allowed() -> None:
    error = await refused(Seller(offer=offer_2(UPFRONT)), "upfront_flow")
    assert "paymentFlow: upfront" in error.message
    assert "MarketClient(allow_upfront=True)" in error.hint
    assert "may take the money and answer with an error" in error.hint
    seller = Seller(offer=offer_2(UPFRONT), receipt=settled())
    assert (await market_of(seller, allow_upfront=True).token_prices(TWO)).charged is True
    (sent,) = seller.payments
    assert sent["accepted"] == UPFRONT
    with pytest.raises(ConfigError, match="allow_upfront"):
        market_of(seller, allow_upfront="yes")


@each_of("turn", [1, -1])
async def test_another_offer_is_preferred_within_the_price(turn: int) -> None:
    """Also if it is dearer."""
    cheap = UPFRONT | {"amount": "1"}
    for plain, taken in ((requirement_2(), 0), (requirement_2(amount=str(PRICE + 1)), 1)):
        seller = Seller(offer=offer_2(accepts=[plain, cheap][::turn]), receipt=settled())
        await market_of(seller, allow_upfront=True).token_prices(TWO)
        assert seller.payments[0]["accepted"] == (plain, cheap)[taken]


def verified(error: str) -> httpx.Response:
    return httpx.Response(402, json={}, headers={"PAYMENT-REQUIRED": encoded(offer_2(UPFRONT, error=error))})


@each_of("status", [400, 401, 403, 404, 410, 422, 451])
async def test_after_upfront_an_error_is_in_doubt(status: int) -> None:
    """The same bytes are sent again, and held. After the work, such an answer is definite for the caller."""
    for is_upfront in (True, False):
        seller = Seller(offer=offer_2(UPFRONT if is_upfront else requirement_2()))
        seller.sold = lambda _: httpx.Response(status, json={})
        client = market_of(seller, allow_upfront=True)
        with pytest.raises((APIStatusError, PaymentOutcomeUnknownError)) as caught:
            await client.token_prices(TWO)
        assert isinstance(caught.value, PaymentOutcomeUnknownError) is is_upfront
        assert len({one.headers["PAYMENT-SIGNATURE"] for one in seller.paid}) == 1
        assert (len(seller.paid) > 1) is is_upfront
        assert (await client.payments.spending()).held == PRICE


async def test_what_is_no_error_of_upfront() -> None:
    """A refusal by verification is what it is elsewhere, and so is a receipt."""
    seller = Seller(offer=offer_2(UPFRONT), sold=lambda _: verified("invalid_exact_evm_payload_signature"))
    with pytest.raises(PaymentRejectedError):
        await market_of(seller, allow_upfront=True).token_prices(TWO)
    assert len(seller.paid) == 1
    told = httpx.Response(404, json={}, headers={"PAYMENT-RESPONSE": encoded(settled())})
    client = market_of(Seller(offer=offer_2(UPFRONT), sold=lambda _: told), allow_upfront=True)
    with pytest.raises(PaymentUndeliveredError) as caught:
        await client.token_prices(TWO)
    assert caught.value.charged is True


@each_of("receipt", [True, False])
async def test_a_mock_that_is_paid_upfront(receipt: bool) -> None:
    """An unknown token costs the price. Without the receipt the same bytes find out: the nonce is used."""
    with MockService(gaps={"flow": "upfront"}) as mock:
        client = buyer_of(mock, allow_upfront=True)
        assert (await client.token_prices(["ETH"])).charged is True
        if not receipt:
            mock.add_fault("receipt", missing=True)
        with pytest.raises(PaymentUndeliveredError) as caught:
            await client.token_prices(["NOPE"])
        assert caught.value.charged is (True if receipt else "unknown")
        assert [one.amount for one in mock.payments.settlements()] == [30_000] * 2
        assert (await client.payments.spending()).total.counted == 60_000
    with MockService(gaps={"flow": "both"}) as mock:
        client = buyer_of(mock, allow_upfront=True)
        with pytest.raises(NotFoundError):
            await client.token_prices(["NOPE"])
        mock.payments.assert_charged(times=0)
    with MockService(gaps={"flow": "upfront"}) as mock, pytest.raises(PaymentRefusedError) as refusal:
        await buyer_of(mock).token_prices(["ETH"])
    assert refusal.value.code == "upfront_flow"


async def test_a_payment_that_was_sent_upfront_is_resent_by_any_client() -> None:
    """What was handed over is not lost when the setting is taken back."""
    seller, ledger = Seller(offer=offer_2(UPFRONT), sold=lambda _: httpx.Response(503, json={})), Ledger.memory()
    await in_doubt(market_of(seller, allow_upfront=True, ledger=ledger))
    seller.sold, seller.receipt = None, settled()
    assert (await market_of(seller, ledger=ledger).token_prices(TWO)).charged is True
    assert len({one.headers["PAYMENT-SIGNATURE"] for one in seller.paid}) == 1
