"""Ids seen by a stream, and by a walk through pages. No I/O.

Times are Unix seconds of the service. A stream forgets ids by its own progress, not by the clock: on a quiet chain the
last signal may be days old, and the next look into the history still finds it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

REMEMBERED = 900.0
"""Seconds that ids are remembered, counted back from the position."""
MOST_REMEMBERED = 50_000
_EVERY = 64  # ids
_MOST_EMPTY = 1000  # pages in a row


class SeenIds:
    """Ids in the order of arrival, each with a fingerprint of its signal (0: unknown)."""

    def __init__(self) -> None:
        # Numbers and strings only: thousands of tuples would keep the garbage collector busy.
        self.fingerprints: dict[str, int] = {}
        self.ahead: dict[str, float] = {}
        """Times of ids dated in the future: every look finds them again until then."""
        self._late: dict[str, float] = {}  # times of ids dated before their mark
        self.forgotten = -math.inf
        """Up to this time it is no longer known what was seen."""
        self._ids: deque[str] = deque()
        self._marks: deque[float] = deque()

    def add(self, signal_id: str, when: float, fingerprint: int, reached: float) -> bool:
        """Add an id dated `when`, seen when the stream had `reached` a time, which never goes back.

        Returns whether it is time to `forget` some.
        """
        if when < reached:
            self._late[signal_id] = when
        self.fingerprints[signal_id] = fingerprint
        self._ids.append(signal_id)
        self._marks.append(reached)
        return not len(self._ids) % _EVERY

    def forget(self, position: float) -> None:
        """Forget ids that no look from `position` on can find. The newest stays: a checkpoint may name it."""
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
            del self.fingerprints[oldest]
            self._late.pop(oldest, None)
            when = self.ahead.pop(oldest, mark)
            self.forgotten = max(self.forgotten, mark, when if when <= newest else mark)

    def put_back(self, position: float, forgotten: float) -> None:
        """Start over from `position`; newer ids are then dated in the future."""
        self.forgotten = min(self.forgotten, forgotten)
        for signal_id, mark in zip(self._ids, self._marks, strict=True):
            when = self._late.get(signal_id, mark)
            if when > position:
                self.ahead.setdefault(signal_id, when)
                self._late.pop(signal_id, None)
        self._marks = deque(min(mark, position) for mark in self._marks)

    def since(self, start: float) -> Iterator[tuple[str, float]]:
        """Ids that a look from `start` on may find, with their times, the latest arrival first."""
        for signal_id, mark in zip(reversed(self._ids), reversed(self._marks), strict=True):
            if mark < start:
                break
            if signal_id not in self.ahead:
                yield signal_id, self._late.get(signal_id, mark)
        yield from self.ahead.items()


class Repeats:
    """Detects pages that repeat, in memory that does not grow with the list.

    It keeps the first thousand ids, to detect a list that starts over, and one later page, to detect a later loop. That
    page is replaced after 1, 2, 4, 8, … pages, so a loop of any length is found (R. P. Brent).
    """

    def __init__(self) -> None:
        self._first: set[str] = set()
        self._kept: set[str] = set()
        self._pages, self._replace_at = 0, 1
        self._empty = 0

    def nothing_new(self, ids: list[str]) -> bool:
        """Whether a page has only items that came before, or is empty like the thousand pages before it."""
        if not ids:  # a service that filters after reading may send a few
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
