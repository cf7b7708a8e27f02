"""One call that buys an answer: claims an earlier payment, signs, submits until the outcome is known or time is up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from .._http.log_events import event
from .._http.request import Request
from .._http.response import failure_of
from .._http.retry import Failure, FailureCause
from .._market import MarketRequest
from .._values.http import RateClaim, RawResponse
from .._values.payment import Payment, latest_end
from ..errors import APIConnectionError, APIError, APIResponseError, LedgerError, PaymentRefusedError, TradeError
from ..payments.ledger.changes import Claim, Collect, LedgerRow, Redate, ReleaseClaim, Reopen, Resubmit
from ..payments.ledger.claims import LONGEST_CLAIM, ended, owner_name
from ..payments.ledger.rules import NextStep, total_refusal
from ..payments.messages import blocking_error, in_doubt, outcome_error
from ..payments.protocol import Offer, receipt_warnings
from ..payments.purchases import PurchaseIntent, call_key
from ..payments.results import MarketResult, Quote
from ..payments.state_machine import (
    DELIVERED,
    OPEN,
    UNDELIVERED,
    PaymentStateMachine,
    Report,
    Step,
    classify,
    classify_failure,
)
from .concurrency import AsyncAction, always_in_thread, in_thread, sleep

if TYPE_CHECKING:
    from ..payments.ledger.store import Overview
    from .seller import AsyncSeller

T = TypeVar("T")
R = TypeVar("R")

_LONGEST_PAUSE = 1.0


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


class AsyncPaidCall(Generic[T, R]):
    """One call that buys an answer, or resumes a payment.

    `finish` makes of a result what the caller gets; an answer is marked as collected after that. `keep`: the ledger
    keeps the answer even without a name. `quote` is the published price.
    """

    def __init__(
        self,
        seller: AsyncSeller,
        request: Request[T],
        finish: Callable[[MarketResult[T]], R],
        *,
        keep: bool = False,
        quote: Quote | None = None,
    ) -> None:
        self._seller = seller
        self._authorizer = seller.authorizer
        self._clock = seller.authorizer.clock
        self._request = request
        self._finish = finish
        self._keep = keep
        self._quote = quote
        self._owner = owner_name()
        self._give_up = seller.deadline()
        self._purchase: PurchaseIntent | None = None
        self._claim_held: RateClaim | None = None
        """A claim on the rate limit for the next submission."""
        self._seen: Overview
        """What the ledger knew when it was looked at."""
        self._row: LedgerRow | None = None
        """The payment that is claimed, as it is in the ledger."""
        self._before: Payment | None = None
        """The same before this call wrote a signature down; None if it wrote none."""
        self._reply: bytes | None = None
        """Its answer, which is about to be returned to the caller."""
        self._ending: Report | None = None
        """What is written down if the call ends here; None: the ledger knows all that it was told."""
        self._results: list[R] = []
        self._machine: PaymentStateMachine
        self._signed: Payment
        self._start: tuple[float, float]

    async def buy(self, call: MarketRequest[T], purchase: PurchaseIntent) -> R:
        """Continue the earlier payment for a purchase if there is one, else sign and submit one."""
        self._purchase = purchase

        def find() -> LedgerRow | None:
            self._seen = seen = self._authorizer.overview(purchase)
            self._quote = purchase.quote(seen.spending)
            refusal = total_refusal(purchase.amount, purchase.max_total, seen.run)
            if seen.row is None and refusal is not None:
                raise refusal  # before anything is requested
            return seen.row

        busy = "the same call is in progress and did not end before the deadline"
        elsewhere = "the same call is in progress in another process and did not end before the deadline"

        async def steps() -> None:
            while not self._results:  # again after another call was faster
                earlier = await self._take(find, elsewhere)
                if earlier is None or not await self._continue(earlier):
                    await self._sign(call, purchase)

        return await self._alone(steps, purchase.key, busy)

    async def resume(self, payment: Payment, find: Callable[[], LedgerRow]) -> R:
        """Continue a payment that `find` reads, without signing."""
        busy = f"another call is sending payment {payment.id}"

        async def steps() -> None:
            current = await self._take(find, busy, patient=False)
            if current is None or not await self._continue(current):  # it would have to be signed
                raise blocking_error(self._known or payment)

        return await self._alone(steps, call_key(payment.method, payment.url, payment.body), busy, payment)

    async def _alone(self, steps: AsyncAction[None], key: str, busy: str, payment: Payment | None = None) -> R:
        """The result of `steps`, while no other call of this client does the same. At the end, nothing stays claimed.

        If the call fails although it had the answer, the next equal call gets it.
        """
        lock, change = self._seller.locks.of(key), cast("Reopen | ReleaseClaim", ReleaseClaim(owner=self._owner))
        if not await lock.acquire(self._seller.session.deadline):
            raise _in_progress(busy, payment)
        try:
            await steps()
        except BaseException as error:
            if isinstance(error, LedgerError) and error.payment is None:
                error.payment = self._known
            if self._reply is not None:
                change = Reopen(owner=self._owner, reply=self._reply)
            raise
        finally:
            try:
                if self._row is not None and (self._row.owner == self._owner or isinstance(change, Reopen)):
                    await always_in_thread(partial(self._end, self._row, change))
            finally:
                lock.release()
        return self._results[-1]

    @property
    def _known(self) -> Payment | None:
        return None if self._row is None else self._row.payment

    def _end(self, row: LedgerRow, change: Reopen | ReleaseClaim) -> None:
        """Write down what a call that was canceled, or failed unexpectedly, knows of its submission."""
        try:
            if self._ending is not None:
                row, _ = self._authorizer.record(row, self._ending, self._owner, self._before)
        finally:
            self._authorizer.end(row, change)

    async def _take(self, find: Callable[[], LedgerRow | None], busy: str, *, patient: bool = True) -> LedgerRow | None:
        """The earlier payment that `find` finds, claimed. Waits, if `patient`, while another process works on it."""
        authorizer, pause = self._authorizer, 0.05
        while True:
            row, is_busy = await in_thread(partial(self._claim, find))
            payment = None if row is None else row.payment
            if not is_busy:
                if row is None or payment is None:
                    return None
                if payment.created > latest_end(self._clock.now()):
                    row = await self._redated(row)
                if payment.is_open and authorizer.next_step(payment) is not NextStep.RESEND:
                    await self._seller.sync_clock()  # whether it has expired depends on the service's time
                return row
            if not patient or self._clock.monotonic() + pause > self._give_up:
                raise _in_progress(busy, payment)
            await sleep(self._clock, pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _redated(self, row: LedgerRow) -> LedgerRow:
        """One that was created under a clock that was ahead counts as created now, unless this clock is behind.

        The service's time tells. Without it the payment stays as it is: a new purchase could be paid a second time.
        """
        authorizer = self._authorizer
        await self._seller.sync_clock()
        if not authorizer.is_right():
            return row
        change = Redate(owner=self._owner, now=self._clock.now())
        after = await in_thread(partial(authorizer.store.update, row.payment.id, change, row))
        if self._row is not None:
            self._row = after
        return after

    def _claim(self, find: Callable[[], LedgerRow | None]) -> tuple[LedgerRow | None, bool]:
        """The payment that `find` finds, claimed if this call can go on with it; True: another call has claimed it."""
        found, now = find(), self._clock.now()
        if found is None:
            return None, False
        payment = found.payment
        step = self._authorizer.next_step(payment)
        if step is NextStep.REFUSE or (step is NextStep.COLLECT and payment.purchase is not None):
            return found, False
        if not found.is_free_for(self._owner, now):
            return found, True
        if step is NextStep.SIGN:  # `Submit` claims it
            return found, False
        claim = Claim(owner=self._owner, until=now + LONGEST_CLAIM, now=now)
        try:
            claimed = self._authorizer.store.update(payment.id, claim, found)
        except BaseException as error:
            ended(self._owner)
            if isinstance(error, LedgerError):
                error.payment = payment
            raise
        if claimed.owner != self._owner:
            return found, True
        if claimed.payment != payment:  # another call has continued it meanwhile
            self._authorizer.end(claimed, ReleaseClaim(owner=self._owner))
            return found, True
        self._row = claimed
        return claimed, False

    async def _continue(self, earlier: LedgerRow) -> bool:
        """Get what an earlier payment bought: its answer is kept, or is sent for the same bytes. False: to be signed.

        The payment of a purchase must be within the limits of this call.
        """
        payment = earlier.payment
        match self._authorizer.next_step(payment):
            case NextStep.SIGN:
                return False
            case NextStep.REFUSE:
                raise blocking_error(payment)
            case NextStep.COLLECT:
                await always_in_thread(partial(self._collect, earlier))
                return True
            case step:
                if self._purchase is not None:
                    self._authorizer.check_existing(payment, self._purchase, self.quote)
                self._before = None
                self._begin(earlier, payment, expired=step is NextStep.ASK)
                return await self._submit(is_written=False)

    @property
    def quote(self) -> Quote:
        """The published price."""
        return cast("Quote", self._quote)

    def _collect(self, row: LedgerRow) -> None:
        """Return a stored answer. With a name, every call gets it."""
        payment = row.payment
        reply = payment.reply or b""
        data = self._seller.session.read(self._request, RawResponse(200, {}, reply))
        is_claimed = payment.purchase is None or self._keep
        shown = replace(payment, waits=False, reply=reply if self._keep else None) if is_claimed else payment
        result = MarketResult(
            data=data,
            quote=self.quote,
            payment=shown,
            receipt=payment.receipt,
            again=True,
            answered_at=payment.updated_at,
        )
        if is_claimed:
            self._reply = reply
        self._results.append(self._finish(result))
        if is_claimed:
            self._authorizer.end(row, self._collected())
            self._row = replace(row, owner=None)

    async def _sign(self, call: MarketRequest[T], purchase: PurchaseIntent) -> None:
        """Request an offer, pay as it says, and get the answer; nothing if another call was faster."""
        seller = self._seller
        found = await seller.offer(call, self.quote, self._give_up)
        if isinstance(found, MarketResult):
            self._results.append(self._finish(found))
            return
        if seller.check is not None:
            await seller.check.check(call, seller.session, self._give_up)
        # Before it is signed: waiting for the rate limit can take longer than a payment is valid.
        self._claim_held = await seller.paid.claim(self._request, self._give_up)
        try:
            is_signed = await in_thread(partial(self._authorize, purchase, found))
            if is_signed:
                await self._submit(is_written=True)
        finally:
            await self._return_claim()

    async def _return_claim(self) -> None:
        """Return a claim on the rate limit with which nothing was sent."""
        claim, self._claim_held = self._claim_held, None
        if claim is not None:
            await self._seller.paid.unanswered(claim, sent=False)

    def _authorize(self, purchase: PurchaseIntent, offer: Offer) -> bool:
        """Guards, budget, signature, ledger, in this order; False: another call was faster."""
        claimed, authorizer = self._row, self._authorizer
        seen = self._seen if claimed is None else replace(self._seen, row=claimed)
        submit = authorizer.signed(purchase, offer, seen, self._owner)
        # If writing it down fails, written or not, this signature was not handed over.
        self._before = submit.earlier or replace(submit.payment, header=None)
        self._begin(submit.written(seen.row), self._before)
        self._ending = self._machine.unsent("interrupted")
        try:
            row = authorizer.store.submit(submit)
        except PaymentRefusedError:
            self._row, self._ending = claimed, None
            raise
        except LedgerError as problem:
            problem.payment = self._before
            raise
        if row is None:
            self._row = self._ending = None
            if claimed is not None:  # its 10 minutes are over
                authorizer.end(claimed, ReleaseClaim(owner=self._owner))
            return False
        self._row, self._signed = row, row.payment
        return True

    def _begin(self, row: LedgerRow, before: Payment, *, expired: bool = False) -> None:
        """Begin to submit a payment: what was handed over `before` may have been taken.

        The bytes are the same every time. An `expired` one is sent for an answer that the service may have kept.
        """
        self._row, self._signed = row, row.payment  # `_signed` keeps its header, which the ledger deletes at the end
        self._machine = PaymentStateMachine(self._seller.paid.policy, row.payment, before, expired=expired)
        self._start = (self._authorizer.latest(), self._clock.monotonic())

    def _resubmit(self) -> None:
        purchase, now, payment = self._purchase, self._clock.now(), self._signed
        change = Resubmit(
            signatures=payment.signatures,
            owner=self._owner,
            run=None if purchase is None else purchase.run,
            max_total=None if purchase is None else purchase.max_total,
            now=now,
        )
        try:
            self._row = self._authorizer.store.update(payment.id, change, self._row)
            self._signed = self._row.payment
        except LedgerError as problem:
            raise self._ledger_failed(problem, f"the ledger cannot be written: {problem.message}") from problem
        except PaymentRefusedError as refused:
            if refused.payment is None or refused.payment.paid or not self._machine.in_doubt:
                raise
            raise in_doubt(refused.payment, "it was closed meanwhile") from refused
        self._ending = self._machine.unsent("interrupted")

    async def _submit(self, *, is_written: bool) -> bool:
        """Submit it, and resubmit it where that is right. False: it has expired, and the service kept no answer."""
        while True:
            if not is_written:
                await always_in_thread(self._resubmit)
            told = await self._send()
            report, wait = told.step.report, told.step.wait
            if told.response is not None and report.meaning is DELIVERED:
                await always_in_thread(partial(self._deliver, report, told.response.content, told.data))
                return True
            if wait is None:
                break
            if report.sent and (failed := await always_in_thread(partial(self._record, report.before_resending()))):
                why = f"{report.reason}; and the ledger failed: {failed.message}"
                raise self._ledger_failed(failed, why) from failed
            is_written = not report.sent
            self._ending = report if is_written or report.is_settled else None
            text = "payment %(payment_id)s: %(reason)s; resending it in %(wait).1f s"
            event("payment_resent", text, payment_id=self._signed.id, reason=report.reason, wait=wait)
            await sleep(self._clock, wait)
            if not self._machine.can_submit(self._latest()):  # the wait took longer than planned
                break
        ends = None if told.step.signs else ReleaseClaim(owner=self._owner)
        if self._ending is not None:
            await always_in_thread(partial(self._record, report, ends))
        if told.step.signs:
            return False
        raise self._final_error(told)

    def _latest(self) -> float:
        """The latest estimate of the service's time. Setting the clock back does not revive a payment."""
        latest, monotonic = self._start
        return max(self._authorizer.latest(), latest + self._clock.monotonic() - monotonic)

    async def _send(self) -> _Told[T]:
        """Submit it once. What comes of it is noted when it arrives, so that a cancellation does not lose it."""
        told: list[_Told[T]] = []
        request = self._request._replace(body=self._signed.body)  # its fields may have another order

        def arrived(response: RawResponse, problem: APIResponseError | None) -> None:
            told.append(self._answered(response, problem))

        paid = self._seller.paid
        try:
            self._claim_held = self._claim_held or await paid.claim(request, self._give_up)
            if not (self._machine.expired or self._machine.can_submit(self._latest())):  # it waited too long
                await self._return_claim()
                self._ending = self._machine.unsent("the rate limit had room only when its validity had ended")
                return _Told(Step(self._ending, signs=True))
            self._ending = replace(self._machine.unsent("interrupted"), meaning=OPEN, sent=True)
            claim, self._claim_held = self._claim_held, None
            await paid.exchange(request, self._give_up, self._signed, arrived, claim)
        except APIError as error:
            if not told:  # it was lost, or held back by the rate limit
                sent = isinstance(error, APIConnectionError) and error.sent
                report = classify_failure(failure_of(error), error.message, sent=sent)
                told.append(_Told(self._next(report), problem=error))
        except TradeError as unsent:  # the client is closed, for example
            self._ending = self._machine.unsent("interrupted")
            if self._machine.in_doubt:
                raise self._doubt(unsent.message) from unsent
            raise
        return told[0]

    def _answered(self, response: RawResponse, problem: APIError | None) -> _Told[T]:
        session, data = self._seller.paid, None
        self._authorizer.observe(response.headers)
        step = self._next(classify(response, Failure(FailureCause.STATUS, response.status, response.headers)))
        if not 200 <= response.status < 300:
            problem = session.refusal(self._request, response)
        elif problem is None:
            try:
                data = session.read(self._request, response)
            except APIResponseError as unusable:
                problem = unusable
        if problem is not None and step.report.meaning is DELIVERED:
            self._ending = replace(step.report, meaning=UNDELIVERED, reason=problem.message)
            step = Step(self._ending)
        return _Told(step, response, problem, data)

    def _next(self, report: Report) -> Step:
        now, time_left = self._clock.now(), self._give_up - self._clock.monotonic()
        step = self._machine.next(report.without(self._signed), at=self._latest(), now=now, time_left=time_left)
        self._ending = step.report
        return step

    def _collected(self) -> Collect | ReleaseClaim:
        """What the ledger is told when the caller gets the answer."""
        if self._seller.collect:
            return Collect(owner=self._owner, keep=self._keep)
        return ReleaseClaim(owner=self._owner)

    def _record(self, report: Report, ends: Collect | ReleaseClaim | None = None) -> LedgerError | None:
        """Write down what happened. Returns the error if the ledger fails: the caller must get the outcome then too."""
        row = self._row or LedgerRow(self._signed, self._owner)
        self._row, problem = self._authorizer.record(row, report, self._owner, self._before, ends)
        self._ending = None
        return problem

    def _deliver(self, report: Report, reply: bytes, data: Any) -> None:
        """Write down that the answer came, and that it is collected. A cancellation meanwhile undoes the latter."""
        self._reply = reply
        problem = self._record(report, self._collected())
        payment = cast("LedgerRow", self._row).payment
        warnings = receipt_warnings(report.receipt, payment)
        if problem is not None:
            warnings = (f"the delivery could not be written to the ledger: {problem.message}", *warnings)
        if report.receipt_problem is not None:
            warnings += (report.receipt_problem,)
        for warning in warnings:
            text = "payment %(payment_id)s: %(reason)s"
            event("payment_warning", text, payment_id=payment.id, reason=warning)
        is_kept = self._keep or payment.purchase is not None
        result: MarketResult[T] = MarketResult(
            data=data,
            quote=self.quote,
            payment=replace(payment, waits=False, reply=payment.reply if is_kept else None),
            receipt=report.receipt,
            warnings=warnings,
            answered_at=payment.updated_at,
        )
        self._results.append(self._finish(result))

    def _ledger_failed(self, problem: LedgerError, reason: str) -> TradeError:
        """The error if the ledger fails: nothing is resent. Only a payment in doubt may have been paid."""
        problem.payment = self._known
        return self._doubt(reason) if self._machine.in_doubt else problem

    def _doubt(self, reason: str) -> TradeError:
        """The error of a payment that may have been taken; with a receipt it was."""
        report = self._ending
        if report is not None and report.is_settled:
            self._record(report)
        payment = self._known or self._signed
        known = None if report is None else outcome_error(payment, replace(report, reason=reason), None)
        return known or in_doubt(payment, reason)

    def _final_error(self, told: _Told[T]) -> TradeError:
        report, problem, payment = told.step.report, told.problem, self._known or self._signed
        if problem is not None:  # as the cause of our error it has the same payment
            problem.payment = payment
            problem.retries = self._machine.resends
        error = outcome_error(payment, report, told.response)
        if error is not None:
            error.__cause__ = problem
            return error
        return problem or in_doubt(payment, report.reason, told.response)


def _in_progress(message: str, payment: Payment | None = None) -> PaymentRefusedError:
    look = "" if payment is None else f", then see client.payments.get({payment.id!r}) (trade pay show {payment.id})"
    return PaymentRefusedError(message, code="in_progress", hint=f"wait for that call to end{look}", payment=payment)
