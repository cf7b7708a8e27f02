"""Retries and waits of a command, and its notes about them: the reason of the SDK's log, with `-v` the whole log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from random import random as dice
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tradesdk import RetryPolicy, SystemClock, Timeout
from tradesdk.types import Failure, FailureCause, Operation, RetryAction, RetryWait
from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tradesdk import RateLimit
    from tradesdk_cli.output.printer import Output


_SOON = 0.2
QUICK = Timeout(connect=2.2)
"""A person waits: an unreachable service is reported after 3 seconds."""


@dataclass(frozen=True)
class OneMoreTry(RetryPolicy):
    """The SDK's policy, but with one quick retry of a refused connection, as the address may be mistyped.

    Other connection errors are not retried.

    Attributes:
        reached: whether the service has answered before. Then the usual retries apply.
    """

    reached: Callable[[], bool] = bool

    def action(self, operation: Operation, failure: Failure, retries: int, *, server_errors: int = 0) -> RetryAction:
        """The next step after `failure`."""
        if failure.cause is FailureCause.NOT_SENT:
            if not self.reached() and (retries or not failure.here):
                return RetryAction.RAISE
            failure = Failure(failure.cause)  # whatever its address
        return super().action(operation, failure, retries, server_errors=server_errors)

    def wait(self, retry: int, failure: Failure, *, now: float, random: Callable[[], float] = dice) -> RetryWait:
        """Seconds to wait before the retry."""
        found = super().wait(retry, failure, now=now, random=random)
        if failure.cause is FailureCause.NOT_SENT and retry == 1 and not self.reached():
            return RetryWait(min(found.seconds, _SOON * (1 + random())), 0.0)
        return found


class OtherTime(SystemClock):  # so that closing a stream wakes it up
    """The system's clock, with another time of day."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now  # type: ignore[method-assign]  # the mock has its own time


# The SDK's log


_FIELDS = ("reason", "wait", "tries", "start", "end", "position", "source")
_OF_CALLS = ("retry", "rate_limit_wait", "payment_resent")


def say(output: Output, limit: Callable[[], RateLimit | None], record: logging.LogRecord) -> None:
    """Prints waits of more than a second with end and reason, and newly remembered recipients, on stderr.

    As `output.log` says, prints all events with their fields instead. With `-v`, prints all of the SDK's log. `limit`
    returns the known rate limit, for `-vv`.
    """
    fields, verbose = vars(record), output.settings.verbose
    name, wait = str(fields.get("event")), fields.get("wait", 0.0)
    if name == "recipient_remembered":
        host = one_line(urlsplit(fields["url"]).netloc, 200)
        text = f"{fields['address']} is remembered as the recipient of {host}; any other is refused"
        output.event(name, text, recipient=fields["address"])
    elif output.log == "events" and record.levelno >= logging.INFO:
        values = {field: fields[field] for field in _FIELDS if field in fields}
        shown = {field: one.timestamp() if isinstance(one, datetime) else one for field, one in values.items()}
        output.event(name.removeprefix("stream_").removeprefix("fleet_"), record.getMessage(), **shown)
    elif wait > 1 and name in _OF_CALLS and output.log == "waits":
        until, reason = datetime.fromtimestamp(SystemClock().now() + wait, UTC), one_line(fields["reason"], 200)
        if "payment_id" in fields:
            reason = f"payment {fields['payment_id']}: {reason}"
        elif "url" in fields:
            reason += f" ({fields['method']} {one_line(urlsplit(fields['url']).path, 200)})"
        output.note(f"waiting {wait:.0f} s, until {until:%H:%M:%S}Z: {reason} (Ctrl-C stops)")
    elif verbose:
        known = limit() if verbose > 1 and record.levelno == logging.DEBUG else None
        text = record.getMessage()
        if known is not None and known.remaining is not None:
            total = f" of {known.limit}" if known.limit is not None else ""
            until_reset = f" until {known.reset:%H:%M:%S}Z" if known.reset is not None else ""
            text += f"; {known.remaining}{total} requests left{until_reset}"
        output.note(text)


@contextmanager
def log_handler(
    handle: Callable[[logging.LogRecord], None],
    least: int = logging.DEBUG,
    log: str = "tradesdk",
    *,
    alone: bool = False,
) -> Iterator[None]:
    """Inside, `handle` gets the records of `log` of at least this level; `alone`: only the handlers of that log do."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            handle(record)

    logger, handler = logging.getLogger(log), Handler(least)
    level, propagate = logger.level, logger.propagate
    logger.setLevel(min(level or least, least))
    logger.propagate = propagate and not alone
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
        logger.setLevel(level)
