"""The books balance at random moments of a month, for twenty seeds and every scenario.

Two moments a seed, at which all sums are counted again, some trades are played again second by second, and no signal of
some hours may be missed. Few agents trade here, so that it takes minutes: all of the background tenant do so for a day
in `test_books.py`, and for a month with `scripts/books_month.py --busy 99`.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

import pytest

from tradesdk_mock.market.scenarios import SCENARIOS

from ._books import BACKGROUND_TENANT, BASE, BNB, DAY, HOUR, Observer, service
from ._books_sums import Accountant, judged
from ._support import START, add_agent, add_wallet, ok

MONTH = 31 * DAY
SEEDS = range(1, 21)
MAIN, FRESH = "main", "fresh"
# Trades that are played again at each moment, and seconds in which no signal may be missed.
PLAYED, SPAN = 60, 3 * HOUR
# All agents together make 60,000 trades a month, and take a minute for it. So some of the background tenant are enough
# here, and the others want to be very sure.
BUSY, SURE = 4, 0.97


@dataclass(frozen=True)
class Figures:
    """What a month was made of.

    Attributes:
        trades: those of all tenants, and `played` of them were played again second by second.
        taken: signals that agents took in the spans that were looked through, of `signals` there.
        seconds: real ones, for the whole of it.
    """

    seed: int
    scenario: str
    trades: int
    open: int
    played: int
    signals: int
    taken: int
    profit: float
    win_rate: float
    seconds: float
    wrong: tuple[str, ...]


@dataclass(frozen=True)
class _Look:
    found: Accountant
    played: int
    signals: int
    taken: int


def month(seed: int, scenario: str, moments: int = 2) -> Figures:
    """A month of a world, judged at random moments, the latest of them on its last day."""
    began = time.perf_counter()
    dice = random.Random(seed)
    when = sorted(dice.uniform(0, MONTH - DAY) for _ in range(moments - 1))
    when.append(dice.uniform(MONTH - DAY, MONTH))
    with service(seed, scenario=scenario) as mock:
        for tenant in (MAIN, FRESH):
            mock.create_key(tenant=tenant, plan="enterprise")
        for tenant in (MAIN, BACKGROUND_TENANT):
            mock.populate(tenant)
        with Observer(mock, [MAIN, FRESH, BACKGROUND_TENANT], past={MAIN: START, BACKGROUND_TENANT: START}) as observer:
            _begin(observer)
            looks = []
            for moment in when:
                mock.clock.set(START + moment)
                looks.append(_look(observer, dice))
    accounts, metrics = looks[-1].found.look.accounts.values(), looks[-1].found.look.market.metrics
    return Figures(
        seed,
        scenario,
        sum(len(account.trades) for account in accounts),
        sum(len(account.positions) for account in accounts),
        sum(each.played for each in looks),
        sum(each.signals for each in looks),
        sum(each.taken for each in looks),
        metrics["realizedProfitUSD"],
        metrics["winRate"],
        time.perf_counter() - began,
        tuple(line for each in looks for line in each.found.wrong),
    )


def _begin(observer: Observer) -> None:
    http = observer.http[FRESH]
    wallets = {chain: add_wallet(http, chain) for chain in (BASE, BNB)}
    made = [add_agent(http, w, chain_id=chain, min_confidence=SURE)["id"] for chain, w in wallets.items()]
    observer.note()
    lives = observer.lives.items()
    busy = [name for name, life in lives if life.tenant == BACKGROUND_TENANT and life.terms[0].status == "active"]
    for agent in busy[BUSY:]:
        observer.mock.set_agent_status(agent, "paused")
    for agent, life in lives:
        if life.tenant == MAIN:
            ok(observer.http[MAIN].patch(f"/v1/agents/{agent}", json={"min_confidence": SURE, "max_positions": 3}))
    for agent in made:
        observer.mock.start_agent(agent)
    observer.note()


def _look(observer: Observer, dice: random.Random) -> _Look:
    ok(observer.http[FRESH].get("/v1/signals?chain=8453&limit=1"))
    found = judged(observer, every=False)
    return _Look(found, _play(found, dice), *_listen(found, dice))


def _play(found: Accountant, dice: random.Random) -> int:
    """Judge some trades of each tenant; how many."""
    count = 0
    for tenant, account in found.look.accounts.items():
        some = dice.sample(account.trades, min(PLAYED // 3, len(account.trades)))
        for trade in some:
            found.trade(tenant, trade)
        count += len(some)
    return count


def _listen(found: Accountant, dice: random.Random) -> tuple[int, int]:
    """(signals of a span, how often one was taken): every agent took what it should have."""
    observer, now = found.observer, found.look.now
    upto = dice.randint(min(START + SPAN, now), now)
    since = max(START + 1, upto - SPAN)
    signals = observer.hear(since, upto)
    taken = sum(found.missed(tenant, account, signals) for tenant, account in found.look.accounts.items())
    return len(signals), taken


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_the_books_balance_all_month(seed: int) -> None:
    scenario = sorted(SCENARIOS)[seed % len(SCENARIOS)]
    figures = month(seed, scenario)
    print(figures)
    assert figures.wrong == ()
    assert figures.trades > 1_000
    assert figures.signals > 300


def test_every_scenario_has_its_seeds() -> None:
    assert {sorted(SCENARIOS)[seed % len(SCENARIOS)] for seed in SEEDS} == SCENARIOS.keys()
