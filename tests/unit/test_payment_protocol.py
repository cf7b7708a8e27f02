"""Offers as they are read and payments as they are written: and back again."""

import base64
import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tradesdk import PaymentRefusedError, RawResponse
from tradesdk._values.http import Headers
from tradesdk.payments.protocol import (
    MAX_OFFER,
    Offer,
    encode_payment,
    offer_error,
    parse_offer,
)

from .._payments import payment
from .._rows import each_of
from .._texts import texts
from ._offers import (
    MISSING,
    PAY_TO,
    PAYER,
    answer_2,
    answer_without_header,
    decoded,
    encoded,
    offer_2,
    requirement_2,
)
from ._pickled import pickled

SIGNED = payment(amount=60000, payer=PAYER, pay_to=PAY_TO, valid_before=1795176348, nonce="0x" + "ab" * 32)
SIGNATURE = bytes(range(65))
VERSION_1 = b'{"x402Version": 1, "error": "invalid_payload", "accepts": [{"scheme": "exact", "network": "base"}]}'
IDENTIFIER = {"payment-identifier": {"info": {"required": False}, "schema": {"type": "object"}}}


def test_what_a_service_may_leave_out() -> None:
    offer = parse_offer(answer_2({"x402Version": 2, "accepts": [{}]}))
    (requirement,) = offer.accepts
    assert (offer.resource, offer.extensions) == (None, None)
    assert (requirement.scheme, requirement.network, requirement.asset, requirement.pay_to) == ("", "", "", "")
    assert (requirement.amount, requirement.max_timeout, requirement.extra) == ("", None, {})


@each_of("value", [None, True, [1], ["x"], {"a": 1}])
def test_a_field_of_another_kind_is_as_good_as_none(value: Any) -> None:
    changes = dict.fromkeys(("scheme", "network", "asset", "payTo", "amount", "maxTimeoutSeconds"), value)
    offer = parse_offer(answer_2(offer_2(requirement_2(**changes, extra=[value]), error=value)))
    (requirement,) = offer.accepts
    assert (requirement.scheme, requirement.network, requirement.asset, requirement.pay_to) == ("", "", "", "")
    assert (requirement.amount, requirement.max_timeout, requirement.extra) == ("", None, {})
    assert requirement.raw == requirement_2(**changes, extra=[value])


@each_of(
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


def written(offer: Offer, identifier: str | None = None) -> Any:
    return decoded(encode_payment(offer, offer.accepts[0], SIGNED, SIGNATURE, identifier=identifier))


def test_what_the_offer_did_not_say_is_not_said_back() -> None:
    payment = written(parse_offer(answer_2({"x402Version": 2, "accepts": [requirement_2()], "resource": None})))
    assert payment.keys() == {"x402Version", "payload", "accepted"}


@each_of("identifier", ["a" * 16, "Z-_9" * 32])
def test_the_longest_and_the_shortest_identifier(identifier: str) -> None:
    payment = written(parse_offer(answer_2(offer_2(extensions=IDENTIFIER))), identifier)
    assert payment["extensions"]["payment-identifier"]["info"]["id"] == identifier


@each_of(
    ("response", "told"),
    [
        (answer_2(offer_2(error="insufficient_funds")), "insufficient_funds"),
        (answer_2({"error": "no accepts"}), "no accepts"),
        (answer_2(offer_2(error="  ")), None),
        (answer_2(offer_2(error={"code": 1})), None),
        (answer_2([]), None),
        (answer_2(b""), None),
        (answer_2(b"<html>"), None),
        (answer_2("x" * 70_000), None),
        (answer_2(b"?", body=VERSION_1), json.loads(VERSION_1)["error"]),
        (answer_without_header(VERSION_1), json.loads(VERSION_1)["error"]),
        (answer_without_header(offer_2(error="insufficient_funds")), "insufficient_funds"),
        (answer_without_header({"success": False, "data": None, "error": "insufficient_funds"}), "insufficient_funds"),
        (answer_2(offer_2(error="first"), body=b'{"error": "second"}'), "first"),
        (answer_2({"accepts": []}, body=b'{"error": "second"}'), "second"),
        (answer_2({"accepts": []}, body=b'{"error": {"code": "second"}}'), None),
        (answer_without_header(b'{"error": "' + b"x" * 70_000 + b'"}'), None),
    ],
)
def test_why_payment_is_asked_for(response: RawResponse, told: str | None) -> None:
    assert offer_error(response) == told


# What survives a round trip: anything that JSON can say, with numbers of every size and kind.
TEXTS = texts(max_size=12)
NUMBERS = st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=3)


