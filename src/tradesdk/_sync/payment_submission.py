# Generated from src/tradesdk/_async/payment_submission.py by scripts/unasync.py: change that file instead.
"""Hands a payment over until its outcome is known, or nothing more can be done in this call."""

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
from ..payments.messages import blocking_error, error_of, in_doubt
from ..payments.protocol import receipt_warnings
from ..payments.results import MarketResult, Quote
from ..payments.state_machine import (
    Classification,
    PaymentResponse,
    PaymentStateMachine,
    Transition,
    classify,
    classify_failure,
)
from .concurrency import in_thread, run_uninterrupted, shielded, sleep

if TYPE_CHECKING:
    from ..payments.authorizer import PaymentAuthorizer
    from .session import Session

T = TypeVar("T")


@dataclass(slots=True)
class SubmissionContext(Generic[T]):
    """What a payment is handed over for.

    Attributes:
        request: what is bought with it.
        owner: who holds the claim on the payment.
        give_up: the monotonic time at which the call ends.
        job: takes over a payment that belongs to none, so that the answer is kept for it.
        keep: the ledger keeps the answer even without a job.
        paid: called with an answer that was paid for just now, before it is closed.
        claimed: the payment that is claimed.
        answered: the payment whose answer is about to be handed to the caller, with its `reply`.
        quote: what the call costs by the published prices.
    """

    request: Request[T]
    owner: str
    give_up: float
    job: str | None = None
    keep: bool = False
    paid: Callable[[MarketResult[T]], object] = lambda result: None
    claimed: Payment | None = None
    answered: Payment | None = None
    quote: Quote = field(init=False)


