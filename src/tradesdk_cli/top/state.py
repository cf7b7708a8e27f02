"""The state of the board."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tradesdk import RateLimit

SIGNALS_KEPT = 200
CONNECTING = "connecting"
_STATS = ("total_pnl_usd", "win_rate_pct", "total_trades")

Item = Mapping[str, Any]


@dataclass
class Board:
    """All data, as the service sent it. Threads `put` new data; stored data is never changed in place.

    Attributes:
        target: the service, for people.
        chain: the only chain to show; None: all.
        details: whole agents, by id; empty if that failed.
        streams: the state of each chain's stream.
        problem: why the last request failed; None if it did not.
        now: Unix seconds by the clock of the service.
        read_at: when each part was read, by that clock.
    """

    target: str = ""
    chain: int | None = None
    account: Item | None = None
    usage: Item | None = None
    limit: RateLimit | None = None
    money: Item | None = None
    agents: Sequence[Item] = ()
    details: Mapping[str, Item] = field(default_factory=dict)
    positions: Sequence[Item] = ()
    signals: Sequence[Item] = ()
    streams: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None
    note: str = ""
    now: Callable[[], float] = time.time
    read_at: Mapping[str, float] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock, repr=False, compare=False)

    def put(self, part: str, data: Any, key: str = "") -> None:
        """Stores new data; `key` is the agent of `details` and the chain of `streams`."""
        with self._lock:
            if part == "signals":  # unique, newest first
                known = {signal["id"]: signal for signal in (*data, *self.signals)}
                data = sorted(known.values(), key=lambda signal: -signal["timestamp"])[:SIGNALS_KEPT]
            elif part in ("details", "streams"):
                data = {**getattr(self, part), key: data}
            elif part in ("agents", "positions") and self.chain is not None:
                data = [item for item in data if item.get("chain_id") == self.chain]
            setattr(self, part, data)
            self.read_at = {**self.read_at, part: self.now()}

    def agent_rows(self) -> list[dict[str, Any]]:
        """One row per agent, with `open`, `unrealized_pnl_usd`, and its statistics.

        Those are empty until the whole agent was read, and None when it has none.
        """
        rows = []
        for agent in self.agents:
            mine = [position for position in self.positions if position.get("agent_id") == agent["id"]]
            whole = self.details.get(agent["id"])
            stats = {} if whole is None else whole.get("stats") or {}
            row = {
                **agent,
                **{name: "" if whole is None else stats.get(name) for name in _STATS},
                "open": len(mine) if "positions" in self.read_at else None,
                "unrealized_pnl_usd": sum(position["unrealized_pnl_usd"] for position in mine) if mine else None,
            }
            rows.append(row)
        return rows
