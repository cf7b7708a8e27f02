"""One clock for a mock in this process and for its client: nobody waits in earnest, and both agree on the time."""

from __future__ import annotations

from tradesdk_mock import MockClock


class NotingClock(MockClock):
    """Stands still until somebody waits, and remembers how long they did. What reads of a stream wait is not noted."""

    def __init__(self, start: float) -> None:
        super().__init__(start)
        self.waits: list[float] = []

    def sleep(self, seconds: float) -> None:
        # A sleep in a task ends with one of what is left, which is nothing.
        if seconds > 0:
            self.waits.append(seconds)
        super().sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        self.waits.append(seconds)
        await super().sleep_async(seconds)
