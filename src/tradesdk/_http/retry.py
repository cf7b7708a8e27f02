"""Retries: whether a request is sent again, and after how long. No I/O.

Retry k (1, 2, …) waits at least `2**k` seconds plus jitter, at most 60 s unless the service names a later time. Times
that the service names (`Retry-After`, `X-RateLimit-Reset`) are read by the service's own clock and get jitter too.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from .._values.text import real
from .arguments import is_whole, wrong_setting
from .service_time import server_wait


class Operation(StrEnum):
    """Kinds of requests, by whether they may be sent twice."""

    READ = "read"
    """GET: changes nothing."""
    WRITE = "write"
    """DELETE, PATCH, PUT: sending twice has the effect of once."""
    CREATE = "create"
    """POST that creates something: sending twice may create two."""
    QUERY = "query"
    """POST that only reads."""


class FailureCause(StrEnum):
    """Why a request failed."""

    STATUS = "status"
    NOT_SENT = "not_sent"
    """Never reached the service: connection refused or timed out, temporary failure of name resolution."""
    LOST = "lost"
    """Sent, at least in part, without a complete response."""
    HOPELESS = "hopeless"
    """Another attempt cannot help: certificate, unknown host, bad URL or header, unreadable response."""


class RetryAction(StrEnum):
    """What to do about a failure."""

    AGAIN = "again"
    LOOKUP = "lookup"
    """Check whether it happened; send it again only if it did not."""
    RAISE = "raise"


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt.

    Attributes:
        cause: the kind of failure.
        status: the HTTP status when `cause` is STATUS, else 0.
        headers: the response headers, with lower-case names.
        service_error: whether the service itself sent the error, not a proxy in front of it.
        here: whether this machine refused the connection: nothing listens there.
    """

    cause: FailureCause
    status: int = 0
    headers: Mapping[str, str] | None = None
    service_error: bool = False
    here: bool = False

    @property
    def outcome_unknown(self) -> bool:
        """Whether the service may have carried out the request."""
        if self.cause is FailureCause.STATUS:
            if self.status == 503:
                return not self.service_error
            return self.status >= 500 and self.status not in (501, 505)  # 501 and 505 mean that nothing was carried out
        return self.cause is FailureCause.LOST


@dataclass(frozen=True, slots=True)
class RetryWait:
    """How long to wait before the next attempt.

    Attributes:
        seconds: the wait, with jitter.
        server: seconds that the service named; 0 when it named none.
    """

    seconds: float
    server: float


def with_jitter(named: float, random: Callable[[], float] = random.random) -> float:
    """A wait that the service named, up to a second longer, so that not all callers return at the same moment."""
    return named + max(0.25, min(named * 0.1, 1.0)) * random()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When failed requests are sent again. Pass it to a client as `retry=`; it can be shared and compared.

    Attributes:
        max_retries: retries per call, all causes together (0 to 5).
        base: seconds; retry k waits at least `base * 2**k`. The service's rules require 1 or more.
        cap: seconds; the longest wait, unless the service names a longer one.
        jitter: random extra wait, as a share of the wait; its range is at least a quarter of a second.
        max_server_wait: seconds; when the service names a longer wait, the error is raised at once, with `retry_at`.
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
            if not (is_whole(value) and 0 <= value <= 5):
                raise wrong_setting(name, "a whole number from 0 to 5", value)
            object.__setattr__(self, name, int(value))
        for name in ("base", "cap", "jitter", "max_server_wait"):
            value = getattr(self, name)
            if not 0 <= real(value) < math.inf:
                raise wrong_setting(name, "a finite number, 0 or more", value)
            object.__setattr__(self, name, real(value))

    def action(self, operation: Operation, failure: Failure, retries: int, *, server_errors: int = 0) -> RetryAction:
        """What to do after `failure` and `retries` earlier retries, `server_errors` of them after a 500."""
        if retries >= self.max_retries:
            return RetryAction.RAISE
        again_or_lookup = RetryAction.LOOKUP if operation is Operation.CREATE else RetryAction.AGAIN
        match failure.cause:
            case FailureCause.HOPELESS:
                return RetryAction.RAISE
            case FailureCause.NOT_SENT:
                return RetryAction.RAISE if failure.here and retries else RetryAction.AGAIN
            case FailureCause.LOST:
                return again_or_lookup
            case FailureCause.STATUS:
                pass
        match failure.status:
            case 429:
                return RetryAction.AGAIN
            case 503:
                return RetryAction.AGAIN if failure.service_error else again_or_lookup
            case 502 if operation is Operation.QUERY and failure.service_error:
                return RetryAction.RAISE
            case status if status in (502, 504) or 520 <= status <= 530:  # from gateways in front
                return again_or_lookup
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

        At least our own backoff, and at least the wait that the service named on a 429 or 503.
        """
        backoff = min(self.cap, self.base * 2.0 ** min(retry, 64))
        spread = max(backoff * self.jitter, 0.25)
        own = min(self.cap, backoff + spread * random())
        server = 0.0
        if failure.status in (429, 503) and failure.headers is not None:
            server = server_wait(failure.headers, now) or 0.0
        return RetryWait(max(own, with_jitter(server, random)) if server else own, server)


_TOKENS = 500


class RetryBudget:
    """Limits the retries of a client, so that many calls retrying at once do not make an outage worse.

    A retry costs 14 tokens, 5 after a 429. A success gives back what its own retries cost, or 1 if it had none.
    """

    def __init__(self) -> None:
        self.spent = 0

    @staticmethod
    def cost(failure: Failure) -> int:
        return 5 if failure.status == 429 else 14

    def take(self, tokens: int) -> bool:
        if self.spent + tokens > _TOKENS:
            return False
        self.spent += tokens
        return True

    def refund(self, tokens: int) -> None:
        self.spent = max(0, self.spent - tokens)


@dataclass(slots=True)
class Retries:
    """Counts the retries of one call and decides on the next. Made only after a first failure."""

    policy: RetryPolicy
    budget: RetryBudget
    operation: Operation
    can_look_up: bool = False
    count: int = 0
    spent: int = 0
    server_errors: int = 0
    must_look_up: bool = False
    outcome_unknown: bool = False

    def next(self, failure: Failure, *, now: float, time_left: float) -> float | None:
        """Seconds to wait before the next attempt; None to raise the failure."""
        if failure.outcome_unknown and self.operation not in (Operation.READ, Operation.QUERY):
            self.outcome_unknown = True
        action = self.policy.action(self.operation, failure, self.count, server_errors=self.server_errors)
        if action is RetryAction.RAISE or (action is RetryAction.LOOKUP and not self.can_look_up):
            return None
        wait = self.policy.wait(self.count + 1, failure, now=now)
        if wait.server > self.policy.max_server_wait or wait.seconds > time_left:
            return None
        cost = self.budget.cost(failure)
        if not self.budget.take(cost):
            return None
        self.spent += cost
        self.count += 1
        self.server_errors += failure.status == 500
        # Once an attempt may have created something, every later one has to check first.
        self.must_look_up = self.operation is Operation.CREATE and (action is RetryAction.LOOKUP or self.must_look_up)
        return wait.seconds
