# Generated from src/tradesdk/_async/payment_submission.py by scripts/unasync.py: change that file instead.
"""Submits a payment until its outcome is known or the call has to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from .._http.log_events import event
from .._http.request import Request
from .._http.response import failure_of
from .._http.retry import Failure, FailureCause
from .._values.http import RawResponse
from .._values.payment import Payment
from ..errors import APIError, APIResponseError, LedgerError, PaymentRefusedError, TradeError
from ..payments.ledger.changes import Collect, Resubmit, Submit
from ..payments.messages import in_doubt, outcome_error
from ..payments.protocol import receipt_warnings
from ..payments.results import MarketResult, Quote
from ..payments.state_machine import (
    DELIVERED,
    MARGIN,
    OPEN,
    UNDELIVERED,
    PaymentStateMachine,
    Report,
    Step,
    classify,
    classify_failure,
)
from .concurrency import always_in_thread, sleep

if TYPE_CHECKING:
    from ..payments.authorizer import PaymentAuthorizer
    from .session import Session

T = TypeVar("T")


@dataclass(slots=True)
class SubmissionContext(Generic[T]):
    """The call that a payment is submitted for.

    Attributes:
        request: the request.
        owner: the owner of the claim on the payment.
        give_up: the monotonic time at which the call ends.
        keep: the ledger keeps the answer even without a name.
        paid: called with a result that was paid for just now, before it is marked as collected.
        claimed: the payment that is claimed.
        submission: the submission of that payment.
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
    submission: Submission[T] | None = None
    answered: Payment | None = None
    run: str | None = None
    max_total: int | None = None
    quote: Quote = field(init=False)


@dataclass(frozen=True, slots=True)
class _Told(Generic[T]):
    """What a submission brought.

    Attributes:
        step: what it means, and what follows.
        response: the response, if one arrived.
        problem: the error of an unusable or missing response.
        data: the data of a usable one.
    """

    step: Step
    response: RawResponse | None = None
    problem: APIError | None = None
    data: T | None = None


