"""What a live stream of signals yields (`GET /v1/signals/stream`)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, Self, TypeAlias

from pydantic import computed_field, model_validator

from ._base import Model
from ._types import Timestamp
from .signals import Signal

MARKS = frozenset({"replayed", "late"})
"""What we say of a signal, not the service."""


class StreamSignal(Signal):
    """A signal as a stream yields it. Dumps have the service's names and values, then `replayed` and `late`.

    `model_dump(mode="json", exclude_computed_fields=True)` leaves these two out. They are not compared by `==`.

    Attributes:
        type: always `signal`.
        replayed: it did not come live but from the history, after a disconnect or at an audit.
        late: it is older than what was yielded before it: outside the promise of order.
    """

    type: Literal["signal"]

    # No fields: reading them would cost every signal time.

    @computed_field  # type: ignore[prop-decorator]  # as pydantic says
    @cached_property
    def replayed(self) -> bool:
        """It did not come live but from the history, after a disconnect or at an audit."""
        return False

    @computed_field  # type: ignore[prop-decorator]  # as pydantic says
    @cached_property
    def late(self) -> bool:
        """It is older than what was yielded before it: outside the promise of order."""
        return False

    @model_validator(mode="after")
    def _from_a_dump(self) -> Self:
        if extra := self.__pydantic_extra__:
            for name in MARKS & extra.keys():
                vars(self)[name] = extra.pop(name) is True
                self.__pydantic_fields_set__.discard(name)
        return self

    def marked(self, *, replayed: bool, late: bool) -> Self:
        """A copy with these marks."""
        copy = self.model_copy()
        vars(copy).update(replayed=replayed, late=late)
        return copy


class Heartbeat(Model):
    """A sign of life of the stream.

    Attributes:
        type: always `heartbeat`.
        timestamp: the service's time.
    """

    type: Literal["heartbeat"]
    timestamp: Timestamp


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event of a kind that this version does not know.

    Attributes:
        type: its kind, as the service named it.
        data: its JSON as Python values.
        raw: its bytes.
    """

    type: str
    data: dict[str, Any]
    raw: bytes


@dataclass(frozen=True, slots=True)
class InvalidEvent:
    """Something that should have been an event and could not be read. The stream goes on.

    Attributes:
        reason: what is wrong with it.
        raw: its bytes, at most the first 64 KiB.
        source: whether the stream or the history sent it.
    """

    reason: str
    raw: bytes
    source: Literal["stream", "history"] = "stream"


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch of time of which signals may be missing: the history could not be read, or does not reach back to it.

    Attributes:
        start: nothing is missing before (aware, UTC, the service's time).
        end: nothing is missing after.
        reason: why it could not be closed.
    """

    start: datetime
    end: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Connected:
    """The stream is open.

    Attributes:
        connects: how many times it has been opened so far; 1 is the first.
    """

    connects: int


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The stream broke off, or could not be opened; it is opened again after `wait` seconds.

    Attributes:
        reason: what happened.
        wait: seconds until the next try.
        tries: how many tries in a row this will have been without a minute of health between them.
    """

    reason: str
    wait: float
    tries: int


@dataclass(frozen=True, slots=True)
class PositionReset:
    """The position to go on from cannot be right: ahead of the service's time, or no acknowledged signal is there.

    Signals are read again from an earlier one. Nothing is lost by that, but signals of an earlier run may come again.

    Attributes:
        position: where the stream stood (aware, UTC, the service's time).
        start: from when on the history is read now.
        reason: why that position was not believed.
    """

    position: datetime
    start: datetime
    reason: str


Report: TypeAlias = Gap | InvalidEvent | Connected | Disconnected | PositionReset
"""What `reports=True` adds."""

StreamItem: TypeAlias = StreamSignal | Heartbeat | UnknownEvent | Report
"""Everything that a stream may yield."""


@dataclass(frozen=True, slots=True)
class StreamStats:
    """What a stream has seen so far.

    Attributes:
        connects: times that it was opened.
        signals: signals yielded or ready to be, replayed and late ones included.
        replayed: signals that came from the history.
        late: signals out of order, flagged.
        duplicates: signals that came again and were dropped.
        filtered: signals that the filters kept back.
        conflicts: ids that came again with other content.
        heartbeats: heartbeats.
        unknown: events of unknown kinds.
        invalid: events that could not be read.
        gaps: stretches of time that could not be recovered.
        audits: looks into the history for what the stream left out.
        lag: seconds between the time of the last live signal and its arrival; None before the first.
        heartbeat_lag: the same of the last heartbeat. One that is older than the limit is not a sign of life.
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
