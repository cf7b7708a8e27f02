# Generated from src/tradesdk/_async/token_check.py by scripts/unasync.py: change that file instead.
"""Refuses symbols that nobody knows before anything is signed for them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any
from weakref import ref

from .._http.log_events import log_fields, logger
from .._httpx import Place
from .._market import MAX_SUPPORTED, MarketRequest, TokenNames, supported_tokens
from ..errors import APIError, PaymentRefusedError
from .concurrency import KeyedLock

if TYPE_CHECKING:
    from .session import Session

_KEPT = 3600.0
"""Seconds that the list counts."""
_AGAIN = 60.0
"""Seconds after which it is read again for a symbol that it doesn't have, or because it could not be read."""
_PATIENCE = 10.0


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
