"""How often a command tries again that a person waits for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import random as dice

from tradesdk import Failure, FailureCause, Operation, RetryAction, RetryPolicy, RetryWait

_SOON = 0.2


@dataclass(frozen=True)
class OneMoreTry(RetryPolicy):
    """The SDK's own, but where nobody was reached there is one more try, and soon: the address may well be mistyped.

    Attributes:
        reached: whether the service has answered before. Then it is only away for a while, and worth the usual retries.
    """

    reached: Callable[[], bool] = bool

    def action(self, operation: Operation, failure: Failure, retries: int, *, server_errors: int = 0) -> RetryAction:
        """What to do after `failure`."""
        if failure.cause is FailureCause.NOT_SENT and retries and not self.reached():
            return RetryAction.RAISE
        return super().action(operation, failure, retries, server_errors=server_errors)

    def wait(self, retry: int, failure: Failure, *, now: float, random: Callable[[], float] = dice) -> RetryWait:
        """How long to wait before it is sent again."""
        found = super().wait(retry, failure, now=now, random=random)
        if failure.cause is FailureCause.NOT_SENT and retry == 1 and not self.reached():
            return RetryWait(min(found.seconds, _SOON * (1 + random())), 0.0)
        return found
