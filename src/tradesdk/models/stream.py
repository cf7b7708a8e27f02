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

    Attributes:
        type: always `signal`.
        replayed: whether it comes from the history instead of live, after a disconnect or in an audit.
        late: whether it is older than an earlier item, that is, out of order. Items that an earlier run acknowledged
            in the checkpoint count, too.
    """

    type: Literal["signal"]

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
        """Whether it is older than an earlier item, that is, out of order."""
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
    """A signal that a member of a fleet gets.

    Attributes:
        redelivered: whether it may have been handed out before: to a member of the group that did not finish it, or to
            this one before it fell behind.
    """

    _marks: ClassVar[frozenset[str]] = MARKS | {"redelivered"}

    @computed_field  # type: ignore[prop-decorator]  # as pydantic says
    @cached_property
    def redelivered(self) -> bool:
        """Whether it may have been handed out before: to the group, or to this member before it fell behind."""
        return False


class Heartbeat(Model):
    """A heartbeat of the stream.

    Attributes:
        type: always `heartbeat`.
        timestamp: the service's time.
    """

    type: Literal["heartbeat"]
    timestamp: Timestamp


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event of a type that this version does not know.

    Attributes:
        type: its type, as the service named it.
        data: its JSON as Python values.
        raw: its bytes.
    """

    type: str
    data: dict[str, Any]
    raw: bytes


@dataclass(frozen=True, slots=True)
class InvalidEvent:
    """An event that could not be read. The stream continues.

    Attributes:
        reason: what is wrong with it.
        raw: its bytes, at most the first 64 KiB.
        source: what sent it: `stream` or `history`.
    """

    reason: str
    raw: bytes
    source: Literal["stream", "history"] = "stream"


@dataclass(frozen=True, slots=True)
class Gap:
    """A period whose signals may be missing: the history could not be read, or does not reach back to it.

    Attributes:
        start: nothing is missing before (aware, UTC, the service's time).
        end: nothing is missing after (aware, UTC, the service's time).
        reason: why it could not be filled.
    """

    start: datetime
    end: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Connected:
    """The stream is open.

    Attributes:
        connects: number of times it was opened so far, including this time.
    """

    connects: int


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The stream was disconnected, or could not be opened. It is opened again after `wait` seconds.

    Attributes:
        reason: what happened.
        wait: seconds until the next attempt.
        tries: attempts since the stream was last up for a minute, including the next one.
    """

    reason: str
    wait: float
    tries: int


@dataclass(frozen=True, slots=True)
class PositionReset:
    """A position that cannot be right was reset: it is ahead of the service's time, or has no acknowledged signal.

    Signals are read again from an earlier position. None is lost, but signals of an earlier run may come again.

    Attributes:
        position: the old position (aware, UTC, the service's time).
        start: the new position, from which the history is read.
        reason: why the old position cannot be right.
    """

    position: datetime
    start: datetime
    reason: str


Report: TypeAlias = Gap | InvalidEvent | Connected | Disconnected | PositionReset
"""Items added by `reports=True`."""

StreamItem: TypeAlias = StreamSignal | Heartbeat | UnknownEvent | Report
"""All items that a stream may yield."""


@dataclass(frozen=True, slots=True)
class StreamStats:
    """Counts and times of a stream so far.

    Attributes:
        connects: number of times it was opened.
        signals: signals yielded or ready to be, including replayed and late ones.
        replayed: signals from the history.
        late: signals out of order.
        duplicates: signals that came again and were dropped.
        filtered: signals removed by the filters.
        conflicts: ids that came again with other content.
        heartbeats: heartbeats.
        unknown: events of unknown types.
        invalid: events that could not be read.
        gaps: periods that could not be recovered.
        audits: checks of the history for signals that the stream left out.
        lag: seconds between the time of the last live signal and its arrival; None before the first.
        heartbeat_lag: the same for the last heartbeat. Heartbeats that are too old do not keep a connection alive.
        position: the service's time up to which signals were yielded; None before the first.
    """

    connects: int = 0
    signals: int = 0
    replayed: int = 0
    late: int = 0
    duplicates: int = 0
    filtered: int = 0
    conflicts: int = 0
    heartbeats: int = 0
    unknown: int = 0
    invalid: int = 0
    gaps: int = 0
    audits: int = 0
    lag: float | None = None
    heartbeat_lag: float | None = None
    position: datetime | None = None
