"""Offers as they are read and payments as they are written: versions 2 and 1, and back again."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tradesdk import InvalidArgumentError, RawResponse
from tradesdk._values.http import Headers
from tradesdk._values.payment import PAYMENT_HEADER
from tradesdk.errors import PaymentRefusedError
from tradesdk.payments.protocol import RECEIPT_HEADER, Authorization, Offer, encode_payment, offer_error, parse_offer

from ._offers import (
    PAY_TO,
    PAYER,
    RESOURCE,
    USDC,
    answer_1,
    answer_2,
    decoded,
    encoded,
    offer_1,
    offer_2,
    requirement_1,
    requirement_2,
)
from ._pickled import pickled

AUTHORIZATION = Authorization(PAYER, PAY_TO, 60000, 0, 1795176348, "0x" + "ab" * 32)
SIGNATURE = bytes(range(65))
WIRE = {
    "from": PAYER,
    "to": PAY_TO,
    "value": "60000",
    "validAfter": "0",
    "validBefore": "1795176348",
    "nonce": "0x" + "ab" * 32,
}
IDENTIFIER = {"payment-identifier": {"info": {"required": False}, "schema": {"type": "object"}}}


def test_version_2_is_read_from_the_header() -> None:
    offer = parse_offer(answer_2(offer_2(extensions={"other": {"info": 1}})))
    (requirement,) = offer.accepts
    assert (offer.version, offer.resource, offer.error) == (2, RESOURCE, "Payment required")
    assert offer.extensions == {"other": {"info": 1}}
    assert requirement.raw == requirement_2()
    assert (requirement.version, requirement.scheme, requirement.network) == (2, "exact", "eip155:8453")
    assert (requirement.asset, requirement.pay_to, requirement.amount) == (USDC, PAY_TO, "60000")
    assert requirement.max_timeout == 60
    assert requirement.extra == {"name": "USD Coin", "version": "2"}


def test_version_1_is_read_from_the_body() -> None:
    offer = parse_offer(answer_1(offer_1(requirement_1(outputSchema=None))))
    (requirement,) = offer.accepts
    assert (offer.version, offer.resource, offer.extensions) == (1, None, None)
    assert (requirement.version, requirement.network, requirement.amount) == (1, "base", "60000")
    assert requirement.raw == requirement_1(outputSchema=None)


def test_the_header_counts_when_both_are_there() -> None:
    both = answer_2(offer_2(), body=json.dumps(offer_1()).encode())
    assert parse_offer(both).version == 2


def test_a_bad_header_is_not_made_good_by_a_body() -> None:
    with pytest.raises(PaymentRefusedError) as caught:
        parse_offer(answer_2(b"?", body=json.dumps(offer_1()).encode()))
    assert caught.value.code == "malformed_offer"


def test_the_order_of_the_service_is_kept() -> None:
    offer = parse_offer(answer_2(offer_2(*(requirement_2(amount=str(n)) for n in (5, 3, 4)))))
    assert [one.amount for one in offer.accepts] == ["5", "3", "4"]


def test_an_offer_of_nothing_can_be_read() -> None:
    assert parse_offer(answer_2(offer_2(accepts=[]))).accepts == ()


def test_what_a_service_may_leave_out() -> None:
    offer = parse_offer(answer_2({"x402Version": 2, "accepts": [{}]}))
    (requirement,) = offer.accepts
    assert (offer.resource, offer.extensions, offer.error) == (None, None, None)
    assert (requirement.scheme, requirement.network, requirement.asset, requirement.pay_to) == ("", "", "", "")
    assert (requirement.amount, requirement.max_timeout, requirement.extra) == ("", None, {})


@pytest.mark.parametrize("value", [None, True, [1], ["x"], {"a": 1}])
def test_a_field_of_another_kind_is_as_good_as_none(value: Any) -> None:
    changes = dict.fromkeys(("scheme", "network", "asset", "payTo", "amount", "maxTimeoutSeconds"), value)
    offer = parse_offer(answer_2(offer_2(requirement_2(**changes, extra=[value]), error=value)))
    (requirement,) = offer.accepts
    assert offer.error is None
    assert (requirement.scheme, requirement.network, requirement.asset, requirement.pay_to) == ("", "", "", "")
    assert (requirement.amount, requirement.max_timeout, requirement.extra) == ("", None, {})
    assert requirement.raw == requirement_2(**changes, extra=[value])


def test_an_offer_can_be_pickled() -> None:
    offer = parse_offer(answer_2(offer_2(extensions=IDENTIFIER)))
    assert pickled(offer) == offer


@pytest.mark.parametrize(
    ("extensions", "wanted"),
    [
        (None, False),
        ({}, False),
        ({"other": {"info": {"required": True}}}, False),
        (IDENTIFIER, True),
        ({"payment-identifier": {"info": {"required": True}}}, True),
        ({"payment-identifier": {"info": {}}}, True),
        ({"payment-identifier": {"info": {"required": "true"}}}, True),
        ({"payment-identifier": {"info": None}}, False),
        ({"payment-identifier": {}}, False),
        ({"payment-identifier": None}, False),
        ({"payment-identifier": [1]}, False),
    ],
)
def test_whether_an_identifier_is_wanted(extensions: Any, wanted: bool) -> None:
    offer = parse_offer(answer_2(offer_2(extensions=extensions)))
    assert offer.identifier_wanted is wanted


def test_an_authorization_is_sent_as_six_strings() -> None:
    assert AUTHORIZATION.wire() == WIRE


def written(offer: Offer, identifier: str | None = None) -> Any:
    return decoded(encode_payment(offer, offer.accepts[0], AUTHORIZATION, SIGNATURE, identifier=identifier))


def test_a_payment_of_version_2() -> None:
    assert written(parse_offer(answer_2(offer_2()))) == {
        "x402Version": 2,
        "payload": {"signature": "0x" + SIGNATURE.hex(), "authorization": WIRE},
        "accepted": requirement_2(),
        "resource": RESOURCE,
    }


def test_a_payment_of_version_1() -> None:
    assert written(parse_offer(answer_1(offer_1()))) == {
        "x402Version": 1,
        "scheme": "exact",
        "network": "base",
        "payload": {"signature": "0x" + SIGNATURE.hex(), "authorization": WIRE},
    }


def test_what_the_offer_did_not_say_is_not_said_back() -> None:
    payment = written(parse_offer(answer_2({"x402Version": 2, "accepts": [requirement_2()], "resource": None})))
    assert payment.keys() == {"x402Version", "payload", "accepted"}


def test_headers_are_named_as_the_protocol_names_them() -> None:
    assert PAYMENT_HEADER == {2: "PAYMENT-SIGNATURE", 1: "X-PAYMENT"}
    assert RECEIPT_HEADER == {2: "payment-response", 1: "x-payment-response"}


def test_extensions_come_back_untouched() -> None:
    extensions = {"one": {"info": {"a": [1, 2.5, None]}, "schema": {}}, "two": None, "three": [True], **IDENTIFIER}
    assert written(parse_offer(answer_2(offer_2(extensions=extensions))))["extensions"] == extensions
    assert written(parse_offer(answer_2(offer_2(extensions={}))))["extensions"] == {}


def test_an_identifier_is_added_and_nothing_else() -> None:
    offer = parse_offer(answer_2(offer_2(extensions={"other": {"info": 1}, **IDENTIFIER})))
    assert written(offer, "pay_0123456789abcdef")["extensions"] == {
        "other": {"info": 1},
        "payment-identifier": {
            "info": {"required": False, "id": "pay_0123456789abcdef"},
            "schema": {"type": "object"},
        },
    }
    assert offer.extensions == {"other": {"info": 1}, **IDENTIFIER}, "the offer itself stays as it came"


@pytest.mark.parametrize("identifier", ["", "a" * 15, "a" * 129, "a" * 15 + ".", "a" * 15 + "é", "a" * 16 + "\n"])
def test_an_identifier_has_a_form(identifier: str) -> None:
    with pytest.raises(InvalidArgumentError, match="16 to 128"):
        written(parse_offer(answer_2(offer_2(extensions=IDENTIFIER))), identifier)


@pytest.mark.parametrize("identifier", ["a" * 16, "Z-_9" * 32])
def test_the_longest_and_the_shortest_identifier(identifier: str) -> None:
    payment = written(parse_offer(answer_2(offer_2(extensions=IDENTIFIER))), identifier)
    assert payment["extensions"]["payment-identifier"]["info"]["id"] == identifier


def test_an_identifier_needs_a_place() -> None:
    for offer in (answer_2(offer_2()), answer_2(offer_2(extensions={"other": {}})), answer_1(offer_1())):
        with pytest.raises(InvalidArgumentError, match="takes no identifier"):
            written(parse_offer(offer), "a" * 16)


@pytest.mark.parametrize("size", [0, 64, 66])
def test_a_signature_has_65_bytes(size: int) -> None:
    offer = parse_offer(answer_2(offer_2()))
    with pytest.raises(ValueError, match=f"65 bytes, not {size}"):
        encode_payment(offer, offer.accepts[0], AUTHORIZATION, bytes(size))


@pytest.mark.parametrize(
    ("response", "told"),
    [
        (answer_2(offer_2(error="insufficient_funds")), "insufficient_funds"),
        (answer_1(offer_1(error="Invalid payment: invalid_payload")), "Invalid payment: invalid_payload"),
        (answer_2(offer_2(error="first"), body=json.dumps(offer_1(error="second")).encode()), "first"),
        (answer_2(offer_2(error=None), body=json.dumps(offer_1(error="second")).encode()), "second"),
        (answer_2(b"?", body=json.dumps(offer_1(error="second")).encode()), "second"),
        (answer_1({"x402Version": 1, "error": "no accepts"}), "no accepts"),
        (answer_1({"error": "somebody else's body"}), None),
        (answer_1(offer_1(error="  ")), None),
        (answer_1(offer_1(error={"code": 1})), None),
        (answer_1([]), None),
        (answer_1(b""), None),
        (answer_1(b"<html>"), None),
        (answer_1(b" " * 70_000), None),
        (answer_2("x" * 70_000), None),
    ],
)
def test_why_payment_is_asked_for(response: RawResponse, told: str | None) -> None:
    assert offer_error(response) == told


# What survives a round trip: anything that JSON can say, with numbers of every size and kind.
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
NUMBERS = st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=5)


def types(value: Any) -> Any:
    """The value with its types, since 1, 1.0 and true are equal in Python and not on the wire."""
    if isinstance(value, dict):
        return {name: types(inner) for name, inner in value.items()}
    return [types(inner) for inner in value] if isinstance(value, list) else (type(value).__name__, value)


@settings(max_examples=60)
@given(extra=OBJECTS, further=OBJECTS, resource=OBJECTS, extensions=OBJECTS, spaces=st.booleans())
def test_what_came_goes_back_as_it_came(
    extra: dict[str, Any], further: dict[str, Any], resource: Any, extensions: Any, spaces: bool
) -> None:
    accepted = {**further, **requirement_2(extra=extra)}
    text = json.dumps(
        offer_2(accepted, resource=resource, extensions=extensions), separators=None if spaces else (",", ":")
    )
    payment = written(parse_offer(answer_2(text)))
    assert types(payment["accepted"]) == types(accepted)
    assert types(payment["resource"]) == types(resource)
    assert types(payment["extensions"]) == types(extensions)


@given(header=st.text(max_size=80), body=st.binary(max_size=80))
def test_no_header_and_no_body_breaks_the_reader(header: str, body: bytes) -> None:
    for headers in (Headers([("Payment-Required", header)]), Headers()):
        response = RawResponse(402, headers, body)
        offer_error(response)
        with pytest.raises(PaymentRefusedError) as caught:
            parse_offer(response)
        assert caught.value.response is response


def read_or_refused(response: RawResponse) -> Offer | PaymentRefusedError:
    try:
        return parse_offer(response)
    except PaymentRefusedError as error:
        return error


@given(value=VALUES, version=st.sampled_from([1, 2]) | VALUES, accepts=VALUES, further=OBJECTS)
def test_no_json_breaks_the_reader(value: Any, version: Any, accepts: Any, further: dict[str, Any]) -> None:
    for content in (value, {**further, "x402Version": version, "accepts": accepts}):
        for response in (answer_2(content), answer_1(content)):
            offer_error(response)
            read = read_or_refused(response)
            if isinstance(read, Offer):
                assert [one.raw for one in read.accepts] == accepts
            else:
                assert read.code in {"malformed_offer", "unsupported_version"}
                assert str(read).isprintable()


@given(content=st.binary(max_size=60))
def test_bytes_in_base64_do_not_break_it_either(content: bytes) -> None:
    response = RawResponse(402, Headers([("payment-required", encoded(content))]), b"")
    with pytest.raises(PaymentRefusedError):
        parse_offer(response)
