# Generated from src/tradesdk/_async/payment_submission.py by scripts/unasync.py: change that file instead.
"""Submits a payment until its outcome is known or the call has to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from .._http.log_events import event
from .._http.request import Request
from .._http.response import failure_of
from .._http.retry import Failure, FailureCause
from .._values.http import RawResponse
from .._values.payment import Payment
from ..errors import APIConnectionError, APIError, APIResponseError, LedgerError, PaymentRefusedError, TradeError
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
        self._unreported = False
        """Whether the ledger may count a submission that is not reported yet."""
        self._sending = False
        self._start = (authorizer.latest(), authorizer.clock.monotonic())
        context.submission = self

    def write_down(self, change: Submit | Resubmit) -> None:
        """Write down a submission before it is sent: of a new signature, or of the same bytes."""
        before = self._payment
        if isinstance(change, Submit):  # if that fails, written down or not, this signature was not handed over
            self._payment, self._unreported = replace(before, signatures=before.signatures + 1), True
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
        self._unreported = True
        if isinstance(change, Submit):
            self._machine = PaymentStateMachine(self._session.policy, self._payment, before)
        self._context.claimed = self._payment

    def end(self) -> None:
        """Report a submission whose call was canceled, or failed unexpectedly."""
        if self._unreported:
            report = self._machine.unsent("interrupted")
            if self._sending:
                report = replace(report, meaning=OPEN, sent=True)
            self._payment, _ = self._authorizer.record(self._payment, report, self._context.owner)

    def run(self) -> MarketResult[T] | None:
        """Submit it, and resubmit it where that is right. None: it has expired, and the service kept no answer."""
        clock, context = self._authorizer.clock, self._context
        while True:
            if not self._unreported:
                always_in_thread(lambda: self.write_down(self._resubmit()))
            report, response, problem = self._submit()
            now, time_left = clock.now(), context.give_up - clock.monotonic()
            step = self._machine.next(report, at=self._latest(), now=now, time_left=time_left)
            if step.report.meaning is DELIVERED and response is not None:
                return self._delivered(step.report, response)
            if step.wait is not None:
                if report.sent and (failed := self._report(step.report)) is not None:
                    raise self._ledger_failed(
                        failed, f"{report.reason}; and the ledger failed: {failed.message}"
                    ) from failed
                text = "payment %(payment_id)s: %(reason)s; resending it in %(wait).1f s"
                event("payment_resent", text, payment_id=self._payment.id, reason=report.reason, wait=step.wait)
                self._sending = False
                sleep(clock, step.wait)
                if self._machine.can_submit(self._latest()):
                    continue
                step = self._machine.overslept(step)  # the wait took longer than planned
                self._unreported = step.report.is_settled
            if self._unreported:
                self._report(step.report)
            if step.signs:
                return None
            raise self._final_error(step.report, response, problem)

    def _latest(self) -> float:
        """The latest estimate of the service's time. Setting the clock back does not revive a payment."""
        latest, monotonic = self._start
        return max(self._authorizer.latest(), latest + self._authorizer.clock.monotonic() - monotonic)

    def _submit(self) -> tuple[Report, RawResponse | None, APIError | None]:
        """Submit it once. Returns what the response means, the response, and the error if it is none or no success."""
        request = self._context.request._replace(body=self._payment.body)  # its fields may have another order
        response: RawResponse | None = None
        problem: APIError | None = None
        self._sending = True
        try:
            response = self._session.exchange(request, self._context.give_up, self._signed)
        except APIResponseError as unreadable:
            problem, response = unreadable, unreadable.response
        except APIConnectionError as lost:
            self._sending = lost.sent
            problem = lost
        except APIError as held_back:  # by the rate limit, past the deadline
            self._sending = False
            problem = held_back
        except TradeError as unsent:  # the client is closed, for example
            self._sending = False
            if self._machine.in_doubt:
                raise in_doubt(self._payment, unsent.message) from unsent
            raise
        if response is None:
            failure = Failure(FailureCause.LOST)
            if problem is not None and not isinstance(problem, APIResponseError):
                failure = failure_of(problem)
            report = classify_failure(failure, "" if problem is None else problem.message)
        else:
            if problem is None and not 200 <= response.status < 300:
                problem = self._session.refusal(self._context.request, response)
            plain = Failure(FailureCause.STATUS, response.status, response.headers)
            report = classify(response, plain if problem is None else failure_of(problem))
            self._authorizer.observe(response.headers)
        return report.without(self._signed), response, problem

    def _delivered(self, report: Report, response: RawResponse) -> MarketResult[T]:
        try:
            data = self._session.read(self._context.request, response)
        except APIResponseError as unusable:
            report = replace(report, meaning=UNDELIVERED, reason=unusable.message)
            self._report(report)
            raise outcome_error(self._payment, report, response) or unusable from unusable
        context, authorizer = self._context, self._authorizer
        context.answered = replace(self._payment, reply=response.content)

        def record() -> MarketResult[T]:
            self._payment, problem = authorizer.record(self._payment, report, context.owner)
            self._unreported = False
            result = self._result(data, report, problem)
            context.paid(result)
            authorizer.end(self._payment.id, Collect(owner=context.owner, keep=context.keep))
            return result

        # Written down and marked as collected in one step: a cancellation meanwhile undoes it.
        return always_in_thread(record)

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
            self._unreported = False
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

    def _final_error(self, report: Report, response: RawResponse | None, problem: APIError | None) -> TradeError:
        if problem is not None:  # as the cause of our error it has the same payment
            problem.payment = self._payment
            problem.retries = self._machine.resends
        error = outcome_error(self._payment, report, response)
        if error is not None:
            error.__cause__ = problem
            return error
        return problem or in_doubt(self._payment, report.reason, response)
