"""A service that cashes and lies takes no more than the budget, in any hour, in any day, in total; once a purchase."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from tradesdk import AsyncMarketClient, Budget, Ledger, TradeError

from .._clock import VirtualClock
from .._hostilepayee import PUBLISHED, HostilePayee
from .._paidservice import CountingSigner
from .._payments import how
from .._rows import each_of
from .._seeds import drawn
from .._seller import BASE

pytestmark = pytest.mark.twin

DAY = 86_400
COURSES = 30
COURSES = 5  # the decisions are those of the blocking flavour, which plays more  # async only
LIMITS = ("per_call", "per_hour", "per_day", "per_month", "total")
CLOSED = ("answered", "unsent, not_received")
"""After one of these, an equal call is another purchase. No person marks anything here."""


def windows(payee: HostilePayee, limit: str) -> list[int]:
    """What was taken in the windows of a budget: each hour that ends with a settlement, each day and month of UTC."""
    taken = payee.settlements
    if limit == "per_call":
        return [one.amount for one in taken]
    if limit == "total":
        return [sum(one.amount for one in taken)]
    if limit in ("per_day", "per_month"):
        form = "%Y-%m-%d" if limit == "per_day" else "%Y-%m"
        named = [(datetime.fromtimestamp(one.at, UTC).strftime(form), one.amount) for one in taken]
        return [sum(amount for name, amount in named if name == each) for each in {name for name, _ in named}]
    return [sum(one.amount for one in taken if last.at - 3600 < one.at <= last.at) for last in taken]


async def play(seed: int, limit: str, calls: int = 40) -> int:
    """Up to two days of calls. Returns how many micro-dollars were taken."""
    draw, clock = random.Random(f"{seed} {limit}"), VirtualClock()
    if limit == "per_month":  # it ends meanwhile
        clock.advance(datetime(2026, 12, 31, tzinfo=UTC).timestamp() - clock.now())
    clock.advance(draw.randrange(DAY))
    payee, ledger = HostilePayee(seed, clock), Ledger.memory()
    most = draw.choice([10_000, PUBLISHED] if limit == "per_call" else [PUBLISHED, 3 * PUBLISHED, 7 * PUBLISHED])
    options: dict[str, Any] = {
        "signer": CountingSigner(),
        "budget": Budget.from_micro({limit: most}),
        "ledger": ledger,
        "clock": clock,
        "check_tokens": False,
        "max_retries": draw.choice([0, 1, 5]),
    }

    def restarted() -> AsyncMarketClient:
        http = httpx.AsyncClient(transport=httpx.MockTransport(payee))
        return AsyncMarketClient(base_url=BASE, http_client=http, **options)

    client = restarted()
    end = clock.now() + 2 * DAY
    for _ in range(calls):
        try:
            await client.token_prices([draw.choice(["ETH", "BRETT", "TOSHI", "DEGEN"])])
        except TradeError as error:
            if error.code in ("over_budget", "unresolved_payment") and draw.random() < 0.05:
                break
        if draw.random() < 0.3:
            payee.cash_late()
        if draw.random() < 0.1:
            await client.payments.reconcile()
        if draw.random() < 0.1:
            client = restarted()
        clock.advance(draw.choice([0, 1, 5, 30, 60, 61, 90, 130, 600, 1800, 3500, 3600, 7200, 40_000]))
        if clock.now() > end:
            break
        spending = await client.payments.spending()
        assert sum(one.amount for one in payee.settlements) <= spending.total.counted, (
            f"{seed}: the ledger counts too little"
        )
        assert all(taken <= most for taken in windows(payee, limit)), f"{seed}: more than the budget"
    payments = await client.payments.list(limit=1000)
    nonces = {one.nonce: one for one in payments}
    assert len(nonces) == len(payments)
    assert all(nonces[one.nonce].charged for one in payee.settlements), f"{seed}: taken, and said to be free"
    newest: dict[str, float] = {}
    for payment in payments:  # newest first
        later = newest.get(payment.fingerprint)
        assert later is None or how(payment) in CLOSED or later - payment.created > 600, (
            f"{seed}: an open purchase was bought again"
        )
        newest[payment.fingerprint] = payment.created
    return sum(one.amount for one in payee.settlements)


@each_of("limit", LIMITS)
async def test_a_course(limit: str) -> None:
    assert await play(2, limit, calls=20) > 0


@pytest.mark.long
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("seeds", drawn("TRADE_HOSTILE_COURSES", COURSES, together=500))
async def test_many_courses(seeds: range, limit: str) -> None:
    """For each budget so many, or as many as TRADE_HOSTILE_COURSES says."""
    for seed in seeds:
        await play(seed, limit)
