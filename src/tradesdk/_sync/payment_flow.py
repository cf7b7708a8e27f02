# Generated from src/tradesdk/_async/payment_flow.py by scripts/unasync.py: change that file instead.
"""Buys an answer: gets the offer, has a payment authorized, submits it. `PaymentAuthorizer` decides what is allowed."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import ref

from .._http.log_events import log_fields, logger
from .._http.request import Request
from .._http.retry import Operation
from .._market import (
    MAX_SUPPORTED,
    MarketRequest,
    TokenNames,
    decode_by_path,
    is_sold,
    price,
    supported_tokens,
)
from .._values.http import RawResponse
from .._values.payment import Payment, PaymentState, origin_of
from ..errors import APIError, APIStatusError, ConfigError, LedgerError, PaymentRefusedError, TradeError
from ..payments.authorizer import PaymentAuthorizer
from ..payments.ledger.leases import owner_name
from ..payments.ledger.rules import kept_answer
from ..payments.messages import blocking_error
from ..payments.protocol import Offer, parse_offer
from ..payments.purchases import PurchaseIntent, call_key, item_name, purchase_name
from ..payments.results import DryRun, MarketResult, Quote
from ..payments.state_machine import PaymentStateMachine
from .concurrency import KeyedLock, Place, in_thread, run_uninterrupted, shielded, sleep
from .payment_submission import Submission, SubmissionContext

if TYPE_CHECKING:
    from .session import Session

T = TypeVar("T")
R = TypeVar("R")

_SUBMITTED = frozenset({PaymentState.SUBMITTED, PaymentState.PENDING, PaymentState.UNKNOWN, PaymentState.REJECTED_LIVE})
_LONGEST_PAUSE = 1.0
_TOKENS_VALID = 3600.0
"""Seconds that the list of tokens is used."""
_TOKENS_RETRY = 60.0
"""Seconds before it is read again after a failure, or for a symbol that is not in it."""
_TOKENS_WAIT = 10.0


class PaymentFlow:
    """How a market client pays. `session` sends requests without a payment, `paid` those with one."""

    def __init__(
        self,
        session: Session,
        paid: Session,
        authorizer: PaymentAuthorizer,
        *,
        reuse_offers: bool,
        check_tokens: bool,
    ) -> None:
        self.session = session
        self.paid = paid
        self.authorizer = authorizer
        self._reuse = reuse_offers
        self._offers: dict[tuple[str, int | None], Offer] = {}
        self._locks = KeyedLock()
        self._check = TokenCheck() if check_tokens else None

    def copy_with(self, change: Callable[[Session, bool], Session]) -> PaymentFlow:
        """A copy with other sessions. The second argument of `change` is True for the session of paid requests."""
        clone = copy.copy(self)
        clone.session = change(self.session, False)
        clone.paid = change(self.paid, True)
        return clone

    def quote(self, call: MarketRequest[Any], max_price: int | None = None) -> Quote:
        """The published price, and what the budgets leave."""
        purchase = self._purchase(call, max_price=max_price)
        return in_thread(lambda: self.authorizer.quote(purchase))

    def buy(
        self,
        call: MarketRequest[T],
        finish: Callable[[MarketResult[T]], R],
        *,
        max_price: int | None,
        purchase: str | None = None,
        job: str | None = None,
        run: str | None = None,
        max_total: int | None = None,
    ) -> R:
        """Buy an answer and return the result of `finish`. It is paid for only if the service requires that.

        If the call ends before its caller has the answer, the next equal call gets it. `purchase` is its name; each
        call of a `job` is named by the job and the request. All payments of a batch `run` together cost `max_total` at
        most.
        """
        intent = self._purchase(call, max_price=max_price, name=purchase, job=job)
        intent = replace(intent, run=run, max_total=max_total)
        if intent.amount == 0 or not self.authorizer.has_signer:
            quote = self.quote(call, max_price)
            found = self._request_offer(call, quote, self.session.clock.monotonic() + self.session.deadline)
            if isinstance(found, MarketResult):
                return finish(found)
            in_thread(lambda: self.authorizer.payer)  # raises: there is no signer
        finished: list[R] = []
        context = SubmissionContext(
            call.request,
            owner_name(),
            self._deadline(),
            paid=lambda result: finished.append(finish(result)),
            run=run,
            max_total=max_total,
        )
        lock, place = self._locks.of(intent.key), Place()
        try:
            if not lock.take(self.session.deadline, ref(place)):
                raise _in_progress("the same call is in progress and did not end before the deadline")
            bought = self._buy(call, intent, context)
            answer = finished[-1] if finished else finish(bought)
            lock.give_back(ref(place))
            return answer
        except BaseException as error:
            try:
                lock.give_back(ref(place))
            finally:
                del place  # a signal handler may raise there too, and its traceback may be kept
            self._roll_back(context, error)
            raise

    def recall(self, call: MarketRequest[T], job: str) -> MarketResult[T] | None:
        """The result that a job already has for a call, or None."""
        if not self.authorizer.has_signer:
            return None
        purchase = self._purchase(call, job=job)
        earlier, quote = in_thread(lambda: (self.authorizer.delivered(purchase), self.authorizer.quote(purchase)))
        if earlier is None or earlier.reply is None:
            return None
        return self._stored_result(call.request, quote, earlier)

    def dry_run(self, call: MarketRequest[Any], *, max_price: int | None, purchase: str | None) -> DryRun:
        """What would be signed."""
        intent = self._purchase(call, max_price=max_price, name=purchase)
        quote = in_thread(lambda: self.authorizer.quote(intent))
        give_up = self._deadline()
        found = self._request_offer(call, quote, give_up)
        offer = None if isinstance(found, MarketResult) else found
        plan = in_thread(lambda: self.authorizer.dry_run(intent, offer, quote))
        if self._check is not None and offer is not None and self.authorizer.has_signer and plan.existing is None:
            try:
                self._check.check(call, self.session, give_up)
            except PaymentRefusedError as error:
                return DryRun(quote=quote, refusal=error.with_traceback(None))
        return plan

    def resume(self, payment: Payment, finish: Callable[[MarketResult[Any]], R]) -> R:
        """Resend a payment, or read its stored answer. Returns the result of `finish`.

        Raises:
            PaymentError: it cannot be resent; the error says what is known.
            ConfigError: it is for another service than this client's.
        """
        base = self.session.base_url
        if payment.origin != origin_of(base) or not payment.url.startswith(base + "/"):
            raise ConfigError(f"payment {payment.id} is for {payment.origin}, and this client is for {base}")
        path = payment.url[len(base) :]
        if not is_sold(path):
            raise ConfigError(f"payment {payment.id} is for {payment.url}, and this client is for {base}")

        def decode(method: str, url: str, response: RawResponse) -> Any:
            return decode_by_path(path, method, url, response)

        request = Request(payment.method, path, decode, body=payment.body, operation=Operation.QUERY)
        spending = in_thread(
            lambda: self.authorizer.store.spending(self.authorizer.budget, now=self.session.clock.now())
        )
        context = SubmissionContext(request, owner_name(), self._deadline(), keep=True)
        context.quote = Quote(path=path, tokens=None, amount=payment.amount, spending=spending)
        lock, place = self._locks.of(call_key(payment.method, payment.url, payment.body)), Place()
        try:
            if not lock.take(self.session.deadline, ref(place)):
                raise _in_progress(f"another call is sending payment {payment.id}", payment)
            answer = finish(self._resume(payment, context))
            lock.give_back(ref(place))
            return answer
        except BaseException as error:
            try:
                lock.give_back(ref(place))
            finally:
                del place  # a signal handler may raise there too, and its traceback may be kept
            self._roll_back(context, error)
            raise

    def _resume(self, payment: Payment, context: SubmissionContext[Any]) -> MarketResult[Any]:
        in_thread(partial(self.authorizer.expire, payment.origin))
        current = in_thread(lambda: self.authorizer.store.get(payment.id)) or payment
        current = kept_answer(current, self.session.clock.now())
        if current.state is PaymentState.DELIVERED and current.reply is not None:
            result = self._stored_result(context.request, context.quote, current)
            context.answered = current
            close = partial(self.authorizer.close, current, context.owner, keep=True)
            run_uninterrupted(close)
            return result
        over = self.authorizer.is_renewable(current)
        if current.header is None or not (current.state in _SUBMITTED or over) or (over and not current.identified):
            raise blocking_error(current)
        delivered = (self._replay if over else self._resubmit)(context, current)
        if delivered is None:
            latest = in_thread(lambda: self.authorizer.store.get(payment.id)) or payment
            if self.authorizer.is_renewable(latest):
                raise blocking_error(latest)
            raise _in_progress(f"another call is sending payment {payment.id}", payment)
        return delivered

    def reopen(self, results: Sequence[MarketResult[Any]]) -> None:
        """Note that the caller of `resume` did not get these answers."""
        for payment in [result.payment for result in results]:
            if payment is not None:
                self._undo(partial(self.authorizer.reopen, payment, owner_name()))

    def sync_clock(self) -> None:
        """Learn the service's time from a free request. If that fails, the local clock is used."""
        free = supported_tokens(limit=1).request
        try:
            response = self.session.exchange(free, self._deadline())
        except APIError as error:
            extra = log_fields("service_time_unknown", error)
            logger.debug("the service's time is not known: %s", error, extra=extra)
        else:
            self.authorizer.observe(response.headers)

    def _deadline(self) -> float:
        return self.session.clock.monotonic() + self.session.deadline

    def _purchase(
        self,
        call: MarketRequest[Any],
        *,
        max_price: int | None = None,
        name: str | None = None,
        job: str | None = None,
    ) -> PurchaseIntent:
        request = call.request
        name = purchase_name(name) if job is None else item_name(job, request.path, request.body or b"")
        return PurchaseIntent(
            method=request.method,
            url=self.session.base_url + request.target,
            body=request.body or b"",
            path=request.path,
            tokens=call.tokens,
            amount=price(request.path, call.tokens or 0),
            max_price=max_price,
            name=name,
        )

    def _buy(self, call: MarketRequest[T], purchase: PurchaseIntent, context: SubmissionContext[T]) -> MarketResult[T]:
        clock, authorizer, give_up, pause = self.session.clock, self.authorizer, context.give_up, 0.05
        context.quote, existing = in_thread(lambda: (authorizer.quote(purchase), authorizer.existing(purchase)))
        replayed = False
        while True:
            if existing is not None and not authorizer.time.is_known and authorizer.is_over(existing):
                self.sync_clock()  # whether it has expired depends on the service's time
                existing = in_thread(partial(authorizer.existing, purchase))
            if existing is None or authorizer.is_renewable(existing):
                if existing is None and purchase.max_total is not None:
                    in_thread(partial(authorizer.check_total, purchase))
                if existing is not None and not replayed and authorizer.may_have_kept_answer(existing):
                    replayed = True
                    if (kept := self._replay(context, existing)) is not None:
                        return kept
                found = self._offer(call, purchase, context.quote, give_up)
                if isinstance(found, MarketResult):
                    return found
                if self._check is not None:
                    self._check.check(call, self.session, give_up)
                context.claimed = None  # `authorize` releases its own claim, also when this call is canceled
                authorize = partial(authorizer.authorize, purchase, found, context.owner)
                context.claimed = (prepared := in_thread(authorize, undo=self._cancel_unsent(context.owner))).payment
                if prepared.fresh:
                    result = Submission(self.paid, authorizer, context, prepared.payment, fresh=True).run()
                    if self._reuse:
                        self._offers[purchase.path, purchase.tokens] = found
                    return result
                existing = prepared.payment
            earlier: MarketResult[T] | None = None
            if existing.state is PaymentState.DELIVERED and existing.reply is not None:
                earlier = self._collect(context, existing)
            elif not authorizer.is_renewable(existing):  # else another call is about to sign it again
                if not existing.live:
                    raise blocking_error(existing)
                authorizer.check_existing(existing, purchase)
                context.claimed = existing
                if existing.state is not PaymentState.RESERVED:
                    earlier = self._resubmit(context, existing)
                elif in_thread(partial(authorizer.reclaim, existing, context.owner)):
                    existing = in_thread(partial(authorizer.existing, purchase))
                    continue
            if earlier is not None:
                return earlier
            # Another process has claimed it. Wait for its outcome: if that is unknown, this call continues.
            if clock.monotonic() + pause > give_up:
                raise _in_progress(
                    "the same call is in progress in another process and did not end before the deadline", existing
                )
            sleep(clock, pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            existing = in_thread(partial(authorizer.existing, purchase))

    def _collect(self, context: SubmissionContext[T], payment: Payment) -> MarketResult[T] | None:
        """Return a stored answer; None while another call has claimed it."""
        result = self._stored_result(context.request, context.quote, payment)
        if payment.purchase is not None:  # every call with that name gets it
            return result
        context.claimed, owner = payment, context.owner
        claim = partial(self.authorizer.claim_answer, payment, owner)
        if not in_thread(claim, undo=lambda _: self._release_claim(owner, payment)):
            return None
        context.answered = payment
        run_uninterrupted(partial(self.authorizer.close, payment, owner, keep=False))
        return replace(result, payment=replace(payment, reply=None))

    def _resubmit(self, context: SubmissionContext[T], payment: Payment) -> MarketResult[T] | None:
        """Resend an earlier payment; None while another call has claimed it, or if its state has changed."""
        context.claimed, owner = payment, context.owner
        current = in_thread(partial(self.authorizer.claim, payment, owner), undo=partial(self._release_claim, owner))
        if current is None:
            return None
        if current.state not in _SUBMITTED or current.header is None or self.authorizer.is_over(current):
            run_uninterrupted(partial(self._release_claim, owner, current))
            return None
        return Submission(self.paid, self.authorizer, context, current, fresh=False).run()

    def _replay(self, context: SubmissionContext[T], payment: Payment) -> MarketResult[T] | None:
        """Send an expired payment once more, as a service that keeps answers by identifier looks that up first.

        None: it has no answer, or another call has claimed the payment.
        """
        context.claimed, owner = payment, context.owner
        current = in_thread(partial(self.authorizer.claim, payment, owner), undo=partial(self._release_claim, owner))
        if current is None:
            return None
        # One that was never submitted has no kept answer, and until it expires it could be taken and not be counted.
        if not self.authorizer.is_renewable(current) or current.header is None or current.submissions == 0:
            run_uninterrupted(partial(self._release_claim, owner, current))
            return None
        return Submission(self.paid, self.authorizer, context, current, fresh=False).replay()

    def _roll_back(self, context: SubmissionContext[Any], error: BaseException) -> None:
        """Let other calls get the answer, or resend the payment, as this call failed."""
        if isinstance(error, LedgerError) and error.payment is None:
            error.payment = context.claimed
        if context.answered is not None:
            self._undo(partial(self.authorizer.reopen, context.answered, context.owner))
        elif context.claimed is not None and not isinstance(error, TradeError):
            self._undo(partial(self.authorizer.give_back, context.claimed.id, context.owner))

    def _undo(self, undo: Callable[[], None]) -> None:
        """Run `undo` to its end. A ledger that cannot be written does not hide the error that ends the call."""
        try:
            with shielded():
                run_uninterrupted(undo)
        except LedgerError as problem:
            extra = log_fields("ledger_failed", problem)
            logger.warning("a payment's answer or claim could not be released: %s", problem, extra=extra)

    def _release_claim(self, owner: str, payment: Payment | None) -> None:
        if payment is not None:
            self.authorizer.give_back(payment.id, owner)

    def _offer(
        self, call: MarketRequest[T], purchase: PurchaseIntent, quote: Quote, give_up: float
    ) -> Offer | MarketResult[T]:
        # Removed, and stored again after a success: an offer that the service no longer accepts is used once at most.
        known = self._offers.pop((purchase.path, purchase.tokens), None) if self._reuse else None
        return known or self._request_offer(call, quote, give_up)

    def _request_offer(self, call: MarketRequest[T], quote: Quote, give_up: float) -> Offer | MarketResult[T]:
        """The offer; the result itself if the answer is free."""
        try:
            data = self.session.call(call.request, give_up=give_up)
        except APIStatusError as refused:
            if refused.status != 402 or refused.response is None:
                raise
            self.authorizer.observe(refused.response.headers)
            return parse_offer(refused.response)
        return MarketResult(data=data, quote=quote, answered_at=datetime.fromtimestamp(self.session.clock.now(), UTC))

    def _stored_result(self, request: Request[T], quote: Quote, payment: Payment) -> MarketResult[T]:
        """The result of an earlier payment, from the ledger."""
        return MarketResult(
            data=self.session.read(request, RawResponse(200, {}, payment.reply or b"")),
            quote=quote,
            payment=payment,
            receipt=payment.receipt,
            again=True,
            answered_at=payment.updated_at,
        )

    def _cancel_unsent(self, owner: str) -> Any:
        """How to undo `authorize` if the call was canceled meanwhile: the payment was not sent."""
        authorizer = self.authorizer

        def undo(prepared: Any) -> None:
            if prepared.fresh:
                before = PaymentStateMachine(self.session.policy, prepared.payment, fresh=True)
                try:
                    authorizer.store.settle(
                        prepared.payment.id,
                        before.state_if_not_sent,
                        reason="cancelled before it was sent",
                        submissions=before.submissions,
                        signatures=prepared.payment.signatures,
                        owner=owner,
                        now=authorizer.clock.now(),
                    )
                finally:
                    authorizer.give_back(prepared.payment.id, owner)

        return undo


class TokenCheck:
    """Looks up symbols in the service's free list before anything is signed. Without a list, nothing is refused."""

    def __init__(self) -> None:
        self._names: TokenNames | None = None
        self._read_at = self._tried_at = -math.inf
        self._locks = KeyedLock()

    def check(self, call: MarketRequest[Any], session: Session, give_up: float) -> None:
        """Check the symbols of a request; read the list first if necessary.

        Raises:
            PaymentRefusedError: `unknown_token`.
        """
        lock, place = self._locks.of(""), Place()
        now = session.clock.monotonic()
        try:
            if not lock.take(min(max(give_up - now, 0.0), _TOKENS_WAIT), ref(place)):
                reason = "another call is reading the list of tokens"
                extra = log_fields("tokens_unchecked", reason=reason)
                logger.warning("the symbols were not checked: %s", reason, extra=extra)
                return
            now = session.clock.monotonic()
            unknown = self._unknown(call, now - self._read_at > _TOKENS_VALID)
            if unknown and now - self._tried_at > _TOKENS_RETRY:
                self._read_list(session, min(give_up, now + _TOKENS_WAIT))
                unknown = self._unknown(call, False)
        finally:
            lock.give_back(ref(place))
        if unknown and self._names is not None and self._read_at == self._tried_at:
            details = self._names.details(unknown)
            meant = f"did you mean {' or '.join(details.suggestions)}? " if details.suggestions else ""
            raise PaymentRefusedError(
                self._names.refusal(unknown),
                code="unknown_token",
                hint=f"{meant}a token that is not listed is bought by its address, or with check_tokens=False",
                details=details,
            )

    def _unknown(self, call: MarketRequest[Any], stale: bool) -> list[str]:
        names = TokenNames([], 0) if self._names is None or stale else self._names
        return names.unknown(call.to_look_up)

    def _read_list(self, session: Session, give_up: float) -> None:
        self._tried_at = session.clock.monotonic()
        try:
            found = session.attempt(supported_tokens(MAX_SUPPORTED).request, give_up)
        except APIError as error:
            extra = log_fields("tokens_unchecked", error)
            logger.warning(
                "the symbols were not checked, because the list of tokens cannot be read: %s", error, extra=extra
            )
        else:
            if len(found.tokens) >= max(1, min(found.total, MAX_SUPPORTED)):  # else the list is not complete
                self._names, self._read_at = TokenNames(found.tokens, found.total), self._tried_at


def _in_progress(message: str, payment: Payment | None = None) -> PaymentRefusedError:
    look = "" if payment is None else f", then see client.payments.get({payment.id!r}) (trade pay show {payment.id})"
    return PaymentRefusedError(message, code="in_progress", hint=f"wait for that call to end{look}", payment=payment)
