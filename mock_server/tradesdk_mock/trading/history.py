"""A tenant with a past: wallets, agents in every state, trades and open positions, all following from the seed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.errors import MockServerError
from ..core.seeding import Dice, address, ident
from ..market.tokens import lively
from ..state import tenants
from . import background_tenant, engine, ledger
from .balances import initial_native
from .pasttrades import RISK, Desk, Worker

if TYPE_CHECKING:
    from ..market.tokens import Token
    from ..state.world import World
    from .ledger import Trade

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
# Closed trades that are written at a time.
_AT_ONCE = 20_000
# How often an open trade is tried to be older than a moment.
_TRIES = 12


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


def populate(world: World, tenant: str, *, trades: int = 250) -> Seeded:
    """Fill a tenant, once: a second call changes nothing. A tenant that doesn't exist is made, on the pro plan.

    The tenant `house` becomes what market data has it be, whatever `trades` says.
    """
    if not OPEN_TRADES <= trades <= 1_000_000:
        raise MockServerError(f"populate: trades must be from {OPEN_TRADES} to 1,000,000")
    with world.store:
        if tenant == background_tenant.HOUSE:
            background_tenant.ensure(world)
        tenants.ensure_tenant(world, tenant)
        if not world.store.value("SELECT populated FROM tenants WHERE name = ?", (tenant,)):
            now = world.second()
            world.store.run(
                "UPDATE tenants SET populated = 1, created_at = min(created_at, ?) WHERE name = ?",
                (now - 90 * DAY, tenant),
            )
            wallets = _add_wallets(world, tenant, now)
            workers = _add_agents(world, tenant, wallets, now)
            native = {each: initial_native(world.seed, each, chain_id) for chain_id, each in wallets.items()}
            desk = Desk(world, tenant, workers, native)
            _add_closed(world, tenant, desk, workers, trades - OPEN_TRADES, now)
            _add_open(world, tenant, desk, workers, now)
            # Whoever trades from now on has to be looked up.
            engine.forget(world)
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
            native=initial_native(world.seed, found[chain_id], chain_id),
            moved_at=now - 60 * DAY + place * 3_600,
        )
    return found


def _add_agents(world: World, tenant: str, wallets: dict[int, str], now: int) -> list[Worker]:
    found = []
    for place, (name, chain_id, status, risk, min_confidence, max_positions, _) in enumerate(_AGENTS):
        given = dict(zip(RISK, risk, strict=True))
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
            since=world.now(),
        )
        found.append(Worker(agent_id, chain_id, wallets[chain_id], given, max_positions))
    return found


def ordinals(world: World, tenant: str, kind: str, count: int) -> range:
    """The next ordinals of a kind within a tenant, many at a time."""
    last = int(
        world.store.value(
            "INSERT INTO counters VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n RETURNING n",
            (tenant, kind, count),
        )
    )
    return range(last - count + 1, last + 1)


def _add_closed(world: World, tenant: str, desk: Desk, workers: list[Worker], count: int, now: int) -> None:
    """Trades of the last 30 days, oldest first, all over by now and opened before any that is still open."""
    if not count:
        return
    seed, step = world.seed, 28 * DAY / count
    # So many are open at once that somebody always has room for one more.
    longest = min(1.5 * DAY, 0.9 * step * (sum(worker.max_positions for worker in workers) - 3))
    shortest = min(300.0, longest / 4)
    choices = {chain_id: lively(seed, chain_id) for chain_id, _ in _WALLETS}
    at = now - 30 * DAY
    made: list[Trade] = []
    digest = ledger.digests(seed, "trd", tenant)
    for place, ordinal in enumerate(ordinals(world, tenant, "trade", count)):
        trade_id = "trd_" + digest(str(ordinal))[:24]
        # An id is chance already, enough for four rolls: a million trades are made while somebody waits.
        when, who, which, how_long = (int(trade_id[start : start + 6], 16) / (1 << 24) for start in (4, 10, 16, 22))
        worker, at = desk.who(max(at, now - 30 * DAY + int((place + when) * step)), int(who * len(workers)))
        token = _other(worker, choices[worker.chain_id], which)
        hold = max(1, int(shortest + (longest - shortest) * how_long))
        made.append(desk.closed(trade_id, worker, token, at, hold))
        if len(made) == _AT_ONCE:
            ledger.write(world, opened=made, closed=made, native=desk.native)
            made = []
    desk.settle()
    ledger.write(world, opened=made, closed=made, native=desk.native)


def _other(worker: Worker, choice: tuple[Token, ...], roll: float) -> Token:
    """One of the tokens that the agent doesn't hold."""
    place = int(roll * len(choice))
    while choice[place].address in worker.held:
        place = (place + 1) % len(choice)
    return choice[place]


def _add_open(world: World, tenant: str, desk: Desk, workers: list[Worker], now: int) -> None:
    """Those of agents that watch what they hold are such as they would hold still."""
    seed = world.seed
    chosen: list[tuple[int, Worker, Token]] = []
    for worker, (_, _, status, _, _, _, count) in zip(workers, _AGENTS, strict=True):
        worker.has_room(now, None)  # what it sold long ago may be bought again
        for place in range(count):
            dice = Dice(seed, "open", worker.id, place, rolls=2 * _TRIES)
            at, token = open_since(desk, worker, lively(seed, worker.chain_id), dice, now, status != "error")
            worker.held[token.address] = now
            chosen.append((at, worker, token))
    chosen.sort(key=lambda each: each[0])
    numbers = zip(*(ordinals(world, tenant, kind, len(chosen)) for kind in ("trade", "position")), strict=True)
    made = [
        desk.open(ident("trd", seed, tenant, trade), ident("pos", seed, tenant, position), worker, token, at)
        for (trade, position), (at, worker, token) in zip(numbers, chosen, strict=True)
    ]
    ledger.write(world, opened=[each.trade for each in made], positions=made, native=desk.native)


def open_since(
    desk: Desk, worker: Worker, choice: tuple[Token, ...], dice: Dice, now: int, guarded: bool
) -> tuple[int, Token]:
    """A second of the last hours and a token that were good for a trade that is still open."""
    token = choice[0]
    for attempt in range(_TRIES):
        token = _other(worker, choice, dice.unit())
        # Wild times are survived by what is young.
        opened_at = now - 1 - int(dice.between(0.1, 1.0) * 9 * 3_600 / 2 ** (attempt // 2))
        if not guarded or desk.is_open(worker, token, opened_at, now):
            return opened_at, token
    return now, token
