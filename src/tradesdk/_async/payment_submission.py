"""Hands a payment over until its outcome is known, or nothing more can be done in this call."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from .._http.request import Request
from .._http.response import failure_of
from .._http.retry import Failure, FailureCause
from .._values.http import RawResponse
from .._values.payment import Payment, PaymentState
from ..errors import APIConnectionError, APIError, APIResponseError, TradeError
from ..payments.classification import Answer, Verdict, judge, judge_failure
from ..payments.errors import LedgerError
from ..payments.messages import error_of, in_doubt, in_the_way
from ..payments.receipts import receipt_warnings
from ..payments.results import MarketResult, Quote
from ..payments.state_machine import Flow, Step
from .concurrency import in_thread, shielded, sleep, surely

if TYPE_CHECKING:
    from ..payments.authorizer import Purse
    from .session import AsyncCalls

T = TypeVar("T")

logger = logging.getLogger("tradesdk")


@dataclass(slots=True)
class AsyncErrand(Generic[T]):
    """What a payment is handed over for.

    Attributes:
        request: what is asked with it.
        quote: what it costs by the published prices.
        owner: who holds the claim on the payment.
        give_up: the monotonic time at which the call ends.
        job: takes over a payment that belongs to none, so that the answer is kept for it.
        keep: the ledger keeps the answer even without a job.
        claimed: the payment that is claimed.
    """

    request: Request[T]
    quote: Quote
    owner: str
    give_up: float
    job: str | None = None
    keep: bool = False
    claimed: Payment | None = None


@dataclass(frozen=True, slots=True)
class AsyncDelivery(Generic[T]):
    """An answer that the ledger keeps until the caller has it.

    Attributes:
        result: what the caller is to get.
        payment: what paid for it, with the `reply`, and claimed by the call; None: there is nothing to close.
    """

    result: MarketResult[T]
    payment: Payment | None = None


class AsyncPresentation(Generic[T]):
    """One payment in one call. The bytes are the same every time.

    `state` is what the ledger said of it before this call: one that is in doubt may have been taken already.
    """

    def __init__(
        self, calls: AsyncCalls, purse: Purse, errand: AsyncErrand[T], payment: Payment, state: PaymentState
    ) -> None:
        self._calls = calls
        self._purse = purse
        self._errand = errand
        self._payment = payment
        self._sent = payment  # keeps its header, whatever the ledger says later
        fresh = state is PaymentState.RESERVED
        self._flow = Flow(
            calls.policy,
            valid_before=payment.valid_before,
            state=state,
            presentations=0 if fresh else payment.presentations,
        )
        self._sending = False
        self._noted = not fresh
        self._began = (purse.latest(), purse.clock.monotonic())

    async def run(self) -> AsyncDelivery[T]:
        """Hand it over, again if that is right. The claim goes on with the delivery, and is given back without one.

        Raises:
            PaymentError: it was refused, its outcome is unknown, or nothing usable came; `payment` says more.
            APIError: the request itself failed; `payment` is on it.
        """
        try:
            if self._noted:
                await self._count()
            return await self._run()
        except BaseException as error:
            with shielded():
                if not isinstance(error, TradeError):
                    await self._interrupted()
                await self._give_back()
            raise

    async def _run(self) -> AsyncDelivery[T]:
        clock = self._purse.clock
        while True:
            answer, response, problem = await self._once()
            answer = answer.without(self._sent)
            if response is not None:
                self._purse.observe(response.headers)
            now, monotonic = clock.now(), clock.monotonic()
            step = self._flow.next(answer, at=self._latest(), now=now, time_left=self._errand.give_up - monotonic)
            if step.state is PaymentState.DELIVERED and response is not None:
                return await self._delivered(answer, response)
            await self._note(step, answer)
            self._sending = False
            if step.wait is None:
                raise self._error(answer, response, problem)
            logger.warning(
                "payment %s: %s; the same payment again in %.1f s", self._payment.id, answer.reason, step.wait
            )
            await sleep(clock, step.wait)
            if not self._flow.is_presentable(self._latest()):  # the wait took longer than it was to take
                raise self._error(answer, response, problem)
            await self._count()

    def _latest(self) -> float:
        """The latest that the service's time may be. A clock that is put back meanwhile does not revive a payment."""
        then, monotonic = self._began
        return max(self._purse.latest(), then + self._purse.clock.monotonic() - monotonic)

    async def _once(self) -> tuple[Answer, RawResponse | None, APIError | None]:
        """Hand it over once: what the answer means, the answer, and the error if there is none."""
        self._sending = True
        try:
            response = await self._calls.exchange(self._errand.request, self._errand.give_up, self._sent)
        except APIResponseError as unreadable:
            cut = unreadable.response
            if cut is None:
                return judge_failure(Failure(FailureCause.LOST), unreadable.message), None, unreadable
            return judge(cut, failure_of(unreadable)), cut, unreadable
        except APIConnectionError as lost:
            self._sending = lost.sent
            return judge_failure(failure_of(lost), lost.message), None, lost
        except APIError as held_back:  # by the throttle, past the deadline
            self._sending = False
            return judge_failure(failure_of(held_back), held_back.message), None, held_back
        except TradeError as unsent:  # a client that is closed, a key that is gone
            self._sending = False
            await self._interrupted()
            if self._flow.in_doubt:
                raise in_doubt(self._payment, unsent.message) from unsent
            raise
        if 200 <= response.status < 300:
            return judge(response, Failure(FailureCause.STATUS, response.status, response.headers)), response, None
        problem = self._calls.refusal(self._errand.request, response)
        return judge(response, failure_of(problem)), response, problem

    async def _delivered(self, answer: Answer, response: RawResponse) -> AsyncDelivery[T]:
        try:
            data = self._calls.read(self._errand.request, response)
        except APIResponseError as unusable:
            await self._settle(
                PaymentState.PAID_UNDELIVERED, answer, reason=unusable.message, reply=response.content, lenient=True
            )
            error = error_of(self._payment, Answer(Verdict.SPENT, unusable.message, answer.failure), response)
            raise error or unusable from unusable
        warnings: tuple[str, ...] = ()
        problem = await self._settle(
            PaymentState.DELIVERED, answer, reason="delivered", reply=response.content, lenient=True
        )
        if problem is not None:
            warnings = (f"the ledger does not know that this was delivered: {problem.message}",)
        warnings += receipt_warnings(answer.receipt, self._payment)
        if answer.receipt_problem is not None:
            warnings += (answer.receipt_problem,)
        for warning in warnings:
            logger.warning("payment %s: %s", self._payment.id, warning)
        payment, kept = self._payment, self._errand.keep or self._payment.job is not None
        result = MarketResult(
            data=data,
            quote=self._errand.quote,
            payment=payment if kept else replace(payment, reply=None),
            receipt=answer.receipt,
            warnings=warnings,
            answered_at=payment.updated_at,
        )
        return AsyncDelivery(result, replace(payment, reply=response.content))

    async def _note(self, step: Step, answer: Answer) -> None:
        await self._settle(step.state, answer, reason=answer.reason, reply=None, lenient=step.wait is None)

    async def _settle(
        self, state: PaymentState, answer: Answer, *, reason: str, reply: bytes | None, lenient: bool
    ) -> LedgerError | None:
        """Write the outcome down. The outcome is worth more than its note: with `lenient` a failure is returned."""
        purse, payment, now = self._purse, self._payment, self._purse.clock.now()
        try:
            settle = partial(
                purse.store.settle,
                payment.id,
                state,
                reason=reason,
                receipt=answer.receipt,
                reply=reply,
                presentations=self._flow.presentations,
                now=now,
            )
            # An answer is kept before anybody hears of a cancellation: the next equal call gets it.
            self._payment = await (surely(settle) if state is PaymentState.DELIVERED else in_thread(settle))
        except LedgerError as problem:
            logger.error("payment %s is %s, and the ledger cannot be written: %s", payment.id, state, problem)
            self._payment = payment.moved(state, reason, answer.receipt, self._flow.presentations, now)
            if not lenient:
                raise self._unwritten(problem, f"{reason}; and the ledger: {problem.message}") from problem
            return problem
        return None

    async def _count(self) -> None:
        """Write down that it is handed over once more, before it is."""
        purse, payment = self._purse, self._payment
        try:
            again = partial(purse.store.present_again, payment.id, now=purse.clock.now(), job=self._errand.job)
            counted = await in_thread(again)
        except LedgerError as problem:
            raise self._unwritten(problem, f"the ledger cannot be written: {problem.message}") from problem
        if not counted.live:  # another process has ended it
            raise in_doubt(counted, "it was closed meanwhile") if self._flow.in_doubt else in_the_way(counted)
        self._payment = counted

    def _unwritten(self, problem: LedgerError, reason: str) -> TradeError:
        """Without the ledger it is not handed over again. Only what is in doubt may have been paid."""
        problem.payment = self._payment
        return in_doubt(self._payment, reason) if self._flow.in_doubt else problem

    async def _interrupted(self) -> None:
        """Cancelled, or something that nobody foresaw: the ledger says what can be said."""
        purse, payment, flow = self._purse, self._payment, self._flow
        unsure = self._sending or flow.in_doubt
        state = PaymentState.UNKNOWN if unsure else PaymentState.REJECTED_LIVE
        presentations = flow.presentations + self._sending
        try:
            await surely(
                lambda: purse.store.settle(
                    payment.id, state, reason="interrupted", presentations=presentations, now=purse.clock.now()
                )
            )
        except LedgerError as problem:
            logger.error("payment %s was interrupted, and the ledger cannot be written: %s", payment.id, problem)

    async def _give_back(self) -> None:
        purse, payment, owner = self._purse, self._payment, self._errand.owner
        try:
            await surely(lambda: purse.give_back(payment.id, owner))
        except LedgerError as problem:
            logger.warning("payment %s: its claim could not be given back: %s", payment.id, problem)

    def _error(self, answer: Answer, response: RawResponse | None, problem: APIError | None) -> TradeError:
        if problem is not None:  # what leads to an error of ours says the same of the money
            problem.payment = self._payment
            problem.retries = self._flow.repeats
        error = error_of(self._payment, answer, response)
        if error is not None:
            error.__cause__ = problem
            return error
        return problem or in_doubt(self._payment, answer.reason, response)
