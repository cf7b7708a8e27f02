"""Changing agents' states, and the effect on their positions. Within the caller's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from ..core.errors import conflict, invalid, missing
from . import engine, ledger, signal_feed
from .exits import trailing_peak
from .ledger import Trade
from .positions import GUARDED, positions

if TYPE_CHECKING:
    from ..state.world import World

AgentStatus = Literal["active", "idle", "paused", "error"]
STATUSES: tuple[AgentStatus, ...] = get_args(AgentStatus)


def set_status(world: World, agent_id: str, status: str, *, anew: bool = False) -> None:
    """Set a state. `anew`: 409 if the agent already has it."""
    if status not in STATUSES:
        raise invalid(f"status: must be one of {', '.join(STATUSES)}")
    before: str | None = world.store.value("SELECT status FROM agents WHERE id = ?", (agent_id,))
    if before is None:
        raise missing("agent", agent_id)
    if before == status and anew:
        raise conflict(f"The agent is {'running' if status == 'active' else 'stopped'} already.")
    now = world.now()
    signal_feed.up_to_date(world, now)
    if before in GUARDED and status not in GUARDED:
        _stop_watching(world, agent_id, int(now))
    elif before not in GUARDED and status in GUARDED:
        # Prices while it was stopped don't count. If the clock was set back, a position may have been opened
        # later than now: it is watched from then on.
        world.store.run("UPDATE positions SET peak_at = max(opened_at, ?) WHERE agent_id = ?", (int(now), agent_id))
    # The state isn't configuration, so `updated_at` doesn't change.
    if before != status:
        world.store.run("UPDATE agents SET status = ?, since = ? WHERE id = ?", (status, now, agent_id))
    engine.changed(world, agent_id)


def _stop_watching(world: World, agent_id: str, now: int) -> None:
    """Freeze the trailing stops of an agent's positions."""
    touched = []
    for position, token in positions(world.store, world.seed, "p.agent_id = ?", (agent_id,)):
        position.peak = trailing_peak(world.prices, token, position.peak, position.peak_at, now)
        position.peak_at, position.exits_at, position.exit_by = max(now, position.peak_at), None, None
        touched.append(position)
    ledger.write(world, touched=touched, native={})


def close_all(world: World, agent_id: str, now: int) -> None:
    """Close the open trades of a deleted agent at the latest price."""
    closed, native = list[Trade](), dict[str, float]()
    for position, token in positions(world.store, world.seed, "p.agent_id = ?", (agent_id,)):
        trade = position.trade
        if trade.wallet_id not in native:
            native[trade.wallet_id] = world.store.value("SELECT native FROM wallets WHERE id = ?", (trade.wallet_id,))
        native[trade.wallet_id] += engine.close_trade(world, trade, token, max(now, trade.opened_at), "deleted")
        closed.append(trade)
    ledger.write(world, closed=closed, native=native)
