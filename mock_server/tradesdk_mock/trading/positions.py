"""Running agents and their positions, read from the database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from ..market.tokens import Token, find, lively
from .exits import ExitLevels
from .ledger import Position, Trade

if TYPE_CHECKING:
    from ..state.database import Database

GUARDED = ("active", "paused")
"""The states in which an agent's positions are watched."""
RISK = {"position_size_pct": 5.0, "stop_loss_pct": 3.0, "trailing_stop_pct": 2.0, "take_profit_pct": 10.0}
"""Default risk rules of an agent."""
# The condition of the partial index.
RUNNING = "status IN ('active', 'paused')"


@dataclass(slots=True, eq=False)
class Agent:
    """An agent and its rules. `size`, `stop_loss` and `take_profit` are shares of one, `trailing` is percent."""

    seq: int
    id: str
    tenant: str
    chain_id: int
    wallet_id: str
    active: bool
    size: float
    stop_loss: float
    trailing: float
    take_profit: float
    min_confidence: float
    max_positions: int
    since: float
    held: dict[str, OpenPosition] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class OpenPosition:
    """A position of a running agent.

    Attributes:
        kept: whether it is in the database.
        touched: whether it has changed since.
    """

    agent: Agent
    position: Position
    token: Token
    levels: ExitLevels
    kept: bool
    gone: bool = False
    touched: bool = False


def agents(store: Database, clause: str, args: tuple[str, ...]) -> Iterator[Agent]:
    """Running agents, oldest first. `clause` is empty or begins with AND."""
    for seq, agent_id, tenant, chain_id, wallet_id, status, risk, confidence, most, since in store.all(
        "SELECT seq, id, tenant, chain_id, wallet_id, status, risk, min_confidence, max_positions, since"  # noqa: S608 - our own clauses
        f" FROM agents WHERE {RUNNING}{clause} ORDER BY seq",
        args,
    ):
        size, stop, trailing, target = rules(risk)
        yield Agent(
            seq, agent_id, tenant, chain_id, wallet_id, status == "active", size / 100, stop / 100, trailing,
            target / 100, confidence, most, since,
        )  # fmt: skip


# The columns of a trade, and of its position.
_TRADE = (
    "p.trade_id, p.tenant, p.agent_id, p.wallet_id, p.chain_id, p.token_address, p.token_symbol, p.amount,"
    " p.entry_price_usd, p.opened_at, t.signal_id"
)
_POSITION = "p.id, p.stop_loss_price, p.take_profit_price, p.trailing_pct, p.peak, p.peak_at, p.exits_at, p.exit_by"
_SPLIT = _TRADE.count(",") + 1


def positions(store: Database, seed: int, where: str, args: tuple[str, ...]) -> Iterator[tuple[Position, Token]]:
    """Positions in tokens of the market, in the order of opening."""
    for row in store.all(
        f"SELECT {_TRADE}, {_POSITION} FROM positions p JOIN trades t ON t.id = p.trade_id"  # noqa: S608 - our own clauses
        f" WHERE {where} ORDER BY p.seq",
        args,
    ):
        trade, (position_id, *rest) = Trade(*row[:_SPLIT]), row[_SPLIT:]
        token = known(seed, trade.chain_id, trade.token_address)
        if token is not None:
            yield Position(position_id, trade, *rest), token


@lru_cache(maxsize=16_384)
def rules(risk: str) -> tuple[float, float, float, float]:
    """(size, stop loss, trailing stop, take profit) in percent."""
    given = json.loads(risk)
    size, stop, trailing, target = (float(given.get(name, usual)) for name, usual in RISK.items())
    # With the gap option `bounds` they may have any value.
    return _within(size, 100), _within(stop, 100), _within(trailing, 100), _within(target, 1e9)


def _within(percent: float, most: float) -> float:
    return min(max(percent, 0.0), most)


@lru_cache(maxsize=4_096)
def known(seed: int, chain_id: int, address: str) -> Token | None:
    """A token of the market by its address; None for a made-up one."""
    return _lively(seed, chain_id).get(address) or find(seed, chain_id, address)


@lru_cache(maxsize=8)
def _lively(seed: int, chain_id: int) -> dict[str, Token]:
    # Most signals are about these, and computing the addresses of all tokens takes time.
    return {token.address: token for token in lively(seed, chain_id)}
