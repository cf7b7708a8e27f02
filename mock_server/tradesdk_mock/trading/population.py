"""Filling tenants with data: `populate`, and the background tenant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.errors import MockServerError
from ..state import tenants
from . import background_tenant, engine, history, signal_feed
from .background_tenant import BACKGROUND_TENANT

if TYPE_CHECKING:
    from ..state.world import World


@dataclass(frozen=True, slots=True)
class Populated:
    """How much a tenant has after `populate`.

    Attributes:
        wallets: connected wallets.
        agents: agents in every state.
        trades: trades, open and closed.
        positions: open positions, one for each open trade.
    """

    wallets: int
    agents: int
    trades: int
    positions: int


def populate(world: World, tenant: str, *, trades: int = 250) -> Populated:
    """Fill a tenant, once: a second call changes nothing. A new tenant is created on the pro plan.

    For the background tenant `house`, `trades` has no effect.
    """
    if not history.OPEN_TRADES <= trades <= 1_000_000:
        raise MockServerError(f"populate: trades must be from {history.OPEN_TRADES} to 1,000,000")
    if tenant == BACKGROUND_TENANT:
        ensure_background_tenant(world)
        signal_feed.catch_up(world)
    tenants.ensure_tenant(world, tenant)
    if not world.store.value("SELECT populated FROM tenants WHERE name = ?", (tenant,)):
        now = world.second()
        world.store.run(
            "UPDATE tenants SET populated = 1, created_at = min(created_at, ?) WHERE name = ?",
            (now - 90 * history.DAY, tenant),
        )
        history.add_past(world, tenant, trades, now)
        engine.forget(world)
    return Populated(*(world.store.count(table, tenant) for table in ("wallets", "agents", "trades", "positions")))


def ensure_background_tenant(world: World) -> None:
    """Create the background tenant once. It is as old as the world: its agents trade on all signals published since."""
    if world.store.get_meta(BACKGROUND_TENANT) is None:
        start = background_tenant.create(world)
        signal_feed.replay(world, BACKGROUND_TENANT, start)
        world.store.set_meta(BACKGROUND_TENANT, str(int(start)))
        engine.forget(world)
