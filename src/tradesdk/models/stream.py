"""Items of a live stream of signals (`GET /v1/signals/stream`)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, TypeAlias

from pydantic import computed_field, model_validator

from ._base import Model
from ._types import Timestamp
from .signals import Signal

MARKS = frozenset({"replayed", "late"})
"""Marks of a signal that the SDK sets, not the service."""


class StreamSignal(Signal):
    """A signal from a stream. Dumps have the service's names and values, then `replayed` and `late`.

    `model_dump(mode="json", exclude_computed_fields=True)` leaves these two out. They are not compared by `==`.
    """

    type: Literal["signal"]
    """Always `signal`."""

    _marks: ClassVar[frozenset[str]] = MARKS

    # Not fields: validating them would slow down every signal.

    @computed_field  # type: ignore[prop-decorator]  # as pydantic says
    @cached_property
    def replayed(self) -> bool:
        """Whether it comes from the history instead of live, after a disconnect or in an audit."""
        return False

    @computed_field  # type: ignore[prop-decorator]  # as pydantic says
    @cached_property
    def late(self) -> bool:
        """Whether it is older than an earlier item, that is, out of order.

        Items that an earlier run acknowledged in the checkpoint count too.
        """
        return False

    @model_validator(mode="after")
    def _from_a_dump(self) -> Self:
        if extra := self.__pydantic_extra__:
            for name in self._marks & extra.keys():
                vars(self)[name] = extra.pop(name) is True
                self.__pydantic_fields_set__.discard(name)
        return self

    def marked(self, *, replayed: bool, late: bool) -> Self:
        """A copy with these marks."""
        copy = self.model_copy()
        vars(copy).update(replayed=replayed, late=late)
        return copy


class FleetSignal(StreamSignal):
    """A signal that a member of a fleet gets."""

    _marks: ClassVar[frozenset[str]] = MARKS | {"redelivered"}

    @computed_field  # type: ignore[prop-decorator]  # as pydantic says
    @cached_property
    def redelivered(self) -> bool:
        """Whether it may have been delivered before: to a member of the group that did not finish it, or to this one
        before it fell behind.
        """
        return False


class Heartbeat(Model):
    """A heartbeat of the stream."""

    type: Literal["heartbeat"]
    """Always `heartbeat`."""

    timestamp: Timestamp
    """The service's time."""


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event of a type that this version does not know."""

    type: str
    """Its type, as the service named it."""

    data: dict[str, Any]
    """Its JSON as Python values."""

    raw: bytes
    """Its bytes."""


@dataclass(frozen=True, slots=True)
class InvalidEvent:
    """An event that could not be read. The stream continues."""

    reason: str
    """What is wrong with it."""

    raw: bytes
    """Its bytes, at most the first 64 KiB."""

    source: Literal["stream", "history"] = "stream"
    """What sent it: `stream` or `history`."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A period whose signals may be missing: the history could not be read, or does not reach back to it."""

    start: datetime
    """Nothing is missing before (aware, UTC, the service's time)."""

    end: datetime
    """Nothing is missing after (aware, UTC, the service's time)."""

    reason: str
    """Why it could not be filled."""


@dataclass(frozen=True, slots=True)
class Connected:
    """The stream is open."""

    connects: int
    """Number of times it was opened so far, including this time."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The stream was disconnected, or could not be opened. It is opened again after `wait` seconds."""

    reason: str
    """What happened."""

    wait: float
    """Seconds until the next attempt."""

    tries: int
    """Attempts since the stream was last up for a minute, including the next one."""


@dataclass(frozen=True, slots=True)
class PositionReset:
    """A position that cannot be right was reset: it is ahead of the service's time, or has no acknowledged signal.

    Signals are read again from an earlier position. None is lost, but signals of an earlier run may come again.
    """

    position: datetime
    """The old position (aware, UTC, the service's time)."""

    start: datetime
    """The new position, from which the history is read."""

    reason: str
    """Why the old position cannot be right."""


Report: TypeAlias = Gap | InvalidEvent | Connected | Disconnected | PositionReset
"""Items added by `reports=True`."""

StreamItem: TypeAlias = StreamSignal | Heartbeat | UnknownEvent | Report
"""All items that a stream may yield."""


@dataclass(frozen=True, slots=True)
class StreamStats:
    """Counts and times of a stream so far."""

    connects: int = 0
    """Number of times it was opened."""

    signals: int = 0
    """Signals yielded or ready to be, including replayed and late ones."""

    replayed: int = 0
    """Signals from the history."""

    late: int = 0
    """Signals out of order."""

    duplicates: int = 0
    """Signals that came again and were dropped."""

    filtered: int = 0
    """Signals removed by the filters."""

    conflicts: int = 0
    """Ids that came again with other content."""

    heartbeats: int = 0
    """Heartbeats."""

    unknown: int = 0
    """Events of unknown types."""

    invalid: int = 0
    """Events that could not be read."""

    gaps: int = 0
    """Periods that could not be recovered."""

    lag: float | None = None
    """Seconds between the time of the last live signal and its arrival; None before the first."""

    heartbeat_lag: float | None = None
    """The same for the last heartbeat. Heartbeats that are too old do not keep a connection alive."""

    position: datetime | None = None
    """The service's time up to which signals were yielded; None before the first."""
