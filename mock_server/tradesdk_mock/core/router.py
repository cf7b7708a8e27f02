"""Patterns of paths. `{name}` in a pattern matches one segment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Generic, TypeVar

T = TypeVar("T")


class Router(Generic[T]):
    """Patterns and their targets. Fixed paths are looked up; only those with placeholders are compared."""

    def __init__(self, routes: Mapping[str, T]) -> None:
        self._fixed: dict[str, tuple[str, T]] = {}
        self._shaped: dict[int, list[tuple[list[str], str, T]]] = {}
        for pattern, target in routes.items():
            if "{" in pattern:
                parts = pattern.split("/")
                self._shaped.setdefault(len(parts), []).append((parts, pattern, target))
            else:
                self._fixed[pattern] = (pattern, target)

    def find(self, path: str) -> tuple[str, T, dict[str, str]] | None:
        """(pattern, target, values of the placeholders); None when no pattern matches."""
        fixed = self._fixed.get(path)
        if fixed is not None:
            return (*fixed, {})
        segments = path.split("/")
        for parts, pattern, target in self._shaped.get(len(segments), ()):
            params = {}
            for part, segment in zip(parts, segments, strict=True):
                if part.startswith("{"):
                    if not segment:
                        break
                    params[part[1:-1]] = segment
                elif part != segment:
                    break
            else:
                return pattern, target, params
        return None


@lru_cache(maxsize=256)
def path_pattern(text: str) -> re.Pattern[str]:
    """A regular expression for a path, or for a pattern with `{name}` for one segment and `*` for anything."""
    parts = (
        ".*" if part == "*" else "[^/]+" if part.startswith("{") else re.escape(part)
        for part in re.split(r"(\*|\{[^/{}]*\})", text)
    )
    return re.compile("".join(parts), re.DOTALL)