def types(value: Any) -> Any:
    """The value with its types, since 1, 1.0 and true are equal in Python and not on the wire."""
    if isinstance(value, dict):
        return {name: types(inner) for name, inner in value.items()}
    return [types(inner) for inner in value] if isinstance(value, list) else (type(value).__name__, value)


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


def read_or_refused(response: RawResponse) -> Offer | PaymentRefusedError:
    try:
        return parse_offer(response)
    except PaymentRefusedError as error:
        return error


@given(value=VALUES, version=st.sampled_from([1, 2]) | VALUES, accepts=VALUES, further=OBJECTS)
def test_no_json_breaks_the_reader(value: Any, version: Any, accepts: Any, further: dict[str, Any]) -> None:
    for content in (value, {**further, "x402Version": version, "accepts": accepts}):
        for response in (answer_2(content), answer_without_header(content)):
            offer_error(response)
            read = read_or_refused(response)
            if isinstance(read, Offer):
                assert [one.raw for one in read.accepts] == accepts
            else:
                assert read.code in {"malformed_offer", "unsupported_payment"}
                assert str(read).isprintable()


# What is refused by its size, its depth or its text; what HTTP adds: tests/_async/test_market_hostile.py


def in_header(text: str) -> RawResponse:
    return RawResponse(402, Headers([("payment-required", text)]), b"{}")


def refused(response: RawResponse, code: str = "malformed_offer") -> PaymentRefusedError:
    with pytest.raises(PaymentRefusedError) as caught:
        parse_offer(response)
    error = caught.value
    assert (error.code, error.response) == (code, response)
    assert error.hint
    assert error.charged is False
    assert str(error).isprintable()
    assert len(str(error)) < 600
    assert str(pickled(error)) == str(error)
    return error


