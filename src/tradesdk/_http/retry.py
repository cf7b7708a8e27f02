"""When a request is sent again, and when: decisions only, no clock and no socket.

A retry waits at least `2**k` seconds (k = 1, 2, …), with jitter upwards, never more than 60 s unless the service itself
named a later time. What the service names (`Retry-After`, `X-RateLimit-Reset`) is read against the service's own clock
and gets jitter as well.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ..errors import ConfigError
from .http_date import parse_http_date

_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_RESET = re.compile(r"[0-9]{9,11}")
_AGE = re.compile(r"[0-9]{1,9}")
_COMMA = re.compile(r",(?! ?[0-9]{2}[ -][A-Z])")  # between values, not the one inside a date
_LONGEST = 1e12  # seconds, beyond the calendar: a wait stays a number however many digits name it


class Operation(StrEnum):
    """What a request does, as far as sending it twice is concerned."""

    READ = "read"
    """GET: changes nothing."""
    WRITE = "write"
    """DELETE, PATCH, PUT: twice is the same as once."""
    CREATE = "create"
    """POST that makes something: twice may make two."""
    QUERY = "query"
    """POST that only asks."""


class FailureCause(StrEnum):
    """Why a request failed."""

    STATUS = "status"
    NOT_SENT = "not_sent"
    """Certainly never reached the service: refused, no connection in time, name resolution failing for now."""
    LOST = "lost"
    """Sent, perhaps only in part, and no complete answer."""
    HOPELESS = "hopeless"
    """Another try cannot help: certificate, unknown host, bad URL or header, an answer that makes no sense."""


class RetryAction(StrEnum):
    """What to do about a failure."""

    AGAIN = "again"
    LOOK = "look"
    """Look whether it happened; send it again only if it did not."""
    RAISE = "raise"


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt.

    Attributes:
        cause: what kind of failure.
        status: the HTTP status when `cause` is STATUS, else 0.
        headers: the answer's headers, with lower-case names.
        service_error: whether the body was an error of the service itself, not of something in front of it.
    """

    cause: FailureCause
    status: int = 0
    headers: Mapping[str, str] | None = None
    service_error: bool = False

    @property
    def outcome_unknown(self) -> bool:
        """Whether the service may have carried the request out all the same."""
        if self.cause is FailureCause.STATUS:
            if self.status == 503:
                return not self.service_error
            return self.status >= 500 and self.status not in (501, 505)  # those two are refused unseen
        return self.cause is FailureCause.LOST


@dataclass(frozen=True, slots=True)
class RetryWait:
    """How long to wait before the next attempt.

    Attributes:
        seconds: the wait, with jitter.
        server: what the service asked for (0 when it asked for nothing).
    """

    seconds: float
    server: float


def server_now(headers: Mapping[str, str], local_now: float) -> float:
    """The service's time when it answered: `Date` plus `Age`; the local clock when there is no usable `Date`."""
    date = server_date(headers, local_now)
    return local_now if date is None else date


def server_date(headers: Mapping[str, str], local_now: float) -> float | None:
    """The same; None when there is no usable `Date`."""
    dates = [parse_http_date(value, now=local_now) for value in _values(headers, "date")]
    known = [date for date in dates if date is not None]
    if not known:
        return None
    age = headers.get("age", "").strip()
    return min(known) + (int(age) if _AGE.fullmatch(age) else 0)


def server_wait(headers: Mapping[str, str], local_now: float) -> float | None:
    """Seconds to wait that the service named, the longest of all; None when it named none."""
    now = server_now(headers, local_now)
    named: list[float] = []
    for value in _values(headers, "retry-after"):
        if _SECONDS.fullmatch(value):
            named.append(float(value))
        elif (date := parse_http_date(value, now=now)) is not None:
            named.append(date - now)
    reset = reset_time(headers)
    if reset is not None:
        named.append(reset + 1 - now)
    return min(max(0.0, *named), _LONGEST) if named else None


def with_jitter(named: float, random: Callable[[], float] = random.random) -> float:
    """A wait that the service named: never shorter, and up to a second longer.

    Callers that were told the same moment don't all come back at it.
    """
    return named + max(0.25, min(named * 0.1, 1.0)) * random()


def reset_time(headers: Mapping[str, str]) -> int | None:
    """`X-RateLimit-Reset` in Unix seconds; None when it is missing or cannot be a time of this era."""
    return max((int(value) for value in _values(headers, "x-ratelimit-reset") if _RESET.fullmatch(value)), default=None)


