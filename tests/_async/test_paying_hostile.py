"""A service that cashes and lies takes no more than the budget, in any hour, day or month, in total, in a job.

Also one that rejects a payment and cashes it anyway. It is paid once for a purchase, and what it took is never said to
be free.
"""

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
COURSES = 12
COURSES = 2  # the decisions are those of the blocking flavour, which plays more  # async only
LIMITS = ("per_call", "per_hour", "per_day", "per_month", "total", "max_total")
CLOSED = ("answered", "unsent, not_received")
"""After one of these, an equal call is another purchase. No person marks anything here."""
TOKENS = [f"T{number}" for number in range(5)]


def most_taken(payee: HostilePayee, limit: str) -> int:
    """The most that was taken in a window of a budget: an hour that ends with a payment, a day or a month of UTC."""
    taken = list(payee.taken.values())
    match limit:
        case "per_call":
            sums = [amount for _, amount in taken]
        case "per_hour":
            sums = [sum(amount for at, amount in taken if end - 3600 < at <= end) for end, _ in taken]
        case "per_day" | "per_month":
            form = "%Y-%m-%d" if limit == "per_day" else "%Y-%m"
            named = [(datetime.fromtimestamp(at, UTC).strftime(form), amount) for at, amount in taken]
            sums = [sum(amount for name, amount in named if name == each) for each in {name for name, _ in named}]
        case _:
            sums = [payee.total]
    return max(sums, default=0)


async def play(seed: int, limit: str) -> int:
    """Up to two days of calls, or one job that is run again and again. Returns what was taken, in micro-dollars."""
    draw, clock = random.Random(f"{seed} {limit}"), VirtualClock()
    if limit == "per_month":  # it ends meanwhile
        clock.advance(datetime(2026, 12, 31, tzinfo=UTC).timestamp() - clock.now())
    clock.advance(draw.randrange(DAY))
    payee, end = HostilePayee(seed, clock), clock.now() + 2 * DAY
    most = draw.choice([10_000, PUBLISHED] if limit == "per_call" else [PUBLISHED, 3 * PUBLISHED, 7 * PUBLISHED])
    options: dict[str, Any] = {
        "signer": CountingSigner(),
        "budget": Budget.unlimited() if limit == "max_total" else Budget.from_micro({limit: most}),
        "ledger": Ledger.memory(),
        "clock": clock,
        "check_tokens": False,
        "max_retries": draw.choice([0, 0, 1, 5]),
    }

    def restarted() -> AsyncMarketClient:
        http = httpx.AsyncClient(transport=httpx.MockTransport(payee))
        return AsyncMarketClient(base_url=BASE, http_client=http, **options)

    client = restarted()
    job, total = draw.choice([None, "nightly"]), str(most / 1_000_000)
    run = client.batches.token_prices(TOKENS, size=1, job=job, max_total=total)
    for _ in range(30):
        try:
            if limit == "max_total":
                await anext(run)
            else:
                token = draw.choice(TOKENS)
                await client.token_prices([token], purchase=draw.choice([None, None, token]))
        except StopAsyncIteration:
            break
        except TradeError:
            pass
        if draw.random() < 0.4:
            payee.cash_late()
        if draw.random() < 0.1:
            await client.payments.reconcile()
        if draw.random() < 0.1:
            client = restarted()
        to_midnight = DAY - clock.now() % DAY - draw.randint(1, 50)
        steps = [0, 1, 5, 30, 55, 61, 90, 130, 600, 1800, 3500, 3600, 7200, to_midnight, to_midnight, 40_000]
        clock.advance(max(0, draw.choice(steps)))
        if clock.now() > end:
            break
        assert payee.total <= (await client.payments.spending()).total.counted, f"{seed}: the ledger counts too little"
        assert most_taken(payee, limit) <= most, f"{seed}: more than the budget"
    payments = await client.payments.list(limit=1000)
    nonces = {one.nonce: one for one in payments}
    assert len(nonces) == len(payments)
    assert all(nonces[nonce].charged for nonce in payee.taken), f"{seed}: taken, and said to be free"
    newest: dict[str, float] = {}
    for payment in payments:  # newest first
        later = newest.get(payment.fingerprint)
        assert later is None or how(payment) in CLOSED or later - payment.created > 600, (
            f"{seed}: an open purchase was bought again"
        )
        newest[payment.fingerprint] = payment.created
    return payee.total


@each_of("limit", ["per_month", "max_total"])
async def test_a_course(limit: str) -> None:
    assert await play(2, limit) > 0


@pytest.mark.long
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("seeds", drawn("TRADE_HOSTILE_COURSES", COURSES, together=500))
async def test_many_courses(seeds: range, limit: str) -> None:
    """For each budget so many, or as many as TRADE_HOSTILE_COURSES says."""
    taken = [await play(seed, limit) for seed in seeds]
    assert len(taken) < 20 or sum(one > 0 for one in taken) > len(taken) / 4, "many take something"
