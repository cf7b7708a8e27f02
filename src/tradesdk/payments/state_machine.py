"""What follows an answer to a payment: hand the same bytes over again, and when, or end. No I/O.

```
NEW → QUOTED → RESERVED → SUBMITTED → DELIVERED | PENDING | UNKNOWN | REJECTED_LIVE | PAID_UNDELIVERED
                                      PENDING, UNKNOWN → the same bytes again, while they are valid
after the authorization's end:        REJECTED_LIVE → EXPIRED_UNPAID      PENDING, UNKNOWN → EXPIRED_UNKNOWN
```

One call signs once. Neither a fresh 402 nor an error proves that a payment was not taken, so nothing in here ever asks
for another signature.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from .._http.retry import FailureCause, RetryPolicy
from .._values.payment import PaymentState
from .classification import Classification, PaymentResponse

MAX_REPEATS = 5
MAX_AFTER_BARE = 2
MARGIN = 6
"""Seconds before an authorization's end from which on verifiers refuse it."""

_IN_DOUBT = frozenset({PaymentState.SUBMITTED, PaymentState.PENDING, PaymentState.UNKNOWN})
_OPEN = {
    Classification.PENDING: PaymentState.PENDING,
    Classification.UNKNOWN: PaymentState.UNKNOWN,
    Classification.NO_REASON: PaymentState.UNKNOWN,
}
_ENDS = {Classification.DELIVERED: PaymentState.DELIVERED, Classification.ALREADY_USED: PaymentState.PAID_UNDELIVERED}


@dataclass(frozen=True, slots=True)
class Transition:
    """What to do next.

    Attributes:
        state: what the ledger is to say of the payment.
        wait: seconds until the same bytes are handed over again; None: the call ends.
    """

    state: PaymentState
    wait: float | None = None


class PaymentStateMachine:
    """The submissions of one payment in one call.

    `state` is what the ledger says of it at the start: one that is in doubt may have been taken already.
    """

    def __init__(
        self,
        policy: RetryPolicy,
        *,
        valid_before: int,
        state: PaymentState = PaymentState.RESERVED,
        submissions: int = 0,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._policy = policy
        self._valid_before = valid_before
        self._random = random
        self._most = min(MAX_REPEATS, policy.max_retries)
        self._no_reason = 0
        self.repeats = 0
        self.submissions = submissions
        self.in_doubt = state in _IN_DOUBT

    def can_submit(self, at: float) -> bool:
        """Whether a verifier would still look at it, at the service's time `at`."""
        return at + MARGIN < self._valid_before

    def next(self, answer: PaymentResponse, *, at: float, now: float, time_left: float) -> Transition:
        """The step after `answer`.

        Args:
            answer: what came.
            at: the service's time in Unix seconds, the latest that it may be.
            now: the local time in Unix seconds.
            time_left: seconds until the call's deadline.
        """
        verdict = answer.verdict
        if verdict is not Classification.NOT_RECEIVED:
            self.submissions += 1
        if (
            verdict is Classification.ALREADY_USED
            and not self.in_doubt
            and not (answer.receipt and answer.receipt.success)
        ):
            return Transition(
                PaymentState.UNKNOWN
            )  # a nonce that nobody can have used before: who is wrong is not clear
        if verdict in _ENDS:
            return Transition(_ENDS[verdict])
        if verdict is Classification.REDIRECTED:
            return Transition(PaymentState.UNKNOWN)
        if verdict in (Classification.REJECTED, Classification.REFUSED):
            # After a submission in doubt this proves nothing: it may be refused because it was taken.
            return Transition(PaymentState.UNKNOWN if self.in_doubt else PaymentState.REJECTED_LIVE)
        if verdict in _OPEN:
            self.in_doubt = True
            state = _OPEN[verdict]
        else:
            state = PaymentState.UNKNOWN if self.in_doubt else PaymentState.REJECTED_LIVE
        return Transition(state, self._wait(answer, at=at, now=now, time_left=time_left))

    def _wait(self, answer: PaymentResponse, *, at: float, now: float, time_left: float) -> float | None:
        if answer.failure.cause is FailureCause.HOPELESS:
            return None
        self._no_reason += answer.verdict is Classification.NO_REASON
        if self.repeats >= self._most or self._no_reason > MAX_AFTER_BARE:
            return None
        wait = self._policy.wait(self.repeats + 1, answer.failure, now=now, random=self._random)
        if wait.server > self._policy.max_server_wait or wait.seconds > time_left:
            return None
        if not self.can_submit(at + wait.seconds):
            return None
        self.repeats += 1
        return wait.seconds
