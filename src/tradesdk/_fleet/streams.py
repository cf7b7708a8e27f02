"""Shared streams of signals: keys, entries and replies on the server, and the rules of relay and members. No I/O."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import socket
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic
from typing import Any, Literal
from urllib.parse import urlsplit

from .._stream.checkpoint import OFTEN, CheckpointState
from .._stream.deduplication import OVERLAP
from .._stream.events import unix, utc
from .._stream.seen_ids import REMEMBERED
from .._values.text import display
from ..errors import ErrorCode, FleetError, InvalidArgumentError
from ..models.stream import Gap, GroupMember, GroupStatus, RelayStatus, StreamSignal
from .scripts import OLDEST

WAITED_FOR: frozenset[ErrorCode] = frozenset({"server_unreachable", "server_read_only", "server_full"})
"""Failures of the server that are waited out: it may come back, or a replica takes over."""
_MOST_IN_TAIL = 10_000
_REMEMBERED = max(REMEMBERED, OVERLAP + 1)  # seconds before the relay's position in which ids are known
_NAME = re.compile(r"[A-Za-z0-9._:@-]{1,64}")
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 2.0

STREAM, MISSING = 2, 3
"""Which stream an entry is in: the signals, or the periods that a group has missed. Places among the scripts' keys."""


class AnotherRun(Exception):
    """The server is another process than before: it was restarted, or a replica has taken over."""


def checked_name(argument: str, value: object) -> str:
    """A name of a group or member."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidArgumentError(f"{argument} must be 1 to 64 letters, digits or . _ : @ -, not {display(value)}")
    return value


def checked_lease(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.1 <= value <= 3600:
        raise InvalidArgumentError(f"lease must be 0.1 to 3600 seconds, not {display(value)}")
    return float(value)


def checked_keep(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10_000_000:
        raise InvalidArgumentError(f"keep must be 1 to 10,000,000 entries, not {display(value)}")
    return value


def member_name() -> str:
    """A name that no other member has: host, process and a random part."""
    host = re.sub(r"[^A-Za-z0-9.-]", "_", socket.gethostname())[:30]
    return f"{host}:{os.getpid()}:{secrets.token_hex(4)}"


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one service and chain. They have one hash tag, so that a cluster keeps them on one node."""

    base: str

    @classmethod
    def of(cls, prefix: object, base_url: str, chain: int) -> Keys:
        if not isinstance(prefix, str) or not _NAME.fullmatch(prefix):
            raise InvalidArgumentError(f"prefix must be 1 to 64 letters, digits or . _ : @ -, not {display(prefix)}")
        parts = urlsplit(base_url)
        service = f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"
        told = hashlib.sha256(f"{service}\0{chain}".encode()).hexdigest()[:12]
        host = re.sub(r"[^A-Za-z0-9.-]", "_", parts.hostname or "")[:40]
        return cls(f"{prefix}:{{{host}-{chain}-{told}}}")

    @property
    def meta(self) -> str:
        """A hash: the incarnation of the data, the relay's lease and its checkpoint."""
        return f"{self.base}:relay"

    @property
    def stream(self) -> str:
        return f"{self.base}:signals"

    @property
    def missing(self) -> str:
        """A stream of the periods that a group has missed: one of its members reads them from the history."""
        return f"{self.base}:missing"

    @property
    def seen(self) -> str:
        """A hash from ids to the numbers of their entries."""
        return f"{self.base}:seen"

    @property
    def times(self) -> str:
        return f"{self.base}:times"

    @property
    def groups(self) -> str:
        """A hash from groups to the last entry that each got: its number, and the time of its signal."""
        return f"{self.base}:groups"

    @property
    def members(self) -> str:
        """A hash from members to a token and the time of their last heartbeat."""
        return f"{self.base}:members"

    def once(self, action: str) -> str:
        return f"{self.base}:once:{hashlib.sha256(action.encode()).hexdigest()[:40]}"

    @property
    def of_members(self) -> list[str]:
        return [self.meta, self.stream, self.missing, self.groups, self.members]

    @property
    def of_relay(self) -> list[str]:
        return [self.meta, self.stream, self.seen, self.times]


def backoff(tries: int) -> float:
    """Seconds until the server is tried again."""
    return min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(tries - 1, 10))


