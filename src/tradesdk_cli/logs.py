"""What the SDK logs, as the terminal client uses it: as the reason of a wait, and with -v on stderr."""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tradesdk import RateLimit
    from tradesdk_cli.output import Output


HOW_LONG = re.compile(r"; (?:trying again|the same payment again|waiting) (?:in )?([0-9.]+) s\b.*$")
TOLD = re.compile(r"; try again in [0-9]+ s(?=\))")
"""How long the service said itself."""
NOT_LOOKED = re.compile(r"chain \d+: ")
"""How a look into the history begins that failed and is done again."""


class LastReason(logging.Handler):
    """Remembers what the SDK said last; before it waits, that is the reason."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        # How long is said by whoever waits.
        self.text = TOLD.sub("", HOW_LONG.sub("", one_line(record.getMessage(), 200)))


class _Stderr(logging.Handler):
    def __init__(self, output: Output, limit: Callable[[], RateLimit | None] | None) -> None:
        super().__init__(logging.DEBUG)
        self._output = output
        self._limit = limit

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        wait = HOW_LONG.search(text)
        if wait is not None and float(wait[1]) > 1:
            text = TOLD.sub("", text[: wait.start()])  # the clock says so itself
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
