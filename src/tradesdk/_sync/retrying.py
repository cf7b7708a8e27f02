# Generated from src/tradesdk/_async/retrying.py by scripts/unasync.py: change that file instead.
"""The retries of one call. Loaded only after a first failure."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any, TypeVar

from tenacity import Retrying, retry_if_exception

from .._request import Look, Request
from .._response import decode_with_headers, failure_of
from .._retry import Retries, server_now
from ..errors import AmbiguousOutcomeError, APIError, APIResponseError, NotFoundError
from .primitives import sleep

if TYPE_CHECKING:
    from .calls import Calls

T = TypeVar("T")

logger = logging.getLogger("tradesdk")


def again(calls: Calls, request: Request[T], error: APIError, *, started: float, give_up: float) -> T:
    """Go on after the first attempt failed with `error`: the result, or the last error."""
    clock = calls.clock
    retries = Retries(calls.policy, calls.budget, request.operation, can_look=request.look is not None)
    failed: APIError | None = error
    pause = 0.0

    def attempt() -> T:
        nonlocal failed
        if failed is not None:  # the first attempt was made before tenacity came in
            first, failed = failed, None
            raise first
        if retries.look and request.look is not None:
            found = _look(calls, request, request.look, started=started, give_up=give_up)
            if found is not None:
                return found
        try:
            return calls.attempt(request, give_up)
        except NotFoundError as gone:
            if request.method == "DELETE" and retries.outcome_unknown and gone.response is not None:
                return calls.read(request, gone.response)  # an earlier attempt has deleted it
            raise

    def worth_it(problem: BaseException) -> bool:
        nonlocal pause
        if not isinstance(problem, APIError):
            return False
        problem.retries = retries.count
        wait = retries.next(failure_of(problem), now=clock.now(), time_left=give_up - clock.monotonic())
        if wait is None:
            if retries.outcome_unknown:
                problem.outcome = "unknown"
            return False
        pause = wait
        logger.info("%s; trying again in %.1f s", problem, wait)
        return True

    def wait_out(seconds: float) -> None:
        sleep(clock, seconds)

    result: T = Retrying(retry=retry_if_exception(worth_it), wait=lambda state: pause, sleep=wait_out, reraise=True)(
        attempt
    )
    calls.budget.give_back(retries.spent or 1)
    return result


def _look(calls: Calls, request: Request[T], look: Look[T], *, started: float, give_up: float) -> T | None:
    """The thing that an earlier attempt created after all; None when there is none."""
    url = calls.base_url + request.target
    candidates: list[Any] = []
    try:
        candidates = _new_matches(calls, look, started=started, give_up=give_up)
        if not candidates:
            return None
        if len(candidates) == 1 and calls.creating.count(look.wanted) == 1:
            calls.made.append(candidates[0].id)
            found: T = (
                candidates[0] if look.fetch is None else calls.call(look.fetch(candidates[0].id), give_up=give_up)
            )
            logger.info("%s %s: an earlier attempt had succeeded, nothing was sent again", request.method, url)
            return found
    except APIError as error:
        raise AmbiguousOutcomeError(
            f"it is not known whether it was created, and looking for it failed: {error.message}",
            method=request.method,
            url=url,
            candidates=[candidate.id for candidate in candidates],
        ) from error
    raise AmbiguousOutcomeError(
        "it is not known which was created by this call: there are others like it, or others on their way",
        method=request.method,
        url=url,
        candidates=[candidate.id for candidate in candidates],
    )


def _new_matches(calls: Calls, look: Look[T], *, started: float, give_up: float) -> list[Any]:
    """What matches, is newer than the call, and was not created by another call of this client."""
    matches: list[Any] = []
    cursor: str | None = None
    seen: set[str] = set()
    while True:
        listing = look.listing.page(limit=100, cursor=cursor)
        with_headers = Request(listing.method, listing.path, decode_with_headers(listing.decode), query=listing.query)
        page, headers = calls.call(with_headers, give_up=give_up)
        # By the service's clock, which stamps what it creates; both are whole seconds, rounded down.
        ago = calls.clock.monotonic() - started
        since = math.floor(server_now(headers, calls.clock.now()) - ago)
        matches += [
            item
            for item in page.data
            if look.identity(item) == look.wanted and item.created_at.timestamp() >= since and item.id not in calls.made
        ]
        cursor = page.next_cursor
        if cursor is None:
            return matches
        if cursor in seen:  # the rest of the list is out of reach, so that it may be there
            raise APIResponseError("the list repeats a cursor", method="GET", url=calls.base_url + listing.target)
        seen.add(cursor)
