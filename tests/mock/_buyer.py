"""What the tests of faults around payments share: a buyer over sockets or in process, and looks at the books."""

from __future__ import annotations

import httpx
import pytest

from tradesdk_mock.control.service import MockService

from ._paying import PAYER, Json, decode, encode, header_name, offer_of, payment
from ._shop import BODY
from ._support import START

URL = "/v1/token-prices"
USED = "invalid_exact_evm_nonce_already_used"
VERSIONS = pytest.mark.parametrize("version", [2, 1])


class Buyer:
    """Signs once and may present that as often as it likes."""

    def __init__(self, http: httpx.Client, version: int = 2, nonce: int = 1) -> None:
        self.http = http
        self.version = version
        answer = http.post(URL, json=BODY)
        self.offer = offer_of(answer.headers, answer.json() if version == 1 else None, version)
        self.content: Json = {}
        self.nonce = nonce

    def pay(self) -> httpx.Response:
        self.content = self.content or payment(self.offer, START, self.nonce)
        return self.http.post(URL, json=BODY, headers={header_name(self.content): encode(self.content)})

    def receipt(self, answer: httpx.Response) -> Json | None:
        value = answer.headers.get("payment-response" if self.version == 2 else "x-payment-response")
        return None if value is None else decode(value)


def reason(answer: httpx.Response) -> str:
    assert answer.status_code == 402
    offers = offer_of(answer.headers), answer.json()
    assert offers[0]["error"] == offers[1]["error"]
    return str(offers[0]["error"])


def books(mock: MockService) -> list[tuple[int, int, int]]:
    """Of each settlement the amount, how often it was presented, and what left."""
    return [(each.amount, each.presented, each.delivered) for each in mock.payments.settlements()]


def verdicts(mock: MockService) -> list[str]:
    return [each.verdict for each in mock.payments.presentations()]


def failed(buyer: Buyer, answer: httpx.Response, code: str, transaction: str = "") -> None:
    """Check that an answer is a settlement that failed, as this version says it."""
    assert answer.status_code == 402
    if buyer.version == 1:
        assert reason(answer) == code
        assert buyer.receipt(answer) is None
        return
    assert answer.json() == {}
    assert "payment-required" not in answer.headers
    assert buyer.receipt(answer) == {
        "success": False,
        "errorReason": code,
        "transaction": transaction,
        "network": "eip155:8453",
        "payer": PAYER.address,
    }
