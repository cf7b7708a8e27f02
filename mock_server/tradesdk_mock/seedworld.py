"""A tenant with a past: wallets, agents in every state, trades and open positions, all following from the seed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import house, keys, trading
from .errors import MockServerError
from .identity import Dice, address, ident, tx_hash
from .tokens import lively, significant

if TYPE_CHECKING:
    from .world import World

DAY = 86_400
OPEN_TRADES = 8
_WALLETS = ((8453, "Base main"), (56, "BNB main"))
# name, chain, status, risk, min_confidence, max_positions, trades it has open
_AGENTS = (
    ("base-momentum", 8453, "active", (5.0, 3.0, 2.0, 10.0), 0.75, 5, 3),
    ("base-dips", 8453, "active", (2.5, 6.0, 4.0, 18.0), 0.85, 8, 2),
    ("base-slow", 8453, "idle", (10.0, 8.0, 5.0, 25.0), 0.9, 3, 0),
    ("bnb-momentum", 56, "paused", (4.0, 3.5, 2.0, 12.0), 0.8, 5, 2),
    ("bnb-scalper", 56, "error", (1.0, 1.0, 0.5, 2.0), 0.7, 10, 1),
    ("bnb-watch", 56, "idle", (3.0, 4.0, 2.5, 9.0), 0.95, 2, 0),
)
_RISK: tuple[str, ...] = ("position_size_pct", "stop_loss_pct", "trailing_stop_pct", "take_profit_pct")


@dataclass(frozen=True, slots=True)
class Seeded:
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


@dataclass(frozen=True, slots=True)
class _Agent:
    id: str
    chain_id: int
    risk: dict[str, float]
    open: int


def populate(world: World, tenant: str, *, trades: int = 250) -> Seeded:
    """Fill a tenant, once: a second call changes nothing. A tenant that doesn't exist is made, on the pro plan.

    The tenant `house` becomes what market data has it be, whatever `trades` says.
    """
    if not OPEN_TRADES <= trades <= 1_000_000:
        raise MockServerError(f"populate: trades must be from {OPEN_TRADES} to 1,000,000")
    with world.store:
        if tenant == house.HOUSE:
            house.ensure(world)
        keys.ensure_tenant(world, tenant)
        if not world.store.value("SELECT populated FROM tenants WHERE name = ?", (tenant,)):
            now = world.second()
            world.store.run(
                "UPDATE tenants SET populated = 1, created_at = min(created_at, ?) WHERE name = ?",
                (now - 90 * DAY, tenant),
            )
            agents = _add_agents(world, tenant, _add_wallets(world, tenant, now), now)
            _add_closed(world, tenant, agents, trades - OPEN_TRADES, now)
            _add_open(world, tenant, agents, now)
        return Seeded(*(world.store.count(table, tenant) for table in ("wallets", "agents", "trades", "positions")))


def _add_wallets(world: World, tenant: str, now: int) -> dict[int, str]:
    found = {}
    for place, (chain_id, label) in enumerate(_WALLETS):
        ordinal = world.store.next(tenant, "wallet")
        found[chain_id] = ident("wal", world.seed, tenant, ordinal)
        world.store.add(
            "wallets",
            id=found[chain_id],
            tenant=tenant,
            address=address(world.seed, "wallet", tenant, ordinal),
            chain_id=chain_id,
            label=label,
            created_at=now - 60 * DAY + place * 3_600,
        )
    return found


def _add_agents(world: World, tenant: str, wallets: dict[int, str], now: int) -> list[_Agent]:
    found = []
    for place, (name, chain_id, status, risk, min_confidence, max_positions, opened) in enumerate(_AGENTS):
        given = dict(zip(_RISK, risk, strict=True))
        agent_id = ident("agt", world.seed, tenant, world.store.next(tenant, "agent"))
        created_at = now - (55 - 4 * place) * DAY
        world.store.add(
            "agents",
            id=agent_id,
            tenant=tenant,
            name=name,
            status=status,
            chain_id=chain_id,
            wallet_id=wallets[chain_id],
            risk=json.dumps(given),
            min_confidence=min_confidence,
            max_positions=max_positions,
            created_at=created_at,
            updated_at=created_at + 7 * 3_600 * (place + 1),
        )
        found.append(_Agent(agent_id, chain_id, given, opened))
    return found


def _add_closed(world: World, tenant: str, agents: list[_Agent], count: int, now: int) -> None:
    """Trades of the last 30 days, oldest first, all over by now and opened before any that is still open."""
    step = 28 * DAY / max(1, count)
    rows = []
    for place in range(count):
        trade_id = ident("trd", world.seed, tenant, world.store.next(tenant, "trade"))
        dice = Dice(world.seed, "trade", trade_id)
        agent = agents[dice.below(len(agents))]
        choice = lively(world.seed, agent.chain_id)
        token = choice[dice.below(len(choice))]
        direction = "BUY" if dice.unit() < 0.7 else "SELL"
        entry = significant(token.price_usd * dice.between(0.8, 1.25))
        exit_price = significant(entry * dice.between(0.92, 1.12))
        amount = significant(dice.between(40.0, 900.0) / entry)
        pnl, roi = trading.outcome(direction, entry, exit_price, amount)
        opened_at = now - 30 * DAY + int((place + dice.unit()) * step)
        closed_at = opened_at + int(dice.between(300, 1.5 * DAY))
        rows.append(
            (
                trade_id,
                tenant,
                agent.id,
                token.address,
                token.symbol,
                agent.chain_id,
                direction,
                amount,
                entry,
                exit_price,
                pnl,
                roi,
                "closed",
                opened_at,
                closed_at,
                tx_hash(world.seed, "entry", trade_id),
                tx_hash(world.seed, "exit", trade_id),
            )
        )
    world.store.run_many(
        "INSERT INTO trades (id, tenant, agent_id, token_address, token_symbol, chain_id, direction, amount,"
        " entry_price_usd, exit_price_usd, pnl_usd, roi_pct, status, opened_at, closed_at, entry_tx_hash, exit_tx_hash)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def _add_open(world: World, tenant: str, agents: list[_Agent], now: int) -> None:
    owners = [agent for agent in agents for _ in range(agent.open)]
    for place, agent in enumerate(owners):
        trade_id = ident("trd", world.seed, tenant, world.store.next(tenant, "trade"))
        dice = Dice(world.seed, "trade", trade_id)
        choice = lively(world.seed, agent.chain_id)
        token = choice[(dice.below(len(choice)) + place) % len(choice)]
        entry = significant(token.price_usd * dice.between(0.9, 1.1))
        stop, trail, target = (agent.risk[name] / 100 for name in _RISK[1:])
        # Between the two triggers, or the trade would be over.
        current = significant(entry * dice.between(1 - stop * 0.6, 1 + target * 0.6))
        amount = significant(dice.between(40.0, 900.0) / entry)
        opened_at = now - int((len(owners) - place) * 3_600 + dice.between(0, 3_000))
        shared = {
            "tenant": tenant,
            "agent_id": agent.id,
            "token_address": token.address,
            "token_symbol": token.symbol,
            "chain_id": agent.chain_id,
            "entry_price_usd": entry,
            "opened_at": opened_at,
        }
        world.store.add(
            "trades",
            id=trade_id,
            direction="BUY",
            amount=amount,
            status="open",
            entry_tx_hash=tx_hash(world.seed, "entry", trade_id),
            **shared,
        )
        world.store.add(
            "positions",
            id=ident("pos", world.seed, tenant, world.store.next(tenant, "position")),
            trade_id=trade_id,
            current_price_usd=current,
            unrealized_pnl_usd=trading.outcome("BUY", entry, current, amount)[0],
            stop_loss_price=significant(entry * (1 - stop)),
            take_profit_price=significant(entry * (1 + target)),
            trailing_stop_price=significant(min(current, max(entry, current) * (1 - trail))),
            **shared,
        )