def _values(headers: Mapping[str, str], name: str) -> list[str]:
    """The values of a header that should come once; one that came more often is joined by commas."""
    text = headers.get(name)
    return [value.strip() for value in _COMMA.split(text)] if text else []


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When a failed request is sent again. A value: share it, compare it, pass it to a client as `retry=`.

    Attributes:
        max_retries: retries per call, all causes together (0 to 5).
        base: seconds; retry k waits `base * 2**k`, at least. 1 or more keeps to the service's rules.
        cap: seconds; the longest wait of our own. A longer one is taken only when the service names it.
        jitter: the share of the wait that is added at random, upwards only, at least a quarter of a second wide.
        max_server_wait: seconds; a longer wait named by the service raises at once, with `retry_at` on the error.
        max_server_errors: retries after a 500, within `max_retries`.
    """

    max_retries: int = 5
    base: float = 1.0
    cap: float = 60.0
    jitter: float = 0.25
    max_server_wait: float = 120.0
    max_server_errors: int = 2

    def __post_init__(self) -> None:
        for name in ("max_retries", "max_server_errors"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 5:
                raise ConfigError(f"{name} must be a whole number from 0 to 5: the service asks for at most 5 retries")
        for name in ("base", "cap", "jitter", "max_server_wait"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise ConfigError(f"{name} must be a finite number, 0 or more")

    def action(self, operation: Operation, failure: Failure, retries: int, *, server_errors: int = 0) -> RetryAction:
        """What to do after `failure`, when `retries` retries (`server_errors` of them after a 500) were made."""
        if retries >= self.max_retries:
            return RetryAction.RAISE
        again_or_look = RetryAction.LOOK if operation is Operation.CREATE else RetryAction.AGAIN
        match failure.cause:
            case FailureCause.HOPELESS:
                return RetryAction.RAISE
            case FailureCause.NOT_SENT:
                return RetryAction.AGAIN
            case FailureCause.LOST:
                return again_or_look
            case FailureCause.STATUS:
                pass
        match failure.status:
            case 429:
                return RetryAction.AGAIN
            case 503:
                return RetryAction.AGAIN if failure.service_error else again_or_look
            case 502 if operation is Operation.QUERY and failure.service_error:
                return RetryAction.RAISE
            case 502 | 504:
                return again_or_look
            case 500 if operation is not Operation.CREATE and server_errors < self.max_server_errors:
                return RetryAction.AGAIN
        return RetryAction.RAISE

    def wait(
        self,
        retry: int,
        failure: Failure,
        *,
        now: float,
        random: Callable[[], float] = random.random,
    ) -> RetryWait:
        """How long to wait before retry number `retry` (1, 2, …), at the local time `now`.

        Never shorter than our own backoff, nor than any time the service named on a 429 or 503.
        """
        backoff = min(self.cap, self.base * 2.0 ** min(retry, 64))
        spread = max(backoff * self.jitter, 0.25)
        own = min(self.cap, backoff + spread * random())
        server = 0.0
        if failure.status in (429, 503) and failure.headers is not None:
            server = server_wait(failure.headers, now) or 0.0
        return RetryWait(max(own, with_jitter(server, random)) if server else own, server)


class RetryBudget:
    """What a client may spend on retries, so that an outage is not made worse by many calls retrying at once.

    A retry costs 14 tokens, 5 after a 429. A success gives back what its own retries cost, otherwise 1.
    """

    def __init__(self, tokens: int = 500) -> None:
        self.full = tokens
        self.tokens = tokens

    @staticmethod
    def cost(failure: Failure) -> int:
        return 5 if failure.status == 429 else 14

    def take(self, tokens: int) -> bool:
        if self.tokens < tokens:
            return False
        self.tokens -= tokens
        return True

    def give_back(self, tokens: int) -> None:
        if self.tokens < self.full:
            self.tokens = min(self.full, self.tokens + tokens)


class Retries:
    """The retries of one call: counts them, and says what to do next. Made only after a first failure."""

    def __init__(
        self,
        policy: RetryPolicy,
        budget: RetryBudget,
        operation: Operation,
        *,
        can_look: bool = False,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._policy = policy
        self._budget = budget
        self._operation = operation
        self._can_look = can_look
        self._random = random
        self._server_errors = 0
        self.count = 0
        self.spent = 0
        self.look = False
        self.outcome_unknown = False

    def next(self, failure: Failure, *, now: float, time_left: float) -> float | None:
        """Seconds to wait before the next attempt; None when the failure is to be raised."""
        if failure.outcome_unknown and self._operation not in (Operation.READ, Operation.QUERY):
            self.outcome_unknown = True
        action = self._policy.action(self._operation, failure, self.count, server_errors=self._server_errors)
        if action is RetryAction.RAISE or (action is RetryAction.LOOK and not self._can_look):
            return None
        wait = self._policy.wait(self.count + 1, failure, now=now, random=self._random)
        if wait.server > self._policy.max_server_wait or wait.seconds > time_left:
            return None
        cost = self._budget.cost(failure)
        if not self._budget.take(cost):
            return None
        self.spent += cost
        self.count += 1
        self._server_errors += failure.status == 500
        # Once an attempt may have created something, every later one has to look first, whatever failed in between.
        self.look = self._operation is Operation.CREATE and (action is RetryAction.LOOK or self.look)
        return wait.seconds
