"""The open streams of this process, which are told when there is something new."""

from __future__ import annotations

import threading
from weakref import WeakSet

from .messages import Notifier


class Subscribers:
    """The open streams. `epoch` changes when all of them have to end: at a reset and at the close."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Weak references: a stream may be dropped without being closed.
        self._notifiers: WeakSet[Notifier] = WeakSet()
        self.epoch = 0

    def join(self, notifier: Notifier) -> None:
        with self._lock:
            self._notifiers.add(notifier)

    def leave(self, notifier: Notifier) -> None:
        with self._lock:
            self._notifiers.discard(notifier)

    def notify(self) -> None:
        """Make every stream check for news."""
        with self._lock:
            notifiers = list(self._notifiers)
        for notifier in notifiers:
            notifier.notify()

    def end_all(self) -> None:
        """End every stream that is open now."""
        self.epoch += 1
        self.notify()

    def __len__(self) -> int:
        return len(self._notifiers)
