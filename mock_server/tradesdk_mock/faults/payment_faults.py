"""The payment faults that apply to one request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class PaymentFaults:
    """Parameters of payment faults by kind. Each fault is applied when it is taken.

    Attributes:
        applied: the kinds taken so far.
    """

    def __init__(self, due: Mapping[str, Mapping[str, Any]]) -> None:
        self._due = due
        self.applied: set[str] = set()

    def peek(self, kind: str) -> Mapping[str, Any] | None:
        """The parameters of a kind that is due, without applying it."""
        return self._due.get(kind)

    def take(self, kind: str) -> Mapping[str, Any] | None:
        """The parameters of a kind that is due, and is applied now; None when it isn't due."""
        found = self.peek(kind)
        if found is not None:
            self.applied.add(kind)
        return found
