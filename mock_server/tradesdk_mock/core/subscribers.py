"""The open streams of this process, which are told when there is something new."""

from __future__ import annotations

import threading
from weakref import WeakSet

from .messages import Wake


class Subscribers:
    """The open streams. `epoch` changes when all of them have to end: at a reset and at the close."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Weak references: a stream may be dropped without being closed.
        self._wakes: WeakSet[Wake] = WeakSet()
        self.epoch = 0

    def join(self, wake: Wake) -> None:
        with self._lock:
            self._wakes.add(wake)

    def leave(self, wake: Wake) -> None:
        with self._lock:
            self._wakes.discard(wake)

    def notify(self) -> None:
        """Make every stream check for news."""
        with self._lock:
            wakes = list(self._wakes)
        for wake in wakes:
            wake.ring()

    def end_all(self) -> None:
        """End every stream that is open now."""
        self.epoch += 1
        self.notify()

    def __len__(self) -> int:
        return len(self._wakes)
