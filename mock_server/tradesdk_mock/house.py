"""The house: a tenant whose agents trade half of Base, so that what is said about performance is about something."""

from __future__ import annotations

import hashlib
import json
from operator import itemgetter
from typing import TYPE_CHECKING

from . import keys, market, trading
from .identity import Dice, address, ident, tx_hash
from .tokens import Token, lively, significant, tokens

if TYPE_CHECKING:
    from .world import World

HOUSE = "house"
BASE = 8453
DAY = 86_400
_WALLETS, _AGENTS = 8, 40
_TRADED = 320
# The last of them have open trades only: bought, and never sold.
_ONLY_OPEN = 8
_OPEN = 60
_STATUSES = ("active",) * 7 + ("idle",) * 2 + ("paused",)
_RISK = {"position_size_pct": 5.0, "stop_loss_pct": 12.0, "trailing_stop_pct": 9.0, "take_profit_pct": 20.0}
_OPENED = itemgetter(13)
_TRADES = (
    "INSERT INTO trades (id, tenant, agent_id, token_address, token_symbol, chain_id, direction, amount,"
    " entry_price_usd, exit_price_usd, pnl_usd, roi_pct, status, opened_at, closed_at, entry_tx_hash, exit_tx_hash)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def ensure(world: World) -> None:
    """Make the house, once. Its trades are over or opened by the time the world was made, whenever this is called."""
    if world.store.get_meta(HOUSE) is not None:
        return
    with world.store:
        keys.ensure_tenant(world, HOUSE)
        born = int(min(world.now(), float(world.store.get_meta("born") or world.now())))
        agents = _add_agents(world, born)
        traded = tokens(world.seed, BASE)[:_TRADED]
        closed = [_closed(world, agents, token, ordinal, born) for ordinal, token in enumerate(_plan(world, traded), 1)]
        world.store.run_many(_TRADES, sorted(closed, key=_OPENED))
        for place in range(_OPEN):
            _add_open(world, agents[place % len(agents)], traded, place, born)
        # What a program makes with this tenant's key afterwards has ids of its own.
        for kind, count in (("trade", len(closed) + _OPEN), ("position", _OPEN)):
            world.store.run("INSERT OR REPLACE INTO counters VALUES (?, ?, ?)", (HOUSE, kind, count))
        world.store.run(
            "UPDATE tenants SET populated = 1, plan = 'enterprise', next_plan = NULL, created_at = min(created_at, ?)"
            " WHERE name = ?",
            (born - 90 * DAY, HOUSE),
        )
        world.store.set_meta(HOUSE, str(born))


def _add_agents(world: World, born: int) -> list[str]:
    wallets, agents = [], []
    for place in range(_WALLETS):
        ordinal = world.store.next(HOUSE, "wallet")
        wallets.append(ident("wal", world.seed, HOUSE, ordinal))
        world.store.add(
            "wallets",
            id=wallets[-1],
            tenant=HOUSE,
            address=address(world.seed, "wallet", HOUSE, ordinal),
            chain_id=BASE,
            label=f"House {place + 1}",
            created_at=born - 60 * DAY + place * 3_600,
        )
    for place in range(_AGENTS):
        agents.append(ident("agt", world.seed, HOUSE, world.store.next(HOUSE, "agent")))
        created_at = born - 45 * DAY + place * 3_600
        world.store.add(
            "agents",
            id=agents[-1],
            tenant=HOUSE,
            name=f"house-{place + 1:02}",
            status=_STATUSES[place % len(_STATUSES)],
            chain_id=BASE,
            wallet_id=wallets[place % _WALLETS],
            risk=json.dumps(_RISK),
            min_confidence=0.7,
            max_positions=5,
            created_at=created_at,
            updated_at=created_at + 7 * 3_600,
        )
    return agents


def _plan(world: World, traded: tuple[Token, ...]) -> list[Token]:
    """The token of each closed trade: of the lively ones many, of the others few, of some too few to judge them by."""
    plan = []
    live = len(lively(world.seed, BASE))
    for place, token in enumerate(traded[:-_ONLY_OPEN]):
        dice = Dice(world.seed, "house", token.address, rolls=1)
        # So few that more than 300 are left, which is what a list of top performers can hold.
        some = dice.below(2) + 1 if place % 40 == 39 else 3 + dice.below(6)
        plan += [token] * (16 + some if place < live else some)
    return plan


def _closed(world: World, agents: list[str], token: Token, ordinal: int, born: int) -> tuple[object, ...]:
    trade_id = ident("trd", world.seed, HOUSE, ordinal)
    dice = Dice(world.seed, "trade", trade_id, rolls=5)
    direction = "BUY" if dice.unit() < 0.8 else "SELL"
    agent = agents[dice.below(len(agents))]
    opened_at = born - 30 * DAY + int(dice.unit() * 28 * DAY)
    closed_at = opened_at + 300 + int(dice.unit() * 1.5 * DAY)
    entry = significant(market.price_usd(world.seed, token, opened_at))
    exit_price = significant(market.price_usd(world.seed, token, closed_at))
    amount = significant((40.0 + 860.0 * dice.unit()) / entry)
    pnl, roi = trading.outcome(direction, entry, exit_price, amount)
    # Both at once: thousands are made while somebody waits for an answer.
    hashes = hashlib.shake_128(f"{world.seed} {trade_id}".encode()).hexdigest(64)
    return (
        trade_id,
        HOUSE,
        agent,
        token.address,
        token.symbol,
        BASE,
        direction,
        amount,
        entry,
        exit_price,
        pnl,
        roi,
        "closed",
        opened_at,
        closed_at,
        "0x" + hashes[:64],
        "0x" + hashes[64:],
    )


def _add_open(world: World, agent: str, traded: tuple[Token, ...], place: int, born: int) -> None:
    trade_id = ident("trd", world.seed, HOUSE, "open", place)
    dice = Dice(world.seed, "trade", trade_id, rolls=3)
    token = traded[-1 - place] if place < _ONLY_OPEN else traded[dice.below(len(traded) - _ONLY_OPEN)]
    opened_at = born - 60 - int(dice.unit() * 6 * 3_600)
    entry = significant(market.price_usd(world.seed, token, opened_at))
    current = significant(market.price_usd(world.seed, token, born))
    amount = significant((40.0 + 860.0 * dice.unit()) / entry)
    stop, trail, target = (_RISK[name] / 100 for name in ("stop_loss_pct", "trailing_stop_pct", "take_profit_pct"))
    shared = {
        "tenant": HOUSE,
        "agent_id": agent,
        "token_address": token.address,
        "token_symbol": token.symbol,
        "chain_id": BASE,
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
        id=ident("pos", world.seed, HOUSE, place + 1),
        trade_id=trade_id,
        current_price_usd=current,
        unrealized_pnl_usd=trading.outcome("BUY", entry, current, amount)[0],
        stop_loss_price=significant(entry * (1 - stop)),
        take_profit_price=significant(entry * (1 + target)),
        trailing_stop_price=significant(max(entry, current) * (1 - trail)),
        **shared,
    )
