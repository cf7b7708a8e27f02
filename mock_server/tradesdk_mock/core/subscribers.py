"""Who is to be told when there is something new: the open streams of this process."""

from __future__ import annotations

import threading
from weakref import WeakSet

from .messages import Wake


class Subscribers:
    """The bells of open streams. `epoch` changes when all of them have to end: at a reset and at the close."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Weakly: a stream that was dropped without being closed is gone all the same.
        self._wakes: WeakSet[Wake] = WeakSet()
        self.epoch = 0

    def join(self, wake: Wake) -> None:
        with self._lock:
            self._wakes.add(wake)

    def leave(self, wake: Wake) -> None:
        with self._lock:
            self._wakes.discard(wake)

    def notify(self) -> None:
        """Every stream looks again at what there is to send."""
        with self._lock:
            wakes = list(self._wakes)
        for wake in wakes:
            wake.ring()

    def end_all(self) -> None:
        """Every stream that is open now ends."""
        self.epoch += 1
        self.notify()

    def __len__(self) -> int:
        return len(self._wakes)
