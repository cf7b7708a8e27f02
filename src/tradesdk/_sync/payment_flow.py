# Generated from src/tradesdk/_async/payment_flow.py by scripts/unasync.py: change that file instead.
"""What the calls of a market client share: sessions, known offers, the list of tokens. `paid_call` is one call."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable, Sequence
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
from .._values.payment import Payment, origin_of
from ..errors import APIError, APIStatusError, ConfigError, PaymentRefusedError
from ..payments.authorizer import PaymentAuthorizer
from ..payments.ledger.changes import Reopen
from ..payments.ledger.claims import owner_name
from ..payments.ledger.rules import kept_answer
from ..payments.protocol import Offer, parse_offer
from ..payments.purchases import PurchaseIntent, item_name, purchase_name
from ..payments.results import DryRun, MarketResult, Quote
from .concurrency import KeyedLock, always_in_thread, in_thread
from .paid_call import PaidCall

if TYPE_CHECKING:
    from .session import Session

T = TypeVar("T")
R = TypeVar("R")

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
        self.locks = KeyedLock()
        self.check = TokenCheck() if check_tokens else None

    def copy_with(self, change: Callable[[Session, bool], Session]) -> PaymentFlow:
        """A copy with other sessions. The second argument of `change` is True for the session of paid requests."""
        clone = copy.copy(self)
        clone.session = change(self.session, False)
        clone.paid = change(self.paid, True)
        return clone

    def quote(self, call: MarketRequest[Any], max_price: int | None = None, purchase: str | None = None) -> Quote:
        """The published price, and what the budgets leave."""
        intent = self._purchase(call, max_price=max_price, name=purchase)
        return in_thread(lambda: self.authorizer.quote(intent))

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
            found = self._request_offer(call, self.quote(call, max_price), self.deadline())
            if isinstance(found, MarketResult):
                return finish(found)
            in_thread(lambda: self.authorizer.payer)  # raises: there is no signer
        return PaidCall(self, call.request, finish).buy(call, intent)

    def dry_run(self, call: MarketRequest[Any], *, max_price: int | None, purchase: str | None) -> DryRun:
        """What would be signed."""
        intent = self._purchase(call, max_price=max_price, name=purchase)
        quote = in_thread(lambda: self.authorizer.quote(intent))
        give_up = self.deadline()
        found = self._request_offer(call, quote, give_up)
        offer = None if isinstance(found, MarketResult) else found
        plan = in_thread(lambda: self.authorizer.dry_run(intent, offer, quote))
        if self.check is not None and offer is not None and self.authorizer.has_signer and plan.existing is None:
            try:
                self.check.check(call, self.session, give_up)
            except PaymentRefusedError as error:
                return DryRun(quote=quote, refusal=error.with_traceback(None))
        return plan

    def resume(self, payment: Payment, finish: Callable[[MarketResult[Any]], R]) -> R:
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
        spending = in_thread(
            lambda: self.authorizer.store.spending(self.authorizer.budget, now=self.session.clock.now())
        )
        quote = Quote(path=path, tokens=None, amount=payment.amount, spending=spending)

        def find() -> Payment:
            return kept_answer(self.authorizer.store.get(payment.id) or payment, self.session.clock.now())

        return PaidCall(self, request, finish, keep=True, quote=quote).resume(payment, find)

    def reopen(self, results: Sequence[MarketResult[Any]]) -> None:
        """Note that the caller of `resume` did not get these answers."""
        for payment in [result.payment for result in results]:
            if payment is not None:
                change = Reopen(owner=owner_name(), reply=payment.reply or b"")
                always_in_thread(partial(self.authorizer.end, payment.id, change))

    def sync_clock(self) -> None:
        """Learn the service's time from a free request. If that fails, the local clock is used."""
        free = supported_tokens(limit=1).request
        try:
            response = self.session.exchange(free, self.deadline())
        except APIError as error:
            text = "the service's time is not known: %(reason)s"
            event("service_time_unknown", text, error, level=logging.DEBUG)
        else:
            self.authorizer.observe(response.headers)

    def deadline(self) -> float:
        """The monotonic time at which a call that begins now has to end."""
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

    def offer(
        self, call: MarketRequest[T], purchase: PurchaseIntent, quote: Quote, give_up: float
    ) -> Offer | MarketResult[T]:
        """The service's offer, a new one or one that was seen before; the result itself if the answer is free."""
        # Removed, and stored again after a success: an offer that the service no longer accepts is used once at most.
        known = self._offers.pop((purchase.path, purchase.tokens), None) if self._reuse else None
        if self.authorizer.time.has_parted(self.session.clock.now(), self.session.clock.monotonic()):
            known = None
        return known or self._request_offer(call, quote, give_up)

    def remember(self, purchase: PurchaseIntent, offer: Offer) -> None:
        """Note an offer that was accepted."""
        if self._reuse:
            self._offers[purchase.path, purchase.tokens] = offer

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


class TokenCheck:
    """Looks up symbols in the service's free list before anything is signed. Without a list, nothing is refused."""

    def __init__(self) -> None:
        self._names: TokenNames | None = None
        self._read_at = self._tried_at = -math.inf
        self._locks = KeyedLock()

    def check(self, call: MarketRequest[Any], session: Session, give_up: float) -> None:
        """Check the symbols of a request; read the list first if necessary."""
        lock, now = self._locks.of(""), session.clock.monotonic()
        if not lock.acquire(min(max(give_up - now, 0.0), _TOKENS_WAIT)):
            text = "the symbols were not checked: %(reason)s"
            event("tokens_unchecked", text, reason="another call is reading the list of tokens")
            return
        try:
            now = session.clock.monotonic()
            unknown = self._unknown(call, now - self._read_at > _TOKENS_VALID)
            if unknown and now - self._tried_at > _TOKENS_RETRY:
                self._read_list(session, min(give_up, now + _TOKENS_WAIT))
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

    def _read_list(self, session: Session, give_up: float) -> None:
        self._tried_at = session.clock.monotonic()
        try:
            found = session.attempt(supported_tokens(MAX_SUPPORTED).request, give_up)
        except APIError as error:
            text = "the symbols were not checked, because the list of tokens cannot be read: %(reason)s"
            event("tokens_unchecked", text, error)
        else:
            if len(found.tokens) >= max(1, min(found.total, MAX_SUPPORTED)):  # else the list is not complete
                self._names, self._read_at = TokenNames(found.tokens, found.total), self._tried_at
