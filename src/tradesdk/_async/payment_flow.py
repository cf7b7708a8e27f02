"""How a market client pays: what is asked for becomes a purchase, and `paid_call` carries it out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from .._http.request import Request
from .._http.retry import Operation
from .._market import ENDPOINTS, MarketRequest, decode_by_path, price
from .._values.http import RawResponse
from .._values.payment import Payment
from ..errors import ConfigError, PaymentRefusedError
from ..payments.ledger.changes import LedgerRow, Reopen
from ..payments.ledger.claims import owner_name
from ..payments.ledger.rules import kept_answer
from ..payments.purchases import PurchaseIntent, item_name, purchase_name
from ..payments.results import DryRun, MarketResult, Quote
from .concurrency import always_in_thread, in_thread
from .paid_call import AsyncPaidCall
from .seller import AsyncSeller

T = TypeVar("T")
R = TypeVar("R")


class AsyncPaymentFlow(AsyncSeller):
    """What a market client asks a seller for."""

    async def quote(self, call: MarketRequest[Any], max_price: int | None = None, purchase: str | None = None) -> Quote:
        """The published price, and what the budgets leave."""
        intent = self._purchase(call, max_price=max_price, name=purchase)
        return await in_thread(lambda: self.authorizer.quote(intent))

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
            found = await self.offer(call, await self.quote(call, max_price), self.deadline())
            if isinstance(found, MarketResult):
                return finish(found)
            await in_thread(lambda: self.authorizer.payer)  # raises: there is no signer
        return await AsyncPaidCall(self, call.request, finish).buy(call, intent)

    async def dry_run(self, call: MarketRequest[Any], *, max_price: int | None, purchase: str | None) -> DryRun:
        """What would be signed."""
        intent = self._purchase(call, max_price=max_price, name=purchase)
        quote = await in_thread(lambda: self.authorizer.quote(intent))
        give_up = self.deadline()
        found = await self.offer(call, quote, give_up)
        offer = None if isinstance(found, MarketResult) else found
        plan = await in_thread(lambda: self.authorizer.dry_run(intent, offer, quote))
        if self.check is not None and offer is not None and self.authorizer.has_signer and plan.existing is None:
            try:
                await self.check.check(call, self.session, give_up)
            except PaymentRefusedError as error:
                return DryRun(quote=quote, refusal=error.with_traceback(None))
        return plan

    async def resume(self, payment: Payment, finish: Callable[[MarketResult[Any]], R]) -> R:
        """Resend a payment, or read its stored answer. Returns the result of `finish`."""
        base = self.session.base_url
        path = payment.url.removeprefix(base)
        if path not in ENDPOINTS:
            raise ConfigError(f"payment {payment.id} is for {payment.url}, and this client is for {base}")

        def decode(method: str, url: str, response: RawResponse) -> Any:
            return decode_by_path(path, method, url, response)

        request = Request(payment.method, path, decode, body=payment.body, operation=Operation.QUERY)
        spending = await in_thread(
            lambda: self.authorizer.store.spending(self.authorizer.budget, now=self.session.clock.now())
        )
        quote = Quote(path=path, tokens=None, amount=payment.amount, spending=spending)

        def find() -> LedgerRow:
            found = self.authorizer.store.get(payment.id) or payment
            return LedgerRow(kept_answer(found, self.session.clock.now()), revision=-1)

        return await AsyncPaidCall(self, request, finish, keep=True, quote=quote).resume(payment, find)

    async def reopen(self, results: Sequence[MarketResult[Any]]) -> None:
        """Note that the caller of `resume` did not get these answers."""
        for payment in [result.payment for result in results]:
            if payment is not None:
                change = Reopen(owner=owner_name(), reply=payment.reply or b"")
                await always_in_thread(partial(self.authorizer.end, LedgerRow(payment, revision=-1), change))

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
