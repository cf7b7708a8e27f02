# Generated from src/tradesdk/_async/seller.py by scripts/unasync.py: change that file instead.
"""What the calls of a market client share: sessions, the service's time, the list of tokens."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self, TypeVar

from .._http.log_events import event
from .._market import MAX_SUPPORTED, MarketRequest, TokenNames, supported_tokens
from ..errors import APIError, APIStatusError, PaymentRefusedError
from ..payments.authorizer import PaymentAuthorizer
from ..payments.protocol import Offer, parse_offer
from ..payments.results import MarketResult, Quote
from .concurrency import KeyedLock

if TYPE_CHECKING:
    from .session import Session

T = TypeVar("T")

_TOKENS_VALID = 3600.0
"""Seconds that the list of tokens is used."""
_TOKENS_RETRY = 60.0
"""Seconds before it is read again after a failure, or for a symbol that is not in it."""
_TOKENS_WAIT = 10.0
_TIME_RETRY = 60.0
"""Seconds before the service is asked for its time again after it did not tell it."""


class Seller:
    """The service that sells. `session` sends requests without a payment, `paid` those with one."""

    def __init__(
        self,
        session: Session,
        paid: Session,
        authorizer: PaymentAuthorizer,
        *,
        check_tokens: bool,
        collect: bool,
    ) -> None:
        self.session = session
        self.paid = paid
        self.authorizer = authorizer
        self.collect = collect
        self._time_asked_at = -math.inf
        self.locks = KeyedLock()
        self.check = TokenCheck() if check_tokens else None

    def copy_with(self, change: Callable[[Session], Session]) -> Self:
        """A copy with other sessions."""
        clone = copy.copy(self)
        clone.session, clone.paid = change(self.session), change(self.paid)
        return clone

    def sync_clock(self) -> None:
        """Learn the service's time, if it is not known, from a free request. If that fails, the local clock is used."""
        clock = self.session.clock
        if self.authorizer.time.is_known or clock.monotonic() - self._time_asked_at < _TIME_RETRY:
            return
        free = supported_tokens(limit=1).request
        try:
            response = self.session.exchange(free, self.deadline())
        except APIError as error:
            text = "the service's time is not known: %(reason)s"
            event("service_time_unknown", text, error, level=logging.DEBUG)
        else:
            self.authorizer.observe(response.headers)
        self._time_asked_at = clock.monotonic()

    def deadline(self) -> float:
        """The monotonic time at which a call that begins now has to end."""
        return self.session.clock.monotonic() + self.session.deadline

    def offer(self, call: MarketRequest[T], quote: Quote, give_up: float) -> Offer | MarketResult[T]:
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
