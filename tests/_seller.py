"""A seller of market data in the tests' own hands: it asks for whatever a test says, and keeps every request.

A good payment costs six cents here, which is the published price of `token_prices` for two tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from ._clock import VirtualClock, http_date
from .unit._offers import decoded, encoded, offer_2, prices, receipt

BASE = "https://market.example"
TWO = ["ETH", "BRETT"]
PRICE = 60_000
PAYMENT_HEADER = "PAYMENT-SIGNATURE"
Asking = Callable[[httpx.Request], httpx.Response]


def asks_2(offer: Any = None, **headers: str) -> httpx.Response:
    """A 402; `offer` may be anything."""
    return httpx.Response(
        402, json={}, headers={"PAYMENT-REQUIRED": encoded(offer_2() if offer is None else offer), **headers}
    )


def lost(request: httpx.Request) -> httpx.Response:
    """No answer, instead of one to a payment."""
    raise httpx.ReadError("lost", request=request)


def down(request: httpx.Request) -> httpx.Response:
    return httpx.Response(503)


def used(request: httpx.Request) -> httpx.Response:
    """It says that the nonce is used."""
    return asks_2(offer_2(error="invalid_exact_evm_nonce_already_used"))


KEEPS: dict[str, Any] = {"extensions": {"payment-identifier": {"info": {"required": False}, "schema": {}}}}
"""Of the offer of a service that keeps answers by identifier."""


@dataclass
class Seller:
    """Give it to an `httpx.MockTransport`.

    Attributes:
        offer: what it asks for; `asking` makes the whole 402 instead.
        sold: the answer to a payment, whatever that says.
        receipt: what it says of the settlement; None for no receipt.
        ahead: seconds by which its `Date` is ahead of the clock; None for no `Date`.
    """

    offer: Any = field(default_factory=offer_2)
    asking: Asking | None = None
    sold: Asking | None = None
    receipt: Any = None
    clock: VirtualClock = field(default_factory=VirtualClock)
    ahead: float | None = None
    requests: list[httpx.Request] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answer(request)
        if self.ahead is not None:
            answer.headers["Date"] = http_date(self.clock.now() + self.ahead)
        return answer

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if request not in self.paid:
            return asks_2(self.offer) if self.asking is None else self.asking(request)
        if self.sold is not None:
            return self.sold(request)
        headers = {} if self.receipt is None else {"PAYMENT-RESPONSE": encoded(self.receipt)}
        return httpx.Response(200, json=prices("ETH", "BRETT"), headers=headers)

    @property
    def paid(self) -> list[httpx.Request]:
        """The requests that carried a payment."""
        return [one for one in self.requests if PAYMENT_HEADER in one.headers]

    @property
    def payments(self) -> list[Any]:
        """The payments that came, read."""
        return [decoded(one.headers[PAYMENT_HEADER]) for one in self.paid]


def settled(**changes: Any) -> dict[str, Any]:
    """An honest receipt of six cents."""
    return receipt(**{"amount": str(PRICE), **changes})
