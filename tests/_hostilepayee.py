"""A service that cashes payments when it likes and says what it likes, with the chain beside it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import httpx

from ._clock import VirtualClock, http_date
from .unit._offers import decoded, encoded, offer_2, prices, receipt, requirement_2

STATUSES = (*(status.value for status in HTTPStatus if status >= 200), 499, 520, 599)
REASONS = (
    *("insufficient_funds", "invalid_exact_evm_payload_signature", "invalid_exact_evm_nonce_already_used"),
    *("settlement_pending", "transaction_failed", "moon_too_full", "No matching payment requirements", ""),
)
PUBLISHED = 30_000


@dataclass(frozen=True)
class Settlement:
    """A payment that the chain took: when, how much, and its nonce."""

    at: float
    amount: int
    nonce: str


@dataclass
class HostilePayee:
    """Give it to an `httpx.MockTransport`. What it does is drawn from `seed`.

    Attributes:
        settlements: what the chain took. It takes a nonce once, before `validBefore`.
        cheques: signed payments that are not cashed yet.
    """

    seed: int
    clock: VirtualClock
    settlements: list[Settlement] = field(default_factory=list)
    cheques: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        header = request.headers.get("PAYMENT-SIGNATURE")
        if header is None:
            return self._offer("Payment required")
        payment = decoded(header)
        self.cheques.append(payment["payload"]["authorization"])
        if self.draw.random() < 0.5:
            self.cash(self.cheques[-1])
        return self._say(payment)

    def cash(self, cheque: dict[str, Any]) -> None:
        """Hand a signed payment to the chain."""
        now = self.clock.now()
        used = cheque["nonce"] in {one.nonce for one in self.settlements}
        if not used and int(cheque["validAfter"]) < now < int(cheque["validBefore"]):
            self.settlements.append(Settlement(now, int(cheque["value"]), cheque["nonce"]))

    def cash_late(self) -> None:
        """Let time pass to the last second of a signed payment, and cash it."""
        live = [one for one in self.cheques if int(one["validBefore"]) - 1 > self.clock.now()]
        if live:
            cheque = self.draw.choice(live)
            self.clock.advance(int(cheque["validBefore"]) - 1 - self.clock.now())
            self.cash(cheque)

    def _offer(self, error: str) -> httpx.Response:
        amount = self.draw.choice([PUBLISHED, PUBLISHED, 10_000, 1])
        asked = requirement_2(amount=str(amount), maxTimeoutSeconds=self.draw.choice([10, 60, 120, 3600]))
        offer = {**offer_2(asked), "error": error}
        return httpx.Response(402, json={}, headers={"PAYMENT-REQUIRED": encoded(offer), **self._date()})

    def _say(self, payment: dict[str, Any]) -> httpx.Response:
        if self.draw.random() < 0.1:
            raise httpx.ReadError("lost")
        status = self.draw.choice(STATUSES)
        headers = self._date()
        if status == 402 and self.draw.random() < 0.5:
            return self._offer(self.draw.choice(REASONS))
        if self.draw.random() < 0.4:
            success = self.draw.random() < 0.5
            told = receipt(
                success=success,
                payer=payment["payload"]["authorization"]["from"],
                amount=self.draw.choice(["1", "30000", "0"]),
                errorReason=None if success else self.draw.choice(REASONS),
            )
            if not success:
                told["transaction"] = ""
            headers["PAYMENT-RESPONSE"] = encoded(told)
        body: Any = self.draw.choice([{"success": False, "error": "no"}, {}, [], "text", None])
        if status == 200 and self.draw.random() < 0.5:
            body = prices("ETH")
        return httpx.Response(status, json=body, headers=headers)

    def _date(self) -> dict[str, str]:
        off = self.draw.choice([0, 0, 0, 0, -10, 10, -100, 100, -3600, 3600, 10**6])
        return {} if self.draw.random() < 0.1 else {"Date": http_date(self.clock.now() + off)}