class Submission(Generic[T]):
    """One payment in one call, as it was claimed: what was handed over before may have been taken.

    The bytes are the same every time. An `expired` one is sent for an answer that the service may have kept.
    """

    def __init__(
        self,
        session: Session,
        authorizer: PaymentAuthorizer,
        context: SubmissionContext[T],
        payment: Payment,
        *,
        expired: bool = False,
    ) -> None:
        self._session = session
        self._authorizer = authorizer
        self._context = context
        self._payment = self._signed = payment  # `_signed` keeps its header, which the ledger deletes at the end
        self._machine = PaymentStateMachine(session.policy, payment, payment, expired=expired)
        self._ending: Report | None = None
        """What is written down if the call ends here; None: the ledger knows all that it was told."""
        self._start = (authorizer.latest(), authorizer.clock.monotonic())
        context.submission = self

    def write_down(self, change: Submit | Resubmit) -> None:
        """Write down a submission before it is sent: of a new signature, or of the same bytes."""
        before = self._payment
        if isinstance(change, Submit):  # if that fails, written down or not, this signature was not handed over
            self._payment = replace(before, signatures=before.signatures + 1)
            self._ending = self._machine.unsent("interrupted")
        try:
            self._payment = self._signed = self._authorizer.store.update(before.id, change).payment
        except LedgerError as problem:
            if isinstance(change, Submit):
                raise
            raise self._ledger_failed(problem, f"the ledger cannot be written: {problem.message}") from problem
        except PaymentRefusedError as refused:
            if refused.payment is None or isinstance(change, Submit) or not self._machine.in_doubt:
                raise
            raise in_doubt(refused.payment, "it was closed meanwhile") from refused
        if isinstance(change, Submit):
            self._machine = PaymentStateMachine(self._session.policy, self._payment, before)
        self._ending = self._machine.unsent("interrupted")
        self._context.claimed = self._payment

    def end(self) -> None:
        """Write down what a call that was canceled, or failed unexpectedly, knows of its submission."""
        if self._ending is not None:
            self._payment, _ = self._authorizer.record(self._payment, self._ending, self._context.owner)

    def run(self) -> MarketResult[T] | None:
        """Submit it, and resubmit it where that is right. None: it has expired, and the service kept no answer."""
        is_written = self._ending is not None
        while True:
            if not is_written:
                always_in_thread(lambda: self.write_down(self._resubmit()))
            told = self._submit()
            report, wait = told.step.report, told.step.wait
            if told.response is not None and report.meaning is DELIVERED:
                return always_in_thread(partial(self._delivered, told))
            if wait is None:
                break
            if report.sent and (failed := self._report(report.before_resending())) is not None:
                raise self._ledger_failed(
                    failed, f"{report.reason}; and the ledger failed: {failed.message}"
                ) from failed
            is_written = not report.sent
            self._ending = report if is_written or report.is_settled else None
            text = "payment %(payment_id)s: %(reason)s; resending it in %(wait).1f s"
            event("payment_resent", text, payment_id=self._payment.id, reason=report.reason, wait=wait)
            sleep(self._authorizer.clock, wait)
            if not self._machine.can_submit(self._latest()):  # the wait took longer than planned
                break
        if self._ending is not None:
            self._report(report)
        if told.step.signs:
            return None
        raise self._final_error(told)

    def _latest(self) -> float:
        """The latest estimate of the service's time. Setting the clock back does not revive a payment."""
        latest, monotonic = self._start
        return max(self._authorizer.latest(), latest + self._authorizer.clock.monotonic() - monotonic)

    def _submit(self) -> _Told[T]:
        """Submit it once. What comes of it is noted when it arrives, so that a cancellation does not lose it."""
        context, told = self._context, list[_Told[T]]()
        request = context.request._replace(body=self._payment.body)  # its fields may have another order
        self._ending = replace(self._machine.unsent("interrupted"), meaning=OPEN, sent=True)

        def arrived(response: RawResponse, problem: APIResponseError | None) -> None:
            told.append(self._answered(response, problem))

        try:
            self._session.exchange(request, context.give_up, self._signed, arrived)
        except APIError as error:
            if not told:  # it was lost, or held back by the rate limit
                report = classify_failure(failure_of(error), error.message)
                told.append(_Told(self._next(report), problem=error))
        except TradeError as unsent:  # the client is closed, for example
            self._ending = self._machine.unsent("interrupted")
            if self._machine.in_doubt:
                raise in_doubt(self._payment, unsent.message) from unsent
            raise
        return told[0]

    def _answered(self, response: RawResponse, problem: APIError | None) -> _Told[T]:
        session, request, data = self._session, self._context.request, None
        self._authorizer.observe(response.headers)
        step = self._next(classify(response, Failure(FailureCause.STATUS, response.status, response.headers)))
        if not 200 <= response.status < 300:
            problem = session.refusal(request, response)
        elif problem is None:
            try:
                data = session.read(request, response)
            except APIResponseError as unusable:
                problem = unusable
        if problem is not None and step.report.meaning is DELIVERED:
            self._ending = replace(step.report, meaning=UNDELIVERED, reason=problem.message)
            step = Step(self._ending)
        return _Told(step, response, problem, data)

    def _next(self, report: Report) -> Step:
        now, monotonic = self._authorizer.clock.now(), self._authorizer.clock.monotonic()
        time_left = self._context.give_up - monotonic
        step = self._machine.next(report.without(self._signed), at=self._latest(), now=now, time_left=time_left)
        self._ending = step.report
        return step

    def _delivered(self, told: _Told[T]) -> MarketResult[T]:
        """Write the answer down, and mark it as collected. A cancellation meanwhile undoes the latter."""
        context, authorizer, report = self._context, self._authorizer, told.step.report
        assert told.response is not None  # noqa: S101
        context.answered = replace(self._payment, reply=told.response.content)
        self._payment, problem = authorizer.record(self._payment, report, context.owner)
        self._ending = None
        result = self._result(cast("T", told.data), report, problem)
        context.paid(result)
        authorizer.end(self._payment.id, Collect(owner=context.owner, keep=context.keep))
        return result

    def _result(self, data: T, report: Report, problem: LedgerError | None) -> MarketResult[T]:
        warnings: tuple[str, ...] = ()
        if problem is not None:
            warnings = (f"the delivery could not be written to the ledger: {problem.message}",)
        warnings += receipt_warnings(report.receipt, self._payment)
        if report.receipt_problem is not None:
            warnings += (report.receipt_problem,)
        for warning in warnings:
            text = "payment %(payment_id)s: %(reason)s"
            event("payment_warning", text, payment_id=self._payment.id, reason=warning)
        payment, kept = self._payment, self._context.keep or self._payment.purchase is not None
        return MarketResult(
            data=data,
            quote=self._context.quote,
            payment=replace(payment, waits=False, reply=payment.reply if kept else None),
            receipt=report.receipt,
            warnings=warnings,
            answered_at=payment.updated_at,
        )

    def _report(self, report: Report) -> LedgerError | None:
        """Write down what happened. Returns the error if the ledger fails: the caller must get the outcome then too."""

        def record() -> LedgerError | None:
            self._payment, problem = self._authorizer.record(self._payment, report, self._context.owner)
            self._ending = None
            return problem

        return always_in_thread(record)

    def _resubmit(self) -> Resubmit:
        context, now = self._context, self._authorizer.clock.now()
        signatures, total = self._payment.signatures, context.max_total
        over = self._latest() + MARGIN
        return Resubmit(
            signatures=signatures, over=over, owner=context.owner, run=context.run, max_total=total, now=now
        )

    def _ledger_failed(self, problem: LedgerError, reason: str) -> TradeError:
        """The error if the ledger fails: nothing is resent. Only a payment in doubt may have been paid."""
        problem.payment = self._payment
        return in_doubt(self._payment, reason) if self._machine.in_doubt else problem

    def _final_error(self, told: _Told[T]) -> TradeError:
        report, problem = told.step.report, told.problem
        if problem is not None:  # as the cause of our error it has the same payment
            problem.payment = self._payment
            problem.retries = self._machine.resends
        error = outcome_error(self._payment, report, told.response)
        if error is not None:
            error.__cause__ = problem
            return error
        return problem or in_doubt(self._payment, report.reason, told.response)
