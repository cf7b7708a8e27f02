"""Wakes the open streams of this process when there is something new."""

from __future__ import annotations

import threading
from collections.abc import Callable
from weakref import WeakSet


class Notifier:
    """Wakes one waiter, from any thread. A signal without a waiter is kept until the next wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._notified = False
        self._callback: Callable[[], object] | None = None

    def notify(self) -> None:
        with self._lock:
            self._notified = True
            callback = self._callback
        if callback is not None:
            callback()

    def listen(self, callback: Callable[[], object] | None) -> None:
        """Set the callback; None removes it. It is called at once if there was already a signal."""
        with self._lock:
            self._callback = callback
            notified = self._notified
        if notified and callback is not None:
            callback()

    def take(self) -> bool:
        """Whether it was signaled since the last call."""
        with self._lock:
            notified, self._notified = self._notified, False
            return notified


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
        """Make every stream look for new events."""
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
