"""Offers that must not be paid: each is refused before anything is signed, set aside or sent."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tradesdk import APIConnectionError, AsyncMarketClient, Ledger, PaymentRefusedError

from .._hostile import Visit, answer, hostile
from .._paidservice import CountingSigner
from .._rows import each_of
from .._seller import TWO, Seller
from ..unit._hostile_offers import HOSTILE
from ..unit._offers import encoded, offer_2, requirement_2
from ._market import market_of, refused

pytestmark = pytest.mark.twin

FIRST = {code: fields for fields, code in reversed(HOSTILE)}
"""One of each kind; `tests/unit/test_payment_guards.py` has them all."""


@each_of("code", FIRST)
async def test_what_must_not_be_paid(code: str) -> None:
    seller = Seller(offer=offer_2(requirement_2(**FIRST[code])))
    error = await refused(seller, code)
    assert len(seller.requests) == 1
    assert error.response is None or error.response.status == 402


async def test_the_good_offer_beside_them_is_paid() -> None:
    """The tests above are worth nothing if everything is refused."""
    seller = Seller()
    assert (await market_of(seller).token_prices(TWO)).charged == "unknown"  # paid, and no receipt
    assert len(seller.paid) == 1


OFFER = ("PAYMENT-REQUIRED", encoded(offer_2()))
MALFORMED: dict[str, tuple[dict[str, Any], str]] = {
    "no base64": ({"headers": {"PAYMENT-REQUIRED": "@@@@"}}, "malformed_offer"),
    "two headers": ({"headers": [OFFER] * 2}, "malformed_offer"),
    "another coding": ({"content": b"x", "headers": {"Content-Encoding": "br"}}, "unsupported_payment"),
    "more in the body than is read": ({"content": '{"x402Version": 1}' + " " * 200_000}, "unsupported_payment"),
    "nothing accepted": ({"headers": {"PAYMENT-REQUIRED": encoded(offer_2(accepts=[]))}}, "no_offer"),
    "an offer in the body with nothing accepted": ({"json": offer_2(accepts=[])}, "no_offer"),
}
"""What else cannot be read: `tests/unit/test_payment_protocol.py`."""


@each_of(("answered", "code"), MALFORMED.values(), ids=MALFORMED)
async def test_an_offer_that_cannot_be_read(answered: dict[str, Any], code: str) -> None:
    seller = Seller(asking=lambda request: httpx.Response(402, **answered))
    error = await refused(seller, code)
    assert len(seller.requests) == 1
    if code != "no_offer":
        assert error.response is not None
        assert error.response.status == 402


async def test_an_offer_of_more_than_64_kib() -> None:
    """On a real connection, where headers have limits of their own."""
    signer, size = CountingSigner(), 0

    def answering(visit: Visit) -> None:
        header = encoded(offer_2(padding="x" * (size * 3 // 4)))
        visit.send(answer(b"{}", status="402 Payment Required", PAYMENT_REQUIRED=header))

    with hostile(answering) as server:
        settings: dict[str, Any] = {"base_url": server.url, "signer": signer, "ledger": Ledger.memory()}
        async with AsyncMarketClient(**settings, max_retries=0) as client:
            for size in (65_536, 70_000):  # noqa: B007 - the server sends that much
                with pytest.raises(PaymentRefusedError, match="64 KiB") as caught:
                    await client.token_prices(TWO, max_price="1")
                assert caught.value.code == "offer_too_large"
            size = 200_000  # more than the HTTP library takes as a header
            with pytest.raises(APIConnectionError):
                await client.token_prices(TWO, max_price="1")
            assert await client.payments.list() == []
        heads = [visit.head.lower() for visit in server.visits]
    assert len(heads) >= 3
    assert not any(b"payment-signature" in head for head in heads)
    assert signer.digests == []


async def test_nothing_is_paid_in_the_open() -> None:
    error = await refused(Seller(), "insecure_url", base_url="http://market.example", allow_insecure=True)
    assert "https" in error.hint


async def test_what_is_free_is_not_paid_for() -> None:
    """Not even a little: the published price of this one is nothing."""
    for amount in ("60000", "1"):
        offer = offer_2(requirement_2(amount=amount))
        error = await refused(Seller(offer=offer), "over_price", call=lambda client: client.supported_tokens(limit=1))
        assert "$0.00" in error.message
