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
        self._fixed = {pattern: target for pattern, target in routes.items() if "{" not in pattern}
        self._shaped: dict[int, list[tuple[list[str], T]]] = {}
        for pattern, target in routes.items():
            if "{" in pattern:
                parts = pattern.split("/")
                self._shaped.setdefault(len(parts), []).append((parts, target))

    def find(self, path: str) -> tuple[T, dict[str, str]] | None:
        """(target, values of the placeholders); None when no pattern matches."""
        if path in self._fixed:
            return self._fixed[path], {}
        segments = path.split("/")
        for parts, target in self._shaped.get(len(segments), ()):
            params = {}
            for part, segment in zip(parts, segments, strict=True):
                if part.startswith("{"):
                    if not segment:
                        break
                    params[part[1:-1]] = segment
                elif part != segment:
                    break
            else:
                return target, params
        return None


@lru_cache(maxsize=2_048)
def path_pattern(text: str) -> re.Pattern[str]:
    """A regular expression for a path, or for a pattern with `{name}` for one segment and `*` for anything."""
    first, *others = [
        "".join("[^/]+?" if part[:1] == "{" else re.escape(part) for part in re.split(r"(\{[^/{}]*\})", piece))
        for piece in text.split("*")
    ]
    if not others:
        return re.compile(first)
    # Atomic groups: text between two stars matches where it first occurs, so that a long path isn't slow.
    between = "".join(f"(?>.*?{piece})" for piece in others[:-1])
    return re.compile(f"{first}{between}.*{others[-1]}", re.DOTALL)
