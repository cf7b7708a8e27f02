"""A tenant's trades before the world was made: which agent, with what money, and how each trade ended.

The past is checked at full hours: a trade ends at the first one at which its price is beyond the agent's stop loss,
trailing stop or take profit, else at a random time, as if a signal had ended it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from operator import itemgetter, mul
from typing import TYPE_CHECKING, Any

from ..core.seeding import SeededRandom, address, ident
from ..market.price_model import DIGITS, level, significant
from ..market.tokens import Token, lively
from . import ledger
from .balances import initial_native
from .engine import close_trade
from .exits import ExitLevels, first_exit
from .ledger import Position, Trade

if TYPE_CHECKING:
    from ..state.world import World

BASE = 8453
HOUR = 3_600
RISK: tuple[str, ...] = ("position_size_pct", "stop_loss_pct", "trailing_stop_pct", "take_profit_pct")
# Prices and levels are compared before rounding; when they are nearer than this, after rounding.
_NEAR = 1e-5
_LEAST_USD = 1.0
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
_COLUMNS = ("name", "status", "chain_id", "wallet_id", "min_confidence", "max_positions", "created_at")
# Closed trades to write at a time.
_AT_ONCE = 20_000
# Attempts to find an open trade that began in the past.
_TRIES = 12


def add_past(world: World, tenant: str, trades: int, now: int) -> None:
    """Give an empty tenant wallets, agents in every state, trades and open positions."""
    native = add_wallets(world, tenant, _WALLETS, now)
    wallets = {chain_id: wallet_id for (chain_id, _), wallet_id in zip(_WALLETS, native, strict=True)}
    agents = list[HistoricalAgent]()
    for index, (name, chain_id, status, risk, confidence, most, _) in enumerate(_AGENTS):
        created_at, edited_after = now - (55 - 4 * index) * DAY, 7 * HOUR * (index + 1)
        columns = (name, status, chain_id, wallets[chain_id], confidence, most, created_at)
        agents.append(add_agent(world, tenant, risk, edited_after=edited_after, since=world.now(), columns=columns))
    builder = HistoryBuilder(world, tenant, agents, native)
    _add_closed(world.seed, tenant, builder, agents, trades - OPEN_TRADES, now)
    _add_open(world.seed, builder, agents, now)


def add_wallets(world: World, tenant: str, wallets: Iterable[tuple[int, str]], now: int) -> dict[str, float]:
    """Add wallets by chain and label; ether or BNB by wallet id."""
    native = {}
    for index, (chain_id, label) in enumerate(wallets):
        ordinal = world.store.next(tenant, "wallet")
        wallet_id = ident("wal", world.seed, tenant, ordinal)
        native[wallet_id] = initial_native(world.seed, wallet_id, chain_id)
        created_at = now - 60 * DAY + index * 3_600
        world.store.add(
            "wallets",
            id=wallet_id,
            tenant=tenant,
            address=address(world.seed, "wallet", tenant, ordinal),
            chain_id=chain_id,
            label=label,
            created_at=created_at,
            native=native[wallet_id],
            moved_at=created_at,
        )
    return native


def add_agent(
    world: World, tenant: str, risk: Sequence[float], *, edited_after: int, since: float, columns: Sequence[Any]
) -> HistoricalAgent:
    """Add an agent.

    Args:
        risk: its rules in percent, in the order of `RISK`.
        edited_after: seconds from its creation to its last change.
        since: when its status was last set.
        columns: the values of `_COLUMNS`.
    """
    agent_id = ident("agt", world.seed, tenant, world.store.next(tenant, "agent"))
    rules = dict(zip(RISK, risk, strict=True))
    row = dict(zip(_COLUMNS, columns, strict=True))
    edited_at = row["created_at"] + edited_after
    world.store.add(
        "agents", id=agent_id, tenant=tenant, risk=json.dumps(rules), **row, updated_at=edited_at, since=since
    )
    return HistoricalAgent(agent_id, row["chain_id"], row["wallet_id"], row["status"], rules, row["max_positions"])


def _add_closed(
    seed: int, tenant: str, builder: HistoryBuilder, agents: list[HistoricalAgent], count: int, now: int
) -> None:
    """Closed trades of the last 30 days, oldest first, all opened before those that are still open."""
    if not count:
        return
    step = 28 * DAY / count
    # Short enough that some agent always has room for one more.
    longest = min(1.5 * DAY, 0.9 * step * (sum(agent.max_positions for agent in agents) - 3))
    shortest = min(300.0, longest / 4)
    choices = {chain_id: lively(seed, chain_id) for chain_id, _ in _WALLETS}
    at = now - 30 * DAY
    made: list[Trade] = []
    for index, ordinal in enumerate(builder.ordinals("trade", count)):
        trade_id = ident("trd", seed, tenant, ordinal)
        # An id is random enough for four numbers, which saves time: there may be a million trades.
        when, who, which, how_long = (int(trade_id[start : start + 6], 16) / (1 << 24) for start in (4, 10, 16, 22))
        agent, at = builder.next_free(max(at, now - 30 * DAY + int((index + when) * step)), int(who * len(agents)))
        token = _another_token(agent, choices[agent.chain_id], which)
        hold = max(1, int(shortest + (longest - shortest) * how_long))
        made.append(builder.closed(trade_id, agent, token, at, hold))
        if len(made) == _AT_ONCE:
            builder.add_closed(made)
            made = []
    builder.credit_all()
    builder.add_closed(made)


def _another_token(agent: HistoricalAgent, choice: tuple[Token, ...], roll: float) -> Token:
    """A token that the agent doesn't hold."""
    index = int(roll * len(choice))
    while choice[index].address in agent.held:
        index = (index + 1) % len(choice)
    return choice[index]


