"""Objects that must not be used in a forked process, because their connections belong to the parent."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Bound(Protocol):
    def forked(self) -> None:
        """Called in the forked process."""


_BOUND: WeakSet[Bound] = WeakSet()


def bind(thing: Bound) -> None:
    """Call `thing.forked()` in each process that is forked from this one."""
    _BOUND.add(thing)


def _tell() -> None:
    for thing in list(_BOUND):
        thing.forked()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_tell)
