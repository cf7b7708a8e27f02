# Generated from src/tradesdk/_async/payment_flow.py by scripts/unasync.py: change that file instead.
"""Buys an answer: asks what it costs, has the payment prepared, hands it over. What is allowed is decided elsewhere."""

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
from ..payments.authorizer import PaymentAuthorizer, PurchaseIntent, call_key
from ..payments.ledger.leases import owner_name
from ..payments.messages import blocking_error
from ..payments.protocol import Offer, parse_offer
from ..payments.results import DryRun, MarketResult, Quote
from ..payments.state_machine import MARGIN
from .concurrency import KeyedLock, Place, in_thread, run_uninterrupted, shielded, sleep
from .payment_submission import Submission, SubmissionContext

if TYPE_CHECKING:
    from .session import Session

T = TypeVar("T")
R = TypeVar("R")

_SUBMITTED = frozenset({PaymentState.SUBMITTED, PaymentState.PENDING, PaymentState.UNKNOWN, PaymentState.REJECTED_LIVE})
_LONGEST_PAUSE = 1.0
_KEPT = 3600.0
"""Seconds that the list counts."""
_AGAIN = 60.0
"""Seconds after which it is read again for a symbol that it doesn't have, or because it could not be read."""
_PATIENCE = 10.0


class PaymentFlow:
    """How a market client pays. `paid` sends requests with a payment, `calls` those without."""

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
        self._turns = KeyedLock()
        self._check = TokenCheck() if check_tokens else None

    def copy_with(self, change: Callable[[Session, bool], Session]) -> PaymentFlow:
        """A copy whose requests are sent by other settings; `change` is told which of them carry a payment."""
        twin = copy.copy(self)
        twin.session = change(self.session, False)
        twin.paid = change(self.paid, True)
        return twin

    def quote(self, asked: MarketRequest[Any], max_price: int | None = None) -> Quote:
        """The published price, and what the budgets leave."""
        purchase = self._purchase(asked, max_price=max_price)
        return in_thread(lambda: self.authorizer.quote(purchase))

    def buy(
        self,
        asked: MarketRequest[T],
        finish: Callable[[MarketResult[T]], R],
        *,
        max_price: int | None,
        new_purchase: bool,
        job: str | None,
    ) -> R:
        """What `finish` makes of the answer, which is paid for when the service wants that.

        Whatever ends the call before its caller has the answer puts it back: the next equal call gets it.
        """
        purchase = self._purchase(asked, max_price=max_price, new_purchase=new_purchase, job=job)
        if purchase.amount == 0 or not self.authorizer.can_pay:
            quote = self.quote(asked, max_price)
            found = self._ask(asked, quote, self.session.clock.monotonic() + self.session.deadline)
            if isinstance(found, MarketResult):
                return finish(found)
            _ = self.authorizer.payer  # says that there is no signer
        given: list[R] = []
        context = SubmissionContext(
            asked.request, owner_name(), self._give_up(), job=job, paid=lambda result: given.append(finish(result))
        )
        turn, place = self._turns.of(purchase.key), Place()
        try:
            if not turn.take(self.session.deadline, ref(place)):
                raise _busy("the same call is under way and has not ended in time")
            bought = self._buy(asked, purchase, context)
            finished = given[-1] if given else finish(bought)
            turn.give_back(ref(place))
            return finished
        except BaseException as error:
            try:
                turn.give_back(ref(place))
            finally:
                del place  # a signal's handler may raise there as well, and somebody keep the traceback
            self._open_again(context, error)
            raise

    def recall(self, asked: MarketRequest[T], job: str) -> MarketResult[T] | None:
        """What a job has got already for a call; None when it has nothing."""
        if not self.authorizer.can_pay:
            return None
        purchase = self._purchase(asked, job=job)
        earlier, quote = in_thread(lambda: (self.authorizer.delivered(purchase), self.authorizer.quote(purchase)))
        if earlier is None or earlier.reply is None:
            return None
        return self._again(asked.request, quote, earlier)

    def dry_run(self, asked: MarketRequest[Any], *, max_price: int | None) -> DryRun:
        """What would be signed."""
        purchase = self._purchase(asked, max_price=max_price)
        quote = in_thread(lambda: self.authorizer.quote(purchase))
        found = self._ask(asked, quote, self.session.clock.monotonic() + self.session.deadline)
        offer = None if isinstance(found, MarketResult) else found
        return in_thread(lambda: self.authorizer.dry_run(purchase, offer, quote))

    def resume(self, payment: Payment, finish: Callable[[MarketResult[Any]], R]) -> R:
        """Hand a payment over once more: what `finish` makes of the answer, or of what was kept of it.

        Raises:
            PaymentError: it cannot be handed over any more; it says what is known.
            ConfigError: it belongs to another service than this client's.
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
        context = SubmissionContext(request, owner_name(), self._give_up(), keep=True)
        context.quote = Quote(path=path, tokens=None, amount=payment.amount, spending=spending)
        turn, place = self._turns.of(call_key(payment.method, payment.url, payment.body)), Place()
        try:
            if not turn.take(self.session.deadline, ref(place)):
                raise _busy(f"payment {payment.id} is being handed over by somebody else", payment)
            given = finish(self._resume(payment, context))
            turn.give_back(ref(place))
            return given
        except BaseException as error:
            try:
                turn.give_back(ref(place))
            finally:
                del place  # a signal's handler may raise there as well, and somebody keep the traceback
            self._open_again(context, error)
            raise

    def _resume(self, payment: Payment, context: SubmissionContext[Any]) -> MarketResult[Any]:
        in_thread(partial(self.authorizer.expire, payment.origin))
        current = in_thread(lambda: self.authorizer.store.get(payment.id)) or payment
        if current.state is PaymentState.DELIVERED and current.reply is not None:
            result = self._again(context.request, context.quote, current)
            context.answered = current
            close = partial(self.authorizer.close, current, context.owner, keep=True, job=None)
            run_uninterrupted(close)
            return result
        if current.state not in _SUBMITTED or current.header is None:
            raise blocking_error(current)
        delivered = self._hand_over(context, current)
        if delivered is None:
            raise _busy(f"payment {payment.id} is being handed over by somebody else", payment)
        return delivered

    def open_again(self, results: Sequence[MarketResult[Any]]) -> None:
        """The caller of `resume` does not get these answers after all."""
        for payment in [result.payment for result in results]:
            if payment is not None:
                self._undone(partial(self.authorizer.reopen, payment, owner_name()))

    def look_at_the_clock(self) -> None:
        """Learn the service's time from what is free. Without an answer the local clock has to do."""
        free = supported_tokens(limit=1).request
        try:
            response = self.session.exchange(free, self._give_up())
        except APIError as error:
            extra = log_fields("service_time_unknown", error)
            logger.debug("the service's time is not known: %s", error, extra=extra)
        else:
            self.authorizer.observe(response.headers)

    def _give_up(self) -> float:
        return self.session.clock.monotonic() + self.session.deadline

    def _purchase(
        self,
        asked: MarketRequest[Any],
        *,
        max_price: int | None = None,
        new_purchase: bool = False,
        job: str | None = None,
    ) -> PurchaseIntent:
        request = asked.request
        return PurchaseIntent(
            method=request.method,
            url=self.session.base_url + request.target,
            body=request.body or b"",
            path=request.path,
            tokens=asked.tokens,
            amount=price(request.path, asked.tokens or 0),
            max_price=max_price,
            new_purchase=new_purchase,
            job=job,
        )

    def _buy(self, asked: MarketRequest[T], purchase: PurchaseIntent, context: SubmissionContext[T]) -> MarketResult[T]:
        clock, authorizer, give_up, pause = self.session.clock, self.authorizer, context.give_up, 0.05
        context.quote, existing = in_thread(
            lambda: (authorizer.quote(purchase), authorizer.delivered(purchase) or authorizer.existing(purchase))
        )
        while True:
            if existing is None:
                found = self._offer(asked, purchase, context.quote, give_up)
                if isinstance(found, MarketResult):
                    return found
                if self._check is not None:
                    self._check.check(asked, self.session, give_up)
                authorize = partial(authorizer.authorize, purchase, found, context.owner)
                context.claimed = (prepared := in_thread(authorize, undo=self._unsent(context.owner))).payment
                if prepared.fresh:
                    fresh = PaymentState.RESERVED
                    result = Submission(self.paid, authorizer, context, prepared.payment, fresh).run()
                    if self._reuse:
                        self._offers[purchase.path, purchase.tokens] = found
                    return result
                existing = prepared.payment
            if not authorizer.time.is_known and authorizer.is_over(existing):
                self.look_at_the_clock()  # only the service can tell whether its money is free
                existing = in_thread(lambda: authorizer.existing(purchase))
                if existing is None:
                    continue
            if existing.state is PaymentState.DELIVERED and existing.reply is not None:
                again = self._pick_up(context, existing)
            elif not existing.live:
                raise blocking_error(existing)
            else:
                authorizer.check_existing(existing, purchase)
                context.claimed = existing
                if existing.header is not None:
                    again = self._hand_over(context, existing)
                elif in_thread(partial(authorizer.reclaim, existing, context.owner)):
                    existing = in_thread(lambda: authorizer.existing(purchase))
                    continue
                else:
                    again = None
            if again is not None:
                return again
            # Another process works on it. Its outcome is ours as well: it may be in doubt, and then this call goes on.
            if clock.monotonic() + pause > give_up:
                raise _busy("the same call is under way in another process and has not ended in time", existing)
            sleep(clock, pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            existing = in_thread(lambda: authorizer.existing(purchase))

    def _pick_up(self, context: SubmissionContext[T], payment: Payment) -> MarketResult[T] | None:
        """An answer that is there already; None while somebody else gets it, who may not get it in the end."""
        result = self._again(context.request, context.quote, payment)
        if payment.job is not None:  # whoever asks for the job gets it
            return result
        context.claimed, owner = payment, context.owner
        claim = partial(self.authorizer.claim_answer, payment, owner)
        if not in_thread(claim, undo=lambda _: self._untake(owner, payment)):
            return None
        context.answered = payment
        run_uninterrupted(partial(self.authorizer.close, payment, owner, keep=False, job=context.job))
        shown = replace(payment, job=context.job, reply=None if context.job is None else payment.reply)
        return replace(result, payment=shown)

    def _hand_over(self, context: SubmissionContext[T], payment: Payment) -> MarketResult[T] | None:
        """Hand an earlier payment over once more; None while somebody else does, or when it has moved on."""
        context.claimed, owner = payment, context.owner
        current = in_thread(partial(self.authorizer.claim, payment, owner), undo=partial(self._untake, owner))
        if current is None:
            return None
        if current.state not in _SUBMITTED or current.header is None:
            run_uninterrupted(partial(self._untake, owner, current))
            return None
        if self.authorizer.latest() + MARGIN >= current.valid_before:
            run_uninterrupted(partial(self._untake, owner, current))
            raise blocking_error(current)
        return Submission(self.paid, self.authorizer, context, current, current.state).run()

    def _open_again(self, context: SubmissionContext[Any], error: BaseException) -> None:
        """The caller does not get the answer, so that somebody else may, or hand the payment over."""
        if isinstance(error, LedgerError) and error.payment is None:
            error.payment = context.claimed
        if context.answered is not None:
            self._undone(partial(self.authorizer.reopen, context.answered, context.owner))
        elif context.claimed is not None and not isinstance(error, TradeError):
            self._undone(partial(self.authorizer.give_back, context.claimed.id, context.owner))

    def _undone(self, undo: Callable[[], None]) -> None:
        """What ends the call is worth more than a ledger that cannot be written."""
        try:
            with shielded():
                run_uninterrupted(undo)
        except LedgerError as problem:
            extra = log_fields("ledger_failed", problem)
            logger.warning("a payment's answer or its claim could not be given back: %s", problem, extra=extra)

    def _untake(self, owner: str, payment: Payment | None) -> None:
        if payment is not None:
            self.authorizer.give_back(payment.id, owner)

    def _offer(
        self, asked: MarketRequest[T], purchase: PurchaseIntent, quote: Quote, give_up: float
    ) -> Offer | MarketResult[T]:
        # Taken out, and put back after a success: one that the service takes no longer is used once at most.
        known = self._offers.pop((purchase.path, purchase.tokens), None) if self._reuse else None
        return known or self._ask(asked, quote, give_up)

    def _ask(self, asked: MarketRequest[T], quote: Quote, give_up: float) -> Offer | MarketResult[T]:
        """What the answer costs; the answer itself when it costs nothing."""
        try:
            data = self.session.call(asked.request, give_up=give_up)
        except APIStatusError as refused:
            if refused.status != 402 or refused.response is None:
                raise
            self.authorizer.observe(refused.response.headers)
            return parse_offer(refused.response)
        return MarketResult(data=data, quote=quote, answered_at=datetime.fromtimestamp(self.session.clock.now(), UTC))

    def _again(self, request: Request[T], quote: Quote, payment: Payment) -> MarketResult[T]:
        """What an earlier payment brought, from the ledger."""
        return MarketResult(
            data=self.session.read(request, RawResponse(200, {}, payment.reply or b"")),
            quote=quote,
            payment=payment,
            receipt=payment.receipt,
            again=True,
            answered_at=payment.updated_at,
        )

    def _unsent(self, owner: str) -> Any:
        """What to do with a payment that was prepared for a call that is gone: nothing of it has left."""
        authorizer = self.authorizer

        def undo(prepared: Any) -> None:
            if prepared.fresh:
                try:
                    authorizer.store.settle(
                        prepared.payment.id,
                        PaymentState.REJECTED_LIVE,
                        reason="cancelled before it was sent",
                        submissions=0,
                        now=authorizer.clock.now(),
                    )
                finally:
                    authorizer.give_back(prepared.payment.id, owner)

        return undo


class TokenCheck:
    """Looks up symbols in the service's free list. A list that cannot be read holds nothing up."""

    def __init__(self) -> None:
        self._names: TokenNames | None = None
        self._read = self._tried = -math.inf
        self._turns = KeyedLock()

    def check(self, asked: MarketRequest[Any], session: Session, give_up: float) -> None:
        """Ask for the list where it is needed.

        Raises:
            PaymentRefusedError: a symbol is not in it.
        """
        turn, place = self._turns.of(""), Place()
        now = session.clock.monotonic()
        try:
            if not turn.take(min(max(give_up - now, 0.0), _PATIENCE), ref(place)):
                reason = "another call is still reading the list of tokens"
                extra = log_fields("tokens_unchecked", reason=reason)
                logger.warning("the symbols were not checked: %s", reason, extra=extra)
                return
            now = session.clock.monotonic()
            unknown = self._unknown(asked, now - self._read > _KEPT)
            if unknown and now - self._tried > _AGAIN:
                self._ask(session, min(give_up, now + _PATIENCE))
                unknown = self._unknown(asked, False)
        finally:
            turn.give_back(ref(place))
        if unknown and self._names is not None and self._read == self._tried:
            details = self._names.details(unknown)
            meant = f"did you mean {' or '.join(details.suggestions)}? " if details.suggestions else ""
            raise PaymentRefusedError(
                self._names.refusal(unknown),
                code="unknown_token",
                hint=f"{meant}a token that is not listed is bought by its address, or with check_tokens=False",
                details=details,
            )

    def _unknown(self, asked: MarketRequest[Any], stale: bool) -> list[str]:
        names = TokenNames([], 0) if self._names is None or stale else self._names
        return names.unknown(asked.to_look_up)

    def _ask(self, session: Session, give_up: float) -> None:
        self._tried = session.clock.monotonic()
        try:
            found = session.attempt(supported_tokens(MAX_SUPPORTED).request, give_up)
        except APIError as error:
            extra = log_fields("tokens_unchecked", error)
            logger.warning(
                "the symbols were not checked, because the list of tokens cannot be read: %s", error, extra=extra
            )
        else:
            if len(found.tokens) >= max(1, min(found.total, MAX_SUPPORTED)):  # else it is no list to judge by
                self._names, self._read = TokenNames(found.tokens, found.total), self._tried


def _busy(message: str, payment: Payment | None = None) -> PaymentRefusedError:
    look = "" if payment is None else f": client.payments.get({payment.id!r}), or: trade pay show {payment.id}"
    return PaymentRefusedError(
        message, code="in_progress", hint=f"wait for that call to end, then look again{look}", payment=payment
    )
