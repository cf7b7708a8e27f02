"""Submits a payment until its outcome is known or the call has to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from .._http.log_events import log_fields, logger
from .._http.request import Request
from .._http.response import failure_of
from .._http.retry import Failure, FailureCause
from .._values.http import RawResponse
from .._values.payment import Payment, PaymentState
from ..errors import APIConnectionError, APIError, APIResponseError, LedgerError, TradeError
from ..payments.authorizer import Outcome
from ..payments.messages import blocking_error, in_doubt, outcome_error
from ..payments.protocol import receipt_warnings
from ..payments.results import MarketResult, Quote
from ..payments.state_machine import (
    Classification,
    PaymentResponse,
    PaymentStateMachine,
    classify,
    classify_failure,
)
from .concurrency import in_thread, run_uninterrupted, shielded, sleep

if TYPE_CHECKING:
    from ..payments.authorizer import PaymentAuthorizer
    from .session import AsyncSession

T = TypeVar("T")


@dataclass(slots=True)
class AsyncSubmissionContext(Generic[T]):
    """The call that a payment is submitted for.

    Attributes:
        request: the request.
        owner: the owner of the claim on the payment.
        give_up: the monotonic time at which the call ends.
        keep: the ledger keeps the answer even without a name.
        paid: called with a result that was paid for just now, before it is marked as collected.
        claimed: the payment that is claimed.
        answered: the payment, with its `reply`, whose answer is about to be returned to the caller.
        run: the id of the batch run that the call belongs to.
        max_total: micro-dollars that this run may spend.
        quote: the published price.
    """

    request: Request[T]
    owner: str
    give_up: float
    keep: bool = False
    paid: Callable[[MarketResult[T]], object] = lambda result: None
    claimed: Payment | None = None
    answered: Payment | None = None
    run: str | None = None
    max_total: int | None = None
    quote: Quote = field(init=False)


class AsyncSubmission(Generic[T]):
    """One payment in one call. The bytes are the same every time.

    A `fresh` one was signed just now.
    """

    def __init__(
        self,
        session: AsyncSession,
        authorizer: PaymentAuthorizer,
        context: AsyncSubmissionContext[T],
        payment: Payment,
        *,
        fresh: bool,
    ) -> None:
        self._session = session
        self._authorizer = authorizer
        self._context = context
        self._payment = payment
        self._signed = payment  # keeps its header, which the ledger deletes at the end
        self._request = context.request._replace(body=payment.body)  # its fields may have another order
        self._machine = PaymentStateMachine(session.policy, payment, fresh=fresh)
        self._sending = False
        self._is_resubmission = not fresh
        self._start = (authorizer.latest(), authorizer.clock.monotonic())

    async def run(self) -> MarketResult[T]:
        """Submit it, and resubmit it where that is right. Releases the claim, unless the context is `answered`.

        Raises:
            PaymentError: it was refused, its outcome is unknown, or the answer is not usable; see `payment`.
            APIError: the request itself failed; it has the `payment` too.
        """
        try:
            if self._is_resubmission:
                await self._record_resubmission()
            return await self._run()
        except BaseException as error:
            with shielded():
                if not isinstance(error, TradeError):
                    await self._record_interruption()
                if self._context.answered is None:
                    await self._release_claim()
            raise

    async def replay(self) -> MarketResult[T] | None:
        """Submit an expired payment once, for the answer that the service may keep. None: it keeps none.

        Releases the claim, unless the context is `answered`.

        Raises:
            PaymentError: there is no response that says so, or the answer is not usable.
        """
        try:
            answer, response, problem = await self._submit()
            answer = answer.without(self._signed)
            if response is not None:
                self._authorizer.observe(response.headers)
            if answer.verdict is Classification.DELIVERED and response is not None:
                return await self._delivered(answer, response)
            if answer.verdict in (Classification.UNKNOWN, Classification.NOT_RECEIVED):
                raise in_doubt(self._payment, answer.reason, response) from problem
            if answer.receipt is not None and answer.receipt.success:
                await self._settle(
                    PaymentState.PAID_UNDELIVERED, answer, reason=answer.reason, reply=None, raises=False
                )
                raise self._final_error(answer, response, problem)
            await self._release_claim()
            return None
        except BaseException:
            with shielded():
                if self._context.answered is None:
                    await self._release_claim()
            raise

    async def _run(self) -> MarketResult[T]:
        clock = self._authorizer.clock
        while True:
            answer, response, problem = await self._submit()
            answer = answer.without(self._signed)
            if response is not None:
                self._authorizer.observe(response.headers)
            now, monotonic = clock.now(), clock.monotonic()
            step = self._machine.next(answer, at=self._latest(), now=now, time_left=self._context.give_up - monotonic)
            if step.state is PaymentState.DELIVERED and response is not None:
                return await self._delivered(answer, response)
            await self._settle(step.state, answer, reason=answer.reason, reply=None, raises=step.wait is not None)
            self._sending = False
            if step.wait is None:
                raise self._final_error(answer, response, problem)
            logger.warning(
                "payment %s: %s; resending it in %.1f s",
                self._payment.id,
                answer.reason,
                step.wait,
                extra=log_fields("payment_resent", payment_id=self._payment.id, reason=answer.reason, wait=step.wait),
            )
            await sleep(clock, step.wait)
            if not self._machine.can_submit(self._latest()):  # the wait took longer than planned
                raise self._final_error(answer, response, problem)
            await self._record_resubmission()

    def _latest(self) -> float:
        """The latest estimate of the service's time. Setting the clock back does not revive a payment."""
        latest, monotonic = self._start
        return max(self._authorizer.latest(), latest + self._authorizer.clock.monotonic() - monotonic)

    async def _submit(self) -> tuple[PaymentResponse, RawResponse | None, APIError | None]:
        """Submit it once. Returns what the response means, the response, and the error if it is none or no success."""
        self._sending = True
        try:
            response = await self._session.exchange(self._request, self._context.give_up, self._signed)
        except APIResponseError as unreadable:
            cut = unreadable.response
            if cut is None:
                return classify_failure(Failure(FailureCause.LOST), unreadable.message), None, unreadable
            return classify(cut, failure_of(unreadable)), cut, unreadable
        except APIConnectionError as lost:
            self._sending = lost.sent
            return classify_failure(failure_of(lost), lost.message), None, lost
        except APIError as held_back:  # by the rate limit, past the deadline
            self._sending = False
            return classify_failure(failure_of(held_back), held_back.message), None, held_back
        except TradeError as unsent:  # the client is closed, for example
            self._sending = False
            await self._record_interruption()
            if self._machine.in_doubt:
                raise in_doubt(self._payment, unsent.message) from unsent
            raise
        if 200 <= response.status < 300:
            return classify(response, Failure(FailureCause.STATUS, response.status, response.headers)), response, None
        problem = self._session.refusal(self._context.request, response)
        return classify(response, failure_of(problem)), response, problem

    async def _delivered(self, answer: PaymentResponse, response: RawResponse) -> MarketResult[T]:
        try:
            data = self._session.read(self._context.request, response)
        except APIResponseError as unusable:
            await self._settle(
                PaymentState.PAID_UNDELIVERED, answer, reason=unusable.message, reply=response.content, raises=False
            )
            error = outcome_error(
                self._payment, PaymentResponse(Classification.ALREADY_USED, unusable.message, answer.failure), response
            )
            raise error or unusable from unusable
        outcome = Outcome(
            PaymentState.DELIVERED,
            "delivered",
            answer.receipt,
            response.content,
            self._machine.submissions,
            self._machine.settle_failed,
        )
        context, payment, now = self._context, self._payment, self._authorizer.clock.now()
        context.answered = replace(payment, reply=response.content)

        def record() -> MarketResult[T]:
            self._payment, problem = self._authorizer.record(payment, outcome, context.owner, now=now)
            result = self._result(data, answer, problem)
            context.paid(result)
            self._authorizer.close(self._payment, context.owner, keep=context.keep)
            return result

        # Written down and marked as collected in one step: a cancellation meanwhile undoes it.
        return await run_uninterrupted(record)

    def _result(self, data: T, answer: PaymentResponse, problem: LedgerError | None) -> MarketResult[T]:
        warnings: tuple[str, ...] = ()
        if problem is not None:
            warnings = (f"the delivery could not be written to the ledger: {problem.message}",)
        warnings += receipt_warnings(answer.receipt, self._payment)
        if answer.receipt_problem is not None:
            warnings += (answer.receipt_problem,)
        for warning in warnings:
            extra = log_fields("payment_warning", payment_id=self._payment.id, reason=warning)
            logger.warning("payment %s: %s", self._payment.id, warning, extra=extra)
        payment, kept = self._payment, self._context.keep or self._payment.purchase is not None
        return MarketResult(
            data=data,
            quote=self._context.quote,
            payment=payment if kept else replace(payment, reply=None),
            receipt=answer.receipt,
            warnings=warnings,
            answered_at=payment.updated_at,
        )

    async def _settle(
        self, state: PaymentState, answer: PaymentResponse, *, reason: str, reply: bytes | None, raises: bool
    ) -> None:
        """Write down the outcome. At the end of the call the caller must get it even if the ledger fails: `raises`."""
        payment, now = self._payment, self._authorizer.clock.now()
        machine = self._machine
        outcome = Outcome(state, reason, answer.receipt, reply, machine.submissions, machine.settle_failed)
        self._payment, problem = await in_thread(
            partial(self._authorizer.record, payment, outcome, self._context.owner, now=now)
        )
        if problem is not None and raises:
            raise self._ledger_failed(problem, f"{reason}; and the ledger failed: {problem.message}") from problem

    async def _record_resubmission(self) -> None:
        """Write down one more submission before it is sent."""
        authorizer, payment = self._authorizer, self._payment
        try:
            resubmit = partial(
                authorizer.store.resubmit,
                payment.id,
                signatures=payment.signatures,
                owner=self._context.owner,
                run=self._context.run,
                max_total=self._context.max_total,
                now=authorizer.clock.now(),
            )
            current, may_be_sent = await in_thread(resubmit)
        except LedgerError as problem:
            raise self._ledger_failed(problem, f"the ledger cannot be written: {problem.message}") from problem
        if current.live and not may_be_sent:
            raise in_doubt(current, "another call has continued it")
        if not may_be_sent:
            raise in_doubt(current, "it was closed meanwhile") if self._machine.in_doubt else blocking_error(current)
        self._payment = current

    def _ledger_failed(self, problem: LedgerError, reason: str) -> TradeError:
        """The error if the ledger fails: nothing is resent. Only a payment in doubt may have been paid."""
        problem.payment = self._payment
        return in_doubt(self._payment, reason) if self._machine.in_doubt else problem

    async def _record_interruption(self) -> None:
        """Write down a cancellation or an unexpected error, as far as the outcome is known."""
        authorizer, payment, machine = self._authorizer, self._payment, self._machine
        state = PaymentState.UNKNOWN if self._sending else machine.state_if_not_sent
        submissions = machine.submissions + self._sending
        try:
            await run_uninterrupted(
                lambda: authorizer.store.settle(
                    payment.id,
                    state,
                    reason="interrupted",
                    submissions=submissions,
                    signatures=payment.signatures,
                    owner=self._context.owner,
                    now=authorizer.clock.now(),
                )
            )
        except LedgerError as problem:
            extra = log_fields("ledger_failed", problem, payment_id=payment.id)
            logger.error(
                "payment %s was interrupted, and the ledger cannot be written: %s", payment.id, problem, extra=extra
            )

    async def _release_claim(self) -> None:
        authorizer, payment, owner = self._authorizer, self._payment, self._context.owner
        try:
            await run_uninterrupted(lambda: authorizer.give_back(payment.id, owner))
        except LedgerError as problem:
            extra = log_fields("ledger_failed", problem, payment_id=payment.id)
            logger.warning("payment %s: its claim could not be released: %s", payment.id, problem, extra=extra)

    def _final_error(
        self, answer: PaymentResponse, response: RawResponse | None, problem: APIError | None
    ) -> TradeError:
        if problem is not None:  # as the cause of our error it has the same payment
            problem.payment = self._payment
            problem.retries = self._machine.resends
        error = outcome_error(self._payment, answer, response)
        if error is not None:
            error.__cause__ = problem
            return error
        return problem or in_doubt(self._payment, answer.reason, response)
