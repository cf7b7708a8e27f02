"""Agents' states as control moves them, and the end of a trade."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import conflict, invalid, missing
from .identity import tx_hash
from .validation import STATUSES

if TYPE_CHECKING:
    from .world import World


def start(world: World, agent_id: str) -> None:
    """To `active`; 409 when it is active already."""
    with world.store:
        if _status(world, agent_id) == "active":
            raise conflict("The agent is running already.")
        _set(world, agent_id, "active")


def stop(world: World, agent_id: str) -> None:
    """To `idle`; 409 when it is idle already."""
    with world.store:
        if _status(world, agent_id) == "idle":
            raise conflict("The agent is stopped already.")
        _set(world, agent_id, "idle")


def set_status(world: World, agent_id: str, status: str) -> None:
    """To any state, as something outside might move it."""
    if status not in STATUSES:
        raise invalid(f"status: must be one of {', '.join(STATUSES)}")
    with world.store:
        _status(world, agent_id)
        _set(world, agent_id, status)


def _status(world: World, agent_id: str) -> str:
    status: str | None = world.store.value("SELECT status FROM agents WHERE id = ?", (agent_id,))
    if status is None:
        raise missing("agent", agent_id)
    return status


def _set(world: World, agent_id: str, status: str) -> None:
    # A state isn't configuration: updated_at stays.
    world.store.run("UPDATE agents SET status = ? WHERE id = ?", (status, agent_id))


def outcome(direction: str, entry: float, exit_price: float, amount: float) -> tuple[float, float]:
    """(profit in USD, return in percent) of a trade."""
    move = (exit_price - entry) if direction == "BUY" else (entry - exit_price)
    # Adding zero turns a rounded -0.0 into 0.0.
    return round(move * amount, 2) + 0.0, round(100.0 * move / entry, 2) + 0.0


def close_all(world: World, tenant: str, agent_id: str) -> None:
    """Close an agent's open trades at the latest price: a deleted agent leaves no position behind."""
    store = world.store
    now = world.second()
    for trade_id, direction, entry, amount, opened_at, price in store.all(
        "SELECT t.id, t.direction, t.entry_price_usd, t.amount, t.opened_at, p.current_price_usd"
        " FROM trades t JOIN positions p ON p.trade_id = t.id"
        " WHERE t.tenant = ? AND t.agent_id = ? AND t.status = 'open'",
        (tenant, agent_id),
    ):
        pnl, roi = outcome(direction, entry, price, amount)
        store.run(
            "UPDATE trades SET status = 'closed', exit_price_usd = ?, pnl_usd = ?, roi_pct = ?, closed_at = ?,"
            " exit_tx_hash = ? WHERE id = ?",
            (price, pnl, roi, max(now, opened_at), tx_hash(world.seed, "exit", trade_id), trade_id),
        )
    store.run("DELETE FROM positions WHERE tenant = ? AND agent_id = ?", (tenant, agent_id))
