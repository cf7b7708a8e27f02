"""Options of a stream, checked before it is opened. No I/O."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from .._http.arguments import chain, confidence, flags, moment, optional_whole, required_text, seconds
from .._http.settings import ApiKey
from .._values.text import display
from ..errors import InvalidArgumentError
from ..models.signals import Signal
from .checkpoint import CheckpointFile, default_path, hash_of_key


@dataclass(kw_only=True)
class StreamOptions:
    """The arguments of `signals.stream`, checked."""

    chain: int
    since: datetime | float | None
    min_confidence: float | None
    direction: str | None
    token: str | None
    checkpoint: str | os.PathLike[str] | bool
    manual_ack: bool
    heartbeats: bool
    unknown_events: bool
    reports: bool
    idle_timeout: float
    settle: float
    recovery_timeout: float
    max_reconnects: int | None

    def __post_init__(self) -> None:
        self.chain = chain("chain", self.chain)
        self.predicate = _predicate(confidence(self.min_confidence), self.direction, self.token)
        self.begin = moment("since", self.since)
        self.max_reconnects = optional_whole("max_reconnects", self.max_reconnects, 0)
        self.idle_timeout = seconds("idle_timeout", self.idle_timeout, least=0.001)
        self.settle = seconds("settle", self.settle)
        self.recovery_timeout = seconds("recovery_timeout", self.recovery_timeout)
        if self.checkpoint is None:
            self.checkpoint = False
        if not isinstance(self.checkpoint, str | os.PathLike | bool) or self.checkpoint == "":
            raise InvalidArgumentError(
                "checkpoint must be a file path, or True for the default path", hint="write checkpoint=True"
            )
        flags(manual_ack=self.manual_ack, heartbeats=self.heartbeats)
        flags(unknown_events=self.unknown_events, reports=self.reports)
        if self.manual_ack and self.checkpoint is False:
            raise InvalidArgumentError(
                "manual_ack=True needs checkpoint=, to store acknowledgments", hint="pass checkpoint=True as well"
            )

    def checkpoint_file(self, base_url: str, key: ApiKey | None) -> CheckpointFile | None:
        if self.checkpoint is False:
            return None
        whose = "" if key is None else hash_of_key(key.header().decode("ascii").removeprefix("Bearer "))
        path = default_path(base_url, whose, self.chain) if isinstance(self.checkpoint, bool) else self.checkpoint
        return CheckpointFile(path, base_url=base_url, key_hash=whose, chain=self.chain)


def _predicate(least: float | None, direction: str | None, token: str | None) -> Callable[[Signal], bool] | None:
    if direction is not None and direction not in ("BUY", "SELL"):
        raise InvalidArgumentError(
            f"direction must be BUY or SELL, not {display(direction)}", hint='write direction="BUY"'
        )
    name = None if token is None else required_text("token", token).strip().casefold()
    if name == "":  # it would silently match nothing
        raise InvalidArgumentError(
            "token must not be blank", hint="set token to a symbol or an address, or leave it out"
        )
    if least is None and direction is None and name is None:
        return None

    def matches(signal: Signal) -> bool:
        return (
            (least is None or signal.confidence >= least)
            and (direction is None or signal.direction == direction)
            and (name is None or name in (signal.token_address.casefold(), signal.token_symbol.casefold()))
        )

    return matches
