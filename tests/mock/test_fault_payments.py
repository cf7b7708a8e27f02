"""Faults of the payment itself: what the payer sees, what was taken, and what the same payment gets then."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tradesdk_mock.control.service import MockService

from ._buyer import URL, USED, VERSIONS, Buyer, books, failed, reason, verdicts
from ._faulty import CARRIERS, carried, connect
from ._paying import PAYER, Json, offer_of, payment
from ._shop import BODY, PRICE
from ._support import START

ATTACKER = "0x6666666666666666666666666666666666666666"
BARE = "Payment is required: send PAYMENT-SIGNATURE or X-PAYMENT with the request."


@pytest.fixture(params=CARRIERS)
def mock(request: pytest.FixtureRequest) -> Iterator[MockService]:
    with carried(request.param) as made:
        yield made


@pytest.fixture
def http(mock: MockService) -> Iterator[httpx.Client]:
    with connect(mock, None, read_timeout=2) as made:
        yield made


# The kinds that are about payments.


@VERSIONS
def test_offer(mock: MockService, http: httpx.Client, version: int) -> None:
    """What it asks for is what is taken: a payer who checks nothing pays it."""
    mock.add_fault("offer", fields={"amount": "90000", "payTo": ATTACKER, "maxTimeoutSeconds": 90, "note": "more"})
    buyer = Buyer(http, version)
    (way,) = buyer.offer["accepts"]
    assert way["amount" if version == 2 else "maxAmountRequired"] == "90000"
    assert (way["payTo"], way["maxTimeoutSeconds"], way["note"]) == (ATTACKER, 90, "more")
    assert buyer.pay().status_code == 200
    (taken,) = mock.payments.assert_charged(times=1, amount=90_000)
    assert taken.pay_to.lower() == ATTACKER
    assert taken.pay_to != mock.payments.pay_to


@VERSIONS
def test_an_offer_for_those_who_have_not_paid_is_not_kept(mock: MockService, http: httpx.Client, version: int) -> None:
    mock.add_fault("offer", fields={"amount": "90000"}, paid="never")
    wanted = "No matching payment requirements"
    if version == 1:
        wanted = "invalid_exact_evm_payload_authorization_value_mismatch"
    assert reason(Buyer(http, version).pay()) == wanted
    mock.payments.assert_not_charged()


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"scheme": "upto"}, "unsupported_scheme"),
        ({"scheme": None}, "unsupported_scheme"),
        ({"network": "eip155:1"}, "invalid_network"),
        ({"network": ["eip155:8453"]}, "invalid_network"),
        ({"payTo": None}, "invalid_exact_evm_payload_recipient_mismatch"),
        ({"extra": {"name": "USD Coin"}}, "missing_eip712_domain"),
        ({"extra": {"name": "Evil", "version": "2"}}, None),
        ({"asset": ATTACKER}, None),
        ({"amount": str(10**15)}, "insufficient_funds"),
    ],
)
def test_offers_of_other_sorts(mock: MockService, http: httpx.Client, fields: Json, code: str | None) -> None:
    mock.add_fault("offer", fields=fields)
    buyer = Buyer(http)
    (way,) = buyer.offer["accepts"]
    assert {name: way.get(name) for name in fields} == fields
    # What can be signed of it; the rest is as it usually is.
    usual = {"scheme": "exact", "network": "eip155:8453", "payTo": ATTACKER, "extra": {"name": "x", "version": "2"}}
    whole = usual | {name: value for name, value in way.items() if isinstance(value, str | int)}
    whole["extra"] |= way["extra"]
    buyer.content = payment(buyer.offer | {"accepts": [whole]}, START, 1) | {"accepted": way}
    answer = buyer.pay()
    if code is None:
        assert answer.status_code == 200
    else:
        assert reason(answer) == code


def test_an_offer_may_be_anything(mock: MockService, http: httpx.Client) -> None:
    def asked(**parameters: Any) -> httpx.Response:
        mock.clear_faults()
        mock.add_fault("offer", **parameters)
        answer = http.post(URL, json=BODY)
        assert answer.status_code == 402
        return answer

    answer = asked(top={"accepts": [], "error": None, "x402Version": 3, "padding": "x" * 70_000})
    found = offer_of(answer.headers)
    assert (found["accepts"], found["x402Version"], len(found["padding"])) == ([], 3, 70_000)
    assert "error" not in found
    assert answer.json() == {name: value for name, value in found.items() if name != "resource"}
    answer = asked(header="not base64 at all!", body="<html>")
    assert (answer.headers["payment-required"], answer.text) == ("not base64 at all!", "<html>")
    assert answer.headers["content-length"] == "6"
    answer = asked(header="")
    assert "payment-required" not in answer.headers
    assert answer.json()["x402Version"] == 1
    deep = base64.b64encode(b"[" * 40_000).decode()
    assert asked(header=deep, body="").headers["payment-required"] == deep


@VERSIONS
def test_overlook(mock: MockService, http: httpx.Client, version: int) -> None:
    """Once, or for ever: nothing is taken until it is seen."""
    rule = mock.add_fault("overlook", count=2)
    buyer = Buyer(http, version)
    assert [reason(buyer.pay()) for _ in range(2)] == [BARE, BARE]
    mock.payments.assert_not_charged()
    answer = buyer.pay()
    assert (answer.status_code, verdicts(mock)) == (200, ["overlooked", "overlooked", "settled"])
    assert books(mock) == [(PRICE, 3, 200)]
    (played,) = [each for each in mock.faults() if each.id == rule.id]
    assert (played.seen, played.fired) == (3, 2)  # the request without a payment isn't counted
    assert [entry.faults for entry in mock.journal()] == [(), ("overlook",), ("overlook",), ()]


@VERSIONS
def test_overlooked_after_the_money_was_taken(mock: MockService, http: httpx.Client, version: int) -> None:
    mock.add_fault("overlook", charged=True, count=1)
    buyer = Buyer(http, version)
    answer = buyer.pay()
    assert reason(answer) == BARE
    assert buyer.receipt(answer) is None
    assert books(mock) == [(PRICE, 1, 402)]
    assert reason(buyer.pay()) == USED
    assert books(mock) == [(PRICE, 2, 402)]


@pytest.mark.rule("payment.refused")
@VERSIONS
def test_verification(mock: MockService, http: httpx.Client, version: int) -> None:
    mock.add_fault("verification", reason="invalid_exact_evm_payload_signature", count=1)
    buyer = Buyer(http, version)
    assert reason(buyer.pay()) == "invalid_exact_evm_payload_signature"
    mock.payments.assert_not_charged()
    assert buyer.pay().status_code == 200
    assert books(mock) == [(PRICE, 2, 200)]


@VERSIONS
def test_settlement(mock: MockService, http: httpx.Client, version: int) -> None:
    mock.add_fault("settlement", count=1)
    mock.add_fault("settlement", reason="unexpected_settle_error", count=1)
    buyer = Buyer(http, version)
    failed(buyer, buyer.pay(), "transaction_failed")
    failed(buyer, buyer.pay(), "unexpected_settle_error")
    mock.payments.assert_not_charged()
    assert mock.payments.balance(PAYER.address) == 1_000_000_000
    assert buyer.pay().status_code == 200
    assert books(mock) == [(PRICE, 3, 200)]
    assert verdicts(mock) == ["transaction_failed", "unexpected_settle_error", "settled"]


@VERSIONS
def test_a_settlement_that_is_said_to_have_failed(mock: MockService, http: httpx.Client, version: int) -> None:
    mock.add_fault("settlement", charged=True, count=1)
    buyer = Buyer(http, version)
    failed(buyer, buyer.pay(), "transaction_failed")
    assert books(mock) == [(PRICE, 1, 402)]
    assert reason(buyer.pay()) == USED
    assert mock.payments.spent() == PRICE


@pytest.mark.rule("payment.pending")
@VERSIONS
@pytest.mark.parametrize("charged", [False, True])
def test_a_settlement_that_is_pending(mock: MockService, http: httpx.Client, version: int, charged: bool) -> None:
    mock.add_fault("settlement", reason="settlement_pending", charged=charged, count=2)
    buyer = Buyer(http, version)
    first, second = buyer.pay(), buyer.pay()
    assert [each.pending for each in mock.payments.settlements()] == [True] * charged
    last = buyer.pay()
    assert last.json()["data"]["results"][0]["symbol"] == "BRETT"
    receipt = buyer.receipt(last)
    assert receipt is not None
    for answer in (first, second):
        failed(buyer, answer, "settlement_pending", receipt["transaction"])
    (taken,) = mock.payments.settlements()
    assert (taken.pending, taken.delivered, taken.presented) == (False, 200, 3)
    assert taken.transaction == receipt["transaction"]
    assert mock.payments.balance(PAYER.address) == 1_000_000_000 - PRICE
    assert reason(buyer.pay()) == USED


@pytest.mark.rule("payment.pending")
def test_what_is_pending_is_finished_by_the_same_payment_only(mock: MockService, http: httpx.Client) -> None:
    mock.add_fault("settlement", reason="settlement_pending", charged=True, count=1)
    buyer = Buyer(http)
    buyer.pay()
    mock.payments.set_balance(PAYER.address, 0)
    same = buyer.content
    buyer.content = same | {"note": "other bytes"}
    assert reason(buyer.pay()) == USED
    buyer.content = same
    assert buyer.pay().status_code == 200


@VERSIONS
def test_receipt(mock: MockService, http: httpx.Client, version: int) -> None:
    lies: list[Json] = [
        {"payer": ATTACKER},
        {"network": "eip155:1"},
        {"amount": "1"},
        {"transaction": "0x" + "00" * 32},
        {"success": False, "errorReason": "transaction_failed", "transaction": ""},
        {"payer": None, "network": None},
        {"extra": {"a": [1, None]}, "success": "yes"},
    ]
    honest = Buyer(http, version, nonce=50)
    truth = honest.receipt(honest.pay())
    assert truth is not None
    for place, fields in enumerate(lies):
        rule = mock.add_fault("receipt", fields=fields)
        buyer = Buyer(http, version, nonce=100 + place)
        answer = buyer.pay()
        assert answer.json()["success"] is True
        receipt = buyer.receipt(answer)
        assert receipt is not None
        expected = {name: value for name, value in {**truth, **fields}.items() if value is not None}
        if "transaction" not in fields:
            expected["transaction"] = receipt["transaction"]
        assert receipt == expected
        mock.remove_fault(rule.id)
    assert mock.payments.spent() == PRICE * (len(lies) + 1)


@pytest.mark.parametrize(("parameters", "value"), [({"missing": True}, None), ({"raw": "gar bage!"}, "gar bage!")])
@VERSIONS
def test_receipts_that_are_none(
    mock: MockService, http: httpx.Client, version: int, parameters: Json, value: str | None
) -> None:
    mock.add_fault("receipt", **parameters)
    answer = Buyer(http, version).pay()
    assert answer.status_code == 200
    assert answer.headers.get("payment-response", answer.headers.get("x-payment-response")) == value
    assert books(mock) == [(PRICE, 1, 200)]
