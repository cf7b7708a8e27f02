"""The retries of one call. Loaded only after a first failure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from .._http.log_events import log_fields, log_retry, logger
from .._http.request import CreateLookup, Request
from .._http.response import decode_with_headers, failure_of
from .._http.retry import Retries, server_now
from ..errors import AmbiguousOutcomeError, APIError, APIResponseError, NotFoundError, TradeError
from .concurrency import sleep

if TYPE_CHECKING:
    from collections import deque

    from .._http.retry import RetryBudget, RetryPolicy
    from .._system.clock import Clock
    from .._values.http import RawResponse

T = TypeVar("T")

_SLACK = 60.0  # seconds that two clocks of one service may be apart


class AsyncSender(Protocol):
    """What a retry needs of the session that it belongs to."""

    base_url: str
    clock: Clock
    policy: RetryPolicy
    budget: RetryBudget
    made: deque[str]

    async def call(self, request: Request[T], *, give_up: float | None = None) -> T: ...
    async def attempt(self, request: Request[T], give_up: float) -> T: ...
    def read(self, request: Request[T], response: RawResponse) -> T: ...
    def alone_with(self, wanted: tuple[object, ...]) -> bool: ...


class AsyncRetryLoop(Generic[T]):
    """What follows when the first attempt of a call has failed.

    `began` says when a create began, by the monotonic clock and by the wall.
    """

    def __init__(
        self, session: AsyncSender, request: Request[T], give_up: float, *, began: tuple[float, float] | None
    ) -> None:
        self._session = session
        self._request = request
        self._give_up = give_up
        self._began = began
        self._retries = Retries(session.policy, session.budget, request.operation, can_look=request.look is not None)
        self._sent_again = 0
        self._pause = 0.0
        self._last: APIError | None = None

    def worth_it(self, problem: BaseException) -> bool:
        """Whether another attempt is right after `problem`; if not, `problem` is completed for whoever gets it."""
        if not isinstance(problem, APIError):
            return False
        self._last = problem
        clock = self._session.clock
        problem.retries = self._sent_again
        wait = self._retries.next(failure_of(problem), now=clock.now(), time_left=self._give_up - clock.monotonic())
        if wait is None:
            if self._retries.outcome_unknown:
                problem.outcome = "unknown"
            return False
        self._pause = wait
        log_retry(problem, wait)
        return True

    async def run(self) -> T:
        """Wait and try again, until there is a result or an error that is not worth another attempt."""
        from tenacity import AsyncRetrying, retry_if_exception  # only when something is really sent again

        await self._sleep(self._pause)
        result: T = await AsyncRetrying(
            retry=retry_if_exception(self.worth_it), wait=lambda state: self._pause, sleep=self._sleep, reraise=True
        )(self._attempt)
        self._session.budget.give_back(self._retries.spent or 1)
        return result

    async def _sleep(self, seconds: float) -> None:
        await sleep(self._session.clock, seconds)

    async def _attempt(self) -> T:
        try:
            return await self._look_and_send()
        except APIError:
            raise
        except Exception as error:  # a client that was closed, a key that is gone: an earlier attempt still counts
            if not self._retries.outcome_unknown:
                raise
            why = str(error) if isinstance(error, TradeError) else type(error).__name__
            raise self._ambiguous(f"it may have been carried out, and trying again failed: {why}") from error

    async def _look_and_send(self) -> T:
        session, request = self._session, self._request
        if self._retries.look and request.look is not None:
            found = await self._look(request.look)
            if found is not None:
                return found
        if self._last is not None and session.clock.monotonic() >= self._give_up:
            raise self._last  # nothing is sent when there is no time left for its answer
        self._sent_again += 1
        try:
            return await session.attempt(request, self._give_up)
        except NotFoundError as gone:
            if request.method == "DELETE" and self._retries.outcome_unknown and gone.response is not None:
                return session.read(request, gone.response)  # an earlier attempt has deleted it
            raise

    async def _look(self, look: CreateLookup[T]) -> T | None:
        """The thing that an earlier attempt created after all; None when there is none."""
        session = self._session
        new: list[Any] = []
        unsure: list[Any] = []
        try:
            new, unsure = await self._matches(look)
            if not new and not unsure:
                return None
            if len(new) == 1 and not unsure and session.alone_with(look.expected):
                session.made.append(new[0].id)
                found: T = (
                    new[0] if look.fetch is None else await session.call(look.fetch(new[0].id), give_up=self._give_up)
                )
                url = session.base_url + self._request.target
                extra = log_fields("create_found", method=self._request.method, url=url)
                logger.info(
                    "%s: an earlier attempt had succeeded, nothing was sent again", self._request.path, extra=extra
                )
                return found
        except APIError as error:
            raise self._ambiguous(
                f"it is not known whether it was created, and looking for it failed: {error.message}", new
            ) from error
        raise self._ambiguous(
            "it is not known which was created by this call: there are others like it, or others on their way",
            new + unsure,
        )

    def _ambiguous(self, message: str, candidates: Sequence[Any] = ()) -> AmbiguousOutcomeError:
        return AmbiguousOutcomeError(
            message,
            method=self._request.method,
            url=self._session.base_url + self._request.target,
            candidates=[candidate.id for candidate in candidates],
        )

    async def _matches(self, look: CreateLookup[T]) -> tuple[list[Any], list[Any]]:
        """What matches and was not created by another call of this client: newer than this call, and perhaps newer."""
        session = self._session
        new: list[Any] = []
        unsure: list[Any] = []
        cursor: str | None = None
        seen: set[str] = set()
        while True:
            listing = look.listing.page(limit=100, cursor=cursor)
            with_headers = Request(
                listing.method, listing.path, decode_with_headers(listing.decode), query=listing.query
            )
            page, headers = await session.call(with_headers, give_up=self._give_up)
            since, surely_before = self._since(headers)
            for item in page.data:
                if look.identity(item) != look.expected or item.id in session.made:
                    continue
                created = item.created_at.timestamp()
                if created >= since:
                    new.append(item)
                elif created >= surely_before:
                    unsure.append(item)
            cursor = page.next_cursor
            if cursor is None:
                return new, unsure
            if cursor in seen:  # the rest of the list is out of reach, so that it may be there
                raise APIResponseError(
                    "the list repeats a cursor",
                    method="GET",
                    url=session.base_url + listing.target,
                    code="pagination_loop",
                )
            seen.add(cursor)

    def _since(self, headers: Mapping[str, str]) -> tuple[float, float]:
        """When the call began by the service's clock, and the moment before which nothing can be its doing.

        What is created is stamped in whole seconds, perhaps by another machine than the one that writes `Date`.
        """
        clock = self._session.clock
        monotonic, wall = self._began or (clock.monotonic(), clock.now())
        # The monotonic clock may stand still while a machine sleeps, and the wall's may be put back.
        ago = max(clock.monotonic() - monotonic, clock.now() - wall)
        since = math.floor(server_now(headers, clock.now()) - ago)
        return since, since - _SLACK if "date" in headers else 0.0
