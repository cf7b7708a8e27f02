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
from .._http.log_events import NO_SPAN, Span, event
from .._http.request import Request
from .._http.response import decode_raw
from .._http.retry import Operation
from .._market import ENDPOINTS, MarketRequest, decode_by_path, supported_tokens
from .._values.http import RateClaim
from .._values.payment import Payment
from ..errors import APIError, ConfigError, TradeError
from ..payments import effects
from ..payments import purchase as steps
from ..payments.budget import Usd, micro_usd
from ..payments.buyer import Buyer, PurchaseIntent, look, owner_name, quote, sign
from ..payments.effects import Answer, Effect, Steps
from ..payments.ledger.changes import LedgerRow, Record, Submit
from ..payments.messages import in_progress
from ..payments.purchases import purchase_name
from ..payments.results import DryRun, MarketResult, Quote
from .chain_proofs import AsyncChainProofs
from .concurrency import (
    AsyncKeyedLock,
    AsyncUnderWay,
    always_in_thread,
    completed,
    in_thread_if,
    note_cancellation,
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
        self._time_asked_at = -math.inf

    def copy_with(self, change: Callable[[AsyncSession], AsyncSession]) -> Self:
        """A copy with other sessions."""
        clone = copy.copy(self)
        clone.session, clone.paid = change(self.session), change(self.paid)
        return clone

    def intent(self, call: MarketRequest[Any], max_price: Usd | None, purchase: str | None) -> PurchaseIntent:
        """What a caller wants, by the arguments of a call."""
        most = None if max_price is None else micro_usd("max_price", max_price)
        return PurchaseIntent(
            base_url=self.session.base_url,
            call=call,
            max_price=most,
            name=None if purchase is None else purchase_name(purchase),
        )

    async def quote(self, call: MarketRequest[Any], max_price: Usd | None, purchase: str | None) -> Quote:
        """The published price, and what the budgets leave."""
        intent = self.intent(call, max_price, purchase)
        return await in_thread_if(self.buyer.ledger._blocks, quote, self.buyer, intent)

    async def dry_run(self, call: MarketRequest[Any], max_price: Usd | None, purchase: str | None) -> DryRun:
        """What would be signed."""
        return await self._drive(steps.dry_run, self.intent(call, max_price, purchase), self._deadline())

    async def buy(self, intent: PurchaseIntent) -> MarketResult[Any]:
        """Buy an answer, or resume a payment. It is paid for only if the service requires that.

        It waits until no other call of this client makes the same purchase. If the call ends before its caller has the
        answer, the next equal call gets it.
        """
        give_up, call, span = self._deadline(), intent.call, cast(Span, NO_SPAN)
        if intent.is_free:
            return await self._drive(steps.purchase, intent, give_up)
        if (listener := log_events.listener) is not None:
            fields = {"path": call.request.target, "amount": call.price, "is_new": intent.resumed is None}
            span = listener.begin("purchase", buyer=self.buyer, **fields)
        with span:
            equal = self._locks.of(intent.fingerprint(""))  # of any payer: a client has one
            if not await equal.acquire(self.session.deadline):
                raise in_progress(intent.resumed, is_resumed=intent.resumed is not None)
            try:
                result = await self._drive(steps.purchase, intent, give_up)
            finally:
                equal.release()
            if listener is not None:
                span.end(result)
            return result

    async def resume(self, payment: Payment) -> MarketResult[Any]:
        """Resend a payment, or read its stored answer."""
        base = self.session.base_url
        path = payment.url.removeprefix(base)
        if path not in ENDPOINTS:
            message = f"payment {payment.id} is for {payment.url}, and this client is for {base}"
            raise ConfigError(message, hint="use the base URL of that payment")
        decode = partial(decode_by_path, path)
        request = Request("POST", path, decode, body=payment.body, operation=Operation.QUERY)
        call = MarketRequest(request, payment.amount)
        return await self.buy(PurchaseIntent(base_url=base, call=call, resumed=payment))

    async def reopen(self, results: Sequence[MarketResult[Any]]) -> None:
        """Note that the caller of `resume` did not get these answers."""
        for payment in filter(None, [result.payment for result in results]):
            change = Record(owner=owner_name(), collected=False, reply=payment.reply or b"")
            await always_in_thread(self.buyer.ledger.update, payment.id, change, LedgerRow(payment))

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

    async def _drive(self, begin: Callable[..., Steps[T]], intent: PurchaseIntent, give_up: float) -> T:
        """Carry out effects until there is a result. `give_up` is a monotonic time.

        A cancellation is thrown in at the next effect that is not a `Write`. One that comes while a payment is sent or
        written down is `held` until that is done, and no wait begins after it.
        """
        buyer, session, paid, call, held = self.buyer, self.session, self.paid, intent.call, list[BaseException]()
        wanted = begin(buyer, intent, paid.policy, give_up)
        slot: RateClaim | None = None
        handover: Handover | None = None
        exchange = ExitStack()

        async def give_back() -> None:
            nonlocal slot
            claim, slot = slot, None
            if claim is not None:
                await paid.unanswered(claim, sent=False)

        async def send(payment: Payment) -> Answer:
            nonlocal slot, handover
            claim, slot = slot, None
            request = call.request._replace(body=payment.body)  # the fields of its body may be in another order
            handover = Handover(payment, held)
            exchange.enter_context(self.exchanges.one())  # async only
            listener, problem = log_events.listener, None
            try:
                with NO_SPAN if listener is None else listener.begin("submission", method="POST", url=intent.url):
                    await paid.exchange(request, self._end_of_exchange(give_up), handover, claim)
            except BaseException as error:
                if handover.response is None:
                    raise
                if isinstance(error, APIError):  # it is there, but is not readable
                    problem = error
                else:
                    held.append(error)
            response = handover.response
            assert response is not None  # noqa: S101 - else it was raised
            is_success = 200 <= response.status < 300
            return Answer(response, problem if is_success else paid.refusal(call.request, response))

        async def carry_out(effect: Effect) -> Any:
            nonlocal slot
            match effect:
                case effects.Look(at, since):
                    return await in_thread_if(buyer.look_blocks, look, buyer, intent, at, since)
                case effects.Sync():
                    await self.sync_clock()
                case effects.Balance():
                    return await self.proofs.balance(give_up - buyer.clock.monotonic())
                case effects.Ask():
                    request = call.request._replace(decode=decode_raw, reads_offers=True)
                    response = await session.call(request, give_up=give_up)
                    if response.status != 402:
                        return Answer(response, data=session.read(call.request, response))
                    if self.tokens is not None and buyer.wallet is not None:
                        await self.tokens.check(call, session, give_up)
                    return Answer(response)
                case effects.Prove(terms, refused):
                    time_left = give_up - buyer.clock.monotonic()
                    return refused.code == "over_budget" and await self.proofs.make_room(intent, terms, time_left)
                case effects.Verify(payment):
                    return await self.proofs.verified(payment, give_up - buyer.clock.monotonic())
                case effects.Slot():
                    slot = await paid.claim(call.request, give_up)
                case effects.Sign(terms, owner):
                    submit = await ask_signer(
                        sign(buyer, intent, terms, owner),
                        blocks=buyer.signer_blocks,  # async only
                    )
                    if (listener := log_events.listener) is not None:
                        listener.note("sign", logging.INFO, {"payment_id": submit.payment.id})
                    return submit
                case effects.Write(row, change):
                    ledger = buyer.ledger
                    if isinstance(change, Submit):
                        return await completed(ledger._blocks, held, ledger.submit, change)
                    if held and isinstance(change, Record) and change.collected:
                        change = replace(change, collected=None)  # the caller does not get the answer
                    assert row is not None  # noqa: S101 - only `Submit` may be the first write
                    return await completed(ledger._blocks, held, ledger.update, row.payment.id, change, row)
                case effects.Send(payment):
                    return await send(payment)
                case effects.Sleep(seconds):
                    await sleep(buyer.clock, seconds)
            return None

        try:
            effect = next(wanted)
            while True:
                result: Any
                handover = None
                await note_cancellation(held)  # async only
                try:
                    if not isinstance(effect, effects.Write):
                        exchange.close()
                        if held:
                            raise held[0]
                    if slot is not None and not isinstance(
                        effect, effects.Sign | effects.Write | effects.Verify | effects.Send
                    ):
                        await give_back()
                    result = await carry_out(effect)
                except TradeError as error:
                    result = error
                except BaseException as error:
                    held.append(error)
                    result = effects.Ended(is_sent=handover is not None and handover.is_sent)
                is_error = isinstance(result, TradeError | effects.Ended)
                effect = wanted.throw(result) if is_error else wanted.send(result)
        except StopIteration as done:
            return cast(T, done.value)
        except effects.Ended:
            pass
        except Exception as error:
            if held:
                raise held[0] from error
            raise
        finally:
            exchange.close()
            await give_back()
        raise held[0]  # outside of the handler, where it would get another context
