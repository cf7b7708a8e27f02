"""A small paid service of the tests' own, in virtual time: nonces, settlements, and all that can go wrong with them.

It shares no code with the SDK or the mock. What a schedule says goes wrong, goes wrong; everything else is honest.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from tradesdk import LocalSigner

from ._clock import START, VirtualClock, http_date
from .unit._offers import decoded, encoded, offer_2, prices, receipt, requirement_2

BASE = "https://data.example.test"
PRICE = 30_000

# What happens to a request with a payment; "after" means that the money was taken first.
BEFORE = (
    "refused",
    "lost before",
    "403 before",
    "500 before",
    "503 before",
    "bare",
    "409 before",
    "429 before",
    "404",
    "insufficient_funds",
)
SETTLING = ("settlement failed", "pending", "pending after")
GATEWAY = ("408 after", "409 after", "425 after", "429 after", "499 after", "500 after", "503 after")
AFTER = ("lost after", "cut short", *GATEWAY, "bare after", "settlement failed after", "garbage")
SLOW = ("slow", "slow and lost")
KINDS = ("fine", "fine", "fine", "no receipt", *BEFORE, *SETTLING, *AFTER, *SLOW)


class JumpingClock(VirtualClock):
    """A virtual clock whose wall time can be put forward and back; its monotonic time cannot."""

    def __init__(self, at_a_wait: Callable[[JumpingClock], None] | None = None) -> None:
        super().__init__()
        self.off = 0.0
        self.at_a_wait = at_a_wait

    def _note(self, seconds: float) -> float:
        end = super()._note(seconds)
        if self.at_a_wait is not None:
            self.at_a_wait(self)
        return end

    def now(self) -> float:
        return super().now() + self.off

    @property
    def truth(self) -> float:
        """The time of the service."""
        return START + self._passed


class CountingSigner(LocalSigner):
    """Signs, and remembers for what it was asked."""

    def __init__(self, key: bytes = b"\x01" * 32) -> None:
        super().__init__(key)
        self.digests: list[bytes] = []

    def sign_digest(self, digest: bytes, /) -> bytes:
        self.digests.append(digest)
        return super().sign_digest(digest)


@dataclass
class Taken:
    """An authorization that was settled."""

    amount: int
    body: bytes
    delivered: bool = False


@dataclass
class PaidService:
    """Give `handle` to an `httpx.MockTransport`.

    Attributes:
        kinds: what happens to the next requests with a payment, in this order; when it is used up, nothing goes wrong.
        authorizations: every nonce that arrived, with the body that it was for.
        taken: every nonce that was settled.
    """

    clock: JumpingClock
    kinds: list[str] = field(default_factory=list)
    dated: bool = True
    authorizations: dict[str, dict[str, Any]] = field(default_factory=dict)
    taken: dict[str, Taken] = field(default_factory=dict)
    headers_seen: dict[str, str] = field(default_factory=dict)
    bodies: dict[str, bytes] = field(default_factory=dict)
    requests: int = 0

    @property
    def total(self) -> int:
        """Micro-dollars that were taken."""
        return sum(one.amount for one in self.taken.values())

    def handle(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        if request.url.path == "/v1/supported-tokens":
            return self._answer(200, {"success": True, "data": {"total": 0, "tokens": []}, "error": None})
        header = request.headers.get("PAYMENT-SIGNATURE")
        if header is None:
            return self._offer("Payment required")
        return self._paid(request, header)

    def _paid(self, request: httpx.Request, header: str) -> httpx.Response:
        body = request.content
        authorization = decoded(header)["payload"]["authorization"]
        nonce = authorization["nonce"]
        before = self.authorizations.get(nonce)
        if before is not None and before != authorization:  # signed again
            self.headers_seen[nonce] = header
        self.authorizations[nonce] = authorization
        assert self.headers_seen.setdefault(nonce, header) == header, "the bytes of a payment changed"
        assert self.bodies.setdefault(nonce, body) == body, "a payment was used for another request"
        kind = self.kinds.pop(0) if self.kinds else "fine"
        match kind:
            case "refused":
                raise httpx.ConnectError("refused", request=request)
            case "lost before":
                raise httpx.ReadTimeout("lost", request=request)
            case "403 before" | "409 before" | "429 before" | "500 before" | "503 before":
                return self._answer(int(kind[:3]), {"error": "in front of it"})
            case "bare":
                return self._offer("Payment required")
            case "slow":
                self.clock.advance(20)
            case "slow and lost":
                self.clock.advance(89)
                raise httpx.ReadTimeout("slow", request=request)
        reason = self._look(authorization, nonce)
        if reason is None and kind == "insufficient_funds":
            reason = kind
        if reason is not None:
            return self._offer(reason)
        if kind == "404":
            return self._answer(404, {"success": False, "data": None, "error": "no such token"})
        if kind == "settlement failed":
            return self._unsettled("transaction_failed")
        if kind == "pending":
            return self._unsettled("settlement_pending")
        taken = self.taken[nonce] = Taken(int(authorization["value"]), body)
        match kind:
            case "pending after":
                return self._unsettled("settlement_pending")
            case "settlement failed after":
                return self._unsettled("transaction_failed")
            case "lost after":
                raise httpx.ReadError("reset", request=request)
            case "cut short":
                raise httpx.RemoteProtocolError("cut short", request=request)
            case _ if kind in GATEWAY:
                return self._answer(int(kind[:3]), {"error": "in front of it"})
            case "bare after":
                return self._offer("Payment required")
            case "garbage":
                return httpx.Response(200, content=b"<html>", headers=self._head(self._receipt(nonce)))
        taken.delivered = True
        told = {} if kind == "no receipt" else self._receipt(nonce)
        return httpx.Response(200, content=json.dumps(prices("ETH")).encode(), headers=self._head(told))

    def _look(self, authorization: dict[str, str], nonce: str) -> str | None:
        if int(authorization["validBefore"]) < self.clock.truth + 6:
            return "invalid_exact_evm_payload_authorization_valid_before"
        if int(authorization["validAfter"]) > self.clock.truth:
            return "invalid_exact_evm_payload_authorization_valid_after"
        return "invalid_exact_evm_nonce_already_used" if nonce in self.taken else None

    def _offer(self, error: str) -> httpx.Response:
        asked = requirement_2(amount=str(PRICE))
        headers = self._head({"PAYMENT-REQUIRED": encoded(offer_2(asked, error=error))})
        return httpx.Response(402, content=b"{}", headers=headers)

    def _unsettled(self, reason: str) -> httpx.Response:
        told = receipt(success=False, errorReason=reason, transaction="")
        return httpx.Response(402, content=b"{}", headers=self._head({"PAYMENT-RESPONSE": encoded(told)}))

    def _receipt(self, nonce: str) -> dict[str, str]:
        return {"PAYMENT-RESPONSE": encoded(receipt(transaction=nonce))}

    def _answer(self, status: int, body: Any) -> httpx.Response:
        return httpx.Response(status, content=json.dumps(body).encode(), headers=self._head({}))

    def _head(self, more: dict[str, str]) -> dict[str, str]:
        date = {"date": http_date(self.clock.truth)} if self.dated else {}
        return {"content-type": "application/json", **date, **more}


@dataclass
class Schedule:
    """What one seed makes happen."""

    kinds: list[str]
    acts: list[tuple[str, float]]
    budget: int
    """In micro-dollars."""
    retries: int
    """How often a call may try again. The fewer, the more is left to the calls that follow."""
    dated: bool
    """Whether the service tells the time."""

    @classmethod
    def of(cls, seed: int) -> Schedule:
        dice = random.Random(seed)
        kinds: list[str] = []
        for _ in range(dice.randint(1, 9)):
            kinds += [dice.choice(KINDS)] * dice.choice((1, 1, 1, 2, 3))  # trouble seldom comes alone
        acts: list[tuple[str, float]] = []
        for _ in range(dice.randint(1, 6)):
            act = dice.choice(("call", "call", "call", "other call", "crash", "jump", "wait", "resume", "reconcile"))
            amount = {"jump": dice.choice((-7200, -600, -70, 70, 600)), "wait": dice.choice((1, 20, 45, 61, 100, 1000))}
            acts.append((act, float(amount.get(act, 0))))
        budget = PRICE * dice.randint(1, 5)
        retries, dated = dice.choice((0, 1, 5)), dice.random() < 0.8
        return cls(kinds, [*acts, ("call", 0.0)], budget, retries, dated)
