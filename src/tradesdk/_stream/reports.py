"""What a stream says of itself: in its log, in its statistics, and to those who ask for reports. No I/O but the log."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from .._http.log_events import log_fields, logger
from .._values.text import printable
from ..models.stream import (
    Connected,
    Disconnected,
    Gap,
    InvalidEvent,
    PositionReset,
    Report,
    StreamItem,
    StreamStats,
    UnknownEvent,
)
from .events import utc


class Reports:
    """`wanted`: whether reports are yielded too, among the `items`."""

    def __init__(self, chain: int, wanted: bool, items: deque[StreamItem]) -> None:
        self._chain = chain
        self._wanted = wanted
        self._items = items
        self.stats = StreamStats()

    def connected(self) -> None:
        self.stats = replace(self.stats, connects=self.stats.connects + 1)
        extra = log_fields("stream_connected", chain=self._chain)
        logger.info("the stream of chain %d is open", self._chain, extra=extra)
        self._report(Connected(self.stats.connects))

    def disconnected(self, reason: str, wait: float, tries: int) -> None:
        extra = log_fields("stream_disconnected", chain=self._chain, reason=reason, wait=wait, tries=tries)
        logger.warning("the stream of chain %d: %s; trying again in %.1f s", self._chain, reason, wait, extra=extra)
        self._report(Disconnected(reason, wait, tries))

    def heartbeat(self, lag: float) -> None:
        self.stats = replace(self.stats, heartbeats=self.stats.heartbeats + 1, heartbeat_lag=lag)

    def unknown(self, item: UnknownEvent) -> None:
        self.stats = replace(self.stats, unknown=self.stats.unknown + 1)
        extra = log_fields("stream_unknown_event", chain=self._chain, type=printable(item.type, 60))
        logger.info("the stream sent an event of the unknown kind %.60r", item.type, extra=extra)

    def invalid(self, item: InvalidEvent) -> None:
        self.stats = replace(self.stats, invalid=self.stats.invalid + 1)
        extra = log_fields("stream_invalid_event", chain=self._chain, source=item.source, reason=item.reason)
        logger.warning(
            "%s of chain %d sent what cannot be read: %s", item.source, self._chain, item.reason, extra=extra
        )
        self._report(item)

    def gap(self, gap: Gap) -> None:
        """It comes before what was found behind it; nothing else waits to be yielded."""
        self.stats = replace(self.stats, gaps=self.stats.gaps + 1)
        chain, start, end = self._chain, gap.start, gap.end
        extra = log_fields("stream_gap", chain=chain, start=start, end=end, reason=gap.reason)
        logger.warning(
            "signals of chain %d may be missing from %s to %s: %s", chain, start, end, gap.reason, extra=extra
        )
        if self._wanted:
            self._items.appendleft(gap)

    def put_back(self, position: float, start: float, reason: str) -> None:
        item = PositionReset(utc(position), utc(start), reason)
        extra = log_fields(
            "stream_position_reset", chain=self._chain, position=item.position, start=item.start, reason=reason
        )
        logger.warning(
            "chain %d: the position %s was put back to %s: %s",
            self._chain,
            item.position,
            item.start,
            reason,
            extra=extra,
        )
        self._report(item)

    def audited(self) -> None:
        self.stats = replace(self.stats, audits=self.stats.audits + 1)

    def not_looked(self, reason: str) -> None:
        """The history could not be read, and will be asked again."""
        extra = log_fields("history_unread", chain=self._chain, reason=reason)
        logger.warning("chain %d: %s", self._chain, reason, extra=extra)

    def _report(self, item: Report) -> None:
        if self._wanted:
            self._items.append(item)
