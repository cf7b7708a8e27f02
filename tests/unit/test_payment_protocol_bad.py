"""Offers that are damaged or hostile: each is refused by name, and nothing of them reaches a terminal as it is."""

import base64
import json
import sys
from typing import Any

import pytest

from tradesdk import RawResponse
from tradesdk._values.http import Headers
from tradesdk.errors import PaymentRefusedError
from tradesdk.payments.protocol import MAX_OFFER, offer_error, parse_offer

from ._offers import MISSING, answer_1, answer_2, encoded, offer_1, offer_2, requirement_1, requirement_2
from ._pickled import pickled

GOOD = json.dumps(offer_2())
LINE = encoded(GOOD)


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


@pytest.mark.parametrize(
    "header",
    [
        "",
        "?",
        "e30",  # no padding
        "e30==",
        "e30=e30=",
        LINE[:-4] + "*" + LINE[-3:],
        LINE.rstrip("=")[:-1],
        LINE[:40] + "\n" + LINE[40:],
        LINE[:40] + " " + LINE[40:],
        LINE + ", " + LINE,  # sent twice
        "é" + LINE,
        base64.urlsafe_b64encode(b'{"?":"\xc3\xbf\xc3\xbf\xc3\xbf>>>"}').decode(),
    ],
)
def test_bad_base64(header: str) -> None:
    assert "not base64" in refused(in_header(header)).message or header == ""


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"nonsense",
        GOOD[:-1].encode(),
        GOOD.encode() + b"}",
        GOOD.encode("utf-16"),
        b"\xef\xbb\xbf" + GOOD.encode(),
        GOOD.replace("Prices", "\\ud800").encode(),
        GOOD.replace("60,", "NaN,").encode(),
        GOOD.replace("60,", "Infinity,").encode(),
        GOOD.replace("60,", "-Infinity,").encode(),
        GOOD.replace("60,", "1e999,").encode(),
        GOOD.replace("60,", "-1e999,").encode(),
        GOOD.replace("60,", "9" * 5000 + ",").encode(),
        GOOD.replace("60,", "060,").encode(),
        GOOD.replace("60,", "60,,").encode(),
        GOOD.replace('"', "'").encode(),
    ],
)
def test_wrong_json(content: bytes) -> None:
    refused(in_header(encoded(content)))
    refused(answer_1(content))


@pytest.mark.parametrize("value", [None, True, 1, "text", [], [offer_2()], {}])
def test_json_of_another_kind(value: Any) -> None:
    refused(answer_2(value))
    refused(answer_1(value))


@pytest.mark.parametrize(
    "content",
    [
        GOOD.replace('"x402Version": 2', '"x402Version": 2, "x402Version": 2'),
        GOOD.replace('"amount"', '"amount": "1", "amount"'),
        GOOD.replace('"name"', '"name": "USD Coin", "name"'),
        GOOD.replace('"payTo"', '"p\\u0061yTo": "0x", "payTo"'),  # the same name, written otherwise
        GOOD.replace(": ", ":").replace(", ", ",").replace('"amount"', '"amount":"1","amount"'),
    ],
)
def test_a_name_that_comes_twice(content: str) -> None:
    """Two readers could understand two things by it, and one of them is the verifier."""
    assert "is twice" in refused(in_header(encoded(content))).message


@pytest.mark.parametrize("depth", [300, 5_000, 15_000])
def test_deep_json(depth: int) -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        content = (opening * depth + "1" + closing * depth).encode()[: MAX_OFFER // 2]
        refused(in_header(encoded(content)))
        refused(answer_1(content))


def test_deep_json_where_another_library_has_raised_the_limit() -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        refused(answer_1(b"[" * 30_000 + b"]" * 30_000))
    finally:
        sys.setrecursionlimit(limit)


def sized(size: int) -> str:
    """The offer of version 2 as a header of that many characters."""
    room = size // 4 * 3 - len(json.dumps(offer_2(padding="")))
    return encoded(json.dumps(offer_2(padding="x" * room)))


def test_a_header_of_64_kib_and_one_that_is_larger() -> None:
    assert len(sized(MAX_OFFER)) == MAX_OFFER
    assert parse_offer(in_header(sized(MAX_OFFER))).version == 2
    error = refused(in_header(sized(MAX_OFFER + 1024)), "offer_too_large")
    assert "larger than 64 KiB" in error.message
    assert offer_error(in_header(sized(MAX_OFFER + 1024))) is None
    refused(in_header("x" * 10_000_000), "offer_too_large")


def test_a_body_that_may_go_on_where_reading_stopped() -> None:
    body = json.dumps(offer_1()).encode()
    assert parse_offer(answer_1(body.ljust(MAX_OFFER - 1))).version == 1
    refused(answer_1(body.ljust(MAX_OFFER)), "offer_too_large")
    refused(answer_1(b'"' + b"x" * (MAX_OFFER - 1)), "offer_too_large")  # cut off where reading stopped


@pytest.mark.parametrize("version", [0, 1, 3, -2, 20, 10**30])
def test_another_version_in_the_header(version: int) -> None:
    error = refused(answer_2(offer_2(x402Version=version)), "unsupported_version")
    assert str(version)[:20] in error.message


@pytest.mark.parametrize("version", [0, 2, 3])
def test_another_version_in_the_body(version: int) -> None:
    refused(answer_1(offer_1(x402Version=version)), "unsupported_version")


@pytest.mark.parametrize("version", [MISSING, None, True, "2", 2.0, 1.0, [2], {"2": 2}])
def test_a_version_that_is_no_number(version: Any) -> None:
    refused(answer_2(offer_2(x402Version=version)))
    refused(answer_1(offer_1(x402Version=version)))


@pytest.mark.parametrize("accepts", [MISSING, None, {}, "exact", 1, [None], [[]], ["exact"], [requirement_2(), None]])
def test_accepts_that_is_no_list_of_objects(accepts: Any) -> None:
    assert "accepts" in refused(answer_2(offer_2(accepts=accepts))).message
    refused(answer_1(offer_1(accepts=accepts)))


@pytest.mark.parametrize("extensions", [[], "x", 1, True])
def test_extensions_that_are_no_object(extensions: Any) -> None:
    """They would have to go back as they came, and who knows what that means."""
    assert "extensions" in refused(answer_2(offer_2(extensions=extensions))).message


def test_null_everywhere() -> None:
    for base, answer in ((offer_2(), answer_2), (offer_1(), answer_1)):
        refused(answer(dict.fromkeys(base)))
        for version, requirement in ((2, requirement_2()), (1, requirement_1())):
            empty = {**dict.fromkeys(base), "x402Version": version, "accepts": [dict.fromkeys(requirement)]}
            if base["x402Version"] == version:
                (one,) = parse_offer(answer(empty)).accepts
                assert (one.scheme, one.amount, one.max_timeout, one.extra) == ("", "", None, {})


def test_foreign_text_is_shown_with_care() -> None:
    for content in (b"\x1b[2J", b'"\x1b[2J"', b'{"\\u001b[2J": 1, "\\u001b[2J": 2}'):
        for response in (in_header(encoded(content)), answer_1(content)):
            assert "\x1b" not in str(refused(response))
