"""One walk through the history of signals, and how a long one is cut into several. No I/O; times are Unix seconds."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from ..models.signals import Signal

MOST_HELD = 10_000
"""Signals that a look holds at once. A longer one is read in several windows, the oldest first."""


@dataclass
class BackfillWindow:
    """One walk through the history, newest first as the service lists it.

    Attributes:
        start: from when on; `until`: up to when, None for no end.
        cut: what is not newer than this is released when the walk is done.
        holds: whether it waits for the rest to come live.
        end: until when something may be missing if the walk fails.
        anchor: when a signal was that the history must have, unless it keeps too little; -inf: nothing is known of one.
    """

    start: float
    cut: float
    end: float
    until: float | None = None
    holds: bool = False
    found: deque[tuple[float, Signal]] = field(default_factory=lambda: deque(maxlen=MOST_HELD))
    fresh: int = 0
    marks: list[float] = field(default_factory=list)
    released: int = 0
    prints: dict[str, int] = field(default_factory=dict)
    audit: bool = False
    pages_left: float = math.inf
    oldest: float = math.inf
    anchor: float = -math.inf

    @property
    def begin(self) -> float:
        """How far it walks: to the anchor, if that is older than what it looks for."""
        return self.start if self.anchor == -math.inf else min(self.start, self.anchor)

    @property
    def window(self) -> tuple[int, int | None]:
        """`from` and `to` of the requests, each a second further: the service may mean it without its ends."""
        return max(0, math.floor(self.begin) - 1), None if self.until is None else math.floor(self.until) + 1

    def hold(self, signal: Signal, when: float, print_: int) -> None:
        """Found, and not seen before."""
        if len(self.prints) >= MOST_HELD:
            self.prints.clear()
        self.prints[signal.id] = print_
        if self.fresh % (MOST_HELD // 2) == 0:
            self.marks.append(when)
        self.fresh += 1
        self.found.append((when, signal))

    @property
    def truncated(self) -> bool:
        """Whether it found more than it holds; then the newest were let go, and another window follows."""
        return self.fresh > len(self.found)

    def windows(self) -> list[float | None]:
        """Where the walks end that follow it, each for about half of what fits; the last has no end."""
        left = self.fresh - len(self.found)
        # Marks stand every half a load, from the newest on.
        ends = [mark for place, mark in enumerate(self.marks) if 0 < place * (MOST_HELD // 2) < left]
        return [*reversed(ends), None]