def _add_open(seed: int, builder: HistoryBuilder, agents: list[HistoricalAgent], now: int) -> None:
    """Open positions. Those of running agents would not have been closed yet."""
    chosen: list[tuple[int, HistoricalAgent, Token]] = []
    for agent, (*_, count) in zip(agents, _AGENTS, strict=True):
        agent.has_room(now, None)  # removes what it has sold by now
        for index in range(count):
            rng = SeededRandom(seed, "open", agent.id, index, draws=2 * _TRIES)
            at, token = open_since(builder, agent, lively(seed, agent.chain_id), rng, now, agent.status != "error")
            agent.held[token.address] = now
            chosen.append((at, agent, token))
    builder.add_open(chosen)


def open_since(
    builder: HistoryBuilder,
    agent: HistoricalAgent,
    choice: tuple[Token, ...],
    rng: SeededRandom,
    now: int,
    guarded: bool,
) -> tuple[int, Token]:
    """(second within the last hours, token) for a trade that is still open."""
    token = choice[0]
    for attempt in range(_TRIES):
        token = _another_token(agent, choice, rng.unit())
        # When prices move much, only a young trade is still open.
        opened_at = now - 1 - int(rng.between(0.1, 1.0) * 9 * 3_600 / 2 ** (attempt // 2))
        entry = builder.prices.usd(token, opened_at)
        levels = builder.levels(agent, entry)
        if not guarded or first_exit(builder.prices, token, levels, entry, opened_at, now).at is None:
            return opened_at, token
    return now, token


@dataclass(slots=True, eq=False)
class HistoricalAgent:
    """An agent while its past is built.

    Attributes:
        status: now, after that past.
        risk: all four rules, in percent.
        held: for each token that it holds, the second of the sale, by address.
    """

    id: str
    chain_id: int
    wallet_id: str
    status: str
    risk: Mapping[str, float]
    max_positions: int
    held: dict[str, int] = field(default_factory=dict)

    def has_room(self, at: int, address: str | None) -> bool:
        """Whether it may buy this token at a second."""
        if self.held:
            self.held = {each: until for each, until in self.held.items() if until > at}
        return len(self.held) < self.max_positions and address not in self.held


class HistoryBuilder:
    """Builds a tenant's past: trades of its agents, in the order of time, with the money of its wallets.

    Attributes:
        native: ether or BNB by wallet, after the trades so far.
    """

    def __init__(
        self, world: World, tenant: str, agents: Sequence[HistoricalAgent], native: Mapping[str, float]
    ) -> None:
        self._world = world
        self.prices = world.prices
        self._tenant = tenant
        self._agents = agents
        self.native = dict(native)
        # By wallet: (second, ether or BNB) of sales that aren't credited yet.
        self._proceeds: dict[str, list[tuple[int, float]]] = {wallet_id: [] for wallet_id in native}
        self._hours: dict[tuple[str, int], list[float]] = {}

    def ordinals(self, kind: str, count: int) -> range:
        """The next `count` ordinals of a kind within the tenant."""
        last = self._world.store.next(self._tenant, kind, count)
        return range(last - count + 1, last + 1)

    def add_closed(self, trades: Sequence[Trade]) -> None:
        """Write trades of `closed`."""
        ledger.write(self._world, opened=trades, closed=trades, native=self.native)

    def add_open(self, chosen: list[tuple[int, HistoricalAgent, Token]]) -> None:
        """Write trades that are still open, each with its position: (second, agent, token)."""
        seed, made = self._world.seed, list[Position]()
        chosen.sort(key=itemgetter(0))
        numbers = zip(*(self.ordinals(kind, len(chosen)) for kind in ("trade", "position")), strict=True)
        for (nth_trade, nth_position), (at, agent, token) in zip(numbers, chosen, strict=True):
            trade = self._bought(ident("trd", seed, self._tenant, nth_trade), agent, token, at)
            # Its price since then is checked later, by the trading engine.
            entry, levels = trade.entry_price_usd, self.levels(agent, trade.entry_price_usd)
            position_id = ident("pos", seed, self._tenant, nth_position)
            trailing = agent.risk[RISK[2]]
            made.append(Position(position_id, trade, levels.stop_loss, levels.take_profit, trailing, entry, at))
        ledger.write(self._world, opened=[each.trade for each in made], positions=made, native=self.native)

    def credit_all(self) -> None:
        """Credit all sales."""
        for wallet_id in self.native:
            self._credit(wallet_id, None)

    def next_free(self, at: int, first: int, address: str | None = None) -> tuple[HistoricalAgent, int]:
        """(an agent with room for a token, second): the first one from `first` on, later when there is none."""
        count = len(self._agents)
        while True:
            for index in range(first, first + count):
                agent = self._agents[index % count]
                if agent.has_room(at, address):
                    return agent, at
            at = min(until for agent in self._agents for until in agent.held.values())

    def closed(self, trade_id: str, agent: HistoricalAgent, token: Token, opened_at: int, hold: int) -> Trade:
        """A closed trade, open for at most `hold` seconds (at least one)."""
        trade = self._bought(trade_id, agent, token, opened_at)
        closed_at, by = self._exit(agent, token, trade.entry_price_usd, opened_at, hold)
        heappush(self._proceeds[agent.wallet_id], (closed_at, close_trade(self._world, trade, token, closed_at, by)))
        agent.held[token.address] = closed_at
        return trade

    def _bought(self, trade_id: str, agent: HistoricalAgent, token: Token, at: int) -> Trade:
        entry, rate = self.prices.usd(token, at), self.prices.native_usd(agent.chain_id, at)
        self._credit(agent.wallet_id, at)
        money = self.native[agent.wallet_id]
        spent = max(_LEAST_USD, money * rate * agent.risk[RISK[0]] / 100)
        amount = significant(spent / entry, DIGITS)
        self.native[agent.wallet_id] = money - entry * amount / rate
        return Trade(
            trade_id,
            self._tenant,
            agent.id,
            agent.wallet_id,
            agent.chain_id,
            token.address,
            token.symbol,
            amount,
            entry,
            at,
        )

    def _credit(self, wallet_id: str, upto: int | None) -> None:
        heap = self._proceeds[wallet_id]
        while heap and (upto is None or heap[0][0] <= upto):
            self.native[wallet_id] += heappop(heap)[1]

    def _exit(self, agent: HistoricalAgent, token: Token, entry: float, opened_at: int, hold: int) -> tuple[int, str]:
        last = (opened_at + hold) // HOUR
        hour = opened_at // HOUR + 1
        if hour > last:
            return opened_at + hold, "signal"
        levels = self.levels(agent, entry)
        peak, kept, stop = entry, 1 - levels.trailing, levels.stop_loss
        lower, upper = max(stop, peak * kept) * (1 + _NEAR), levels.take_profit * (1 - _NEAR)
        while hour <= last:
            day, start = divmod(hour, 24)
            stopped = min(24, last - day * 24 + 1)
            for end, price in enumerate(self._day(token, day)[start:stopped], hour):
                if not lower < price < upper:
                    trailing_stop = level(significant(peak, DIGITS), -levels.trailing)
                    by = levels.reason(self.prices.usd(token, end * HOUR), trailing_stop)
                    if by is not None:
                        return end * HOUR, by
                if price > peak:
                    peak = price
                    lower = max(stop, peak * kept) * (1 + _NEAR)
            hour = day * 24 + stopped
        # After an hour or more, the sale is at a full hour.
        return (last * HOUR if hold >= HOUR else opened_at + hold), "signal"

    @staticmethod
    def levels(agent: HistoricalAgent, entry: float) -> ExitLevels:
        _, stop, trailing, target = [agent.risk[name] / 100 for name in RISK]
        return ExitLevels(level(entry, -stop), level(entry, target), trailing)

    def _day(self, token: Token, day: int) -> list[float]:
        """Unrounded USD at the full hours of a day."""
        found = self._hours.get((token.address, day))
        if found is None:
            rates = [self.prices.rates(hour)[0] for hour in range(day * 24, day * 24 + 24)]
            found = self._hours[token.address, day] = list(map(mul, self.prices.hours(token, day), rates))
        return found
