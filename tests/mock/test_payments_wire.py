"""What stands in a payment header: what can be read, what is compared strictly, and what is refused."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest

from tradesdk_mock.payments.requirements import pay_to

from ._market import JSON
from ._paying import Json, decode, encode
from ._shop import BODY, PATH, PRICE, Shop, reason

BARE = "Payment is required: send PAYMENT-SIGNATURE or X-PAYMENT with the request."
HEADERS = ["payment-signature", "x-payment"]
ATTACKER = "0x" + "66" * 20


def test_version_2() -> None:
    shop = Shop()
    answer = shop.buy(1)
    assert answer.data["results"][0]["symbol"] == "BRETT"
    receipt = decode(answer.headers["payment-response"])
    assert "x-payment-response" not in answer.headers
    (kept,) = shop.world.store.all("SELECT payer, nonce, amount, pay_to, version, tx FROM settlements")
    assert kept[:3] == (receipt["payer"].lower(), "0x" + "0" * 63 + "1", PRICE)
    assert kept[3:5] == (pay_to(shop.world.seed).lower(), 2)
    assert receipt == {
        "success": True,
        "transaction": kept[5],
        "network": "eip155:8453",
        "payer": "0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1",
        "amount": "30000",
    }


def test_version_1() -> None:
    shop = Shop()
    answer = shop.buy(1, version=1)
    assert answer.data["results"][0]["symbol"] == "BRETT"
    assert "payment-response" not in answer.headers
    assert decode(answer.headers["x-payment-response"]) == {
        "success": True,
        "transaction": shop.world.store.value("SELECT tx FROM settlements WHERE version = 1"),
        "network": "base",
        "payer": "0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1",
    }


def test_of_two_payments_the_newer_generation_counts() -> None:
    shop = Shop()
    old = encode(shop.signed(1, version=1)).encode()
    answer = shop.present(shop.signed(2), more=[(b"x-payment", old)])
    assert "payment-response" in answer.headers
    assert shop.world.store.all("SELECT version, nonce FROM settlements") == [(2, "0x" + "0" * 63 + "2")]


@pytest.mark.rule("payment.unreadable")
@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"not base64",
        b"e30",  # no padding
        b"e30=\n",
        base64.urlsafe_b64encode(b'{"a":"\xc3\xbf\xc3\xbf\xc3\xbf?>"}'),
        base64.b64encode(b""),
        base64.b64encode(b"{"),
        base64.b64encode(b"[]"),
        base64.b64encode(b"null"),
        base64.b64encode(b'"text"'),
        base64.b64encode(b'{"x402Version": NaN}'),
        base64.b64encode(b"\xff\xfe"),
        base64.b64encode(b"[" * 20_000),
        base64.b64encode(b'{"a":' * 4_000),
        base64.b64encode(b'{"x402Version":2,"a":"' + b"x" * 40_000 + b'"}'),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_what_can_not_be_read_is_as_if_it_were_not_there(name: str, value: bytes) -> None:
    shop = Shop()
    assert reason(shop.raw(value, name)) == BARE
    assert shop.world.store.all("SELECT verdict, status, payer, nonce FROM presentations") == [
        ("unreadable", 402, None, None)
    ]


@pytest.mark.rule("payment.unreadable")
@pytest.mark.parametrize("name", HEADERS)
def test_two_headers_of_a_kind_are_none(name: str) -> None:
    shop = Shop()
    value = encode(shop.signed(1, version=2 if name == HEADERS[0] else 1)).encode()
    assert reason(shop.raw(value, name, more=[(name.encode(), value)])) == BARE
    assert shop.settled() == 0


def test_a_long_header_that_is_right_is_taken() -> None:
    shop = Shop()
    content = shop.signed(1) | {"note": "x" * 20_000}
    assert shop.present(content).status == 200


VERSIONS: list[Any] = [0, 1, 3, 2.0, "2", None, True, [2]]


@pytest.mark.parametrize("version", VERSIONS)
def test_another_version_in_the_header_of_version_2(version: object) -> None:
    shop = Shop()
    value = encode(shop.signed(1) | {"x402Version": version}).encode()
    assert reason(shop.raw(value, HEADERS[0])) == "invalid_x402_version"


@pytest.mark.parametrize("version", [0, 2, 1.0, "1", None])
def test_another_version_in_the_header_of_version_1(version: object) -> None:
    shop = Shop()
    value = encode(shop.signed(1, version=1) | {"x402Version": version}).encode()
    assert reason(shop.raw(value, HEADERS[1])) == "invalid_x402_version"


def test_a_payment_without_a_version() -> None:
    shop = Shop()
    content = shop.signed(1)
    del content["x402Version"]
    assert reason(shop.raw(encode(content).encode())) == "invalid_x402_version"


ACCEPTED: list[tuple[str, object]] = [
    ("scheme", "EXACT"),
    ("network", "base"),
    ("amount", 30000),
    ("amount", "030000"),
    ("amount", "29999"),
    ("asset", "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"),
    ("payTo", ATTACKER),
    ("maxTimeoutSeconds", 60.0),
    ("maxTimeoutSeconds", "60"),
    ("maxTimeoutSeconds", 61),
    ("maxTimeoutSeconds", True),
    ("extra", {"name": "USD Coin", "version": 2}),
    ("extra", {"name": "USD Coin", "version": "2", "more": None}),
    ("extra", {"name": "USD Coin"}),
    ("extra", None),
    ("extra", []),
    ("description", "more"),
]


@pytest.mark.rule("payment.accepted")
@pytest.mark.parametrize(("name", "value"), ACCEPTED, ids=lambda each: repr(each)[:20])
def test_what_is_accepted_is_what_was_offered_to_the_letter(name: str, value: object) -> None:
    shop = Shop()
    content = shop.signed(1)
    content["accepted"] = content["accepted"] | {name: value}
    assert reason(shop.present(content)) == "No matching payment requirements"
    assert shop.settled() == 0


@pytest.mark.parametrize("accepted", [None, [], "exact", {}, 5, [{}]])
def test_accepted_has_to_be_there(accepted: object) -> None:
    shop = Shop()
    content = shop.signed(1) | {"accepted": accepted}
    assert reason(shop.present(content)) == "No matching payment requirements"


@pytest.mark.rule("payment.accepted")
def test_every_field_of_accepted_is_needed() -> None:
    shop = Shop()
    content = shop.signed(1)
    for name in content["accepted"]:
        less = {key: value for key, value in content["accepted"].items() if key != name}
        assert reason(shop.present(content | {"accepted": less})) == "No matching payment requirements", name


@pytest.mark.rule("payment.accepted")
def test_the_order_of_fields_is_free() -> None:
    shop = Shop()
    content = json.loads(json.dumps(shop.signed(1), sort_keys=True))
    content = dict(reversed(content.items())) | {"accepted": dict(reversed(content["accepted"].items()))}
    assert shop.present(content).status == 200


def test_the_resource_may_be_left_out() -> None:
    shop = Shop()
    content = shop.signed(1)
    del content["resource"]
    assert shop.present(content).status == 200


@pytest.mark.parametrize(
    ("name", "value"), [("scheme", "upto"), ("network", "base-sepolia"), ("network", "eip155:8453")]
)
def test_version_1_names_scheme_and_network(name: str, value: str) -> None:
    shop = Shop()
    assert reason(shop.present(shop.signed(1, version=1) | {name: value})) == "No matching payment requirements"


BAD_FIELDS: list[tuple[str, object]] = [
    *[("value", value) for value in (30000, "", "+30000", "-1", "3e4", "30000.0", " 30000", "0x7530", "٣", "9" * 79)],
    ("value", str(2**256)),
    *[(name, value) for name in ("validAfter", "validBefore") for value in (0, None, "-1", "1.5", str(2**256), "now")],
    *[
        (name, value)
        for name in ("from", "to")
        for value in (None, "", "0x12", "1a642f0E3c3aF545E7AcBD38b07251B3990914F1")
    ],
    *[("nonce", value) for value in (1, "", "1", "0x1", "0x" + "0" * 63, "0x" + "0" * 65, "0x" + "g" * 64, "0" * 64)],
]


@pytest.mark.rule("payment.authorization")
@pytest.mark.parametrize("version", [2, 1])
@pytest.mark.parametrize(("name", "value"), BAD_FIELDS, ids=lambda each: repr(each)[:20])
def test_the_six_fields_are_texts_of_one_form(name: str, value: object, version: int) -> None:
    shop = Shop()
    content = shop.signed(1, version=version)
    content["payload"]["authorization"][name] = value
    assert reason(shop.present(content)) == "invalid_payload"


@pytest.mark.rule("payment.authorization")
@pytest.mark.parametrize("version", [2, 1])
def test_every_part_of_the_payload_is_needed(version: int) -> None:
    shop = Shop()
    whole = shop.signed(1, version=version)
    broken: list[Json] = []
    payloads: list[Any] = [None, [], {}, "text", {"authorization": whole["payload"]["authorization"]}]
    for payload in payloads:
        broken.append(whole | {"payload": payload})
    for name in whole["payload"]["authorization"]:
        broken.append(copy.deepcopy(whole))
        del broken[-1]["payload"]["authorization"][name]
    signatures: list[Any] = [None, 5, []]
    for signature in signatures:
        broken.append(copy.deepcopy(whole))
        broken[-1]["payload"]["signature"] = signature
    for content in broken:
        assert reason(shop.present(content)) == "invalid_payload", content
    assert shop.present(whole).status == 200


def test_what_else_stands_in_an_authorization_does_not_matter() -> None:
    shop = Shop()
    content = shop.signed(1)
    content["payload"]["authorization"]["note"] = [1, 2]
    assert shop.present(content).status == 200


@pytest.mark.parametrize("case", [str.lower, str.upper, str.swapcase])
def test_addresses_and_hex_digits_have_no_case(case: Any) -> None:
    shop = Shop()
    content = shop.signed("0x" + "aB" * 32)
    fields = content["payload"]["authorization"]
    for name in ("from", "to", "nonce"):
        fields[name] = "0x" + case(fields[name][2:])
    content["payload"]["signature"] = "0x" + case(content["payload"]["signature"][2:])
    assert shop.present(content).status == 200
    assert shop.world.store.value("SELECT nonce FROM settlements") == "0x" + "ab" * 32


@pytest.mark.parametrize(("generation", "ignored"), [("v2", 1), ("v1", 2)])
def test_a_generation_that_is_not_spoken_is_not_heard(generation: str, ignored: int) -> None:
    shop = Shop()
    content = shop.signed(1, version=ignored)
    shop.world.set_gaps({"payment_402": generation})
    answer = shop.present(content)
    assert answer.status == 402
    assert shop.settled() == 0
    assert shop.world.store.all("SELECT verdict, version FROM presentations") == [("not carried out", ignored)]
    shop.world.set_gaps({"payment_402": "both"})
    assert shop.present(content).status == 200


def test_a_payment_for_what_is_free_is_not_looked_at() -> None:
    shop = Shop()
    value = encode(shop.signed(1)).encode()
    assert shop.post("supported-tokens", {}, [(b"payment-signature", value)]).status == 200
    assert shop.settled() == 0


def test_a_payment_with_a_wrong_method() -> None:
    shop = Shop()
    value = encode(shop.signed(1)).encode()
    assert shop.send("GET", PATH, json.dumps(BODY).encode(), [JSON, (b"payment-signature", value)]).status == 405
    assert shop.settled() == 0
