"""A row of a database."""

from __future__ import annotations

from typing import Any


class Row(tuple[Any, ...]):
    """A row. It may contain a signed payment, so its `repr`, which tracebacks may show, hides it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<row>"
