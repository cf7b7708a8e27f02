"""Detects a list that never ends. No I/O."""

from __future__ import annotations

_MOST_EMPTY = 1000  # pages in a row


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
        if not ids:  # a service that filters after reading may send a few empty pages
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
