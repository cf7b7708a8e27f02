"""Signals of a fleet for `signals stream --group`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tradesdk import Gap, StreamSignal, StreamStats
from tradesdk.fleet import FleetSignal, FleetSignals

if TYPE_CHECKING:
    from collections.abc import Callable


class GroupStream(FleetSignals):
    """A member of a group. Signals that `keep` rejects are acknowledged at once."""

    catching_up = False

    def __init__(
        self, keep: Callable[[StreamSignal], bool], *, checkpoint: object, manual_ack: object, **options: Any
    ) -> None:
        """The group keeps its own position: `checkpoint` and `manual_ack` are for other streams."""
        super().__init__(manual_ack=True, reports=True, **options)
        self._keep = keep
        self._wanted = self._filtered = 0

    @property
    def stats(self) -> StreamStats:
        """Its sums."""
        return StreamStats(connects=1, signals=self._wanted, filtered=self._filtered, gaps=self.gaps)

    def __next__(self) -> FleetSignal | Gap:
        while True:
            item = super().__next__()
            if isinstance(item, Gap) or self._keep(item):
                self._wanted += isinstance(item, StreamSignal)
                return item
            self._filtered += 1
            self.ack(item)
