"""Buys an answer: gets the offer, has a payment authorized, submits it. `PaymentAuthorizer` decides what is allowed."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from .._http.log_events import event
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
from .._values.payment import Payment, PaymentStage, origin_of
from ..errors import APIError, APIStatusError, ConfigError, LedgerError, PaymentRefusedError
from ..payments.authorizer import Earlier, PaymentAuthorizer
from ..payments.ledger.changes import Collect, ReleaseClaim, Reopen
from ..payments.ledger.claims import owner_name
from ..payments.ledger.rules import NextStep, kept_answer
from ..payments.messages import blocking_error
from ..payments.protocol import Offer, parse_offer
from ..payments.purchases import PurchaseIntent, call_key, item_name, purchase_name
from ..payments.results import DryRun, MarketResult, Quote
from .concurrency import AsyncKeyedLock, always_in_thread, in_thread, sleep
from .payment_submission import AsyncSubmission, AsyncSubmissionContext

if TYPE_CHECKING:
    from .session import AsyncSession

T = TypeVar("T")
R = TypeVar("R")

_LONGEST_PAUSE = 1.0
_TOKENS_VALID = 3600.0
"""Seconds that the list of tokens is used."""
_TOKENS_RETRY = 60.0
"""Seconds before it is read again after a failure, or for a symbol that is not in it."""
_TOKENS_WAIT = 10.0


class AsyncPaymentFlow:
    """How a market client pays. `session` sends requests without a payment, `paid` those with one."""

    def __init__(
        self,
        session: AsyncSession,
        paid: AsyncSession,
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
        self._locks = AsyncKeyedLock()
        self._check = AsyncTokenCheck() if check_tokens else None

    def copy_with(self, change: Callable[[AsyncSession, bool], AsyncSession]) -> AsyncPaymentFlow:
        """A copy with other sessions. The second argument of `change` is True for the session of paid requests."""
        clone = copy.copy(self)
        clone.session = change(self.session, False)
        clone.paid = change(self.paid, True)
        return clone

    async def quote(self, call: MarketRequest[Any], max_price: int | None = None) -> Quote:
        """The published price, and what the budgets leave."""
        purchase = self._purchase(call, max_price=max_price)
        return await in_thread(lambda: self.authorizer.quote(purchase))

    async def buy(
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
            quote = await self.quote(call, max_price)
            found = await self._request_offer(call, quote, self.session.clock.monotonic() + self.session.deadline)
            if isinstance(found, MarketResult):
                return finish(found)
            await in_thread(lambda: self.authorizer.payer)  # raises: there is no signer
        finished: list[R] = []
        context = AsyncSubmissionContext(
            call.request,
            owner_name(),
            self._deadline(),
            paid=lambda result: finished.append(finish(result)),
            run=run,
            max_total=max_total,
        )
        async with self._alone(intent.key, context, "the same call is in progress and did not end before the deadline"):
            bought = None
            while bought is None:  # again after another call was faster
                bought = await self._buy(call, intent, context)
            return finished[-1] if finished else finish(bought)

    @asynccontextmanager
    async def _alone(
        self, key: str, context: AsyncSubmissionContext[Any], message: str, payment: Payment | None = None
    ) -> AsyncIterator[None]:
        """Inside, no other call of this client does the same. At the end, nothing stays claimed.

        If the call fails although it had the answer, the next equal call gets it.
        """
        lock = self._locks.of(key)
        if not await lock.acquire(self.session.deadline):
            raise _in_progress(message, payment)
        change: Reopen | ReleaseClaim = ReleaseClaim(owner=context.owner)
        try:
            yield
        except BaseException as error:
            if isinstance(error, LedgerError) and error.payment is None:
                error.payment = context.claimed
            if context.answered is not None:
                context.claimed = context.answered
                change = Reopen(owner=context.owner, reply=context.answered.reply or b"")
            raise
        else:
            if context.answered is not None:
                context.claimed = None  # `Collect` has released it
        finally:
            try:
                if context.claimed is not None:
                    await always_in_thread(partial(self._end, context, change))
            finally:
                lock.release()

    def _end(self, context: AsyncSubmissionContext[Any], change: Reopen | ReleaseClaim) -> None:
        if context.submission is not None:
            context.submission.end()
        if context.claimed is not None:
            self.authorizer.end(context.claimed.id, change)

    async def dry_run(self, call: MarketRequest[Any], *, max_price: int | None, purchase: str | None) -> DryRun:
        """What would be signed."""
        intent = self._purchase(call, max_price=max_price, name=purchase)
        quote = await in_thread(lambda: self.authorizer.quote(intent))
        give_up = self._deadline()
        found = await self._request_offer(call, quote, give_up)
        offer = None if isinstance(found, MarketResult) else found
        plan = await in_thread(lambda: self.authorizer.dry_run(intent, offer, quote))
        if self._check is not None and offer is not None and self.authorizer.has_signer and plan.existing is None:
            try:
                await self._check.check(call, self.session, give_up)
            except PaymentRefusedError as error:
                return DryRun(quote=quote, refusal=error.with_traceback(None))
        return plan

    async def resume(self, payment: Payment, finish: Callable[[MarketResult[Any]], R]) -> R:
        """Resend a payment, or read its stored answer. Returns the result of `finish`."""
        base = self.session.base_url
        if payment.origin != origin_of(base) or not payment.url.startswith(base + "/"):
            raise ConfigError(f"payment {payment.id} is for {payment.origin}, and this client is for {base}")
        path = payment.url[len(base) :]
        if not is_sold(path):
            raise ConfigError(f"payment {payment.id} is for {payment.url}, and this client is for {base}")

        def decode(method: str, url: str, response: RawResponse) -> Any:
            return decode_by_path(path, method, url, response)

        request = Request(payment.method, path, decode, body=payment.body, operation=Operation.QUERY)
        spending = await in_thread(
            lambda: self.authorizer.store.spending(self.authorizer.budget, now=self.session.clock.now())
        )
        context = AsyncSubmissionContext(request, owner_name(), self._deadline(), keep=True)
        context.quote = Quote(path=path, tokens=None, amount=payment.amount, spending=spending)
        key, busy = call_key(payment.method, payment.url, payment.body), f"another call is sending payment {payment.id}"

        def find() -> Payment:
            return kept_answer(self.authorizer.store.get(payment.id) or payment, self.session.clock.now())

        async with self._alone(key, context, busy, payment):
            current = await self._take(context, find, busy, patient=False) or payment
            result = await self._continue(context, current)
            if result is None:  # it would have to be signed
                raise blocking_error(context.claimed or current)
            return finish(result)

    async def reopen(self, results: Sequence[MarketResult[Any]]) -> None:
        """Note that the caller of `resume` did not get these answers."""
        for payment in [result.payment for result in results]:
            if payment is not None:
                change = Reopen(owner=owner_name(), reply=payment.reply or b"")
                await always_in_thread(partial(self.authorizer.end, payment.id, change))

    async def sync_clock(self) -> None:
        """Learn the service's time from a free request. If that fails, the local clock is used."""
        free = supported_tokens(limit=1).request
        try:
            response = await self.session.exchange(free, self._deadline())
        except APIError as error:
            text = "the service's time is not known: %(reason)s"
            event("service_time_unknown", text, error, level=logging.DEBUG)
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

    async def _buy(
        self, call: MarketRequest[T], purchase: PurchaseIntent, context: AsyncSubmissionContext[T]
    ) -> MarketResult[T] | None:
        """The answer, by one step after the other; None: another call was faster, so this starts again."""

        def find() -> Payment | None:
            context.quote, found = self.authorizer.quote(purchase), self.authorizer.look(purchase)
            if found is None:
                self.authorizer.check_total(purchase)
            return found

        busy = "the same call is in progress in another process and did not end before the deadline"
        earlier = await self._take(context, find, busy)
        if earlier is not None and (result := await self._continue(context, earlier, purchase)) is not None:
            return result
        found = await self._offer(call, purchase, context.quote, context.give_up)
        if isinstance(found, MarketResult):
            return found
        if self._check is not None:
            await self._check.check(call, self.session, context.give_up)
        submission = await in_thread(partial(self._authorized, purchase, found, context))
        result = None if submission is None else await submission.run()
        if result is not None and self._reuse:
            self._offers[purchase.path, purchase.tokens] = found
        return result

    async def _take(
        self,
        context: AsyncSubmissionContext[Any],
        find: Callable[[], Payment | None],
        busy: str,
        *,
        patient: bool = True,
    ) -> Payment | None:
        """The earlier payment that `find` finds, claimed. Waits, if `patient`, while another process works on it."""
        clock, authorizer, pause = self.session.clock, self.authorizer, 0.05
        while True:

            def take() -> Earlier:
                earlier = authorizer.take(find, context.owner)
                if earlier.is_claimed and earlier.payment is not None:
                    context.claimed = earlier.payment
                return earlier

            payment, _, is_busy = await in_thread(take)
            if not is_busy:
                is_open = payment is not None and payment.stage is PaymentStage.SENT and payment.paid is None
                if is_open and authorizer.next_step(payment) is not NextStep.RESEND and not authorizer.time.is_known:
                    await self.sync_clock()  # whether it has expired depends on the service's time
                return payment
            if not patient or clock.monotonic() + pause > context.give_up:
                raise _in_progress(busy, payment)
            await sleep(clock, pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _authorized(
        self, purchase: PurchaseIntent, offer: Offer, context: AsyncSubmissionContext[T]
    ) -> AsyncSubmission[T] | None:
        """Guards, budget, signature, ledger, in this order; None: another call was faster."""
        authorizer, owner, before = self.authorizer, context.owner, context.claimed
        order = authorizer.order(purchase, offer)
        reserved = authorizer.reserve(purchase, order, owner)
        context.claimed = reserved
        if before is not None and (reserved is None or before.id != reserved.id):  # its 10 minutes are over
            authorizer.release(before.id, owner)
        if reserved is None:
            return None
        submit = authorizer.sign(order, reserved, owner)
        submission = AsyncSubmission(self.paid, authorizer, context, reserved)
        submission.write_down(submit)
        return submission

    async def _continue(
        self, context: AsyncSubmissionContext[T], earlier: Payment, purchase: PurchaseIntent | None = None
    ) -> MarketResult[T] | None:
        """What an earlier payment bought: its answer is kept, or is sent for the same bytes. None: to be signed.

        The payment of a `purchase` must be within the limits of this call.
        """
        step = self.authorizer.next_step(earlier)
        match step:
            case NextStep.SIGN:
                return None
            case NextStep.COLLECT:
                return await self._collect(context, earlier)
            case NextStep.REFUSE:
                raise blocking_error(earlier)
        if purchase is not None:
            self.authorizer.check_existing(earlier, purchase, context.quote)
        return await AsyncSubmission(self.paid, self.authorizer, context, earlier, expired=step is NextStep.ASK).run()

    async def _collect(self, context: AsyncSubmissionContext[T], payment: Payment) -> MarketResult[T]:
        """Return a stored answer. With a name, every call gets it."""
        result = self._stored_result(context.request, context.quote, payment)
        if payment.purchase is None or context.keep:
            context.answered, keep = payment, context.keep
            collect = Collect(owner=context.owner, keep=keep)
            await always_in_thread(partial(self.authorizer.end, payment.id, collect))
            result = replace(result, payment=replace(payment, waits=False, reply=payment.reply if keep else None))
        return result

    async def _offer(
        self, call: MarketRequest[T], purchase: PurchaseIntent, quote: Quote, give_up: float
    ) -> Offer | MarketResult[T]:
        # Removed, and stored again after a success: an offer that the service no longer accepts is used once at most.
        known = self._offers.pop((purchase.path, purchase.tokens), None) if self._reuse else None
        if self.authorizer.time.has_parted(self.session.clock.now(), self.session.clock.monotonic()):
            known = None
        return known or await self._request_offer(call, quote, give_up)

    async def _request_offer(self, call: MarketRequest[T], quote: Quote, give_up: float) -> Offer | MarketResult[T]:
        """The offer; the result itself if the answer is free."""
        try:
            data = await self.session.call(call.request, give_up=give_up)
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


class AsyncTokenCheck:
    """Looks up symbols in the service's free list before anything is signed. Without a list, nothing is refused."""

    def __init__(self) -> None:
        self._names: TokenNames | None = None
        self._read_at = self._tried_at = -math.inf
        self._locks = AsyncKeyedLock()

    async def check(self, call: MarketRequest[Any], session: AsyncSession, give_up: float) -> None:
        """Check the symbols of a request; read the list first if necessary."""
        lock, now = self._locks.of(""), session.clock.monotonic()
        if not await lock.acquire(min(max(give_up - now, 0.0), _TOKENS_WAIT)):
            text = "the symbols were not checked: %(reason)s"
            event("tokens_unchecked", text, reason="another call is reading the list of tokens")
            return
        try:
            now = session.clock.monotonic()
            unknown = self._unknown(call, now - self._read_at > _TOKENS_VALID)
            if unknown and now - self._tried_at > _TOKENS_RETRY:
                await self._read_list(session, min(give_up, now + _TOKENS_WAIT))
                unknown = self._unknown(call, False)
        finally:
            lock.release()
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

    async def _read_list(self, session: AsyncSession, give_up: float) -> None:
        self._tried_at = session.clock.monotonic()
        try:
            found = await session.attempt(supported_tokens(MAX_SUPPORTED).request, give_up)
        except APIError as error:
            text = "the symbols were not checked, because the list of tokens cannot be read: %(reason)s"
            event("tokens_unchecked", text, error)
        else:
            if len(found.tokens) >= max(1, min(found.total, MAX_SUPPORTED)):  # else the list is not complete
                self._names, self._read_at = TokenNames(found.tokens, found.total), self._tried_at


def _in_progress(message: str, payment: Payment | None = None) -> PaymentRefusedError:
    look = "" if payment is None else f", then see client.payments.get({payment.id!r}) (trade pay show {payment.id})"
    return PaymentRefusedError(message, code="in_progress", hint=f"wait for that call to end{look}", payment=payment)
