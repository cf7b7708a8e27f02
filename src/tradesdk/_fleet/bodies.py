"""Signals and gaps in the form in which the fleet stores them. Without psycopg, an extra."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from .._http.log_events import event
from .._stream.events import marked, unix, utc
from .._values.text import printable
from ..models.signals import Signal
from ..models.stream import FleetSignal, Gap, StreamSignal

MOST_MISSED = 50_000
"""The most signals that are read from the history at once."""
LONGEST = 1000
"""The most bytes of an id or key: an index row of PostgreSQL has at most 2,700."""
GAP = "gap "
"""The prefix of a gap's id."""


class Behind(NamedTuple):
    """What a member or group has missed: the fleet has deleted it, or had no relay. Times are the service's."""

    position: int
    """The number of the last signal that it has read."""
    start: float
    end: float
    taken: float | None
    """The time of the last signal taken, so the history has to reach back to it; None: none was taken."""
    trimmed: int
    """The number to continue after; 0: nothing was deleted."""

    @property
    def is_nothing(self) -> bool:
        """Whether nothing was missed: no signal was deleted, and none before the first relay was wanted."""
        return self.taken is None and (self.start, 0) >= (self.end, self.trimmed)


class Stored(NamedTuple):
    """A signal or gap in its stored form: JSON. `tries`: how often a member of the group has got it before."""

    id: str
    time: float
    body: str
    tries: int = 0


class LeaseLostError(Exception):
    """Another relay has the lease, or may have it."""


def stored(item: StreamSignal | Gap) -> Stored:
    """The stored form of a signal or gap."""
    if isinstance(item, StreamSignal):
        return Stored(item.id, unix(item.timestamp), item.model_dump_json())
    start, end = unix(item.start), unix(item.end)
    body = {"type": "gap", "start": start, "end": end, "reason": item.reason}
    return Stored(f"{GAP}{start} {end}", start, json.dumps(body))


def storable(item: StreamSignal | Gap) -> Stored | None:
    """The stored form of a signal or gap; None, with a log record, for one that the database would refuse."""
    found = stored(item)
    if isinstance(item, Gap) or ("\0" not in found.id and len(found.id.encode()) <= LONGEST):
        return found
    text = "the signal %(signal)s of chain %(chain)d is skipped: the fleet's database cannot store its text"
    event("fleet_signal_unstorable", text, chain=item.chain_id, signal=printable(item.id, 100))
    return None


def read(item: Stored) -> FleetSignal | Gap:
    """The signal or gap of a stored form."""
    if item.id.startswith(GAP):
        body = json.loads(item.body)
        if body["type"] == "gap":
            return Gap(utc(body["start"]), utc(body["end"]), body["reason"])
    signal = FleetSignal.model_validate_json(item.body)
    vars(signal)["redelivered"] = item.tries > 0
    return signal


def missed(behind: Behind, found: Iterable[Signal]) -> list[Stored]:
    """What a member has missed, oldest first, from a history with the newest first; after a gap if some is missing."""
    signals = [marked(signal, replayed=True, late=False) for signal in found]
    signals.reverse()
    is_whole = len(signals) <= MOST_MISSED
    if behind.taken is not None:  # the history must reach back to that signal
        is_whole = is_whole and bool(signals) and unix(signals[0].timestamp) <= behind.taken
    items = [item for signal in signals[-MOST_MISSED:] if (item := storable(signal))]
    if behind.taken is not None:  # nobody knows which of those before were taken
        items = [item._replace(tries=int(item.time <= behind.taken)) for item in items]
    if not is_whole:
        end = items[0].time if items else behind.end
        items.insert(0, lost(behind, "the history does not reach back to the last signal that was taken", end))
    return items


def lost(behind: Behind, reason: str, end: float | None = None) -> Stored:
    """The gap if what was missed cannot be read."""
    return stored(Gap(utc(behind.start), utc(behind.end if end is None else end), reason))
