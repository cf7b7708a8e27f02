"""What a service that sells says: offers, receipts and prices."""

from __future__ import annotations

import base64
import json
from typing import Any

from tradesdk import RawResponse
from tradesdk._values.http import Headers

USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
PAY_TO = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
PAYER = "0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1"
RESOURCE = {"url": "http://127.0.0.1:8402/v1/token-prices", "description": "Prices", "mimeType": "application/json"}
DOMAIN = {"name": "USD Coin", "version": "2"}
MISSING: Any = object()


def changed(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with some fields replaced, and without those that are MISSING."""
    return {name: value for name, value in {**base, **changes}.items() if value is not MISSING}


def requirement_2(**changes: Any) -> dict[str, Any]:
    """A requirement: six cents."""
    base = {
        "scheme": "exact",
        "network": "eip155:8453",
        "amount": "60000",
        "asset": USDC,
        "payTo": PAY_TO,
        "maxTimeoutSeconds": 60,
        "extra": DOMAIN,
    }
    return changed(base, changes)


def offer_2(*accepts: Any, **changes: Any) -> dict[str, Any]:
    """An offer of that requirement."""
    base = {
        "x402Version": 2,
        "error": "Payment required",
        "resource": RESOURCE,
        "accepts": list(accepts) or [requirement_2()],
    }
    return changed(base, changes)


def receipt(**changes: Any) -> dict[str, Any]:
    """A receipt of success, which does not name the amount."""
    base = {"success": True, "transaction": "0x" + "ab" * 32, "network": "eip155:8453", "payer": PAYER}
    return changed(base, changes)


def prices(*symbols: str) -> dict[str, Any]:
    """An answer of `/v1/token-prices`."""
    token = {"tokenAddress": "0x" + "cd" * 20, "currentPriceEth": 1.0, "currentPriceUsd": 2.0}
    return {"success": True, "data": {"results": [token | {"symbol": one} for one in symbols]}, "error": None}


def encoded(value: Any) -> str:
    """Base64 of JSON; of bytes and text as they are."""
    if not isinstance(value, bytes | str):
        value = json.dumps(value, separators=(",", ":"))
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def decoded(header: str) -> Any:
    return json.loads(base64.b64decode(header, validate=True))


def answer_2(offer: Any, body: bytes = b"{}", status: int = 402) -> RawResponse:
    """A 402 whose header is `offer`."""
    return RawResponse(status, Headers([("PAYMENT-REQUIRED", encoded(offer))]), body)


def answer_without_header(body: Any) -> RawResponse:
    """A 402 that has only a body."""
    return RawResponse(402, Headers(), body if isinstance(body, bytes) else json.dumps(body).encode())


def receipt_headers(receipt: Any, name: str = "PAYMENT-RESPONSE") -> Headers:
    return Headers([(name, encoded(receipt))])
