"""A clock that says why a command waits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from random import random as dice
from typing import TYPE_CHECKING

from tradesdk import Failure, FailureCause, Operation, RetryAction, RetryPolicy, RetryWait, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tradesdk_cli.diagnostics import LastReason
    from tradesdk_cli.output.printer import Output


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


class SayingClock(SystemClock):  # so that a stream that is closed wakes up from it
    """A clock that says on stderr when it waits for more than a second, until when, and why, if `reason` is given."""

    def __init__(self, output: Output, reason: LastReason | None, now: Callable[[], float] | None = None) -> None:
        if now is not None:
            self.now = now  # type: ignore[method-assign]  # the mock has its own time
        self._output = output
        self._reason = reason

    def sleep(self, seconds: float) -> None:
        if seconds > 1:
            until = datetime.fromtimestamp(self.now() + seconds, UTC)
            why = "" if self._reason is None else f": {self._reason.text or 'the service asked for it'}"
            progress = self._output.progress
            if progress is None or not progress.waits(seconds, f"{until:%H:%M:%S}Z", why):
                self._output.note(f"waiting {seconds:.0f} s, until {until:%H:%M:%S}Z{why} (Ctrl-C stops)")
        super().sleep(seconds)
