"""A service that rejects payments and cashes them anyway takes no more than the budget, however it does that.

It draws for each purchase when it cashes (before the next signature, between two, after both, or all it can), which of
the signatures that are still valid (the larger or the smaller amount), and what it says of that: receipts that come
before anything was taken, are too small, or come in another hour or day.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tradesdk import AsyncMarketClient, Budget, Ledger, TradeError

from .._clock import VirtualClock, http_date
from .._paidservice import CountingSigner
from .._rows import each_of
from .._seeds import drawn
from .._seller import BASE
from ..unit._offers import decoded, encoded, offer_2, prices, receipt, requirement_2

pytestmark = pytest.mark.twin

DAY = 86_400
PUBLISHED = 30_000
SEEDS = 500
SEEDS = 20  # the decisions are those of the blocking flavour, which plays more  # async only
REJECTIONS = (
    *("insufficient_funds", "insufficient_funds", "invalid_exact_evm_insufficient_balance"),
    *("invalid_exact_evm_payload_signature", "invalid_exact_evm_nonce_already_used", "settlement_pending", ""),
)
WHEN = ("before the next signature", "between two", "after both", "always")
LIMITS = ("per_hour", "per_day", "total", "max_total")


@dataclass
class Thief:
    """Give it to an `httpx.MockTransport`. What it does is drawn from `seed`.

    Attributes:
        cheques: what was signed, by nonce, oldest first.
        taken: when and how much the chain took, by nonce. It takes a nonce once, before `validBefore`.
    """

    seed: int
    clock: VirtualClock
    cheques: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    taken: dict[str, tuple[float, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.when: dict[str, str] = {}
        self.wants_more = self.draw.random() < 0.5
        self.is_exact = self.draw.random() < 0.5

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
        """Hand one of the signatures of a nonce to the chain: those that expired are refused."""
        now = self.clock.now()
        valid = [one for one in self.cheques[nonce] if int(one["validAfter"]) < now < int(one["validBefore"])]
        if valid and nonce not in self.taken:
            chosen = (max if self.wants_more else min)(valid, key=lambda one: int(one["value"]))
            self.taken[nonce] = now, int(chosen["value"])

    def cash_late(self) -> None:
        """Let time pass to the last second of a signature, and cash it."""
        ends = [int(one["validBefore"]) - 1 for known in self.cheques.values() for one in known]
        later = [end for end in ends if end > self.clock.now()]
        if later:
            self.clock.advance(self.draw.choice(later) - self.clock.now())
            for nonce in self.cheques:
                self.cash(nonce)

    def _offer(self, request: httpx.Request, error: str) -> httpx.Response:
        tokens = len(json.loads(request.content)["tokens"])
        amount = PUBLISHED if self.is_exact else self.draw.choice([PUBLISHED, 20_000, 1])
        asked = requirement_2(amount=str(amount * tokens), maxTimeoutSeconds=self.draw.choice([20, 60, 120]))
        headers = {"PAYMENT-REQUIRED": encoded(offer_2(asked, error=error)), **self._date()}
        return httpx.Response(402, json={}, headers=headers)

    def _say(self, request: httpx.Request, signed: dict[str, str]) -> httpx.Response:
        kind = self.draw.random()
        if kind < 0.6:
            return self._offer(request, self.draw.choice(REJECTIONS))
        amount = self.draw.choice([signed["value"], "1", str(int(signed["value"]) // 2)])
        told = {"PAYMENT-RESPONSE": encoded(receipt(amount=amount, payer=signed["from"])), **self._date()}
        if kind < 0.75:  # maybe nothing was taken yet: that comes in another hour, or on another day
            return httpx.Response(self.draw.choice([402, 404, 500]), json={}, headers=told)
        if kind < 0.8:
            raise httpx.ReadError("lost", request=request)
        names = [one["identifier"] for one in json.loads(request.content)["tokens"]]
        return httpx.Response(200, json=prices(*names), headers=told)

    def _date(self) -> dict[str, str]:
        return {"Date": http_date(self.clock.now() + self.draw.choice([0, 0, 0, -4, 4, -100, 100]))}


def most_taken(thief: Thief, limit: str) -> int:
    """The most that was taken in a window of a budget."""
    taken = list(thief.taken.values())
    if limit == "per_hour":
        return max((sum(much for at, much in taken if end - 3600 < at <= end) for end, _ in taken), default=0)
    if limit == "per_day":
        return max((sum(much for at, much in taken if at // DAY == end // DAY) for end, _ in taken), default=0)
    return sum(much for _, much in taken)


async def play(seed: int, limit: str) -> int:
    """A day and a half of calls, or one job that is run again and again. Returns what was taken, in micro-dollars."""
    draw, clock = random.Random(f"{seed} {limit}"), VirtualClock()
    clock.advance(draw.randrange(DAY))
    thief, most = Thief(seed, clock), draw.choice([PUBLISHED, 3 * PUBLISHED, 5 * PUBLISHED])
    http = httpx.AsyncClient(transport=httpx.MockTransport(thief))
    client = AsyncMarketClient(
        base_url=BASE,
        http_client=http,
        signer=CountingSigner(),
        budget=Budget.unlimited() if limit == "max_total" else Budget.from_micro({limit: most}),
        ledger=Ledger.memory(),
        clock=clock,
        check_tokens=False,
        max_retries=draw.choice([0, 0, 1]),
    )
    job, tokens = f"job {seed}", [f"T{number}" for number in range(6)]
    run = client.batches.token_prices(tokens, size=1, job=job, max_total=str(most / 1_000_000))
    for _ in range(25):
        try:
            if limit == "max_total":
                await anext(run)
            else:
                token = draw.choice(tokens)
                await client.token_prices([token], purchase=draw.choice([None, None, token]))
        except StopAsyncIteration:
            break
        except TradeError:
            pass
        if draw.random() < 0.4:
            thief.cash_late()
        to_midnight = DAY - clock.now() % DAY - draw.randint(1, 50)
        clock.advance(max(0, draw.choice([0, 1, 30, 55, 61, 130, 600, 1800, 3500, 3600, to_midnight, to_midnight])))
        assert most_taken(thief, limit) <= most, f"{seed}: more than the budget"
    counted = (await client.payments.spending()).total.counted
    assert sum(much for _, much in thief.taken.values()) <= counted, f"{seed}: the ledger counts too little"
    return most_taken(thief, limit)


@each_of("limit", ["per_hour", "max_total"])
async def test_a_course(limit: str) -> None:
    assert await play(3, limit) > 0


@pytest.mark.long
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("seeds", drawn("TRADE_THIEVES", SEEDS, together=250))
async def test_many_courses(seeds: range, limit: str) -> None:
    taken = [await play(seed, limit) for seed in seeds]
    assert sum(one > 0 for one in taken) > len(taken) / 2, "most of them take something"
