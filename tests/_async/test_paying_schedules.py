"""Random schedules of faults, crashes, jumping clocks and impatient callers: no money is lost, none is paid twice."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import Any

import httpx
import pytest

from tradesdk import AsyncMarketClient, Budget, Ledger, Payment, PaymentStage, TradeError
from tradesdk.payments import ReasonCode

from .._paidservice import PRICE, CountingSigner, JumpingClock, PaidService, Schedule
from .._payments import how
from .._seeds import drawn
from ._market import market_of
from ._network import networked

pytestmark = pytest.mark.twin

CONTINUED_FOR = 600
CALLS = {"call": "ETH", "other call": "BRETT"}
SCHEDULES = 120
SCHEDULES = 12  # the decisions are those of the blocking flavour, which plays more  # async only


class Run:
    """One schedule. With `patch`, by our own connections."""

    def __init__(self, seed: int, *, patch: pytest.MonkeyPatch | None = None) -> None:
        self.seed = seed
        self.schedule = Schedule.of(seed)
        self.clock = JumpingClock()
        self.service = PaidService(self.clock, list(self.schedule.kinds), dated=self.schedule.dated)
        self.network = None if patch is None else networked(patch, httpx.MockTransport(self.service.handle))
        self.ledger = Ledger.memory()
        self.signer = CountingSigner()
        self.delivered = 0
        self.client = self._new()

    def _new(self) -> AsyncMarketClient:
        options: dict[str, Any] = {} if self.network is None else {"http_client": None}
        return market_of(
            self.service.handle,
            signer=self.signer,
            budget=Budget.from_micro({"total": self.schedule.budget}),
            ledger=self.ledger,
            clock=self.clock,
            max_retries=self.schedule.retries,
            **options,
        )

    async def play(self) -> None:
        for act, amount in self.schedule.acts:
            match act:
                case "call" | "other call":
                    await self._attempt(partial(self.client.token_prices, [CALLS[act]]))
                case "crash":
                    self.client = self._new()
                case "jump":
                    self.clock.off += amount
                    if not self.schedule.dated:  # more than the 15 minutes that are accepted nobody could notice
                        self.clock.off = min(self.clock.off, 800)
                case "wait":
                    self.clock.advance(amount)
                case "resume":
                    for payment in await self.client.payments.list(limit=1):
                        # What has been delivered is kept, and given once more.
                        had = how(payment) == "answered"
                        await self._attempt(partial(self.client.payments.resume, payment.id), had=had)
                case "reconcile":
                    self.delivered += len((await self.client.payments.reconcile()).delivered)
            await self.check()
        await self.settle()

    async def _attempt(self, call: Callable[[], Any], *, had: bool = False) -> None:
        try:
            result = await call()
        except TradeError:
            return
        self.delivered += not had
        assert result.data.results[0].symbol == "ETH"

    async def check(self) -> None:
        """What must be true at any moment."""
        payments = await self.client.payments.list(limit=1000)
        spent = (await self.client.payments.spending()).total.counted
        assert self.service.total <= spent <= self.schedule.budget
        # Each signature belongs to one payment, or was dropped: what the offer's date told made it needless.
        assert len(self.signer.digests) >= sum(payment.signatures for payment in payments)
        for payment in payments:
            taken = self.service.taken.get(payment.nonce)
            if payment.stage is PaymentStage.ANSWERED:
                assert taken is not None
                assert taken.delivered
        for body in {payment.body for payment in payments}:
            self._one_after_the_other([payment for payment in payments if payment.body == body])

    def _one_after_the_other(self, payments: list[Payment]) -> None:
        """Another nonce is signed for the same call only after the one before has brought its answer, never left, or
        is too old to be continued.
        """
        unsent = {one.nonce for one in payments if one.is_unsent}
        assert not unsent & self.service.taken.keys()
        for newer, older in pairwise(payments):
            done = older.stage is PaymentStage.ANSWERED or older.nonce in unsent
            assert done or newer.created - older.created >= CONTINUED_FOR, "two nonces for one purchase"

    async def settle(self) -> None:
        """Long after everything has expired, the ledger agrees with the service to the unit."""
        self.clock.off = 0
        self.clock.advance(10_000)
        self.service.kinds.clear()
        found = await self.client.payments.reconcile()
        assert not found.live
        assert not found.failed
        for payment in found.unresolved:
            paid = payment.nonce in self.service.taken
            # Two signatures that could not be settled are held as taken: whether they were, only the chain knows.
            if payment.stage is PaymentStage.TAKEN and payment.code is not ReasonCode.SUSPECT:
                assert paid
            await self.client.payments.mark(payment.id, paid=paid)
        assert (await self.client.payments.spending()).total.counted == self.service.total
        assert self.service.total == PRICE * len(self.service.taken)
        assert self.delivered == sum(one.delivered for one in self.service.taken.values())
        await self.check()


async def test_a_few_schedules() -> None:
    await play(range(8))


@pytest.mark.long
@pytest.mark.parametrize("seeds", drawn("TRADE_SCHEDULES", SCHEDULES, together=100))
async def test_many_schedules(seeds: range) -> None:
    """Or as many as TRADE_SCHEDULES says."""
    await play(seeds)


async def play(seeds: Iterable[int]) -> None:
    """By an httpx client; every third one again by our own connections, where everything happens likewise.

    But only our own say that a connection was refused before anything was sent.
    """
    for seed in seeds:
        injected = await course(Run(seed))
        if seed % 3 == 0:
            with pytest.MonkeyPatch.context() as patch:
                own = Run(seed, patch=patch)
                assert await course(own) == injected or "refused" in own.schedule.kinds, f"schedule {seed}"
            assert own.network is not None
            assert own.network.connections > 0


async def course(run: Run) -> object:
    """Play a schedule; how it went."""
    random.seed(run.seed)  # what the client draws
    try:
        await run.play()
    except BaseException:
        print(f"schedule {run.seed}: {run.schedule}; again with TRADE_SEED={run.seed} TRADE_SCHEDULES=1")
        raise
    payments = await run.client.payments.list(limit=1000)
    told = [(how(payment), payment.reason, payment.submissions, payment.updated) for payment in payments]
    return told, run.service.requests, run.service.total, run.delivered, run.clock.waits