def text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def run_id(info: Any) -> str:
    """The id of the server's process, which changes with each start, from its `INFO server`."""
    told = text(info)
    version = re.search(r"^redis_version:((\d+)\.(\d+)\S*)", told, re.MULTILINE)
    if version is not None and (int(version[2]), int(version[3])) < OLDEST:
        raise FleetError(
            f"the fleet's server has version {version[1]}", code="server_unsupported", hint="use Redis 6.2 or newer"
        )
    found = re.search(r"^run_id:(\S+)", told, re.MULTILINE)
    if found is None:
        raise FleetError("the fleet's server does not tell its run_id (INFO server)", code="server_unsupported")
    return found[1]


# entries


@dataclass(slots=True)
class Entry:
    """An entry that a member has and has not acknowledged.

    Attributes:
        which: STREAM or MISSING.
        deliveries: how often it was delivered.
        left: signals of it that are not acknowledged.
        incarnation: of the data that it is in; in another one its id means nothing.
    """

    which: int
    id: str
    deliveries: int
    fields: dict[str, bytes]
    incarnation: str
    left: int = 0

    @property
    def number(self) -> int:
        return int(self.id.rpartition("-")[2])

    @property
    def at(self) -> float:
        """When it was written, by the server's clock."""
        return int(self.id.partition("-")[0]) / 1000

    @property
    def kind(self) -> str:
        return text(self.fields.get("type", b""))

    @property
    def payload(self) -> bytes:
        return self.fields.get("payload", b"")

    def gap(self) -> Gap:
        """The gap that an entry of the relay reports."""
        body = json.loads(self.payload)
        start, end = (datetime.fromisoformat(body[name]) for name in ("start", "end"))
        return Gap(start, end, str(body["reason"]))


@dataclass(frozen=True, slots=True)
class MissedPeriod:
    """A period that a group has missed. Its signals have the numbers `first` to `last`; 0 to 0: that is not known.

    Times are Unix seconds of the service.
    """

    first: int
    last: int
    start: float
    end: float
    why: Literal["trimmed", "pending", "lost"]

    @classmethod
    def of(cls, fields: dict[str, bytes]) -> MissedPeriod:
        start, end = float(fields["start"]), float(fields["end"])
        known: dict[str, Literal["pending", "lost"]] = {"pending": "pending", "lost": "lost"}
        why: Literal["trimmed", "pending", "lost"] = known.get(text(fields.get("why", b"")), "trimmed")
        return cls(int(fields["first"]), int(fields["last"]), min(start, end), max(start, end), why)

    @property
    def gap(self) -> Gap:
        reasons = {
            "trimmed": "the fleet's server has dropped them before they were delivered",
            "pending": "the fleet's server has dropped one that a dead member had",
            "lost": "the fleet's server has lost its data",
        }
        return Gap(utc(self.start), utc(self.end), reasons[self.why])

    @property
    def searched(self) -> tuple[float, float]:
        """The period of the history to read: signals may be published out of the order of their times."""
        return max(0.0, self.start - OVERLAP), self.end + OVERLAP

    def has(self, number: int | None, when: float, position: float) -> bool:
        """Whether a signal is one of them.

        `number`: of its entry; None: the relay has not written it, or it is so far before the relay's `position` that
        the number was forgotten.
        """
        if self.last <= 0:  # nobody has written them, and nobody will
            return number is None and self.start <= when <= self.end
        if number is not None:
            return self.first <= number <= self.last
        return when < position - _REMEMBERED and self.start - OVERLAP <= when <= self.end


def entries(reply: Iterable[Any], incarnation: str) -> list[Entry]:
    found = []
    for which, entry_id, deliveries, pairs in reply:
        names = [text(name) for name in pairs[::2]]
        fields = dict(zip(names, pairs[1::2], strict=True))
        found.append(Entry(int(which), text(entry_id), int(deliveries), fields, incarnation))
    return found


def relay_status(chain: int, reply: Sequence[Any]) -> RelayStatus:
    """The reply of the script that looks at a relay and its groups."""
    now, owner, until, position, last, kept, newest, groups, members = reply
    left = int(until or 0) - int(now)
    is_held = bool(owner) and left > 0
    pairs = {text(name): text(value) for name, value in zip(members[::2], members[1::2], strict=True)}
    told = {name: re.search(r" (\d{1,15})$", value) for name, value in pairs.items()}
    seen = {name: max(0.0, (int(now) - int(when[1])) / 1000) for name, when in told.items() if when is not None}
    found = []
    for name, got, pending, *each in groups:
        group = text(name)
        holds = {text(member): int(count) for member, count in each}
        names = {key[len(group) + 1 :] for key in seen if key.startswith(f"{group}/")} | set(holds)
        each_one = tuple(GroupMember(one, holds.get(one, 0), seen.get(f"{group}/{one}")) for one in sorted(names))
        alone = group.startswith(("anonymous/", "member/"))  # names of groups have no slash
        found.append(GroupStatus(None if alone else group, max(0, int(last) - int(got)), int(pending), each_one))
    return RelayStatus(
        chain=chain,
        relayed_by=text(owner).partition(" ")[0] if is_held else None,
        lease_left=left / 1000 if is_held else None,
        position=utc(float(position)) if position else None,
        published=int(last),
        last=utc(int(text(newest).partition("-")[0]) / 1000) if newest else None,
        kept=int(kept),
        groups=tuple(sorted(found, key=lambda one: (one.group is None, one.group or ""))),
    )


