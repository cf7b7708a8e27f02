"""Signals of a fleet for `signals stream --group`."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tradesdk import StreamSignal, StreamStats
from tradesdk.fleet import FleetSignals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tradesdk_cli.stream.bookmark import Stream


class GroupStream:
    """A member of a group. Signals that `keep` rejects are acknowledged at once."""

    catching_up = False

    def __init__(self, signals: FleetSignals, keep: Callable[[StreamSignal], bool]) -> None:
        self._signals, self._keep = signals, keep
        self.stats = StreamStats(connects=1)

    def __iter__(self) -> Iterator[Any]:
        for item in self._signals:
            wanted = isinstance(item, StreamSignal) and self._keep(item)
            filtered = isinstance(item, StreamSignal) and not wanted
            self.stats = replace(
                self.stats,
                signals=self.stats.signals + wanted,
                filtered=self.stats.filtered + filtered,
                gaps=self._signals.gaps,
            )
            if filtered:
                self.ack(item)
            else:
                yield item

    def ack(self, signal: Any) -> None:
        self._signals.ack(signal)

    def close(self) -> None:
        self._signals.close()


@contextmanager
def group_stream(
    keep: Callable[[StreamSignal], bool], *, checkpoint: object, manual_ack: object, **options: Any
) -> Iterator[Stream]:
    """A stream of the group, which keeps its own position; `checkpoint` and `manual_ack` are for other streams."""
    with FleetSignals(manual_ack=True, reports=True, **options) as signals:
        yield GroupStream(signals, keep)
