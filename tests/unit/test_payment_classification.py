"""What an answer to a payment says about the money: by status, by header, by the service's words."""

import base64
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tradesdk import APIConnectionError, RawResponse
from tradesdk._values.http import Headers
from tradesdk.payments.state_machine import (
    BARE,
    DELIVERED,
    NOT_RECEIVED,
    OPEN,
    REFUSED,
    REJECTED,
    UNDELIVERED,
    UNSETTLED,
    Meaning,
    classify,
    classify_failure,
)

from .._rows import each_of
from .._texts import texts


def packed(value: Any) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


def offer(error: str | None) -> RawResponse:
    """A 402 with a new offer."""
    content = {"x402Version": 2, "accepts": [], **({} if error is None else {"error": error})}
    return RawResponse(402, Headers([("PAYMENT-REQUIRED", packed(content))]), b"{}")


def in_body(error: str | None) -> RawResponse:
    """A 402 whose body says why."""
    return RawResponse(402, Headers(), json.dumps({"x402Version": 1, "accepts": [], "error": error}).encode())


def receipt(reason: str | None, status: int = 402, success: bool = False) -> RawResponse:
    told = {"success": success, "transaction": "", "network": "eip155:8453", "errorReason": reason}
    return RawResponse(status, Headers([("PAYMENT-RESPONSE", packed(told))]), b"{}")


def verdict(response: RawResponse) -> Meaning:
    return classify(response).meaning


@each_of(
    ("status", "expected"),
    [
        (200, DELIVERED),
        (204, DELIVERED),
        (302, OPEN),
        (400, REFUSED),
        (401, REFUSED),
        (404, REFUSED),
        (408, OPEN),
        (409, OPEN),
        (422, REFUSED),
        (425, OPEN),
        (429, OPEN),
        (499, OPEN),
        (500, OPEN),
        (501, OPEN),
        (502, OPEN),
        (503, OPEN),
        (504, OPEN),
        (505, OPEN),
        (520, OPEN),
    ],
)
def test_by_status(status: int, expected: Meaning) -> None:
    assert verdict(RawResponse(status, Headers(), b"")) is expected


LOOKS = [
    "unsupported_scheme",
    "invalid_network",
    "invalid_payment_requirements",
    "invalid_payload",
    "invalid_x402_version",
    "invalid_exact_evm_payload_recipient_mismatch",
    "invalid_exact_evm_payload_authorization_value_mismatch",
    "invalid_exact_evm_payload_authorization_valid_before",
    "invalid_exact_evm_payload_authorization_valid_after",
    "invalid_exact_evm_payload_signature",
    "invalid_exact_evm_signature",
    "invalid_exact_evm_missing_eip712_domain",
    "invalid_exact_evm_transaction_simulation_failed",
    "insufficient_funds",
    "invalid_exact_evm_insufficient_balance",
    "extension_echo_mismatch",
    "eip6492_factory_not_allowed",
    "No matching payment requirements",
]
SETTLEMENTS = [
    "transaction_failed",
    "invalid_exact_evm_transaction_failed",
    "invalid_exact_evm_transfer_event_mismatch",
    "unexpected_settle_error",
    "unexpected_verify_error",
    "a_code_of_next_year",
]


@each_of("reason", LOOKS)
def test_a_refusal_at_a_look(reason: str) -> None:
    assert verdict(offer(reason)) is REJECTED
    assert classify(offer(reason)).reason == reason


@each_of("reason", [*LOOKS, *SETTLEMENTS, "nonce_already_used", "settlement_pending", "Pay!", ""])
def test_a_reason_in_the_body_means_the_same(reason: str) -> None:
    one, other = classify(in_body(reason)), classify(offer(reason))
    assert (one.meaning, one.reason, one.unfunded) == (other.meaning, other.reason, other.unfunded)


@each_of("reason", SETTLEMENTS)
def test_a_failure_after_the_look_or_one_that_nobody_knows(reason: str) -> None:
    assert verdict(offer(reason)) is OPEN


@each_of("reason", [*LOOKS, *SETTLEMENTS, "", None])
def test_a_receipt_comes_after_the_look_whatever_it_says(reason: str | None) -> None:
    found = classify(receipt(reason))
    assert (found.meaning, found.unfunded) == (UNSETTLED, False)


