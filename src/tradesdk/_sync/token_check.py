# Generated from src/tradesdk/_async/token_check.py by scripts/unasync.py: change that file instead.
"""Looks up symbols in the service's free list of tokens, before anything is signed for them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .._http.log_events import event
from .._market import MAX_SUPPORTED, MarketRequest, TokenNames, supported_tokens
from ..errors import APIError
from .concurrency import KeyedLock

if TYPE_CHECKING:
    from .session import Session

_TOKENS_VALID = 3600.0
"""Seconds for which the list of tokens is used."""
_TOKENS_RETRY = 60.0
"""Seconds before it is read again after a failure, or for a symbol that is not in it."""
_TOKENS_WAIT = 10.0


class TokenCheck:
    """Looks up symbols in the service's free list before anything is signed. Without a list, nothing is refused."""

    def __init__(self) -> None:
        self._names = TokenNames([], 0)
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
            if now - self._read_at > _TOKENS_VALID:
                self._names = TokenNames([], 0)
            unknown = self._names.unknown(call.to_look_up)
            if unknown and now - self._tried_at > _TOKENS_RETRY:
                self._read_list(session, min(give_up, now + _TOKENS_WAIT))
                unknown = self._names.unknown(call.to_look_up)
        finally:
            lock.release()
        if unknown and self._read_at == self._tried_at:
            raise self._names.refusal(unknown)

    def _read_list(self, session: Session, give_up: float) -> None:
        self._tried_at = session.clock.monotonic()
        try:
            found = session.attempt(supported_tokens(MAX_SUPPORTED).request, give_up)
        except APIError as error:
            text = "the symbols were not checked, because the list of tokens cannot be read: %(reason)s"
            event("tokens_unchecked", text, error)
        else:
            if len(found.tokens) >= max(1, min(found.total, MAX_SUPPORTED)):  # else the list is incomplete
                self._names, self._read_at = TokenNames(found.tokens, found.total), self._tried_at
