"""What a fleet's server says about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .._fleet.address import ServerAddress
from .._system.clock import Clock, SystemClock
from ..errors import FleetError
from .ledger_line import ASK_SETTINGS, SETTINGS, LedgerLine, LineError, is_too_old, not_durable, settings_of


@dataclass(frozen=True, slots=True)
class ServerReport:
    """A fleet's server.

    Attributes:
        address: its URL, without user and password.
        engine: what it is.
        version: of the engine.
        supported: whether this version has all that is needed.
        read_only: whether it is a replica.
        clock_ahead: seconds by which its clock is ahead of this machine's.
        settings: those that decide whether it can lose what was written, by name; None: it does not tell them.
        not_durable: which of them could lose money, in words; empty when none could, or when it does not tell.
    """

    address: str
    engine: Literal["redis", "valkey"]
    version: str
    supported: bool
    read_only: bool
    clock_ahead: float
    settings: Mapping[str, str] | None
    not_durable: str


def inspect_server(url: str | None = None, *, timeout: float = 5.0, clock: Clock | None = None) -> ServerReport:
    """Ask a fleet's server about itself. Changes nothing.

    Args:
        url: `redis://[[user]:password@]host[:port][/database]`, or `rediss://` for TLS; by default TRADE_FLEET.
        timeout: seconds to connect, and to wait for a reply.
        clock: the clock of this machine (tests pass their own).

    Raises:
        ConfigError: the URL cannot be used, or redis-py is not installed.
        FleetError: the server cannot be used.
    """
    line, here = LedgerLine(ServerAddress.of(url), timeout), clock or SystemClock()
    try:
        told = line.open()
        before = here.now()
        [time] = line.send([("TIME",)])
        after = here.now()
        found = settings_of(line.send(ASK_SETTINGS))
    except LineError as error:
        failure = error.failure
        raise FleetError(failure.message, code=failure.code, hint=failure.hint) from None
    finally:
        line.close()
    is_valkey = "valkey_version" in told
    return ServerReport(
        address=str(line.address),
        engine="valkey" if is_valkey else "redis",
        version=told.get("valkey_version" if is_valkey else "redis_version", "unknown").strip(),
        supported=not is_too_old(told),
        read_only=told.get("role", "").strip() in ("slave", "replica"),
        clock_ahead=0.0 if isinstance(time, Exception) else int(time[0]) + int(time[1]) / 1e6 - (before + after) / 2,
        settings=None if found is None else {name: found.get(name, "") for name in SETTINGS},
        not_durable="" if found is None else not_durable(found),
    )