GOOD = encoded(offer_2(error="~~~???~~~???"))
URL_SAFE = base64.urlsafe_b64encode(base64.b64decode(GOOD)).decode()
DEEP = '{"x402Version": 2, "accepts": [], "extensions": ' + '{"a":' * 2_000 + "1" + "}" * 2_001
MALFORMED: dict[str, tuple[RawResponse, str]] = {
    "an empty header": (in_header(""), "malformed_offer"),
    "base64 for URLs": (in_header(URL_SAFE), "malformed_offer"),
    "base64 without its padding": (in_header(encoded("{} ").rstrip("=")), "malformed_offer"),
    "base64 in two lines' worth of spaces": (in_header(GOOD[:40] + " " + GOOD[40:]), "malformed_offer"),
    "plain JSON in the header": (in_header(json.dumps(offer_2())), "malformed_offer"),
    "a lone surrogate": (answer_2('{"x402Version": 2, "accepts": [], "error": "\\ud800"}'), "malformed_offer"),
    "a number of 5,000 digits": (
        answer_2('{"x402Version": 2, "accepts": [], "a": ' + "1" * 5_000 + "}"),
        "malformed_offer",
    ),
    "base64 and one sign too many": (in_header("e30=="), "malformed_offer"),
    "no JSON": (answer_2(b"<html>"), "malformed_offer"),
    "a byte order mark": (answer_2("\ufeff" + json.dumps(offer_2())), "malformed_offer"),
    "UTF-16": (answer_2(json.dumps(offer_2()).encode("utf-16")), "malformed_offer"),
    "JSON that is cut short": (answer_2(json.dumps(offer_2())[:-1]), "malformed_offer"),
    "JSON and more": (answer_2(json.dumps(offer_2()) + "{}"), "malformed_offer"),
    "bytes that are no text": (answer_2(b'{"x402Version": 2, "error": "\xff"}'), "malformed_offer"),
    "a list": (answer_2([offer_2()]), "malformed_offer"),
    "a text": (answer_2('"pay"'), "malformed_offer"),
    "null": (answer_2("null"), "malformed_offer"),
    "deep JSON": (answer_2(DEEP), "malformed_offer"),
    "a number that is none": (answer_2('{"x402Version": 2, "accepts": [], "a": NaN}'), "malformed_offer"),
    "a number that begins with 0": (answer_2('{"x402Version": 2, "accepts": [], "a": 060}'), "malformed_offer"),
    "version 3": (answer_2(offer_2(x402Version=3)), "unsupported_payment"),
    "version 10^30": (answer_2(offer_2(x402Version=10**30)), "unsupported_payment"),
    "version 1 in the header": (answer_2(offer_2(x402Version=1)), "unsupported_payment"),
    "version 2 as text": (answer_2(offer_2(x402Version="2")), "malformed_offer"),
    "version 2.0": (answer_2(offer_2(x402Version=2.0)), "malformed_offer"),
    "version true": (answer_2(offer_2(x402Version=True)), "malformed_offer"),
    "no version": (answer_2(offer_2(x402Version=MISSING)), "malformed_offer"),
    "accepts is missing": (answer_2(offer_2(accepts=MISSING)), "malformed_offer"),
    "accepts is null": (answer_2(offer_2(accepts=None)), "malformed_offer"),
    "accepts is an object": (answer_2(offer_2(accepts=requirement_2())), "malformed_offer"),
    "accepts has a null": (answer_2(offer_2(accepts=[None, requirement_2()])), "malformed_offer"),
    "accepts has a list": (answer_2(offer_2(accepts=[[requirement_2()]])), "malformed_offer"),
    "extensions is a list": (answer_2(offer_2(extensions=[])), "malformed_offer"),
    "extensions is a text": (answer_2(offer_2(extensions="all")), "malformed_offer"),
    "extensions is true": (answer_2(offer_2(extensions=True)), "malformed_offer"),
    "one of version 2.5": (answer_without_header(offer_2(x402Version=2.5)), "unsupported_payment"),
    "one in the body that accepts null": (
        answer_without_header(offer_2(accepts=None)),
        "malformed_offer",
    ),
    "deep JSON in the body": (answer_without_header(DEEP.replace(": 2,", ": 1,").encode()), "unsupported_payment"),
}


@each_of(("response", "code"), MALFORMED.values(), ids=MALFORMED)
def test_an_offer_that_cannot_be_read(response: RawResponse, code: str) -> None:
    refused(response, code)


def test_deep_json_where_another_library_has_raised_the_limit() -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        deep = b"[" * 30_000 + b"]" * 30_000
        refused(in_header(encoded(deep)[: MAX_OFFER - 4]))
        refused(answer_without_header(deep), "unsupported_payment")
    finally:
        sys.setrecursionlimit(limit)


@each_of(
    ("number", "is_taken"),
    [("1e999", False), ("-2.5E400", False), ("1" * 400 + ".0", False), ("1e300", True), ('"0x1e999"', True)],
)
def test_a_number_that_no_json_can_repeat(number: str, is_taken: bool) -> None:
    """It is read as infinity, and the payment has to repeat the offer."""
    offer = json.dumps(offer_2(requirement_2(extra={"name": "USD Coin", "version": "2", "more": "?"}))).replace(
        '"?"', number
    )
    if is_taken:
        assert parse_offer(in_header(encoded(offer))).accepts[0].extra["more"] == json.loads(number)
    else:
        assert "is not an offer" in refused(in_header(encoded(offer))).message


