"""The SDK's offers, payments and receipts against JSON typed by hand: what is read from it, what is written like it."""

import base64
import json
from typing import Any

from tradesdk import LocalSigner, RawResponse
from tradesdk._values.http import Headers
from tradesdk._values.payment import PAYMENT_HEADER
from tradesdk.payments.protocol import Authorization, Offer, encode_payment, parse_offer, read_receipt, receipt_warnings
from tradesdk.payments.signing.signer import authorization_signable, digest_of

from .._payments import payment
from .._rows import each_of
from ._golden import load
from ._market import IDENTIFIER, OFFERS, PAYMENTS, RECEIPTS

KEY = "0x" + "01" * 32


def offered(version: int, **changes: Any) -> Offer:
    """The golden offer of a version as it comes in: in a header, or as a body."""
    content = json.dumps(load(OFFERS[version]) | changes).encode()
    if version == 1:
        return parse_offer(RawResponse(402, Headers(), content))
    return parse_offer(RawResponse(402, Headers([("PAYMENT-REQUIRED", base64.b64encode(content).decode())]), b"{}"))


def for_one_token(version: int) -> dict[str, Any]:
    """What is asked for in the golden payments, which are for half of what the golden offers want."""
    requirement: dict[str, Any] = load(OFFERS[version])["accepts"][0]
    return requirement | {"amount" if version == 2 else "maxAmountRequired": "30000"}


@each_of("version", OFFERS)
def test_an_offer_is_read_whole(version: int) -> None:
    golden, offer = load(OFFERS[version]), offered(version)
    assert (offer.version, offer.error, offer.extensions) == (version, golden["error"], None)
    assert offer.resource == golden.get("resource")
    assert [one.raw for one in offer.accepts] == golden["accepts"]
    (requirement,) = offer.accepts
    assert (requirement.scheme, requirement.network) == ("exact", "eip155:8453" if version == 2 else "base")
    assert requirement.amount == "60000"
    assert requirement.pay_to == golden["accepts"][0]["payTo"]
    assert requirement.asset == golden["accepts"][0]["asset"]
    assert requirement.max_timeout == 60
    assert requirement.extra == {"name": "USD Coin", "version": "2"}


@each_of("version", PAYMENTS)
def test_a_payment_is_written_to_the_last_character_of_its_signature(version: int) -> None:
    golden = load(PAYMENTS[version])
    offer = offered(version, accepts=[for_one_token(version)])
    signer = LocalSigner.from_key(KEY)
    terms = golden["payload"]["authorization"]
    authorization = Authorization(
        payer=signer.address,
        to=offer.accepts[0].pay_to,
        value=int(offer.accepts[0].amount),
        valid_after=0,
        valid_before=int(terms["validBefore"]),
        nonce=terms["nonce"],
    )
    assert authorization.wire() == terms
    signature = signer.sign_digest(digest_of(authorization_signable(authorization)))
    header = encode_payment(offer, offer.accepts[0], authorization, signature)
    assert json.loads(base64.b64decode(header, validate=True)) == golden
    assert PAYMENT_HEADER[version] == ("PAYMENT-SIGNATURE" if version == 2 else "X-PAYMENT")


@each_of(("name", "header"), RECEIPTS.items())
def test_a_receipt_is_read_whole(name: str, header: str) -> None:
    golden = load(name)
    receipt, problem = read_receipt(Headers([(header, base64.b64encode(json.dumps(golden).encode()).decode())]))
    assert problem is None
    assert receipt is not None
    assert receipt.raw == golden
    assert (receipt.success, receipt.transaction) == (golden["success"], golden["transaction"])
    assert (receipt.network, receipt.payer) == (golden["network"], golden["payer"])
    assert receipt.error_reason == golden.get("errorReason")
    assert receipt.amount == (int(golden["amount"]) if "amount" in golden else None)
    version, network = (1, "base") if header == "X-PAYMENT-RESPONSE" else (2, "eip155:8453")
    warnings = receipt_warnings(receipt, payment(amount=30_000, version=version, network=network))
    assert bool(warnings) is not golden["success"]


def test_the_identifier_is_echoed_with_an_id() -> None:
    golden = load(IDENTIFIER)
    plain, marked = offered(2), offered(2, extensions={"payment-identifier": golden, "other": [1, None]})
    assert plain.identifier_wanted is False
    assert marked.identifier_wanted is True
    authorization = Authorization(
        payer="0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1",
        to=marked.accepts[0].pay_to,
        value=60_000,
        valid_after=0,
        valid_before=1,
        nonce="0x" + "00" * 32,
    )
    name = "pay_0123456789abcdef"
    header = encode_payment(marked, marked.accepts[0], authorization, bytes(65), identifier=name)
    sent = json.loads(base64.b64decode(header, validate=True))
    expected = golden | {"info": golden["info"] | {"id": name}}
    assert sent["extensions"] == {"payment-identifier": expected, "other": [1, None]}
