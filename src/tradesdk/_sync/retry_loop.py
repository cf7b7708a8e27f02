# Generated from src/tradesdk/_async/retry_loop.py by scripts/unasync.py: change that file instead.
"""The retries of one call. Loaded only after a first failure."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .._http.log_events import event, log_retry
from .._http.request import CreateLookup, Request
from .._http.response import failure_of
from .._http.retry import Retries
from .._http.service_time import server_now
from .._system.interrupts import failures
from ..errors import AmbiguousOutcomeError, APIError, NotFoundError, TradeError
from .concurrency import sleep
from .pagination import Pages

if TYPE_CHECKING:
    from .sending import Caller

T = TypeVar("T")

_SLACK = 60.0  # seconds that two clocks of one service may differ


class RetryLoop(Generic[T]):
    """Retries a call after its first attempt failed.

    `began`: when a create began, by the monotonic clock and by the wall clock.
    """

    def __init__(
        self, session: Caller, request: Request[T], give_up: float, *, began: tuple[float, float] | None
    ) -> None:
        self._session = session
        self._request = request
        self._give_up = give_up
        self._began = began
        self._retries = Retries(
            session.policy, session.retry_budget, request.operation, can_look_up=request.lookup is not None
        )
        self._sent_again = 0
        self._pause = 0.0
        self._last: APIError | None = None

    def should_retry(self, error: BaseException) -> bool:
        """Whether to retry after `error`. If not, its `retries` and `outcome` are set for the caller."""
        if not isinstance(error, APIError):
            return False
        self._last = error
        clock = self._session.clock
        error.retries = self._sent_again
        wait = self._retries.next(failure_of(error), now=clock.now(), time_left=self._give_up - clock.monotonic())
        if wait is None:
            if self._retries.outcome_unknown:
                error.outcome = "unknown"
            return False
        import tenacity  # noqa: F401 # only when something is sent again

        self._pause = wait
        log_retry(error, wait)
        return True

    def run(self) -> T:
        """Wait and retry, until there is a result or an error that should not be retried."""
        from tenacity import Retrying, retry_if_exception

        self._sleep(self._pause)
        result: T = Retrying(
            retry=retry_if_exception(self.should_retry), wait=lambda state: self._pause, sleep=self._sleep, reraise=True
        )(self._attempt)
        self._session.retry_budget.refund(self._retries.spent or 1)
        return result

    def _sleep(self, seconds: float) -> None:
        sleep(self._session.clock, seconds)

    def _attempt(self) -> T:
        try:
            return self._look_and_send()
        except APIError:
            raise
        except failures(Exception) as error:  # such as a closed client; an earlier attempt may have succeeded
            if not self._retries.outcome_unknown:
                raise
            reason = str(error) if isinstance(error, TradeError) else type(error).__name__
            raise self._ambiguous(f"an earlier attempt may have succeeded, and the retry failed: {reason}") from error

    def _look_and_send(self) -> T:
        session, request = self._session, self._request
        if self._retries.must_look_up and request.lookup is not None:
            found = self._look_up(request.lookup)
            if found is not None:
                return found
        if self._last is not None and session.clock.monotonic() >= self._give_up:
            raise self._last  # no time is left for a response
        self._sent_again += 1
        try:
            return session.attempt(request, self._give_up)
        except NotFoundError as gone:
            if request.method == "DELETE" and self._retries.outcome_unknown and gone.response is not None:
                return session.read(request, gone.response)  # an earlier attempt has deleted it
            raise

    def _look_up(self, lookup: CreateLookup[T]) -> T | None:
        """Find the object that an earlier attempt created; None if there is none."""
        session = self._session
        new: list[Any] = []
        unsure: list[Any] = []
        try:
            new, unsure = self._matches(lookup)
            if not new and not unsure:
                return None
            if len(new) == 1 and not unsure and session.creating.count(lookup.expected) <= 1:
                session.made.append(new[0].id)
                found: T = (
                    new[0] if lookup.fetch is None else session.call(lookup.fetch(new[0].id), give_up=self._give_up)
                )
                url = session.base_url + self._request.target
                text = "%(method)s %(url)s: an earlier attempt had succeeded; nothing was sent again"
                event("create_found", text, level=logging.INFO, method=self._request.method, url=url)
                return found
        except APIError as error:
            raise self._ambiguous(f"it may have been created; listing to check failed: {error.message}", new) from error
        raise self._ambiguous(
            "it may have been created; another one like it exists, or is being created, so it cannot be identified",
            new + unsure,
        )

    def _ambiguous(self, message: str, candidates: Sequence[Any] = ()) -> AmbiguousOutcomeError:
        return AmbiguousOutcomeError(
            message,
            method=self._request.method,
            url=self._session.base_url + self._request.target,
            candidates=[candidate.id for candidate in candidates],
        )

    def _matches(self, lookup: CreateLookup[T]) -> tuple[list[Any], list[Any]]:
        """Matching items that no other call of this client created: those newer than this call, those perhaps newer."""
        session = self._session
        new: list[Any] = []
        unsure: list[Any] = []
        for page in Pages(session, lookup.listing, give_up=self._give_up):
            since, surely_before = self._since(session.latest)
            for item in page.data:
                if lookup.identity(item) != lookup.expected or item.id in session.made:
                    continue
                created = item.created_at.timestamp()
                if created >= since:
                    new.append(item)
                elif created >= surely_before:
                    unsure.append(item)
        return new, unsure

    def _since(self, headers: Mapping[str, str]) -> tuple[float, float]:
        """When the call began by the service's clock, and the time before which it cannot have created anything.

        `created_at` has whole seconds, and may come from another machine than `Date`.
        """
        clock = self._session.clock
        monotonic, wall = self._began or (clock.monotonic(), clock.now())
        # The monotonic clock may stop while a machine sleeps, and the wall clock may be set back.
        ago = max(clock.monotonic() - monotonic, clock.now() - wall)
        since = math.floor(server_now(headers, clock.now()) - ago)
        return since, since - _SLACK if "date" in headers else 0.0
