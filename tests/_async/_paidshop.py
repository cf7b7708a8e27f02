"""A client between a small paid service and a ledger, to either of which something happens at any step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tradesdk import AsyncMarketClient, Payment, PaymentError, PaymentStage, TradeError
from tradesdk.types import RateClaim

from .._eventful import BUDGET, EventfulLedger, Stop, agree, paid_once, stop
from .._paidservice import PRICE, CountingSigner, JumpingClock, PaidService
from .._payments import how
from ._market import market_of
from ._network import networked

SOME = [["pending", "lost before"], ["lost after"], ["refused", "429 after"]]
"""Courses that take every step of a call: an answer, none, a payment that did not leave, waits and resends.

What all the other answers lead to is walked in `tests/unit/test_every_course.py`.
"""
EVERY_STEP = pytest.mark.parametrize(
    ("kinds", "after"),
    [
        pytest.param(kinds, after, marks=[] if kinds is SOME[after] else pytest.mark.long)
        for kinds in SOME
        for after in (False, True)
    ],
)


class Limiter:
    """A rate limiter with room for all, whose claim number `at` is answered by `event`; `told` is what it heard.

    `answered`: the event happens when it is told of that answer.
    """

    rate_limit = None

    def __init__(self, event: Callable[[], object] = lambda: None, *, at: int = 0, answered: int = 0) -> None:
        self.event, self.at, self.answer, self.told = event, at, answered, list[str]()

    async def claim(self, name: str, /) -> RateClaim:
        self.told.append("claim")
        found = self.event() if self.told.count("claim") == self.at else None
        return found if isinstance(found, RateClaim) else RateClaim()

    async def answered(self, claim: RateClaim, status: int, headers: Any, /) -> None:
        self.told.append("answered")
        if self.told.count("answered") == self.answer:
            self.event()

    async def failed(self, claim: RateClaim, /, *, sent: bool) -> None:
        self.told.append(f"failed, sent {sent}")

    @property
    def options(self) -> dict[str, Any]:
        """Of a client that asks it."""
        return {"rate_limiter": self, "send_api_key": True, "api_key": "trade_key_of_a_test"}


class Shop:
    """A service, a ledger to which something may happen, and a client between them; with `patch`, by our own
    connections."""

    def __init__(self, kinds: list[str], patch: pytest.MonkeyPatch | None = None) -> None:
        self.clock = JumpingClock()
        self.service = PaidService(self.clock, kinds=list(kinds))
        self.network = None if patch is None else networked(patch, httpx.MockTransport(self._handle))
        self.ledger: EventfulLedger = EventfulLedger.memory()
        self.signer = CountingSigner()
        self.client = self.another()
        self.interrupt: Callable[[], object] | None = None

    def another(self, **options: Any) -> AsyncMarketClient:
        wallet: dict[str, Any] = {"signer": self.signer, "budget": BUDGET, "ledger": self.ledger, "clock": self.clock}
        if self.network is not None:
            wallet["http_client"] = None
        return market_of(self._handle, **wallet, **options)

    def _handle(self, request: httpx.Request) -> httpx.Response:
        answer = self.service.handle(request)
        if self.interrupt is not None and "payment-signature" in request.headers:
            self.interrupt()
        return answer

    async def buy(self) -> Any:
        return await self.client.token_prices(["ETH"])

    async def end(self) -> None:
        """The same call again, as often as it helps, and then the end of all authorizations: all agrees to the unit."""
        self.ledger.calm()
        self.service.kinds.clear()
        self.interrupt = None
        agree(self.service, self.ledger)
        waited = len(self.clock.waits)
        _, error = await outcome(self)
        if error is not None:
            assert isinstance(error, PaymentError)
            assert error.payment is not None
            assert error.code != "in_progress", "a claim was left behind"
        assert self.clock.waits[waited:] == [], "it waited for somebody who is gone"
        agree(self.service, self.ledger)
        paid_once(self.service, self.ledger)
        self.clock.advance(1000)
        found = await self.client.payments.reconcile()
        assert found.live == ()
        for payment in found.unresolved:
            await self.client.payments.mark(payment.id, paid=payment.nonce in self.service.taken)
        assert (await self.client.payments.spending()).total.counted == self.service.total
        agree(self.service, self.ledger)


async def outcome(shop: Shop) -> tuple[Any, TradeError | None]:
    """What a call brings, or its error."""
    try:
        return await shop.buy(), None
    except TradeError as error:
        return None, error


async def steps_of(kinds: list[str]) -> int:
    """How often a call asks its ledger."""
    shop = Shop(kinds)
    await outcome(shop)
    return len(shop.ledger.calls)


async def lost(shop: Shop) -> Payment:
    """A payment whose answer is written down; its call is interrupted before it is handed over."""
    whole = Shop([])
    await whole.buy()
    shop.ledger.at, shop.ledger.after, shop.ledger.event = whole.ledger.calls.index("record") + 1, True, stop
    with pytest.raises(Stop):
        await shop.buy()
    shop.ledger.calm()
    (payment,) = shop.ledger.history()
    assert payment.stage is PaymentStage.ANSWERED
    assert shop.service.total == PRICE
    return payment


Calls = tuple[Callable[[], Any], Callable[[], Any]]
"""The call that is interrupted, and the one that comes next."""


async def a_call(shop: Shop) -> Calls:
    return shop.buy, shop.buy


async def a_batch(shop: Shop) -> Calls:
    run = shop.client.batches.token_prices(["ETH"], max_total="0.03")

    async def act() -> Any:
        return (await anext(run)).result

    return act, act


async def a_batch_of_a_job(shop: Shop) -> Calls:
    async def act() -> Any:
        return (await anext(shop.client.batches.token_prices(["ETH"], job="tuesday"))).result

    return act, act


async def a_kept_answer(shop: Shop) -> Calls:
    await lost(shop)
    return shop.buy, shop.buy


async def in_doubt(shop: Shop) -> str:
    shop.service.kinds = ["lost before"]
    with pytest.raises(PaymentError) as caught:
        await shop.client.with_options(max_retries=0).token_prices(["ETH"])
    assert caught.value.payment is not None
    return caught.value.payment.id


async def resume(shop: Shop) -> Calls:
    name = await in_doubt(shop)
    return lambda: shop.client.payments.resume(name), shop.buy


async def reconcile(shop: Shop) -> Calls:
    await in_doubt(shop)

    async def act() -> Any:
        return (await shop.client.payments.reconcile()).delivered[0]

    return act, shop.buy


OTHERS = a_batch, a_batch_of_a_job, a_kept_answer, resume, reconcile


async def goes_on(shop: Shop, then: Callable[[], Any]) -> Any:
    """The call before has ended without its answer: it is not paid for a second time, and what was paid for is here.

    None if the answer was lost on its way.
    """
    delivered = [payment for payment in shop.ledger.history() if how(payment) == "answered"]
    found = error = None
    waited = len(shop.clock.waits)
    try:
        found = await then()
    except PaymentError as problem:
        error = problem
    assert sum(shop.clock.waits[waited:]) < 4, "it waited for somebody who is gone"
    assert shop.service.total == PRICE, "paid twice for one answer"
    if delivered:
        assert found is not None
        assert (found.again, found.answered_at) == (True, delivered[0].updated_at)
    elif error is not None:
        assert error.code == "paid_undelivered"
    return found
