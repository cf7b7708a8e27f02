"""How often a command tries again that a person waits for."""

from __future__ import annotations

from random import random as dice
from typing import TYPE_CHECKING

from tradesdk import Failure, FailureCause, Operation, RetryAction, RetryPolicy, RetryWait

if TYPE_CHECKING:
    from collections.abc import Callable

_SOON = 0.2


class OneMoreTry(RetryPolicy):
    """The SDK's own, but where nobody was reached there is one more try, and soon: the address may well be mistyped."""

    def action(self, operation: Operation, failure: Failure, retries: int, *, server_errors: int = 0) -> RetryAction:
        """What to do after `failure`."""
        if failure.cause is FailureCause.NOT_SENT and retries:
            return RetryAction.RAISE
        return super().action(operation, failure, retries, server_errors=server_errors)

    def wait(self, retry: int, failure: Failure, *, now: float, random: Callable[[], float] = dice) -> RetryWait:
        """How long to wait before it is sent again."""
        found = super().wait(retry, failure, now=now, random=random)
        if failure.cause is FailureCause.NOT_SENT and retry == 1:
            return RetryWait(min(found.seconds, _SOON * (1 + random())), 0.0)
        return found
