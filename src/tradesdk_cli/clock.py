"""A clock that says why a command waits."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tradesdk import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tradesdk import Clock
    from tradesdk_cli.logs import LastReason
    from tradesdk_cli.output.printer import Output


class SayingClock(SystemClock):  # so that a stream that is closed wakes up from it
    """A clock that says on stderr when it waits for more than a second, until when, and why, if `reason` is given."""

    def __init__(
        self, inner: Clock, output: Output, reason: LastReason | None, now: Callable[[], float] | None = None
    ) -> None:
        self._inner = inner
        self._now = now or inner.now
        self._output = output
        self._reason = reason

    def now(self) -> float:
        return self._now()

    def monotonic(self) -> float:
        return self._inner.monotonic()

    def sleep(self, seconds: float) -> None:
        if seconds > 1:
            until = datetime.fromtimestamp(self.now() + seconds, UTC)
            why = "" if self._reason is None else f": {self._reason.text or 'the service asked for it'}"
            progress = self._output.progress
            if progress is None or not progress.waits(seconds, f"{until:%H:%M:%S}Z", why):
                self._output.note(f"waiting {seconds:.0f} s, until {until:%H:%M:%S}Z{why} (Ctrl-C stops)")
        self._inner.sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        await self._inner.sleep_async(seconds)