# the relay


@dataclass(frozen=True, slots=True)
class Published:
    """What the relay writes as one entry."""

    id: str
    when: float
    kind: Literal["signal", "gap"]
    payload: bytes

    @classmethod
    def signal(cls, signal: StreamSignal) -> Published:
        return cls(signal.id, unix(signal.timestamp), "signal", signal.__pydantic_serializer__.to_json(signal))

    @classmethod
    def gap(cls, gap: Gap) -> Published:
        start, end = gap.start.isoformat(), gap.end.isoformat()
        payload = json.dumps({"type": "gap", "start": start, "end": end, "reason": gap.reason}).encode()
        return cls(f"\0gap:{start}:{end}", unix(gap.end), "gap", payload)

    def again(self) -> Published:
        """The same, marked: it may have been delivered before the server lost it."""
        if self.kind == "gap":
            return self
        signal = StreamSignal.model_validate_json(self.payload)
        return Published.signal(signal.marked(replayed=signal.replayed, late=signal.late, redelivered=True))


class RelayCheckpoint:
    """The checkpoint of the relay's stream: kept here until the script writes it that writes the signals.

    It does what a `CheckpointFile` does, without I/O. A state is taken about once a second.

    Args:
        state: where the stream begins; None for now.
        stored: whether the server has it.
    """

    def __init__(self, state: CheckpointState | None, *, stored: bool) -> None:
        self.state = state
        self._sent = state if stored else None
        self._begin = state.begin if state is not None and stored else None  # of the last ids that were sent
        self._due = 0.0

    @property
    def has_lines(self) -> bool:
        return False

    def open(self) -> CheckpointState | None:
        return self.state

    def add(self, signal_id: str, when: float) -> bool:
        """False when a state is due. The ids are on the server already."""
        return monotonic() < self._due

    def save(self, state: CheckpointState) -> None:
        self.state = state
        self._due = monotonic() + OFTEN

    def close(self) -> None:
        pass

    def unsent(self) -> tuple[CheckpointState | None, Sequence[tuple[str, float]]]:
        """The state that the server does not have yet, and ids that were never written as entries."""
        state = self.state
        if state is None or state is self._sent:
            return None, ()
        return state, () if state.begin == self._begin else state.handled

    def sent(self, state: CheckpointState | None) -> None:
        if state is not None:
            self._sent, self._begin = state, state.begin


def publish_arguments(
    keep: int, topic: str, checkpoint: RelayCheckpoint, items: Sequence[Published], *, moves: bool = True
) -> tuple[list[str | bytes | int | float], CheckpointState | None]:
    """The arguments of `relay_publish` after those of the lease, and the state that they have."""
    state, known = checkpoint.unsent() if moves else (None, ())
    arguments: list[str | bytes | int | float] = [keep, topic]
    if state is None:
        arguments += ["", "", ""]
    else:
        arguments += [state.begin, state.position, state.position - _REMEMBERED]
    arguments.append(len(known))
    for signal_id, when in known:
        arguments += (signal_id, when)
    for item in items:
        arguments += (item.id, item.when, item.kind, item.payload)
    return arguments, state


@dataclass(slots=True)
class Tail:
    """What the relay wrote and not every group has acknowledged: a server that went back may need it again."""

    items: deque[tuple[int, Published]] = field(default_factory=lambda: deque(maxlen=_MOST_IN_TAIL))

    def add(self, numbers: Iterable[int], items: Iterable[Published]) -> None:
        self.items.extend(zip(numbers, items, strict=True))

    def unknown(self, items: Sequence[Published]) -> None:
        """Add what may or may not have been written."""
        self.add([sys.maxsize] * len(items), items)

    def through(self, number: int) -> None:
        """Every group has acknowledged the entries up to this number."""
        while self.items and self.items[0][0] <= number:
            self.items.popleft()

    def again(self) -> list[Published]:
        return [item.again() for _, item in list(self.items)]
