"""Signals and gaps as the fleet stores them. Without psycopg, an extra."""

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
"""Signals that are read from the history at once."""
LONGEST = 1000
"""Bytes of an id or key: an index of PostgreSQL takes at most 2,700 for a row."""
GAP = "gap "
"""How the id of a gap begins."""


class Behind(NamedTuple):
    """What a member or group has missed, because the fleet has deleted it, or had no relay. Times are the service's."""

    position: int
    """What it was at."""
    start: float
    end: float
    taken: float | None
    """Up to which time signals were taken, so that the history has to list it; None: there was none."""
    trimmed: int
    """The number to continue after; 0: nothing was deleted."""

    @property
    def is_nothing(self) -> bool:
        """Whether all of it is there: what came before the first relay ends before `end`."""
        return self.taken is None and (self.start, 0) >= (self.end, self.trimmed)


class Stored(NamedTuple):
    """A signal or gap as it is stored: its JSON. `tries`: how often it was handed to a member of the group before."""

    id: str
    time: float
    body: str
    tries: int = 0


class LeaseLostError(Exception):
    """Another relay has taken over, or may have."""


def stored(item: StreamSignal | Gap) -> Stored:
    """A signal, or a gap, to store."""
    if isinstance(item, StreamSignal):
        return Stored(item.id, unix(item.timestamp), item.model_dump_json())
    start, end = unix(item.start), unix(item.end)
    body = {"type": "gap", "start": start, "end": end, "reason": item.reason}
    return Stored(f"{GAP}{start} {end}", start, json.dumps(body))


def storable(item: StreamSignal | Gap) -> Stored | None:
    """A signal, or a gap, to store; None, and a record in the log, for one that the database would refuse."""
    found = stored(item)
    if isinstance(item, Gap) or ("\0" not in found.id and len(found.id.encode()) <= LONGEST):
        return found
    text = "the signal %(signal)s of chain %(chain)d is left out: the fleet's database cannot store its text"
    event("fleet_signal_unstorable", text, chain=item.chain_id, signal=printable(item.id, 100))
    return None


def read(item: Stored) -> FleetSignal | Gap:
    """What was stored."""
    if item.id.startswith(GAP):
        body = json.loads(item.body)
        if body["type"] == "gap":
            return Gap(utc(body["start"]), utc(body["end"]), body["reason"])
    signal = FleetSignal.model_validate_json(item.body)
    vars(signal)["redelivered"] = item.tries > 0
    return signal


def missed(behind: Behind, found: Iterable[Signal]) -> list[Stored]:
    """What a member has missed, the oldest first, from a history with the newest first; and a gap if it lacks some."""
    signals = [marked(signal, replayed=True, late=False) for signal in found]
    signals.reverse()
    is_whole = len(signals) <= MOST_MISSED
    if behind.taken is not None:  # the history has to begin with it, or before
        is_whole = is_whole and bool(signals) and unix(signals[0].timestamp) <= behind.taken
    items = [item for signal in signals[-MOST_MISSED:] if (item := storable(signal))]
    if behind.taken is not None:  # which of those before were taken is not known any more
        items = [item._replace(tries=int(item.time <= behind.taken)) for item in items]
    if not is_whole:
        end = items[0].time if items else behind.end
        items.insert(0, lost(behind, "the history does not reach back to the last signal that was taken", end))
    return items


def lost(behind: Behind, reason: str, end: float | None = None) -> Stored:
    """The gap when what was missed cannot be read."""
    return stored(Gap(utc(behind.start), utc(behind.end if end is None else end), reason))
