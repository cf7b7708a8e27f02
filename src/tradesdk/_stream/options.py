"""Options of a stream, checked before it is opened. No I/O."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from .._http.arguments import chain as checked_chain
from .._http.arguments import confidence, moment, required_text, seconds, wrong_argument
from .._http.settings import ApiKey
from .._values.text import display
from ..errors import InvalidArgumentError
from ..models.signals import Signal
from .checkpoint import CheckpointFile, default_path, hash_of_key


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The arguments of `signals.stream`, checked.

    Attributes:
        since: Unix seconds; None means from now on.
        predicate: selects signals; None means all.
        heartbeats, unknown_events, reports: what is yielded besides signals.
    """

    chain: int
    since: int | None
    predicate: Callable[[Signal], bool] | None
    heartbeats: bool
    unknown_events: bool
    reports: bool
    idle_timeout: float
    settle: float
    recovery_timeout: float
    max_reconnects: int | None
    manual_ack: bool
    checkpointed: bool


def stream_options(
    base_url: str,
    key: ApiKey | None,
    *,
    chain: int,
    since: datetime | float | None,
    min_confidence: float | None,
    direction: str | None,
    token: str | None,
    checkpoint: str | os.PathLike[str] | bool,
    manual_ack: bool,
    heartbeats: bool,
    unknown_events: bool,
    reports: bool,
    idle_timeout: float,
    settle: float,
    recovery_timeout: float,
    max_reconnects: int | None,
) -> tuple[StreamOptions, CheckpointFile | None]:
    """Check the arguments of `signals.stream`; returns them with the checkpoint that they name."""
    chain = checked_chain("chain", chain)
    predicate = _predicate(confidence(min_confidence), direction, token)
    first = moment("since", since)
    if max_reconnects is not None and (
        isinstance(max_reconnects, bool) or not isinstance(max_reconnects, int) or max_reconnects < 0
    ):
        raise wrong_argument("max_reconnects", "a whole number, 0 or more", max_reconnects)
    file = _checkpoint_file(checkpoint, base_url, key, chain)
    if manual_ack and file is None:
        raise InvalidArgumentError("manual_ack=True needs checkpoint=, to store acknowledgments")
    options = StreamOptions(
        chain=chain,
        since=first,
        predicate=predicate,
        heartbeats=heartbeats,
        unknown_events=unknown_events,
        reports=reports,
        idle_timeout=seconds("idle_timeout", idle_timeout, least=0.001),
        settle=seconds("settle", settle),
        recovery_timeout=seconds("recovery_timeout", recovery_timeout),
        max_reconnects=max_reconnects,
        manual_ack=manual_ack,
        checkpointed=file is not None,
    )
    return options, file


def _predicate(least: float | None, direction: str | None, token: str | None) -> Callable[[Signal], bool] | None:
    if direction is not None and direction not in ("BUY", "SELL"):
        raise InvalidArgumentError(f"direction must be BUY or SELL, not {display(direction)}")
    name = None if token is None else required_text("token", token).strip().casefold()
    if name == "":  # it would silently match nothing
        raise InvalidArgumentError("token must not be blank")
    if least is None and direction is None and name is None:
        return None

    def matches(signal: Signal) -> bool:
        return (
            (least is None or signal.confidence >= least)
            and (direction is None or signal.direction == direction)
            and (name is None or name in (signal.token_address.casefold(), signal.token_symbol.casefold()))
        )

    return matches


def _checkpoint_file(
    checkpoint: str | os.PathLike[str] | bool, base_url: str, key: ApiKey | None, chain: int
) -> CheckpointFile | None:
    if checkpoint is False or checkpoint is None:
        return None
    if not isinstance(checkpoint, str | os.PathLike | bool) or checkpoint == "":
        raise InvalidArgumentError("checkpoint must be a file path, or True for the default path")
    whose = "" if key is None else hash_of_key(key.header().decode("ascii").removeprefix("Bearer "))
    path = default_path(base_url, whose, chain) if isinstance(checkpoint, bool) else checkpoint
    return CheckpointFile(path, base_url=base_url, key_hash=whose, chain=chain)
