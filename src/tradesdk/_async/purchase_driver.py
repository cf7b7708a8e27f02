"""Carries out the effects of `payments.purchase`: the ledger in threads, requests, waits."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from .._http import log_events
from .._http.log_events import NO_SPAN, event
from .._http.request import Request
from .._http.retry import Operation
from .._market import ENDPOINTS, MarketRequest, decode_by_path, supported_tokens
from .._values.http import RateClaim, RawResponse
from .._values.payment import Payment, origin_of
from ..errors import APIError, ConfigError, TradeError
from ..payments import effects
from ..payments import purchase as steps
from ..payments.buyer import Buyer, PurchaseIntent, look, owner_name, quote, sign
from ..payments.effects import Answer, Effect, Steps
from ..payments.ledger.changes import LedgerChange, LedgerRow, Record, Submit
from ..payments.messages import in_progress
from ..payments.purchases import item_name, purchase_name
from ..payments.results import DryRun, MarketResult, Quote
from .chain_proofs import AsyncChainProofs
from .concurrency import (
    AsyncKeyedLock,
    AsyncUnderWay,
    always_in_thread,
    in_thread_if,
    raise_cancellation,
    sleep,
)
from .sending import Handover
from .signing import ask_signer
from .token_check import AsyncTokenCheck

if TYPE_CHECKING:
    from .session import AsyncSession

T = TypeVar("T")

_TIME_RETRY = 60.0
"""Seconds before the service is asked for its time again after a failure."""


class AsyncPurchaseDriver:
    """What the calls of a market client share. `session` sends requests without a payment, `paid` those with one."""

    def __init__(
        self, session: AsyncSession, paid: AsyncSession, buyer: Buyer, proofs: AsyncChainProofs, *, check_tokens: bool
    ) -> None:
        self.session = session
        self.paid = paid
        self.buyer = buyer
        self.proofs = proofs
        self.tokens = AsyncTokenCheck() if check_tokens else None
        self.exchanges = AsyncUnderWay()  # async only
        """Payments that are being sent and written down."""  # async only
        self._locks = AsyncKeyedLock()
        self._origin = origin_of(session.base_url)
        self._time_asked_at = -math.inf

    def copy_with(self, change: Callable[[AsyncSession], AsyncSession]) -> Self:
        """A copy with other sessions."""
        clone = copy.copy(self)
        clone.session, clone.paid = change(self.session), change(self.paid)
        return clone

    async def quote(self, call: MarketRequest[Any], max_price: int | None, purchase: str | None) -> Quote:
        """The published price, and what the budgets leave."""
        buyer = self.buyer
        return await in_thread_if(buyer.ledger._blocks, quote, buyer, self._intent(call, max_price, purchase))

    async def buy(
        self,
        call: MarketRequest[T],
        *,
        max_price: int | None,
        purchase: str | None = None,
        job: str | None = None,
        run: str | None = None,
        max_total: int | None = None,
    ) -> MarketResult[T]:
        """Buy an answer. It is paid for only if the service requires that.

        If the call ends before its caller has the answer, the next equal call gets it. `purchase` is its name; each
        call of a `job` is named by the job and the request. All payments of a batch `run` together cost `max_total` at
        most.
        """
        return await self._purchase(self._intent(call, max_price, purchase, job, run=run, max_total=max_total))

    async def dry_run(self, call: MarketRequest[Any], max_price: int | None, purchase: str | None) -> DryRun:
        """What would be signed."""
        return await self._drive(steps.dry_run, self._intent(call, max_price, purchase), self._deadline())

    async def resume(self, payment: Payment) -> MarketResult[Any]:
        """Resend a payment, or read its stored answer."""
        base = self.session.base_url
        path = payment.url.removeprefix(base)
        if path not in ENDPOINTS:
            message = f"payment {payment.id} is for {payment.url}, and this client is for {base}"
            raise ConfigError(message, hint="use the base URL of that payment")
        decode = partial(decode_by_path, path)
        request = Request("POST", path, decode, body=payment.body, operation=Operation.QUERY)
        return await self._purchase(self._intent(MarketRequest(request, payment.amount), resumed=payment))

    async def reopen(self, results: Sequence[MarketResult[Any]]) -> None:
        """Note that the caller of `resume` did not get these answers."""
        for payment in [result.payment for result in results]:
            if payment is not None:
                change, row = (
                    Record(owner=owner_name(), collected=False, reply=payment.reply or b""),
                    LedgerRow(payment),
                )
                await always_in_thread(self.buyer.ledger.update, payment.id, change, row)

    async def sync_clock(self) -> None:
        """Learn the service's time, if unknown, by a free request. If that fails, the local clock is used."""
        time, clock = self.buyer.time, self.buyer.clock
        if time.is_known or clock.monotonic() - self._time_asked_at < _TIME_RETRY:
            return
        try:
            response = await self.session.exchange(supported_tokens(limit=1).request, self._deadline())
        except APIError as error:
            text = "the service's time is not known: %(reason)s"
            event("service_time_unknown", text, error, level=logging.DEBUG)
        else:
            time.moment(clock, response.headers)
        self._time_asked_at = clock.monotonic()

    def _end_of_exchange(self, give_up: float) -> float:
        """The monotonic time until which a payment that is sent now is waited for."""
        connect, read = self.paid.timeout.connect, self.paid.timeout.read
        if connect is None or read is None:
            return give_up
        return min(give_up, self.session.clock.monotonic() + connect + read)

    def _deadline(self) -> float:
        """The monotonic time at which a call that begins now has to end."""
        return self.session.clock.monotonic() + self.session.deadline

    def _intent(
        self,
        call: MarketRequest[Any],
        max_price: int | None = None,
        name: str | None = None,
        job: str | None = None,
        **more: Any,
    ) -> PurchaseIntent:
        target = call.request.target
        if job is not None:
            name = item_name(job, target, call.request.body or b"")
        elif name is not None:
            name = purchase_name(name)
        url = self.session.base_url + target
        return PurchaseIntent(origin=self._origin, url=url, call=call, max_price=max_price, name=name, **more)

    async def _purchase(self, intent: PurchaseIntent) -> MarketResult[Any]:
        listener = log_events.listener
        if listener is None or not intent.call.price:
            return await self._in_turn(intent)
        fields = {"path": intent.call.request.target, "amount": intent.call.price, "is_new": intent.resumed is None}
        with listener.begin("purchase", buyer=self.buyer, **fields) as span:
            result = await self._in_turn(intent)
            span.end(result)
            return result

    async def _in_turn(self, intent: PurchaseIntent) -> MarketResult[Any]:
        """Wait until no other call of this client makes the same purchase, if it may have to be paid for."""
        give_up = self._deadline()
        if intent.resumed is None and (self.buyer.wallet is None or not (intent.call.price or intent.max_price)):
            return await self._drive(steps.purchase, intent, give_up)
        equal = self._locks.of(intent.key)
        if not await equal.acquire(self.session.deadline):
            raise in_progress(intent.resumed, is_resumed=intent.resumed is not None)
        try:
            return await self._drive(steps.purchase, intent, give_up)
        finally:
            equal.release()

    async def _drive(self, begin: Callable[..., Steps[T]], intent: PurchaseIntent, give_up: float) -> T:
        """Carry out effects until there is a result. `give_up` is a monotonic time.

        A cancellation that came when an effect was already done is `held`, and thrown in at the next effect that is not
        a `Write`. The same applies once a payment has gone to the transport: no wait begins after it.
        """
        buyer, session, paid, call, results = self.buyer, self.session, self.paid, intent.call, list[Any]()
        wanted = begin(buyer, intent, paid.policy, give_up)
        slot: RateClaim | None = None
        held: BaseException | None = None
        handover: Handover | None = None
        exchange = ExitStack()
        described = {"method": "POST", "url": intent.url}

        def asked(method: str, url: str, response: RawResponse) -> Answer:
            is_offer = response.status == 402
            return Answer(response, data=None if is_offer else call.request.decode(method, url, response))

        def outcome(of: Handover) -> Answer | APIError | None:
            if of.response is None:
                return of.problem
            is_success = 200 <= of.response.status < 300
            return Answer(of.response, of.problem if is_success else paid.refusal(call.request, of.response))

        def write(row: LedgerRow | None, change: LedgerChange | Submit) -> None:
            if isinstance(change, Submit):
                results.append(buyer.ledger.submit(change))
                return
            if held is not None and isinstance(change, Record) and change.collected:
                change = replace(change, collected=None)  # the caller does not get the answer
            results.append(None if row is None else buyer.ledger.update(row.payment.id, change, row))

        async def give_back() -> None:
            nonlocal slot
            claim, slot = slot, None
            if claim is not None:
                await paid.unanswered(claim, sent=False)

        async def carry_out(effect: Effect) -> None:
            nonlocal slot, handover
            result: Any = None
            match effect:
                case effects.Look(at, since):
                    result = await in_thread_if(buyer.look_blocks, look, buyer, intent, at, since)
                case effects.Sync():
                    await self.sync_clock()
                case effects.Balance():
                    result = await self.proofs.balance(give_up - buyer.clock.monotonic())
                case effects.Ask():
                    request = call.request._replace(decode=asked, reads_offers=True)
                    result = await session.call(request, give_up=give_up)
                    if result.response.status == 402 and self.tokens is not None and buyer.wallet is not None:
                        await self.tokens.check(call, session, give_up)
                case effects.Prove(terms, refused):
                    time_left = give_up - buyer.clock.monotonic()
                    result = refused.code == "over_budget" and await self.proofs.make_room(intent, terms, time_left)
                case effects.Verify(payment):
                    result = await self.proofs.verified(payment, give_up - buyer.clock.monotonic())
                case effects.Slot():
                    slot = await paid.claim(call.request, give_up)
                case effects.Sign(terms, seen, owner):
                    result = await ask_signer(
                        sign(buyer, intent, terms, seen, owner),
                        blocks=buyer.signer_blocks,  # async only
                    )
                    if (listener := log_events.listener) is not None:
                        listener.note("sign", logging.INFO, {"payment_id": result.payment.id})
                case effects.Write(row, change):
                    await in_thread_if(buyer.ledger._blocks, write, row, change)
                    return
                case effects.Send(payment):
                    claim, slot = slot, None
                    request = call.request._replace(body=payment.body)  # the fields of its body may be in another order
                    handover = Handover(payment)
                    exchange.enter_context(self.exchanges.one())  # async only
                    listener = log_events.listener
                    try:
                        with NO_SPAN if listener is None else listener.begin("submission", **described):
                            await paid.exchange(request, self._end_of_exchange(give_up), handover, claim)
                    finally:
                        results.extend(filter(None, [outcome(handover)]))
                        await raise_cancellation()  # async only
                    return
                case effects.Sleep(seconds):
                    await sleep(buyer.clock, seconds)
            results.append(result)

        try:
            effect = next(wanted)
            while True:
                results.clear()
                handover = None
                try:
                    if not isinstance(effect, effects.Write):
                        exchange.close()
                        if held is not None:
                            raise held
                        await raise_cancellation()  # async only
                    if slot is not None and not isinstance(
                        effect, effects.Sign | effects.Write | effects.Verify | effects.Send
                    ):
                        await give_back()
                    await carry_out(effect)
                except TradeError as error:
                    if not results:  # otherwise the response is there, but is not readable
                        results.append(error)
                except BaseException as error:
                    held = error
                    if not results:
                        is_sent = handover is not None and handover.is_sent
                        results.append(effects.Ended(error, is_sent=is_sent))
                result = results[0]
                is_error = isinstance(result, TradeError | effects.Ended)
                effect = wanted.throw(result) if is_error else wanted.send(result)
        except StopIteration as done:
            return cast(T, done.value)
        except effects.Ended as end:
            cause = end.cause
        except Exception as error:
            if held is not None:
                raise held from error
            raise
        finally:
            exchange.close()
            await give_back()
        raise cause  # outside of the handler, where it would get another context
