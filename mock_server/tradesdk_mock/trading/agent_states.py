"""Changing agents' states, and the effect on their positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from ..core.errors import conflict, invalid, missing
from . import background_tenant, engine, ledger, population, signal_feed
from .exits import trailing_peak
from .ledger import Trade
from .positions import GUARDED, known

if TYPE_CHECKING:
    from ..state.world import World

AgentStatus = Literal["active", "idle", "paused", "error"]
STATUSES: tuple[AgentStatus, ...] = get_args(AgentStatus)


def start(world: World, agent_id: str) -> None:
    """To `active`; 409 when it is active already."""
    with world.transaction() as now:
        if _status(world, agent_id) == "active":
            raise conflict("The agent is running already.")
        _set(world, agent_id, "active", now)


def stop(world: World, agent_id: str) -> None:
    """To `idle`; 409 when it is idle already."""
    with world.transaction() as now:
        if _status(world, agent_id) == "idle":
            raise conflict("The agent is stopped already.")
        _set(world, agent_id, "idle", now)


def set_status(world: World, agent_id: str, status: str) -> None:
    """To any state."""
    if status not in STATUSES:
        raise invalid(f"status: must be one of {', '.join(STATUSES)}")
    with world.transaction() as now:
        _set(world, agent_id, status, now)


def _status(world: World, agent_id: str) -> str:
    status: str | None = world.store.value("SELECT status FROM agents WHERE id = ?", (agent_id,))
    if status is None:
        raise missing("agent", agent_id)
    return status


def _set(world: World, agent_id: str, status: str, now: float) -> None:
    before = _status(world, agent_id)
    if background_tenant.is_growing(world):
        population.ensure_background_tenant(world)
        now = world.now()
    signal_feed.up_to_date(world, now)
    if before in GUARDED and status not in GUARDED:
        _stop_watching(world, agent_id, int(now))
    elif before not in GUARDED and status in GUARDED:
        # Prices while it was stopped don't count. After the clock was set back, a position may have been opened later
        # than now: it is watched from then on.
        world.store.run("UPDATE positions SET peak_at = max(opened_at, ?) WHERE agent_id = ?", (int(now), agent_id))
    # The state isn't configuration, so `updated_at` doesn't change.
    if before != status:
        world.store.run("UPDATE agents SET status = ?, since = ? WHERE id = ?", (status, now, agent_id))
    engine.changed(world, agent_id)


def _stop_watching(world: World, agent_id: str, now: int) -> None:
    """Freeze the trailing stops of an agent's positions."""
    rows = []
    for position_id, chain_id, address, peak, peak_at in world.store.all(
        "SELECT id, chain_id, token_address, peak, peak_at FROM positions WHERE agent_id = ?", (agent_id,)
    ):
        token = known(world.seed, chain_id, address)
        if token is not None:
            rows.append((trailing_peak(world.prices, token, peak, peak_at, now), max(now, peak_at), position_id))
    world.store.run_many(
        "UPDATE positions SET peak = ?, peak_at = ?, exits_at = NULL, exit_by = NULL WHERE id = ?", rows
    )


def close_all(world: World, tenant: str, agent_id: str, now: int) -> None:
    """Close the open trades of a deleted agent at the latest price."""
    closed, gone, native = list[Trade](), list[str](), dict[str, float]()
    for position_id, trade_id, wallet_id, chain_id, address, symbol, amount, entry, opened_at in world.store.all(
        "SELECT id, trade_id, wallet_id, chain_id, token_address, token_symbol, amount, entry_price_usd, opened_at"
        " FROM positions WHERE tenant = ? AND agent_id = ? ORDER BY seq",
        (tenant, agent_id),
    ):
        token = known(world.seed, chain_id, address)
        if token is None:
            continue
        second = max(now, opened_at)
        trade = Trade(trade_id, tenant, agent_id, wallet_id, chain_id, address, symbol, amount, entry, opened_at)
        engine.close_trade(world, trade, token, second, "deleted")
        closed.append(trade)
        gone.append(position_id)
        if wallet_id not in native:
            native[wallet_id] = world.store.value("SELECT native FROM wallets WHERE id = ?", (wallet_id,))
        native[wallet_id] += (trade.exit_price_usd or 0.0) * amount / world.prices.native_usd(chain_id, second)
    ledger.write(world, ended=closed, gone=gone, closed=closed, native=native)
