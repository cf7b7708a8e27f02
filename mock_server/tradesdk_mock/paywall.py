"""The gate before paid market data: what an answer costs, the 402 that says so, and who judges payments."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from pydantic_core import to_json

from .errors import Header
from .exchange import Request
from .identity import address
from .web import Answer

if TYPE_CHECKING:
    from .world import World

SCHEME = "exact"
NETWORK = "eip155:8453"
NETWORK_V1 = "base"
# USDC on Base has six decimals: one unit is a millionth of a dollar, which is what prices are counted in.
ASSET = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
ASSET_DOMAIN = {"name": "USD Coin", "version": "2"}
MAX_TIMEOUT = 60
_ASK = "Payment is required: send PAYMENT-SIGNATURE or X-PAYMENT with the request."


@dataclass(frozen=True, slots=True)
class Offer:
    """What one answer costs and who is to be paid.

    Attributes:
        amount: in units of the asset: millionths of a US dollar.
        pay_to: the receiver's address.
        resource: the URL that was asked for.
        description: what is sold.
    """

    amount: int
    pay_to: str
    resource: str
    description: str


class Verifier(Protocol):
    """Judges payments and takes the money. Called within the request's transaction."""

    def check(self, world: World, request: Request, offer: Offer) -> Answer | None:
        """None lets the request in; an answer is given instead, such as `payment_required` for a bad payment."""
        ...

    def settle(self, world: World, request: Request, offer: Offer, answer: Answer) -> Answer:
        """Take the money for an answer below 400. The answer with its receipt, or one that withholds it."""
        ...


def make_offer(world: World, request: Request, micro_usd: int, description: str) -> Offer:
    host = (request.header(b"host") or b"localhost")[:255].decode("latin-1")
    return Offer(micro_usd, pay_to(world.seed), f"http://{host}{request.path}", description)


@lru_cache(maxsize=16)
def pay_to(seed: int) -> str:
    """The address that a world's money goes to."""
    return address(seed, "pay to")


def check(world: World, request: Request, offer: Offer) -> Answer | None:
    """None for a request that may be answered; else what it is told. Without a verifier nothing counts as paid."""
    if world.verifier is None:
        return payment_required(world, offer)
    return world.verifier.check(world, request, offer)


def settle(world: World, request: Request, offer: Offer, answer: Answer) -> Answer:
    """What leaves after the endpoint has answered. An answer of 400 or worse costs nothing."""
    if world.verifier is None or answer.status >= 400:
        return answer
    return world.verifier.settle(world, request, offer, answer)


def payment_required(world: World, offer: Offer, error: str = _ASK) -> Answer:
    """402 with the offer: a header as x402 version 2 has it and a body as version 1 has it, or one of them."""
    generations = world.gaps.payment_402
    headers: list[Header] = []
    if generations != "v1":
        headers.append((b"payment-required", base64.b64encode(to_json(_version_2(offer, error)))))
    return Answer(402, {} if generations == "v2" else _version_1(offer, error), headers)


def _version_2(offer: Offer, error: str) -> dict[str, Any]:
    return {
        "x402Version": 2,
        "error": error,
        "resource": {"url": offer.resource, "description": offer.description, "mimeType": "application/json"},
        "accepts": [
            {
                "scheme": SCHEME,
                "network": NETWORK,
                "amount": str(offer.amount),
                "asset": ASSET,
                "payTo": offer.pay_to,
                "maxTimeoutSeconds": MAX_TIMEOUT,
                "extra": ASSET_DOMAIN,
            }
        ],
    }


def _version_1(offer: Offer, error: str) -> dict[str, Any]:
    return {
        "x402Version": 1,
        "error": error,
        "accepts": [
            {
                "scheme": SCHEME,
                "network": NETWORK_V1,
                "maxAmountRequired": str(offer.amount),
                "resource": offer.resource,
                "description": offer.description,
                "mimeType": "application/json",
                "payTo": offer.pay_to,
                "maxTimeoutSeconds": MAX_TIMEOUT,
                "asset": ASSET,
                "extra": ASSET_DOMAIN,
            }
        ],
    }
