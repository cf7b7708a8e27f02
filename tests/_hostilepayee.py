"""A service that cashes payments when it likes and says what it likes, with the chain beside it."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NamedTuple

import httpx

from ._clock import VirtualClock, http_date
from .unit._offers import decoded, encoded, offer_2, prices, receipt, requirement_2

PUBLISHED = 30_000
"""Micro-dollars for each token, as published."""
STATUSES = (*(status.value for status in HTTPStatus if status >= 200), 499, 520, 599)
REASONS = (
    *("insufficient_funds", "insufficient_funds", "invalid_exact_evm_insufficient_balance"),
    *("invalid_exact_evm_payload_signature", "invalid_exact_evm_nonce_already_used", "settlement_pending"),
    *("transaction_failed", "moon_too_full", "No matching payment requirements", ""),
)
WHEN = ("never", "before the next signature", "between two", "after both", "always")


class Taken(NamedTuple):
    """What the chain took of a nonce."""

    at: float
    amount: int


@dataclass
class HostilePayee:
    """Give it to an `httpx.MockTransport`. What it does is drawn from `seed`.

    It draws for each purchase when it cashes (before the next signature, between two, after both, or all it can); for
    all, whether it takes the larger or the smaller amount of those that are valid, and whether it asks for the
    published price. What it says of that: receipts that come before anything was taken, or are too small, too.

    Attributes:
        cheques: what was signed, by nonce, oldest first.
        taken: what the chain took, by nonce. It takes a nonce once, before `validBefore`.
    """

    seed: int
    clock: VirtualClock
    cheques: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    taken: dict[str, Taken] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.when: dict[str, str] = {}
        self.wants_more, self.is_exact = self.draw.random() < 0.5, self.draw.random() < 0.5

    @property
    def total(self) -> int:
        return sum(one.amount for one in self.taken.values())

    def __call__(self, request: httpx.Request) -> httpx.Response:
        header = request.headers.get("PAYMENT-SIGNATURE")
        if header is None:
            return self._offer(request, "Payment required")
        signed = decoded(header)["payload"]["authorization"]
        nonce = signed["nonce"]
        known, when = self.cheques.setdefault(nonce, []), self.when.setdefault(nonce, self.draw.choice(WHEN))
        if when in ("between two", "always") and signed not in known:
            self.cash(nonce)  # an earlier one, while it is valid
        if signed not in known:
            known.append(signed)
        if when in ("before the next signature", "always") or (when == "after both" and len(known) > 1):
            self.cash(nonce)
        return self._say(request, signed)

    def cash(self, nonce: str) -> None:
        """Hand one of the signatures of a nonce to the chain: those that have expired are refused."""
        now = self.clock.now()
        valid = [one for one in self.cheques[nonce] if int(one["validAfter"]) < now < int(one["validBefore"])]
        if valid and nonce not in self.taken:
            chosen = (max if self.wants_more else min)(valid, key=lambda one: int(one["value"]))
            self.taken[nonce] = Taken(now, int(chosen["value"]))

    def cash_late(self) -> None:
        """Let time pass to the last second of a signature, and cash all that can be."""
        ends = [int(one["validBefore"]) - 1 for known in self.cheques.values() for one in known]
        later = [end for end in ends if end > self.clock.now()]
        if later:
            self.clock.advance(self.draw.choice(later) - self.clock.now())
            for nonce in self.cheques:
                self.cash(nonce)

    def _offer(self, request: httpx.Request, error: str) -> httpx.Response:
        amount = PUBLISHED if self.is_exact else self.draw.choice([PUBLISHED, 20_000, 1])
        window = self.draw.choice([10, 20, 60, 120, 3600])
        asked = requirement_2(amount=str(amount * len(_names(request))), maxTimeoutSeconds=window)
        headers = {"PAYMENT-REQUIRED": encoded(offer_2(asked, error=error)), **self._date()}
        return httpx.Response(402, json={}, headers=headers)

    def _say(self, request: httpx.Request, signed: dict[str, str]) -> httpx.Response:
        kind, headers = self.draw.random(), self._date()
        if kind < 0.5:
            return self._offer(request, self.draw.choice(REASONS))
        if kind < 0.55:
            raise httpx.ReadError("lost", request=request)
        if self.draw.random() < 0.6:  # maybe nothing was taken yet: that comes in another hour, or on another day
            amount = self.draw.choice([signed["value"], "1", "0", str(int(signed["value"]) // 2)])
            told = receipt(amount=amount, payer=signed["from"])
            if self.draw.random() < 0.3:
                told |= {"success": False, "transaction": "", "errorReason": self.draw.choice(REASONS)}
            headers["PAYMENT-RESPONSE"] = encoded(told)
        if kind < 0.75:
            return httpx.Response(200, json=prices(*_names(request)), headers=headers)
        body: Any = self.draw.choice([{"success": False, "error": "no"}, {}, [], "text", None])
        return httpx.Response(self.draw.choice([200, 402, 404, 500, *STATUSES]), json=body, headers=headers)

    def _date(self) -> dict[str, str]:
        off = self.draw.choice([0, 0, 0, 0, -4, 4, -10, 10, -100, 100, -3600, 3600, 10**6])
        return {} if self.draw.random() < 0.1 else {"Date": http_date(self.clock.now() + off)}


def _names(request: httpx.Request) -> list[str]:
    return [one["identifier"] for one in json.loads(request.content).get("tokens", [])]
