"""Interrupts that a trace function raises."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread


def apart(step: Callable[[], object]) -> None:
    """Run what is traced in a thread of its own.

    When a trace function raises where an `except` block begins, CPython 3.11 never ends that block: whatever the thread
    raises later has a context, for good.
    """
    errors: list[BaseException] = []

    def run() -> None:
        try:
            step()
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
