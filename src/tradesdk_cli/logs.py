"""What the SDK logs, as the terminal client uses it: as the reason of a wait, and with -v on stderr."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tradesdk_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tradesdk_cli.output import Output


class LastReason(logging.Handler):
    """Remembers what the SDK said last; before it waits, that is the reason."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = one_line(record.getMessage(), 200)


class _Stderr(logging.Handler):
    def __init__(self, output: Output) -> None:
        super().__init__(logging.DEBUG)
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        self._output.note(record.getMessage())


@contextmanager
def listening(reason: LastReason, output: Output, verbose: int) -> Iterator[None]:
    """Listens to the SDK's log; `verbose` is how many -v were given."""
    logger = logging.getLogger("tradesdk")
    level = logger.level
    logger.setLevel(logging.DEBUG if verbose > 1 else logging.INFO)
    handlers: list[logging.Handler] = [reason, _Stderr(output)] if verbose else [reason]
    for handler in handlers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            logger.removeHandler(handler)
        logger.setLevel(level)
