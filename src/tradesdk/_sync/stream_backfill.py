# Generated from src/tradesdk/_async/stream_backfill.py by scripts/unasync.py: change that file instead.
"""Reads the history for a live stream."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from .._http.arguments import MAX_PAGE
from .._http.log_events import event, log_rate_limit_wait, log_retry
from .._http.request import endpoint, request
from .._http.response import failure_of
from .._http.retry import FailureCause
from .._stream.deduplication import HistoryWalk
from .._stream.events import HistoryPage, decode_history
from .._stream.state_machine import StreamState
from ..errors import APIError, APIResponseError, AuthenticationError
from .concurrency import Interrupted, Interruptible

if TYPE_CHECKING:
    from .._stream.options import StreamOptions
    from .session import Session

_UNREADABLE = 2  # retries after unreadable answers and 500s
_SHORT_PATIENCE = 30.0  # seconds; the stream is not read meanwhile


class Backfill:
    """Walks through the history. Its waits can be interrupted."""

    def __init__(
        self,
        session: Session,
        interruptible: Interruptible,
        state: StreamState,
        options: StreamOptions,
        *,
        throttle: bool,
    ) -> None:
        self._session = session
        self._throttle = throttle
        self._interruptible = interruptible
        self._state = state
        self._chain = options.chain
        self._patience = options.recovery_timeout

    def before(self) -> None:
        """Learn which signals came before the stream: they are not wanted, and a history without them has a gap."""
        session = self._session
        try:
            page = self._read_page({"chain": self._chain, "limit": MAX_PAGE}, _SHORT_PATIENCE)
        except APIError as error:  # nothing is lost yet, and opening the stream says what is wrong
            text = "the history of chain %(chain)d could not be read before the stream: %(reason)s"
            event("history_unread", text, error, level=logging.INFO, chain=self._chain)
        else:
            self._state.before(page, session.clock.monotonic(), session.clock.now())

    def walk(self, *, audit: bool) -> None:
        session, state = self._session, self._state
        walk = state.begin_walk(session.clock.monotonic(), audit=audit)
        again = audit or state.will_read_again  # then a failure is not yet a gap
        patience = min(self._patience, _SHORT_PATIENCE) if again else self._patience
        reason = self._walk(walk, patience)
        ended = session.clock.monotonic()
        if reason is None:
            state.walked(walk, ended, audit=audit)
        else:
            state.walk_failed(walk, reason, ended, audit=audit)

    def _walk(self, walk: HistoryWalk, patience: float) -> str | None:
        """Read all pages. Returns why that failed, or None. `patience`: seconds to keep trying for one page."""
        session, state = self._session, self._state
        give_up = session.clock.monotonic() + patience
        cursor: str | None = None
        cursors: set[str] = set()
        tries = odd = 0
        while True:
            query = {"chain": self._chain, "from": walk.first, "limit": MAX_PAGE, "cursor": cursor}
            try:
                page = self._read_page(query, patience)
            except AuthenticationError:
                raise
            except APIError as error:
                failure = failure_of(error)
                tries += 1
                if failure.cause is FailureCause.HOPELESS or failure.status == 500:
                    odd += 1
                now = session.clock.monotonic()
                wait = session.policy.wait(tries, failure, now=session.clock.now()).seconds
                if odd > _UNREADABLE or _final(error) or now + wait > give_up:
                    return f"the history cannot be read: {error.headline} ({error.method} {error.url})"
                if self._interruptible.shut:
                    raise Interrupted from None  # closing caused this error
                log_retry(error, wait)
                self._interruptible.sleep(session.clock, wait)
                continue
            now = session.clock.monotonic()
            tries, give_up = 0, now + patience
            more = state.add(walk, page, now, session.clock.now())
            if not more or page.next_cursor is None:
                return None
            cursor = page.next_cursor
            if cursor in cursors:
                return "the history repeats a cursor, so it would never end"
            cursors.add(cursor)

    def _read_page(self, query: Mapping[str, object], patience: float) -> HistoryPage:
        session = self._session
        claim = None
        while self._throttle and (wait := (claim := session.limiter.claim(session.limit_name)).wait):
            if wait > 1:  # else it is too short to log, or the rest of a sleep that ended early
                log_rate_limit_wait(wait)
            self._interruptible.sleep(session.clock, wait)
        page = request("GET", endpoint("signals", "history"), partial(decode_history, self._chain), query=query)
        return session.attempt(page, session.clock.monotonic() + max(patience, 1.0), claim)


def _final(error: APIError) -> bool:
    """Whether the service refuses the request, so that retrying cannot help."""
    status = getattr(error, "status", 0)
    return not isinstance(error, APIResponseError) and 300 <= status < 500 and status != 429
