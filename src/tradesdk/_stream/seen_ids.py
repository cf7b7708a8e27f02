"""Ids that were seen: by a stream, and for how long they are remembered; by a walk through pages. No I/O.

Times are the service's Unix seconds. Those of a stream are forgotten by its own progress, not by the clock: on a quiet
chain the last signal may be days old, and the next look into the history finds it all the same.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

REMEMBERED = 900.0
"""Seconds that ids are remembered, counted back from the position."""
MOST_REMEMBERED = 50_000
_EVERY = 64  # ids
_MOST_EMPTY = 1000  # pages, one after the other


class SeenIds:
    """Ids in the order in which they came, each with a fingerprint of what it stood for (0: not known)."""

    def __init__(self) -> None:
        # Numbers and strings only: tuples by the ten thousand would keep the garbage collector busy.
        self.prints: dict[str, int] = {}
        self.ahead: dict[str, float] = {}
        """Those dated in a time to come, with that time: every look finds them again until it has come."""
        self._late: dict[str, float] = {}  # those dated before their mark, with that time
        self.forgotten = -math.inf
        """Of what is not newer than this, nobody knows whether it was seen."""
        self._ids: deque[str] = deque()
        self._marks: deque[float] = deque()

    def add(self, signal_id: str, when: float, print_: int, reached: float) -> bool:
        """One of that time was seen when the stream had `reached` another, which never goes back.

        Whether to `forget` some.
        """
        if when < reached:
            self._late[signal_id] = when
        self.prints[signal_id] = print_
        self._ids.append(signal_id)
        self._marks.append(reached)
        return not len(self._ids) % _EVERY

    def forget(self, position: float) -> None:
        """Let go of those that no look from `position` on can find, but for the newest: a checkpoint may name it."""
        bound = position - REMEMBERED
        ids, marks = self._ids, self._marks
        for _ in range(len(ids) - 1):
            if marks[1] >= bound and len(ids) <= MOST_REMEMBERED:
                return
            newest = marks[-1]
            oldest, mark = ids.popleft(), marks.popleft()
            if self.ahead.get(oldest, -math.inf) >= bound and len(self.ahead) <= MOST_REMEMBERED // 2:
                ids.append(oldest)
                marks.append(newest)
                continue
            del self.prints[oldest]
            self._late.pop(oldest, None)
            when = self.ahead.pop(oldest, mark)
            self.forgotten = max(self.forgotten, mark, when if when <= newest else mark)

    def put_back(self, position: float, forgotten: float) -> None:
        """The stream begins again there; what is newer and was seen is now dated in a time to come."""
        self.forgotten = min(self.forgotten, forgotten)
        for signal_id, mark in zip(self._ids, self._marks, strict=True):
            when = self._late.get(signal_id, mark)
            if when > position:
                self.ahead.setdefault(signal_id, when)
                self._late.pop(signal_id, None)
        self._marks = deque(min(mark, position) for mark in self._marks)

    def since(self, start: float) -> Iterator[tuple[str, float]]:
        """Those that a look from `start` on may find, the last that came first, with their times."""
        for signal_id, mark in zip(reversed(self._ids), reversed(self._marks), strict=True):
            if mark < start:
                break
            if signal_id not in self.ahead:
                yield signal_id, self._late.get(signal_id, mark)
        yield from self.ahead.items()


class Repeats:
    """Finds pages that come again, in memory that doesn't grow with the list.

    Kept are the first thousand ids, for a list that begins again, and one later page, for a circle further on: it is
    replaced after 1, 2, 4, 8, … pages, and so stands inside a circle of any length at some time (R. P. Brent).
    """

    def __init__(self) -> None:
        self._first: set[str] = set()
        self._kept: set[str] = set()
        self._pages, self._replace_at = 0, 1
        self._empty = 0

    def nothing_new(self, ids: list[str]) -> bool:
        """Whether this page has only items that came before, as far as is known; or is empty, as a thousand before."""
        if not ids:  # a service that filters what it has read may have a few
            self._empty += 1
            return self._empty > _MOST_EMPTY
        self._empty = 0
        if self._first.issuperset(ids) or self._kept.issuperset(ids):
            return True
        if len(self._first) < 1000:
            self._first.update(ids)
        self._pages += 1
        if self._pages == self._replace_at:
            self._kept = set(ids)
            self._replace_at *= 2
        return False
