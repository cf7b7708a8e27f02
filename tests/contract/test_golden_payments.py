"""The SDK's offers, payments and receipts against JSON typed by hand: what is read from it, what is written like it."""

import base64
import json
from typing import Any

import pytest

from tradesdk import LocalSigner, RawResponse
from tradesdk._values.http import Headers
from tradesdk.payments.protocol import (
    authorization,
    encode_payment,
    offer_error,
    parse_offer,
    read_receipt,
    receipt_warnings,
)
from tradesdk.payments.signing.signer import authorization_signable, digest_of

from .._payments import payment
from .._rows import each_of
from ._golden import load
from ._market import IDENTIFIER, OFFER, PAYMENT, RECEIPTS

KEY = "0x" + "01" * 32


def golden_answer(**changes: Any) -> RawResponse:
    """The golden offer as it comes in."""
    content = json.dumps(load(OFFER) | changes).encode()
    return RawResponse(402, Headers([("PAYMENT-REQUIRED", base64.b64encode(content).decode())]), b"{}")


def test_an_offer_is_read_whole() -> None:
    golden, offer = load(OFFER), parse_offer(golden_answer())
    assert offer_error(golden_answer()) == golden["error"]
    assert (offer.resource, offer.extensions) == (golden["resource"], None)
    assert [one.raw for one in offer.accepts] == golden["accepts"]
    (requirement,) = offer.accepts
    assert (requirement.scheme, requirement.network, requirement.amount) == ("exact", "eip155:8453", "60000")
    assert requirement.pay_to == golden["accepts"][0]["payTo"]
    assert requirement.asset == golden["accepts"][0]["asset"]
    assert requirement.max_timeout == 60
    assert requirement.extra == {"name": "USD Coin", "version": "2"}


def test_a_payment_is_written_to_the_last_character_of_its_signature() -> None:
    """The golden payment is for half of what the golden offer wants."""
    golden = load(PAYMENT)
    offer = parse_offer(golden_answer(accepts=[load(OFFER)["accepts"][0] | {"amount": "30000"}]))
    signer = LocalSigner.from_key(KEY)
    terms = golden["payload"]["authorization"]
    signed = payment(
        payer=signer.address,
        pay_to=offer.accepts[0].pay_to,
        amount=int(offer.accepts[0].amount),
        valid_before=int(terms["validBefore"]),
        nonce=terms["nonce"],
    )
    assert authorization(signed) == terms
    signature = signer.sign_digest(digest_of(authorization_signable(signed)))
    header = encode_payment(offer, offer.accepts[0], signed, signature)
    assert json.loads(base64.b64decode(header, validate=True)) == golden
    assert payment(header=header).sent() == (b"PAYMENT-SIGNATURE", header.encode())


@pytest.mark.rule("payment.failed")
@each_of("name", RECEIPTS)
def test_a_receipt_is_read_whole(name: str) -> None:
    golden = load(name)
    content = base64.b64encode(json.dumps(golden).encode()).decode()
    receipt, problem = read_receipt(Headers([("PAYMENT-RESPONSE", content)]))
    assert problem is None
    assert receipt is not None
    assert receipt.raw == golden
    assert (receipt.success, receipt.transaction) == (golden["success"], golden["transaction"])
    assert (receipt.network, receipt.payer) == (golden["network"], golden["payer"])
    assert receipt.error_reason == golden.get("errorReason")
    assert receipt.amount == (int(golden["amount"]) if "amount" in golden else None)
    assert bool(receipt_warnings(receipt, payment(amount=30_000))) is not golden["success"]


@pytest.mark.rule("payment.identifier")
def test_the_identifier_is_echoed_with_an_id() -> None:
    golden = load(IDENTIFIER)
    plain = parse_offer(golden_answer())
    marked = parse_offer(golden_answer(extensions={"payment-identifier": golden, "other": [1, None]}))
    assert plain.identifier_wanted is False
    assert marked.identifier_wanted is True
    signed = payment(
        payer="0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1",
        pay_to=marked.accepts[0].pay_to,
        amount=60_000,
        valid_before=1,
        nonce="0x" + "00" * 32,
    )
    name = "pay_0123456789abcdef"
    header = encode_payment(marked, marked.accepts[0], signed, bytes(65), identifier=name)
    sent = json.loads(base64.b64decode(header, validate=True))
    expected = golden | {"info": golden["info"] | {"id": name}}
    assert sent["extensions"] == {"payment-identifier": expected, "other": [1, None]}
