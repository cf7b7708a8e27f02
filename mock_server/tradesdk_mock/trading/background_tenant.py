"""The mock's own tenant. Its agents trade half of Base, so that performance statistics have data."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from ..core.seeding import SeededRandom, ident
from ..market.tokens import Token, lively, tokens
from ..state import tenants
from .history import BASE, DAY, HOUR, HistoricalAgent, HistoryBuilder, add_agent, add_wallets, open_since

if TYPE_CHECKING:
    from ..state.world import World

BACKGROUND_TENANT = "house"
_WALLETS, _AGENTS = 8, 40
_TRADED = 320
# The last tokens have open trades only, held by agents that aren't running.
_ONLY_OPEN = 8
_OPEN = 40
_STATUSES = ("active",) * 7 + ("idle",) * 2 + ("paused",)
# Size, stop loss, trailing stop and take profit in percent, from tight to wide.
_RISKS = ((2.0, 3.0, 2.0, 6.0), (3.0, 5.0, 4.0, 9.0), (2.5, 8.0, 6.0, 15.0), (4.0, 12.0, 9.0, 20.0))
_CONFIDENCES = (0.95, 0.94, 0.92, 0.95, 0.93)
_MOST = (3, 4, 5)


def create(world: World) -> float:
    """Create the tenant, its wallets, its agents and their trades before the world was made. Returns that time."""
    tenants.ensure_tenant(world, BACKGROUND_TENANT)
    at = min(world.now(), world.created_at)
    now = int(at)
    wallets = [(BASE, f"House {index + 1}") for index in range(_WALLETS)]
    native = add_wallets(world, BACKGROUND_TENANT, wallets, now)
    agents = _add_agents(world, list(native), at)
    builder = HistoryBuilder(world, BACKGROUND_TENANT, agents, native)
    traded = tokens(world.seed, BASE)[:_TRADED]
    _add_closed(world.seed, builder, agents, traded, now)
    _add_open(world.seed, builder, agents, traded, now)
    world.store.run(
        "UPDATE tenants SET populated = 1, plan = 'enterprise', next_plan = NULL, created_at = min(created_at, ?)"
        " WHERE name = ?",
        (now - 90 * DAY, BACKGROUND_TENANT),
    )
    return at


def _add_agents(world: World, wallets: list[str], now: float) -> list[HistoricalAgent]:
    agents = []
    for index in range(_AGENTS):
        status, wallet = _STATUSES[index % len(_STATUSES)], wallets[index % _WALLETS]
        confidence, most = _CONFIDENCES[index % len(_CONFIDENCES)], _MOST[index % len(_MOST)]
        created_at = int(now) - 45 * DAY + index * HOUR
        columns = (f"house-{index + 1:02}", status, BASE, wallet, confidence, most, created_at)
        risk = _RISKS[index % len(_RISKS)]
        agents.append(add_agent(world, BACKGROUND_TENANT, risk, edited_after=7 * HOUR, since=now, columns=columns))
    return agents


def _plan(seed: int, traded: tuple[Token, ...], now: int) -> list[tuple[int, Token, float, float]]:
    """(second, token, random number for the agent, one for the duration) of each closed trade.

    Lively tokens have many trades, the others few, some too few for statistics. All are at full hours and within a few
    days for each token, so that fewer prices are computed.
    """
    plan = []
    live = len(lively(seed, BASE))
    for index, token in enumerate(traded[:-_ONLY_OPEN]):
        rng = SeededRandom(seed, "house", token.address, draws=64)
        # Rare, so that more than 300 tokens have enough trades: a list of top performers holds 300.
        some = rng.below(2) + 1 if index % 40 == 39 else 3 + rng.below(4)
        count, days = (some + 8, 6) if index < live else (some, 2)
        first = (now - 30 * DAY) // HOUR + 1 + rng.below(24 * (28 - days))
        plan += [((first + rng.below(24 * days)) * HOUR, token, rng.unit(), rng.unit()) for _ in range(count)]
    # Stable: trades of the same hour keep their order.
    return sorted(plan, key=itemgetter(0))


def _add_closed(
    seed: int, builder: HistoryBuilder, agents: list[HistoricalAgent], traded: tuple[Token, ...], now: int
) -> None:
    plan = _plan(seed, traded, now)
    made, at = [], now - 31 * DAY
    for ordinal, (when, token, who, how_long) in zip(builder.ordinals("trade", len(plan)), plan, strict=True):
        agent, at = builder.next_free(max(at, when), int(who * len(agents)), token.address)
        hold = HOUR + int(how_long**2 * 1.4 * DAY)
        made.append(builder.closed(ident("trd", seed, BACKGROUND_TENANT, ordinal), agent, token, at, hold))
    builder.credit_all()
    builder.add_closed(made)


def _add_open(
    seed: int, builder: HistoryBuilder, agents: list[HistoricalAgent], traded: tuple[Token, ...], now: int
) -> None:
    """Positions that are open when the world is made."""
    for agent in agents:
        agent.has_room(now, None)
    idle = [agent for agent in agents if agent.status == "idle"]
    watching = [agent for agent in agents if agent not in idle]
    chosen: list[tuple[int, HistoricalAgent, Token]] = []
    for index in range(_OPEN):
        rng = SeededRandom(seed, "house", "open", index, draws=24)
        if index < _ONLY_OPEN:
            agent, token = idle[index % len(idle)], traded[-1 - index]
            at = now - 60 - rng.below(6 * HOUR)
        else:
            agent = watching[index % len(watching)]
            at, token = open_since(builder, agent, traded[:-_ONLY_OPEN], rng, now, guarded=True)
        agent.held[token.address] = now
        chosen.append((at, agent, token))
    builder.add_open(chosen)
