"""Scripts of what a stream brings and what the history lists, for the tests of what is yielded."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from tradesdk import Gap, Signal, StreamSignal
from tradesdk._stream.checkpoint import CheckpointState
from tradesdk._stream.deduplication import Deduplicator, HistoryWalk
from tradesdk.types import StreamItem

from .. import _answers
from .._clock import START

SETTLE = 3.0


@lru_cache(100_000)
def listed(signal_id: str, at: float, **changes: Any) -> Signal:
    """As the history lists it; `at`: seconds after the beginning, whole ones count."""
    return Signal.model_construct(**_fields(signal_id, at, changes))


def live(signal_id: str, at: float, **changes: Any) -> StreamSignal:
    """As the stream brings it."""
    return StreamSignal.model_construct(**_fields(signal_id, at, changes), type="signal")


def _fields(signal_id: str, at: float, changes: dict[str, Any]) -> dict[str, Any]:
    return (
        _answers.signal(signal_id, direction="BUY", timestamp=datetime.fromtimestamp(math.floor(START + at), UTC))
        | changes
    )


class History:
    """What the service lists: newest first, a hundred to a page. Added in any order.

    Attributes:
        pages: how many were read.
        since: what is older is not listed any more.
    """

    def __init__(self, signals: Iterable[tuple[str, float]] = ()) -> None:
        self.entries: list[tuple[int, int, str]] = []
        self.pages = 0
        self.since = -math.inf
        for signal_id, at in signals:
            self.add(signal_id, at)

    def add(self, signal_id: str, at: float) -> None:
        insort(self.entries, (math.floor(START + at), len(self.entries), signal_id))

    def _first(self, walk: HistoryWalk) -> int:
        return bisect_left(self.entries, (max(walk.first, self.since + START),))

    def page(self, walk: HistoryWalk, offset: int) -> list[Signal]:
        self.pages += 1
        low, high = self._first(walk), len(self.entries)
        found = self.entries[max(low, high - offset - 100) : max(low, high - offset)]
        return [listed(signal_id, when - START) for when, _, signal_id in reversed(found)]

    def goes_on(self, walk: HistoryWalk, offset: int) -> bool:
        return len(self.entries) - offset > self._first(walk)


class Follows:
    """One consumer's view: what was yielded, in order. All times are seconds after the beginning."""

    def __init__(self, *, history: History | None = None, acknowledging: bool = False, **options: Any) -> None:
        self.replay = Deduplicator(settle=SETTLE, acknowledging=acknowledging, **options)
        self.history = history or History()
        self.out: deque[StreamItem] = deque()
        self.yielded: list[StreamSignal] = []
        self.gaps: list[tuple[float, float, str]] = []

    @classmethod
    def begun(cls, at: float = 0.0, **options: Any) -> Follows:
        """One whose signals are wanted from now on."""
        one = cls(**options)
        one.replay.start(START + at)
        return one

    @classmethod
    def resumed(cls, state: CheckpointState, **options: Any) -> Follows:
        one = cls(acknowledging=True, **options)
        assert one.replay.resume(state)
        return one

    @property
    def ids(self) -> list[str]:
        return [signal.id for signal in self.yielded]

    @property
    def position(self) -> float:
        return self.replay.position - START

    def live(self, signal_id: str, at: float, now: float | None = None, **changes: Any) -> list[str]:
        """What the arrival of this one brings forth."""
        self.replay.live(live(signal_id, at, **changes), START + (at if now is None else now), self.out)
        return self.handed()

    def beat(self, at: float) -> list[str]:
        self.replay.heartbeat(START + at, START + at, self.out)
        return self.handed()

    def first_look(self, now: float, *, breaks: int | None = None) -> list[str]:
        return self._looks(now, lambda: self.replay.backfill(START + now), breaks)

    def second_look(self, now: float, attached: float, *, breaks: int | None = None) -> list[str]:
        return self._looks(now, lambda: self.replay.backfill(START + now, attached=START + attached), breaks)

    def both_looks(self, attached: float) -> list[str]:
        """As after a reconnect: at once, and after the settle time."""
        return self.first_look(attached) + self.second_look(attached + SETTLE, attached)

    def audit(self, now: float) -> list[str]:
        return self._looks(now, lambda: self.replay.audit(START + now), None)

    def _looks(self, now: float, begin: Callable[[], HistoryWalk], breaks: int | None) -> list[str]:
        """All walks of a look; `breaks`: the number of the page, over all walks, that cannot be read."""
        handed: list[str] = []
        pages = 0
        while True:
            walk = begin()
            offset, more = 0, True
            while more:
                if pages == breaks:
                    self.told(self.replay.failed(walk, "a page could not be read", START + now, self.out))
                    return handed + self.handed()
                page = self.history.page(walk, offset)
                pages += 1
                offset += 100
                more = self.replay.add(walk, page)[0] and self.history.goes_on(walk, offset)
            gap, again = self.replay.found(walk, START + now, self.out)
            self.told(gap)
            handed += self.handed()
            if not again:
                return handed

    def told(self, gap: Gap | None) -> None:
        if gap is not None:
            self.gaps.append((gap.start.timestamp() - START, gap.end.timestamp() - START, gap.reason))

    def handed(self) -> list[str]:
        new = [item for item in self.out if isinstance(item, StreamSignal)]
        assert len(new) == len(self.out)
        self.out.clear()
        self.yielded += new
        return [signal.id for signal in new]