class Submission(Generic[T]):
    """One payment in one call. The bytes are the same every time.

    `state` is what the ledger said of it before this call: one that is in doubt may have been taken already.
    """

    def __init__(
        self,
        session: Session,
        authorizer: PaymentAuthorizer,
        context: SubmissionContext[T],
        payment: Payment,
        state: PaymentState,
    ) -> None:
        self._session = session
        self._authorizer = authorizer
        self._context = context
        self._payment = payment
        self._sent = payment  # keeps its header, whatever the ledger says later
        fresh = state is PaymentState.RESERVED
        self._flow = PaymentStateMachine(
            session.policy,
            valid_before=payment.valid_before,
            state=state,
            submissions=0 if fresh else payment.submissions,
        )
        self._sending = False
        self._noted = not fresh
        self._began = (authorizer.latest(), authorizer.clock.monotonic())

    def run(self) -> MarketResult[T]:
        """Submit it, again if that is right. The claim is given back, unless `answered` says who has to.

        Raises:
            PaymentError: it was refused, its outcome is unknown, or nothing usable came; `payment` says more.
            APIError: the request itself failed; `payment` is on it.
        """
        try:
            if self._noted:
                self._count()
            return self._run()
        except BaseException as error:
            with shielded():
                if not isinstance(error, TradeError):
                    self._interrupted()
                if self._context.answered is None:
                    self._give_back()
            raise

    def _run(self) -> MarketResult[T]:
        clock = self._authorizer.clock
        while True:
            answer, response, problem = self._once()
            answer = answer.without(self._sent)
            if response is not None:
                self._authorizer.observe(response.headers)
            now, monotonic = clock.now(), clock.monotonic()
            step = self._flow.next(answer, at=self._latest(), now=now, time_left=self._context.give_up - monotonic)
            if step.state is PaymentState.DELIVERED and response is not None:
                return self._delivered(answer, response)
            self._note(step, answer)
            self._sending = False
            if step.wait is None:
                raise self._error(answer, response, problem)
            logger.warning(
                "payment %s: %s; resending it in %.1f s",
                self._payment.id,
                answer.reason,
                step.wait,
                extra=log_fields("payment_resent", payment_id=self._payment.id, reason=answer.reason, wait=step.wait),
            )
            sleep(clock, step.wait)
            if not self._flow.can_submit(self._latest()):  # the wait took longer than it was to take
                raise self._error(answer, response, problem)
            self._count()

    def _latest(self) -> float:
        """The latest that the service's time may be. A clock that is put back meanwhile does not revive a payment."""
        then, monotonic = self._began
        return max(self._authorizer.latest(), then + self._authorizer.clock.monotonic() - monotonic)

    def _once(self) -> tuple[PaymentResponse, RawResponse | None, APIError | None]:
        """Hand it over once: what the answer means, the answer, and the error if there is none."""
        self._sending = True
        try:
            response = self._session.exchange(self._context.request, self._context.give_up, self._sent)
        except APIResponseError as unreadable:
            cut = unreadable.response
            if cut is None:
                return classify_failure(Failure(FailureCause.LOST), unreadable.message), None, unreadable
            return classify(cut, failure_of(unreadable)), cut, unreadable
        except APIConnectionError as lost:
            self._sending = lost.sent
            return classify_failure(failure_of(lost), lost.message), None, lost
        except APIError as held_back:  # by the throttle, past the deadline
            self._sending = False
            return classify_failure(failure_of(held_back), held_back.message), None, held_back
        except TradeError as unsent:  # a client that is closed, a key that is gone
            self._sending = False
            self._interrupted()
            if self._flow.in_doubt:
                raise in_doubt(self._payment, unsent.message) from unsent
            raise
        if 200 <= response.status < 300:
            return classify(response, Failure(FailureCause.STATUS, response.status, response.headers)), response, None
        problem = self._session.refusal(self._context.request, response)
        return classify(response, failure_of(problem)), response, problem

    def _delivered(self, answer: PaymentResponse, response: RawResponse) -> MarketResult[T]:
        try:
            data = self._session.read(self._context.request, response)
        except APIResponseError as unusable:
            self._settle(
                PaymentState.PAID_UNDELIVERED, answer, reason=unusable.message, reply=response.content, lenient=True
            )
            error = error_of(
                self._payment, PaymentResponse(Classification.ALREADY_USED, unusable.message, answer.failure), response
            )
            raise error or unusable from unusable
        outcome = Outcome(PaymentState.DELIVERED, "delivered", answer.receipt, response.content, self._flow.submissions)
        context, payment, now = self._context, self._payment, self._authorizer.clock.now()
        context.answered = replace(payment, reply=response.content)

        def record() -> MarketResult[T]:
            self._payment, problem = self._authorizer.record(payment, outcome, now=now)
            result = self._result(data, answer, problem)
            context.paid(result)
            self._authorizer.close(self._payment, context.owner, keep=context.keep, job=context.job)
            return result

        # Written down and closed in one go: a cancellation meanwhile opens it again.
        return run_uninterrupted(record)

    def _result(self, data: T, answer: PaymentResponse, problem: LedgerError | None) -> MarketResult[T]:
        warnings: tuple[str, ...] = ()
        if problem is not None:
            warnings = (f"the ledger does not know that this was delivered: {problem.message}",)
        warnings += receipt_warnings(answer.receipt, self._payment)
        if answer.receipt_problem is not None:
            warnings += (answer.receipt_problem,)
        for warning in warnings:
            extra = log_fields("payment_warning", payment_id=self._payment.id, reason=warning)
            logger.warning("payment %s: %s", self._payment.id, warning, extra=extra)
        payment, kept = self._payment, self._context.keep or self._payment.job is not None
        return MarketResult(
            data=data,
            quote=self._context.quote,
            payment=payment if kept else replace(payment, reply=None),
            receipt=answer.receipt,
            warnings=warnings,
            answered_at=payment.updated_at,
        )

    def _note(self, step: Transition, answer: PaymentResponse) -> None:
        self._settle(step.state, answer, reason=answer.reason, reply=None, lenient=step.wait is None)

    def _settle(
        self, state: PaymentState, answer: PaymentResponse, *, reason: str, reply: bytes | None, lenient: bool
    ) -> LedgerError | None:
        """Write the outcome down. The outcome is worth more than its note: with `lenient` a failure is returned."""
        payment, now = self._payment, self._authorizer.clock.now()
        outcome = Outcome(state, reason, answer.receipt, reply, self._flow.submissions)
        self._payment, problem = in_thread(partial(self._authorizer.record, payment, outcome, now=now))
        if problem is not None and not lenient:
            raise self._unwritten(problem, f"{reason}; and the ledger: {problem.message}") from problem
        return problem

    def _count(self) -> None:
        """Write down that it is handed over once more, before it is."""
        authorizer, payment = self._authorizer, self._payment
        try:
            again = partial(authorizer.store.resubmit, payment.id, now=authorizer.clock.now(), job=self._context.job)
            counted = in_thread(again)
        except LedgerError as problem:
            raise self._unwritten(problem, f"the ledger cannot be written: {problem.message}") from problem
        if not counted.live:  # another process has ended it
            raise in_doubt(counted, "it was closed meanwhile") if self._flow.in_doubt else blocking_error(counted)
        self._payment = counted

    def _unwritten(self, problem: LedgerError, reason: str) -> TradeError:
        """Without the ledger it is not handed over again. Only what is in doubt may have been paid."""
        problem.payment = self._payment
        return in_doubt(self._payment, reason) if self._flow.in_doubt else problem

    def _interrupted(self) -> None:
        """Cancelled, or something that nobody foresaw: the ledger says what can be said."""
        authorizer, payment, flow = self._authorizer, self._payment, self._flow
        unsure = self._sending or flow.in_doubt
        state = PaymentState.UNKNOWN if unsure else PaymentState.REJECTED_LIVE
        submissions = flow.submissions + self._sending
        try:
            run_uninterrupted(
                lambda: authorizer.store.settle(
                    payment.id, state, reason="interrupted", submissions=submissions, now=authorizer.clock.now()
                )
            )
        except LedgerError as problem:
            extra = log_fields("ledger_failed", problem, payment_id=payment.id)
            logger.error(
                "payment %s was interrupted, and the ledger cannot be written: %s", payment.id, problem, extra=extra
            )

    def _give_back(self) -> None:
        authorizer, payment, owner = self._authorizer, self._payment, self._context.owner
        try:
            run_uninterrupted(lambda: authorizer.give_back(payment.id, owner))
        except LedgerError as problem:
            extra = log_fields("ledger_failed", problem, payment_id=payment.id)
            logger.warning("payment %s: its claim could not be given back: %s", payment.id, problem, extra=extra)

    def _error(self, answer: PaymentResponse, response: RawResponse | None, problem: APIError | None) -> TradeError:
        if problem is not None:  # what leads to an error of ours says the same of the money
            problem.payment = self._payment
            problem.retries = self._flow.repeats
        error = error_of(self._payment, answer, response)
        if error is not None:
            error.__cause__ = problem
            return error
        return problem or in_doubt(self._payment, answer.reason, response)
