"""The trading engine: running agents, their positions, and when those are sold. In memory; `ledger` writes the results.

`advance` replays signals and exits in the order of time and only collects changes; `flush` writes them. Both run within
the caller's transaction, so one thread uses an engine at a time; only `next_exit` is read by other threads. If another
process or a reset has changed the database, `is_current` is false, and the world makes a new engine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import chain, count
from operator import attrgetter
from typing import TYPE_CHECKING

from ..core.seeding import ident
from ..market.indicators import CHAINS
from ..market.price_model import DIGITS, level, significant
from ..market.tokens import Token
from . import ledger, positions
from .exits import ExitForecast, ExitLevels, first_exit, trailing_peak
from .ledger import Position, Trade, outcome
from .positions import Agent, OpenPosition, known

if TYPE_CHECKING:
    from ..market.indicators import Row
    from ..state.world import World

# USD. A smaller trade isn't worth the gas.
_LEAST = 1.0
# The fewest seconds to look ahead for the end of a position, plus the rest of an hour. Many positions end earlier.
_LOOK_AHEAD = 1_800


@dataclass(slots=True)
class _BuyOpportunity:
    """A signal to buy, for all agents at the same price."""

    token: Token
    signal_id: str
    second: int
    price: float
    rate: float
    forecasts: dict[ExitLevels, ExitForecast] = field(default_factory=dict)


class TradingEngine:
    """The running agents of a world, or those that meet a condition (`clause` begins with AND).

    Attributes:
        next_exit: as in `Trading`. Set at each flush, and read by other threads.
        changes: as in `Trading`.
    """

    def __init__(self, world: World, clause: str = "", *args: str) -> None:
        self._world = world
        self._prices = world.prices
        self._generation = world.generation
        # Read before the agents: if they change in between, they are read again.
        self.changes = ledger.changes(world)
        self._active: dict[int, list[Agent]] = {chain_id: [] for chain_id in CHAINS}
        # By chain, wallet and share of it.
        self._by_wallet: dict[int, dict[tuple[str, float], list[Agent]]] = {}
        self._agents: dict[str, Agent] = {}
        self._holders: dict[str, dict[str, OpenPosition]] = {}
        # (second, tie-breaker, position): it is closed then, or checked again.
        self._exits: list[tuple[int, int, OpenPosition]] = []
        self._tie_breaker = count()
        self._now = 0.0
        # Whether everything is written to the database.
        self._is_written = True
        # Ether or BNB left in wallets.
        self._native: dict[str, float] = {}
        self._ordinals: dict[tuple[str, str], int] = {}
        self._opened: list[Trade] = []
        self._closed: list[Trade] = []
        self._new: list[OpenPosition] = []
        self._touched: list[OpenPosition] = []
        self._load(clause, args)
        self._find_next_exit()

    @property
    def is_current(self) -> bool:
        """Whether it agrees with the database."""
        world = self._world
        return self._is_written and self._generation == world.generation and self.changes == ledger.changes(world)

    @property
    def empty(self) -> bool:
        """Whether no agent is running."""
        return not self._agents

    def reload(self, agent_id: str) -> None:
        """Read an agent again after it was changed, started, stopped or removed."""
        agent = self._agents.pop(agent_id, None)
        if agent is not None:
            if agent.active:
                self._active[agent.chain_id].remove(agent)
            for held in list(agent.held.values()):
                self._drop(held)
        self._load(" AND id = ?", (agent_id,))
        self._find_next_exit()

    def advance(self, rows: Iterable[Row], upto: float, now: float) -> None:
        """Let agents trade up to a time, on the signals published since the last call, in the order of time."""
        if not self._agents:
            return
        self._is_written, self._now = False, now
        for row in rows:
            self._process_exits(row[0])
            if row[5] == "BUY":
                self._buy(row)
            else:
                self._sell(row)
        self._process_exits(upto)

    def flush(self) -> None:
        """Write all changes to the database."""
        self._is_written = True
        self._find_next_exit()
        if not (self._opened or self._closed or self._touched):
            # Trades that are closed without the engine change wallets, too.
            self._native.clear()
            return
        touched = [held.position for held in self._touched if not held.gone]
        for held in self._touched:
            held.touched = False
        ledger.write(
            self._world,
            opened=self._opened,
            positions=[held.position for held in self._new if not held.gone],
            touched=touched,
            closed=self._closed,
            native=self._native,
        )
        for held in self._new:
            held.kept = True
        self._world.store.run_many(
            "INSERT INTO counters VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET n = excluded.n",
            [(*key, ordinal) for key, ordinal in self._ordinals.items()],
        )
        self._ordinals.clear()
        self._native.clear()
        for done in (self._opened, self._closed, self._new, self._touched):
            done.clear()

    # Trading.

    def _process_exits(self, upto: float) -> None:
        exits = self._exits
        while exits and exits[0][0] <= upto:
            at, _, held = heappop(exits)
            if held.gone:
                continue
            position = held.position
            if position.exit_by is not None:
                self._close(held, at, position.exit_by)
                continue
            position.peak = trailing_peak(self._prices, held.token, position.peak, position.peak_at, at)
            position.peak_at = at
            self._forecast_exit(held)

    def _buy(self, row: Row) -> None:
        at, signal_id, address, _, chain_id, _, confidence = row[:7]
        opportunity: _BuyOpportunity | None = None
        now = self._now
        for agent in self._with_money(chain_id, int(at)):
            if (
                confidence >= agent.min_confidence
                and len(agent.held) < agent.max_positions
                and address not in agent.held
                and not at < agent.since <= now
            ):
                if opportunity is None:
                    token = known(self._world.seed, chain_id, address)
                    # Ether is never bought: it is what agents pay with.
                    if token is None or token.symbol == "ETH":
                        return
                    second = int(at)
                    rate = self._prices.native_usd(chain_id, second)
                    opportunity = _BuyOpportunity(token, signal_id, second, self._prices.usd(token, second), rate)
                self._open(agent, opportunity)

    def _sell(self, row: Row) -> None:
        for held in list(self._holders.get(row[2], {}).values()):
            # `since` is in the future when the clock was set back.
            if row[6] >= held.agent.min_confidence and not row[0] < held.agent.since <= self._now:
                # Never sold before it was bought.
                self._close(held, max(int(row[0]), held.position.trade.opened_at), "signal")

    def _open(self, agent: Agent, opportunity: _BuyOpportunity) -> None:
        world, native = self._world, self._native
        token, second, price, rate = opportunity.token, opportunity.second, opportunity.price, opportunity.rate
        spent = self._balance(agent.wallet_id) * rate * agent.size
        if spent < _LEAST:
            return
        amount = significant(spent / price, DIGITS)
        # The amount is rounded, and may cost slightly more than there is.
        native[agent.wallet_id] = max(0.0, native[agent.wallet_id] - price * amount / rate)
        trade = Trade(
            id=ident("trd", world.seed, agent.tenant, self._ordinal(agent.tenant, "trade")),
            tenant=agent.tenant,
            agent_id=agent.id,
            wallet_id=agent.wallet_id,
            chain_id=agent.chain_id,
            token_address=token.address,
            token_symbol=token.symbol,
            amount=amount,
            entry_price_usd=price,
            opened_at=second,
            signal_id=opportunity.signal_id,
        )
        position = Position(
            id=ident("pos", world.seed, agent.tenant, self._ordinal(agent.tenant, "position")),
            trade=trade,
            stop_loss_price=level(price, -agent.stop_loss),
            take_profit_price=level(price, agent.take_profit),
            trailing_pct=agent.trailing,
            peak=price,
            peak_at=second,
        )
        held = self._hold(agent, position, token, kept=False)
        self._opened.append(trade)
        self._new.append(held)
        self._forecast_exit(held, opportunity.forecasts)

    def _close(self, held: OpenPosition, second: int, by: str) -> None:
        trade = held.position.trade
        gained = close_trade(self._world, trade, held.token, second, by)
        self._native[trade.wallet_id] = self._balance(trade.wallet_id) + gained
        self._closed.append(trade)
        self._drop(held)

    def _forecast_exit(self, held: OpenPosition, forecasts: dict[ExitLevels, ExitForecast] | None = None) -> None:
        """Find the second at which a position is closed, or else the second at which to look again.

        `forecasts`: those for positions opened at the same moment.
        """
        position = held.position
        upto = (position.peak_at + _LOOK_AHEAD) // 3_600 * 3_600 + 3_600
        found = None if forecasts is None else forecasts.get(held.levels)
        if found is None:
            found = first_exit(self._prices, held.token, held.levels, position.peak, position.peak_at, upto)
            if forecasts is not None:
                forecasts[held.levels] = found
        position.exits_at, position.exit_by = upto if found.at is None else found.at, found.by
        heappush(self._exits, (position.exits_at, next(self._tie_breaker), held))
        if held.kept and not held.touched:
            held.touched = True
            self._touched.append(held)

    # Agents and positions.

    def _hold(self, agent: Agent, position: Position, token: Token, *, kept: bool) -> OpenPosition:
        levels = ExitLevels(position.stop_loss_price, position.take_profit_price, position.trailing_pct / 100)
        held = OpenPosition(agent, position, token, levels, kept)
        agent.held[token.address] = held
        self._holders.setdefault(token.address, {})[agent.id] = held
        return held

    def _find_next_exit(self) -> None:
        while self._exits and self._exits[0][2].gone:
            heappop(self._exits)
        self.next_exit = self._exits[0][0] if self._exits else math.inf

    def _drop(self, held: OpenPosition) -> None:
        held.gone = True
        address = held.token.address
        held.agent.held.pop(address, None)
        self._holders[address].pop(held.agent.id, None)

    def _balance(self, wallet_id: str) -> float:
        if wallet_id not in self._native:
            found = self._world.store.value("SELECT native FROM wallets WHERE id = ?", (wallet_id,))
            self._native[wallet_id] = float(found or 0.0)
        return self._native[wallet_id]

    def _with_money(self, chain_id: int, second: int) -> list[Agent]:
        """The agents whose wallets have enough, oldest first. While they buy, no wallet gains."""
        active, by_wallet = self._active[chain_id], self._by_wallet.setdefault(chain_id, {})
        if not by_wallet:
            for agent in active:
                by_wallet.setdefault((agent.wallet_id, agent.size), []).append(agent)
        rate = self._prices.native_usd(chain_id, second)
        able = [of for (wallet, size), of in by_wallet.items() if self._balance(wallet) * rate * size >= _LEAST]
        return active if len(able) == len(by_wallet) else sorted(chain.from_iterable(able), key=attrgetter("seq"))

    def _ordinal(self, tenant: str, kind: str) -> int:
        key = tenant, kind
        if key not in self._ordinals:
            kept = self._world.store.value("SELECT n FROM counters WHERE tenant = ? AND kind = ?", key)
            self._ordinals[key] = int(kept or 0)
        self._ordinals[key] += 1
        return self._ordinals[key]

    def _load(self, clause: str, args: tuple[str, ...]) -> None:
        store = self._world.store
        added = {agent.id: agent for agent in positions.agents(store, clause, args)}
        self._agents |= added
        self._by_wallet.clear()
        for chain_id, active in self._active.items():
            active += [agent for agent in added.values() if agent.active and agent.chain_id == chain_id]
            active.sort(key=attrgetter("seq"))
        if added:
            # Read all of them first: looking ahead reads from the database too.
            owned = f"p.agent_id IN (SELECT id FROM agents WHERE {positions.RUNNING}{clause})"  # noqa: S608 - our own clauses
            for position, token in list(positions.positions(store, self._world.seed, owned, args)):
                held = self._hold(added[position.trade.agent_id], position, token, kept=True)
                if position.exits_at is None:
                    self._forecast_exit(held)
                else:
                    self._exits.append((position.exits_at, next(self._tie_breaker), held))
            heapify(self._exits)


def close_trade(world: World, trade: Trade, token: Token, second: int, by: str) -> float:
    """Close a trade at the market's price. Returns the ether or BNB from the sale."""
    price = world.prices.usd(token, second)
    trade.exit_price_usd, trade.closed_at, trade.closed_by = price, second, by
    trade.pnl_usd, trade.roi_pct = outcome(trade.entry_price_usd, price, trade.amount)
    return price * trade.amount / world.prices.native_usd(trade.chain_id, second)


def changed(world: World, agent_id: str) -> None:
    """Note that an agent was changed, started, stopped or removed."""
    ledger.note_change(world)
    if isinstance(world.trading, TradingEngine):
        world.trading.reload(agent_id)


def forget(world: World) -> None:
    """Note that agents and trades were added without the engine: all are read again."""
    ledger.note_change(world)
    world.trading = world.due = None
