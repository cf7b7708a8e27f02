"""How often a command tries again that a person waits for."""

from __future__ import annotations

from tradesdk import Failure, FailureCause, Operation, RetryAction, RetryPolicy


class OneMoreTry(RetryPolicy):
    """The SDK's own, but where nobody was reached at the address there is one more try: it may well be mistyped."""

    def action(self, operation: Operation, failure: Failure, retries: int, *, server_errors: int = 0) -> RetryAction:
        """What to do after `failure`."""
        if failure.cause is FailureCause.NOT_SENT and retries:
            return RetryAction.RAISE
        return super().action(operation, failure, retries, server_errors=server_errors)