def sized(size: int) -> str:
    """An offer as a header of that many characters."""
    room = size // 4 * 3 - len(json.dumps(offer_2(padding="")))
    return encoded(json.dumps(offer_2(padding="x" * room)))


def test_a_header_of_64_kib_and_one_that_is_larger() -> None:
    assert len(sized(65_536)) == 65_536
    assert parse_offer(in_header(sized(65_536))).accepts[0].raw == requirement_2()
    error = refused(in_header(sized(65_540)), "offer_too_large")
    assert "larger than 64 KiB" in error.message
    assert offer_error(in_header(sized(65_540))) is None
    refused(in_header("x" * 10_000_000), "offer_too_large")


@each_of(
    ("body", "is_version_1"),
    [
        (VERSION_1, True),
        (b'{"x402Version": 1}', True),
        (VERSION_1[:-1], False),
        (json.dumps(offer_2()).encode()[:-1], False),
        (json.dumps([offer_2()]).encode(), False),
        (b'{"x402Version": 2}', False),
        (b'{"x402Version": "2", "accepts": []}', False),
        (b'{"accepts": []}', False),
        (b'[{"x402Version": 1}]', False),
        (b'{"error": {"code": "payment_required", "message": "pay"}}', False),
        (b"<h1>Payment required</h1>", False),
        (b"\xff", False),
        (b"", False),
        (b"{}", False),
    ],
)
def test_a_body_that_is_no_offer_either(body: bytes, is_version_1: bool) -> None:
    """Where it is an offer of version 1, the error says so."""
    error = refused(answer_without_header(body), "unsupported_payment")
    assert "it has no offer in a PAYMENT-REQUIRED header or in its body" in error.message
    assert ("its body is an offer of x402 version 1, and only version 2 is supported" in error.message) is is_version_1


def test_without_the_header_the_offer_is_in_the_body() -> None:
    """It is returned unchanged, as one in a header is."""
    richer = offer_2(requirement_2(more={"a": [1, None]}), extensions=IDENTIFIER, theirs="too")
    offer = parse_offer(answer_without_header(richer))
    assert offer == parse_offer(answer_2(richer))
    assert written(offer)["accepted"] == requirement_2(more={"a": [1, None]})


@each_of(
    ("change", "code"),
    [
        ({"accepts": {}}, "malformed_offer"),
        ({"accepts": [1]}, "malformed_offer"),
        ({"extensions": []}, "malformed_offer"),
        ({"resource": "half a character: \ud83d"}, "malformed_offer"),
        ({"padding": "x" * 70_000}, "offer_too_large"),
    ],
)
def test_an_offer_in_the_body_is_read_as_strictly(change: dict[str, Any], code: str) -> None:
    assert "its body" in refused(answer_without_header(offer_2() | change), code).message


@each_of("header", [b"?", b"[]", b"{", "", {"x402Version": 2}, {"accepts": []}])
def test_one_in_the_header_that_cannot_be_read_ends_it(header: Any) -> None:
    """Whatever the body says: two offers of one answer may be of two senders."""
    refused(answer_2(header, body=json.dumps(offer_2()).encode()), "malformed_offer")


def test_of_two_offers_that_in_the_header_counts() -> None:
    cheap, dear = offer_2(requirement_2(amount="1")), offer_2(requirement_2(amount="2"))
    assert parse_offer(answer_2(dear, body=json.dumps(cheap).encode())).accepts[0].amount == "2"


def test_foreign_text_is_shown_with_care() -> None:
    for content in (b"\x1b[2J", b'"\x1b[2J"', b'{"\\u001b[2J": 1, "\\u001b[2J": 2}'):
        assert "\x1b" not in str(refused(in_header(encoded(content))))