@each_of(
    ("reason", "expected"),
    [
        ("settlement_pending", OPEN),
        ("invalid_exact_evm_nonce_already_used", UNDELIVERED),
        ("nonce_already_used", UNDELIVERED),
    ],
)
def test_pending_and_spent(reason: str, expected: Meaning) -> None:
    for response in (receipt(reason), offer(reason)):
        assert verdict(response) is expected


@each_of(
    "response",
    [
        offer("Payment required"),
        offer(None),
        offer(""),
        *(in_body(reason) for reason in ("Payment required", "", None)),
        RawResponse(402, Headers(), b""),
        RawResponse(402, Headers(), b"<html>pay</html>"),
        RawResponse(402, Headers([("payment-required", "%%%")]), b"{}"),
        RawResponse(402, Headers([("payment-response", "%%%")]), b"{}"),
    ],
)
def test_bare(response: RawResponse) -> None:
    assert verdict(response) is BARE


@each_of("status", [301, 400, 404, 408, 409, 425, 429, 499])
def test_a_settled_receipt_beside_an_answer_of_no_use(status: int) -> None:
    """Whatever the status says: the money is gone. A receipt of a failure says no such thing."""
    assert verdict(receipt(None, status, success=True)) is UNDELIVERED
    assert verdict(receipt(None, status)) is verdict(RawResponse(status, Headers(), b""))


@each_of(
    ("status", "reason", "expected"),
    [
        (402, None, OPEN),
        (402, "nonce_already_used", OPEN),
        (402, "settlement_pending", OPEN),
        (403, "nonce_already_used", UNDELIVERED),
        (500, "nonce_already_used", OPEN),
    ],
)
def test_a_receipt_of_success_has_no_reason(status: int, reason: str | None, expected: Meaning) -> None:
    """What it says beside that counts for nothing: the answer to the same bytes may still come."""
    found = classify(receipt(reason, status, success=True))
    assert (found.meaning, found.is_settled) == (expected, True)
    assert reason is None or reason not in found.reason


@each_of("reason", ["insufficient_funds", "nonce_already_used", "settlement_pending"])
def test_only_a_402_says_why(reason: str) -> None:
    said = offer(reason)
    assert verdict(RawResponse(403, said.headers, said.content)) is REFUSED
    assert verdict(receipt(reason, 403)) is REFUSED


def test_a_receipt_is_kept_and_a_damaged_one_is_named() -> None:
    good = classify(receipt(None, 200, success=True))
    assert good.receipt is not None
    assert good.receipt.success
    damaged = classify(RawResponse(200, Headers([("payment-response", "%%%")]), b""))
    assert damaged.receipt is None
    assert damaged.receipt_problem


@each_of(
    ("sent", "temporary", "expected"),
    [(True, True, OPEN), (False, True, NOT_RECEIVED), (False, False, NOT_RECEIVED), (True, False, OPEN)],
)
def test_no_answer(sent: bool, temporary: bool, expected: Meaning) -> None:
    error = APIConnectionError("lost", method="POST", url="https://market.example", sent=sent, temporary=temporary)
    found = classify_failure(error)
    assert (found.meaning, found.sent) == (expected, sent)


@given(
    status=st.integers(100, 599),
    header=st.sampled_from(["payment-required", "payment-response", "other"]),
    value=st.one_of(texts(max_size=60), st.binary(max_size=60).map(lambda raw: base64.b64encode(raw).decode())),
    body=st.binary(max_size=80),
)
def test_whatever_comes_is_judged_and_its_reason_can_be_printed(
    status: int, header: str, value: str, body: bytes
) -> None:
    found = classify(RawResponse(status, Headers([(header, value)]), body))
    assert found.reason.isprintable()
    assert (found.meaning is DELIVERED) == (200 <= status < 300)


@each_of("status", [500, 501, 502, 503, 505])
def test_an_error_of_the_service_with_a_receipt_of_success_is_not_taken_for_a_refusal(status: int) -> None:
    assert verdict(receipt(None, status, success=True)) is OPEN
