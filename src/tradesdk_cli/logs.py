"""What the SDK logs, as the terminal client uses it: as the reason of a wait, and with -v on stderr."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tradesdk import RateLimit
    from tradesdk_cli.output.printer import Output


def reason_of(record: logging.LogRecord) -> str:
    """Why the SDK waits, in a line that does not say how long."""
    fields = vars(record)
    reason = one_line(fields["reason"], 200)
    if "payment_id" in fields:
        return f"payment {fields['payment_id']}: {reason}"
    if "url" in fields:
        return f"{reason} ({fields['method']} {one_line(fields['url'], 200)})"
    if "chain" in fields:
        return f"the stream of chain {fields['chain']}: {reason}"
    return reason


def wait_of(record: logging.LogRecord) -> float:
    """Seconds that the SDK waits after this record; 0 when it does not wait."""
    wait: float = vars(record).get("wait", 0.0)
    return wait


class LastReason(logging.Handler):
    """Remembers why the SDK waited last: it says so before it waits."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        if wait_of(record):
            self.text = reason_of(record)


class _Stderr(logging.Handler):
    def __init__(self, output: Output, limit: Callable[[], RateLimit | None] | None) -> None:
        super().__init__(logging.DEBUG)
        self._output = output
        self._limit = limit

    def emit(self, record: logging.LogRecord) -> None:
        text = reason_of(record) if wait_of(record) > 1 else record.getMessage()  # the clock says how long
        limit = self._limit() if self._limit is not None and record.levelno == logging.DEBUG else None
        if limit is not None and limit.remaining is not None:
            total = f" of {limit.limit}" if limit.limit is not None else ""
            until = f" until {limit.reset:%H:%M:%S}Z" if limit.reset is not None else ""
            text += f"; {limit.remaining}{total} requests left{until}"
        self._output.note(text)


@contextmanager
def listening(
    reason: LastReason, output: Output, verbose: int, limit: Callable[[], RateLimit | None]
) -> Iterator[None]:
    """Listens to the SDK's log; `verbose` is how many -v were given, `limit` what is known of the rate limit."""
    logger = logging.getLogger("tradesdk")
    level = logger.level
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    handlers: list[logging.Handler] = [reason]
    if verbose:
        handlers.append(_Stderr(output, limit if verbose > 1 else None))
    for handler in handlers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            logger.removeHandler(handler)
        logger.setLevel(level)
