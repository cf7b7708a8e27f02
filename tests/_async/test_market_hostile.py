"""Offers that must not be paid: each is refused before anything is signed, set aside or sent."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tradesdk import APIConnectionError, AsyncMarketClient, Ledger, PaymentRefusedError

from .._hostile import Visit, answer, hostile
from .._paidservice import CountingSigner
from .._rows import each_of
from .._seller import BASE, TWO, Seller, asks_2
from ..unit._hostile_offers import HOSTILE
from ..unit._offers import MISSING, encoded, offer_2, requirement_2
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


def _of(value: Any) -> httpx.Response:
    return asks_2(value)


def _body(content: bytes | str) -> httpx.Response:
    return httpx.Response(402, content=content)


def _header(text: str) -> httpx.Response:
    return httpx.Response(402, json={}, headers={"PAYMENT-REQUIRED": text})


GOOD = encoded(offer_2(error="~~~???~~~???"))
URL_SAFE = base64.urlsafe_b64encode(base64.b64decode(GOOD)).decode()
VERSION_1 = {
    "x402Version": 1,
    "error": "Payment required",
    "accepts": [{**requirement_2(network="base", maxAmountRequired="60000"), "resource": f"{BASE}/v1/token-prices"}],
}
DEEP = '{"x402Version": 2, "accepts": [], "extensions": ' + '{"a":' * 2_000 + "1" + "}" * 2_001
MALFORMED: dict[str, tuple[Callable[[], httpx.Response], str]] = {
    "no base64": (lambda: _header("@@@@"), "malformed_offer"),
    "an empty header": (lambda: _header(""), "malformed_offer"),
    "base64 for URLs": (lambda: _header(URL_SAFE), "malformed_offer"),
    "base64 without its padding": (lambda: _header(encoded("{} ").rstrip("=")), "malformed_offer"),
    "base64 in two lines' worth of spaces": (lambda: _header(GOOD[:40] + " " + GOOD[40:]), "malformed_offer"),
    "plain JSON in the header": (lambda: _header(json.dumps(offer_2())), "malformed_offer"),
    "a lone surrogate": (lambda: _of('{"x402Version": 2, "accepts": [], "error": "\\ud800"}'), "malformed_offer"),
    "a number of 5,000 digits": (
        lambda: _of('{"x402Version": 2, "accepts": [], "a": ' + "1" * 5_000 + "}"),
        "malformed_offer",
    ),
    "two headers": (
        lambda: httpx.Response(402, json={}, headers=[("PAYMENT-REQUIRED", encoded(offer_2()))] * 2),
        "malformed_offer",
    ),
    "another coding": (
        lambda: httpx.Response(402, content=b"x", headers={"Content-Encoding": "br"}),
        "unsupported_payment",
    ),
    "base64 and one sign too many": (lambda: _header("e30=="), "malformed_offer"),
    "no JSON": (lambda: _of(b"<html>"), "malformed_offer"),
    "a byte order mark": (lambda: _of("\ufeff" + json.dumps(offer_2())), "malformed_offer"),
    "UTF-16": (lambda: _of(json.dumps(offer_2()).encode("utf-16")), "malformed_offer"),
    "JSON that is cut short": (lambda: _of(json.dumps(offer_2())[:-1]), "malformed_offer"),
    "JSON and more": (lambda: _of(json.dumps(offer_2()) + "{}"), "malformed_offer"),
    "bytes that are no text": (lambda: _of(b'{"x402Version": 2, "error": "\xff"}'), "malformed_offer"),
    "a list": (lambda: _of([offer_2()]), "malformed_offer"),
    "a text": (lambda: _of('"pay"'), "malformed_offer"),
    "null": (lambda: _of("null"), "malformed_offer"),
    "deep JSON": (lambda: _of(DEEP), "malformed_offer"),
    "a number that is none": (lambda: _of('{"x402Version": 2, "accepts": [], "a": NaN}'), "malformed_offer"),
    "a number that begins with 0": (lambda: _of('{"x402Version": 2, "accepts": [], "a": 060}'), "malformed_offer"),
    "version 3": (lambda: _of(offer_2(x402Version=3)), "unsupported_payment"),
    "version 10^30": (lambda: _of(offer_2(x402Version=10**30)), "unsupported_payment"),
    "version 1 in the header": (lambda: _of(offer_2(x402Version=1)), "unsupported_payment"),
    "version 2 as text": (lambda: _of(offer_2(x402Version="2")), "malformed_offer"),
    "version 2.0": (lambda: _of(offer_2(x402Version=2.0)), "malformed_offer"),
    "version true": (lambda: _of(offer_2(x402Version=True)), "malformed_offer"),
    "no version": (lambda: _of(offer_2(x402Version=MISSING)), "malformed_offer"),
    "nothing accepted": (lambda: _of(offer_2(accepts=[])), "no_offer"),
    "accepts is missing": (lambda: _of(offer_2(accepts=MISSING)), "malformed_offer"),
    "accepts is null": (lambda: _of(offer_2(accepts=None)), "malformed_offer"),
    "accepts is an object": (lambda: _of(offer_2(accepts=requirement_2())), "malformed_offer"),
    "accepts has a null": (lambda: _of(offer_2(accepts=[None, requirement_2()])), "malformed_offer"),
    "accepts has a list": (lambda: _of(offer_2(accepts=[[requirement_2()]])), "malformed_offer"),
    "extensions is a list": (lambda: _of(offer_2(extensions=[])), "malformed_offer"),
    "extensions is a text": (lambda: _of(offer_2(extensions="all")), "malformed_offer"),
    "extensions is true": (lambda: _of(offer_2(extensions=True)), "malformed_offer"),
    "an empty body": (lambda: _body(b""), "unsupported_payment"),
    "a page": (lambda: _body(b"<h1>Payment required</h1>"), "unsupported_payment"),
    "an error of the account API": (lambda: _body('{"error": {"code": "x", "message": "y"}}'), "unsupported_payment"),
    "an offer in the body that is cut short": (lambda: _body(json.dumps(offer_2())[:-1]), "unsupported_payment"),
    "one of version 2.5": (lambda: _body(json.dumps(offer_2(x402Version=2.5))), "unsupported_payment"),
    "one in the body that accepts null": (lambda: _body(json.dumps(offer_2(accepts=None))), "malformed_offer"),
    "one in the body with nothing accepted": (lambda: _body(json.dumps(offer_2(accepts=[]))), "no_offer"),
    "an offer of version 1": (lambda: _body(json.dumps(VERSION_1)), "unsupported_payment"),
    "deep JSON in the body": (lambda: _body(DEEP.replace(": 2,", ": 1,")), "unsupported_payment"),
    "more in the body than is read": (lambda: _body(json.dumps(VERSION_1) + " " * 200_000), "unsupported_payment"),
    "a larger offer in the body": (lambda: _body(json.dumps(offer_2(more="x" * 70_000))), "offer_too_large"),
}


@each_of("case", MALFORMED)
async def test_an_offer_that_cannot_be_read(case: str) -> None:
    make, code = MALFORMED[case]
    seller = Seller(asking=lambda request: make())
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
