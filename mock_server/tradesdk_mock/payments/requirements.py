"""What a response costs, and the 402 that says so in x402 version 2."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from ..core.errors import Header
from ..core.messages import Request, Response
from ..core.seeding import address
from .header import Payment

if TYPE_CHECKING:
    from ..state.world import World

VERSION = 2
SCHEME = "exact"
NETWORK = "eip155:8453"
# USDC on Base has six decimals: one unit is a micro-dollar, the unit of all prices here.
ASSET = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
ASSET_DOMAIN = {"name": "USD Coin", "version": "2"}
IDENTIFIER = "payment-identifier"
UPFRONT = {"paymentFlow": "upfront"}
"""In `extra` of a way to pay: the money is taken before the work."""
_TEST_NETWORK = "eip155:84532"
_TEST_ASSET = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"
_TEST_DOMAIN = {"name": "USDC", "version": "2"}
_ASK = "Payment is required: send PAYMENT-SIGNATURE with the request."
NO_MATCH = "No matching payment requirements"
_IDENTIFIER_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "required": {"type": "boolean"},
        "id": {"type": "string", "minLength": 16, "maxLength": 128, "pattern": "^[a-zA-Z0-9_-]+$"},
    },
    "required": ["required"],
}

Requirement = dict[str, Any]
"""One way to pay."""


class PaymentFaults:
    """The faults that apply to the payment of one request.

    Attributes:
        applied: the kinds taken so far.
    """

    def __init__(self, due: Mapping[str, Mapping[str, Any]]) -> None:
        self._due = due
        self.applied: set[str] = set()

    def take(self, kind: str, **wanted: object) -> Mapping[str, Any] | None:
        """The parameters of a fault, which counts as applied; None if there is none with the `wanted` parameters."""
        found = self._due.get(kind)
        if found is None or not wanted.items() <= found.items():
            return None
        self.applied.add(kind)
        return found


@dataclass(frozen=True, slots=True)
class Offer:
    """What one response costs and who is to be paid. Amounts are micro-dollars.

    Attributes:
        resource: the requested URL.
        description: the data for sale.
        accepts: the ways to pay; the usual one comes last.
        extensions: by name.
        overrides: the parameters of the fault `offer`.
    """

    resource: str
    description: str
    accepts: tuple[Requirement, ...] = ()
    extensions: dict[str, Any] = field(default_factory=dict)
    overrides: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PaidRequest:
    """A request with a payment, and the offer that it should pay."""

    request: Request
    payment: Payment
    offer: Offer
    faults: PaymentFaults


def make_offer(world: World, request: Request, faults: PaymentFaults, micro_usd: int, description: str) -> Offer:
    """The offer for one request, by the gap options and the fault `offer`."""
    host = (request.header(b"host") or b"localhost")[:255].decode("latin-1")
    receiver, window = pay_to(world.seed), world.gaps.payment_window
    accepts: list[Requirement] = []
    if world.gaps.offers == "several":
        accepts = [
            _requirement(micro_usd * 2, receiver, window),
            _requirement(micro_usd, receiver, window) | {"scheme": "upto"},
            _requirement(micro_usd, receiver, window)
            | {"network": _TEST_NETWORK, "asset": _TEST_ASSET, "extra": dict(_TEST_DOMAIN)},
        ]
    usual = _requirement(micro_usd, receiver, window)
    if world.gaps.flow != "authorization":
        accepts.append(usual | {"extra": ASSET_DOMAIN | UPFRONT})
    if world.gaps.flow != "upfront":
        accepts.append(usual)
    extensions: dict[str, Any] = {}
    if world.gaps.payment_identifier != "none":
        required = world.gaps.payment_identifier == "required"
        extensions[IDENTIFIER] = {"info": {"required": required}, "schema": _IDENTIFIER_SCHEMA}
    overrides = faults.take("offer") or {}
    ways = tuple(merged(each, overrides.get("fields")) for each in accepts)
    return Offer(f"http://{host}{request.path}", description, ways, extensions, overrides)


@lru_cache(maxsize=16)
def pay_to(seed: int) -> str:
    """The address that receives the payments of a world."""
    return address(seed, "pay to")


def payment_required(world: World, offer: Offer, error: str = _ASK) -> Response:
    """402 with the offer in its header, in its body or in both, and the reason in one of them."""
    gaps, overrides = world.gaps, offer.overrides
    above = error if gaps.reason_in == "header" else None
    below = None if above is not None and gaps.offer_in != "body" else error
    headers: list[Header] = []
    header = overrides.get("header")
    if header is None and gaps.offer_in != "body":
        headers.append((b"payment-required", encoded(_content(offer, above))))
    elif header:
        headers.append((b"payment-required", str(header).encode("ascii")))
    if "body" in overrides:
        return Response(402, headers=headers).with_body(str(overrides["body"]).encode())
    body = merged({"error": below}, None) if gaps.offer_in == "header" else _content(offer, below)
    return Response(402, body, headers)


def encoded(value: object) -> bytes:
    """JSON in base64, the form of every header of the protocol."""
    return base64.b64encode(to_json(value))


def _content(offer: Offer, error: str | None) -> dict[str, Any]:
    found = {
        "x402Version": VERSION,
        "error": error,
        "resource": {"url": offer.resource, "description": offer.description, "mimeType": "application/json"},
        "accepts": list(offer.accepts),
    }
    if offer.extensions:
        found["extensions"] = offer.extensions
    return merged(found, offer.overrides.get("top"))


def merged(record: Mapping[str, Any], fields: Mapping[str, Any] | None) -> dict[str, Any]:
    """A record with these fields set; null removes one."""
    return {name: value for name, value in {**record, **(fields or {})}.items() if value is not None}


def _requirement(amount: int, receiver: str, window: int) -> Requirement:
    return {
        "scheme": SCHEME,
        "network": NETWORK,
        "amount": str(amount),
        "asset": ASSET,
        "payTo": receiver,
        "maxTimeoutSeconds": window,
        "extra": dict(ASSET_DOMAIN),
    }
