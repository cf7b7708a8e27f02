"""Interrupts a blocking call where it waits, as a handler of Ctrl-C does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .._eventful import EventfulLedger, Stop
from .._paidservice import JumpingClock
from .._sync._network import Network, Wire


class Interrupting:
    """Raises `Stop` at a wait of a call: for the network in memory, for the clock, for a step of the ledger.

    `waits` counts them. `patch` has to outlive the calls.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.waits = self._at = 0
        self._after = False
        waits = (Network, "connect_tcp"), (Wire, "write"), (Wire, "read"), (EventfulLedger, "_transaction")
        for owner, name in (*waits, (JumpingClock, "sleep")):
            patch.setattr(owner, name, self._noted(getattr(owner, name)))

    def _noted(self, wait: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **options: Any) -> Any:
            self.waits += 1
            here = self.waits == self._at
            if here and not self._after:
                raise Stop
            try:
                return wait(*args, **options)
            finally:
                if here:
                    raise Stop

        return noted

    def at(self, number: int, call: Callable[[], object], *, after: bool) -> bool:
        """Interrupt `call` at its wait `number` (1, 2, …), before or `after` it. False when it has fewer."""
        self.waits, self._at, self._after = 0, number, after
        try:
            call()
        except Stop:
            return True
        finally:
            self._at = 0
        assert self.waits < number, f"nobody heard of the interrupt at wait {number}"
        return False
