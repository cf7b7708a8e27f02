"""How a purchase runs, from a look into the ledger to the answer. One generator; no I/O.

`purchase` yields effects. It is sent their results, or their errors are thrown in: an error, or `Ended`. A driver
carries the effects out: `_async.purchase_driver` and its blocking twin.

| step   | effect            | what is done                                                            | durable |
|--------|-------------------|-------------------------------------------------------------------------|---------|
| look   | `Look`            | one read: the earlier payment for the purchase, sums, settings          |         |
| wallet | `Balance`         | its money by a node: at first, and while the service calls it empty     |         |
| ask    | `Ask`             | the offer, by a request without a payment; its symbols are looked up    |         |
| guard  | `Prove`           | offer, price, recipient, and the budgets by the sums just read          |         |
| slot   | `Slot`            | a place in the rate limit; its wait may outlive a validity              |         |
| sign   | `Sign`            | in memory, outside of every lock                                        |         |
| submit | `Write`           | `Submit` or `Resubmit`: decided again, claimed, written down            | 1       |
| verify | `Verify`          | a contract wallet, by a node: whether it accepts the signature          |         |
| send   | `Send`            | the bytes                                                               |         |
| record | `Write`           | `Record`: what the answer means; the end of the claim; collected        | 2       |

Nothing is reserved: a signature that was not written down has not left this process or the signer. If a budget refuses,
at guard or submit, the call asks the witness once, and looks again if that proved anything.

Who waits: the driver for an equal call of this client, `Sleep` for one of another process and before a resend, `Slot`
for the rate limit. Who may write: the call that has claimed the payment (`row.owner`). `Submit` and `Resubmit` claim
it, `Record` ends that. The call keeps its row; if the payment has changed since, a `Write` returns the new row, not
`mine`.

A cancellation is thrown in at an effect. A `Write` is never interrupted: its result is sent in, and the cancellation is
thrown in at the next effect. The last one is `HandOver`: after it the caller has the answer. If a canceled call gets an
answer, it is written down and not collected. A slot is given back unless a `Send` follows it. When the process is
killed, nothing more is written, and the next call sees what is in the ledger.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from .._http.log_events import event
from .._http.retry import RetryPolicy
from .._http.service_time import Moment
from .._market import token_warnings
from .._values.http import RawResponse
from .._values.payment import Payment
from ..errors import APIError, APIResponseError, LedgerError, PaymentError, PaymentRefusedError, TradeError
from .buyer import Buyer, PurchaseIntent, Terms, check_earlier, check_wallet, drafted, guarded, owner_name
from .effects import (
    Answer,
    Ask,
    Balance,
    Ended,
    HandOver,
    Look,
    Prove,
    Send,
    Sign,
    Sleep,
    Slot,
    Steps,
    Sync,
    Verify,
    Write,
)
from .ledger.changes import LedgerRow, Overview, Record, Redate, Resubmit
from .ledger.claims import LONGEST_CLAIM
from .ledger.rules import NextStep, latest_end, next_step, refusal, total_refusal
from .messages import blocking_error, in_progress, outcome_error, purchase_changed, signature_refused
from .protocol import authorization, parse_offer, receipt_warnings
from .results import DryRun, MarketResult
from .state_machine import MARGIN, OPEN, Report, Tries, classify, classify_failure

_POLL = 0.5
"""Seconds between two looks at a payment on which another process works."""


def purchase(buyer: Buyer, intent: PurchaseIntent, policy: RetryPolicy, give_up: float) -> Steps[MarketResult[Any]]:
    """Get an answer and pay for it once: buy it, continue an earlier payment, or resume one.

    `give_up` is a monotonic time.
    """
    clock, time, request, resumed, owner = buyer.clock, buyer.time, intent.call.request, intent.resumed, owner_name()
    keep = resumed is not None
    at: Moment  # now, by all clocks
    row: LedgerRow  # the payment as this call knows it
    tries: Tries  # what this call knows of its signature
    is_sending = False  # whether this call sends it, or is about to
    until: float  # the monotonic time at which its validity ends: setting the clock back does not make it longer
    lost: APIError | None = None  # the error of the last submission
    data: Any = None  # what the answer contains
    reply: bytes | None = None  # the answer for the caller
    resent: tuple[str, int] | None = None  # the expired signature that was resent: the service keeps no answer for it
    proves = True  # whether a refusal by a budget may still ask the witness
    since = math.inf  # an unnamed payment signed before this time is another purchase; one signed by this call never is

    def record(report: Report | None, collected: bool | None = None) -> Steps[None]:
        nonlocal row
        change = Record(
            report=report,
            signatures=row.payment.signatures,
            before=tries.before if is_sending else None,
            empty=seen.empty,
            collected=collected,
            keep=keep,
            reply=reply,
            owner=owner,
            now=at.local,
        )
        row = yield Write(row, change)

    def hand_over(data: Any, warnings: tuple[str, ...], *, again: bool = False) -> Steps[MarketResult[Any]]:
        yield HandOver()
        payment, warnings = row.payment, warnings + token_warnings(request.target, request.body or b"", data)
        if row.unwritten is not None:
            warnings = (f"the delivery could not be written to the ledger: {row.unwritten.message}", *warnings)
        for warning in warnings if not again else ():
            event("payment_warning", "payment %(payment_id)s: %(reason)s", payment_id=payment.id, reason=warning)
        return MarketResult(
            data=data,
            quote=intent.quote(seen),
            payment=payment,
            receipt=payment.receipt,
            warnings=warnings,
            again=again,
            answered_at=datetime.fromtimestamp(payment.updated, UTC),
        )

    def check_nonce(found: LedgerRow | None) -> None:
        """A call signs no second nonce, even if somebody has closed the payment that it sends."""
        if is_sending and (found is None or found.payment.id != row.payment.id):
            raise blocking_error(row.payment)

    def is_late() -> bool:
        """Whether verifiers would refuse the payment, as too little of its validity is left."""
        left = min(row.payment.valid_before - at.latest, until - at.monotonic)
        return left <= MARGIN and not tries.expired

    def close(error: Exception) -> Steps[None]:
        """Write down what is known when the call ends with an error. The next equal call gets an unread answer.

        If the payment may have been taken, and the error does not say so, raise one that does.
        """
        nonlocal at
        at, report = time.moment(clock), tries.end() if is_sending else None
        if report is not None and isinstance(error, Ended) and error.is_sent:
            report = replace(report, meaning=OPEN if report.meaning.refused else report.meaning, sent=True)
        if reply is not None or (is_sending and row.owner == owner):
            yield from record(report, None if reply is None else False)
        says_so = isinstance(error, PaymentError) and not isinstance(error, LedgerError)
        if report is None or says_so or not isinstance(error, TradeError):
            return
        if isinstance(error, APIError | LedgerError):
            error.payment = row.payment
        if isinstance(error, APIError):
            error.retries = max(0, len(tries.reports) - 1)
        if error is not lost:
            report = replace(report, reason=error.message)
        known = outcome_error(row.payment, report, getattr(error, "response", None))
        if known is not None and (error is lost or tries.in_doubt):
            raise known from error

    try:
        while True:
            # Look.
            at = time.moment(clock)
            seen: Overview = yield Look(at, since)
            found, step = seen.row, NextStep.SIGN
            check_nonce(found)
            since, is_sending = seen.lookup.since, False
            if found is None and resumed is not None:
                found = LedgerRow(resumed)  # the payment is missing: the database was restored from a backup
            if found is None:
                most = intent.max_total
                if most is not None and (over := total_refusal(intent.call.price, most, seen.run)) is not None:
                    raise over  # before anything is requested
            else:
                payment = found.payment
                if resumed is None and not intent.is_for(payment):
                    raise purchase_changed(payment)
                step = next_step(payment, at.latest + MARGIN)
                is_ready = step is NextStep.REFUSE or (step is NextStep.COLLECT and payment.purchase is not None)
                if not (is_ready or found.is_free_for(owner, at.local)):  # another call works on it
                    if keep or at.monotonic + _POLL > give_up:
                        raise in_progress(payment, is_resumed=keep, where=" in another process")
                    yield Sleep(_POLL)
                    continue
                is_early = payment.created > latest_end(at.local)
                if (is_early or (payment.is_open and step is not NextStep.RESEND)) and not at.is_known:
                    yield Sync()  # only the service's time can tell
                    at = time.moment(clock)
                    step = next_step(payment, at.latest + MARGIN)
                if is_early and time.agrees(at):
                    # It was created by a clock that was ahead. If the service's time is unknown, it stays: a new
                    # purchase could be paid a second time.
                    found = yield Write(found, Redate(owner=owner, now=at.local))
                    payment = found.payment
                if step is NextStep.ASK and resent == (payment.id, payment.signatures):
                    step = NextStep.SIGN
                if step is NextStep.REFUSE or (step is NextStep.SIGN and resumed is not None):
                    raise blocking_error(payment)
                if step is NextStep.COLLECT:
                    row, kept = found, payment.reply or b""
                    data = request.decode(request.method, intent.url, RawResponse(200, {}, kept))
                    is_ours = payment.purchase is None or keep  # with a name, every call gets it
                    reply = kept if is_ours else None
                    if is_ours and payment.waits and buyer.collect:
                        yield from record(None, collected=True)
                        if not row.mine:  # another call was faster
                            reply = None
                            continue
                    return (yield from hand_over(data, (), again=True))

            if found is None or step is NextStep.SIGN:
                # Is there money? Ask, guard, take a slot, sign, submit.
                funded, earlier = False, None if found is None else found.payment
                submit = submitted = None
                if seen.empty is not None or buyer.asks_balance:
                    funded = check_wallet(buyer, intent, seen, (yield Balance()))
                answer: Answer = yield Ask()
                at = time.moment(clock, answer.response.headers)
                if answer.response.status != 402:
                    answered_at = datetime.fromtimestamp(at.local, UTC)
                    return MarketResult(data=answer.data, quote=intent.quote(seen), answered_at=answered_at)
                terms = guarded(buyer, intent, seen, parse_offer(answer.response), funded=funded)
                amount, run = int(terms.requirement.amount), seen.run if earlier is None else None
                refused = refusal(amount, earlier, seen.sums, seen.limits, max_total=intent.max_total, run=run)
                if refused is None:
                    yield Slot(terms)
                    submit = yield Sign(terms, owner)
                    try:
                        submitted = yield Write(seen.row, submit)
                    except PaymentRefusedError as problem:  # nothing was written
                        refused = problem
                    except LedgerError as problem:
                        problem.payment = earlier or submit.payment  # written or not, this signature was not sent
                        raise
                if refused is not None:
                    asks, proves = proves, False
                    if not (asks and (yield Prove(terms, refused))):
                        raise refused
                if submit is None or submitted is None:  # another call was faster, or there may be room now
                    continue
                row, before = submitted, earlier or submit.payment
            else:
                row, before = found, found.payment
                if resumed is None:
                    check_earlier(buyer, intent, row.payment, seen.limits, at)
            tries, is_sending = Tries(before, expired=step is NextStep.ASK), True
            until = at.monotonic + row.payment.valid_before - at.latest
            if row.owner == owner and buyer.has_node and buyer.is_contract:
                tries.shown = True  # if the call ends here, a node may have it
                tries.shown, why_not = yield Verify(row.payment)
                if why_not is not None:
                    yield from record(tries.end(why_not))
                    raise signature_refused(row.payment, why_not)

            while True:  # until the outcome is known or time is up; `break`: look again
                if row.owner != owner or tries.reports:
                    # Take a slot, and write down that the same bytes are sent.
                    yield Slot(row.payment)
                    at = time.moment(clock)
                    if is_late():  # the wait was too long
                        if row.owner == owner:
                            yield from record(tries.end())
                        break
                    if row.owner != owner or tries.end().sent:  # else it is written already
                        resubmit = Resubmit(
                            signatures=row.payment.signatures,
                            owner=owner,
                            until=at.local + LONGEST_CLAIM,
                            run=intent.run,
                            max_total=intent.max_total,
                            now=at.local,
                        )
                        row = yield Write(row, resubmit)
                        if not row.mine:  # another call was faster
                            break
                # Send.
                payment, at = row.payment, time.moment(clock)
                if is_late():  # writing took too long
                    yield from record(tries.end("it was written down when its validity had ended"))
                    break
                try:
                    answer = yield Send(payment)
                except APIError as error:
                    report, lost, at = classify_failure(error), error, time.moment(clock)
                else:
                    lost, at = answer.problem, time.moment(clock, answer.response.headers)
                    if lost is None:
                        try:
                            data = request.decode(request.method, intent.url, answer.response)
                        except APIResponseError as unusable:
                            lost = unusable
                    report = classify(answer.response, lost)
                # Record what that means.
                time_left = min(give_up, until) - at.monotonic
                wait = tries.judge(report, payment, policy, at, time_left)
                end = tries.reports[-1]
                if lost is None:
                    reply = end.reply
                    yield from record(end, True if buyer.collect else None)
                    warnings = receipt_warnings(end.receipt, payment, end.receipt_problem)
                    return (yield from hand_over(data, warnings))
                if wait is not None:
                    text = "payment %(payment_id)s: %(reason)s; resending it in %(wait).1f s"
                    event("payment_resent", text, payment_id=payment.id, reason=end.reason, wait=wait)
                    yield Sleep(wait)
                    at = time.moment(clock)
                    if not is_late():  # if it is, the wait took longer than planned
                        continue
                yield from record(end)
                if next_step(row.payment, at.latest) is NextStep.COLLECT:  # another call got it
                    break
                if not tries.signs:
                    raise lost
                resent = (payment.id, payment.signatures)
                break
    except Exception as error:  # ours, or `Ended`
        yield from close(error)
        raise


def dry_run(buyer: Buyer, intent: PurchaseIntent, policy: RetryPolicy, give_up: float) -> Steps[DryRun]:
    """What a purchase would send. It runs until it would take a slot or write, and stops there."""
    steps = purchase(buyer, intent, policy, give_up)
    seen: Overview = yield next(steps)
    plan = DryRun(quote=intent.quote(seen), existing=None if seen.row is None else seen.row.payment)
    if seen.row is not None:  # a call that works on it would change nothing here
        seen = replace(seen, row=replace(seen.row, owner=None))
    try:
        effect = steps.send(seen)
        while not isinstance(effect, Prove | Slot | Write):
            effect = steps.send((yield effect))
        match effect:
            case Slot(Payment() as payment):
                return replace(plan, authorization=authorization(payment))
            case Slot(Terms() as terms) | Prove(terms):
                fields = authorization(drafted(buyer, intent, terms))
                if intent.name is not None and seen.row is None:
                    del fields["nonce"]  # only the key can compute it
                refused = effect.refused if isinstance(effect, Prove) else None
                return replace(plan, authorization=fields, requirement=terms.requirement.raw, refusal=refused)
        return plan  # the answer is in the ledger
    except StopIteration as done:
        return DryRun(quote=done.value.quote, existing=done.value.payment)
    except PaymentError as error:
        shown = None if error.payment is None else authorization(error.payment)
        return replace(plan, authorization=shown, existing=error.payment, refusal=error.with_traceback(None))
    finally:
        steps.close()
