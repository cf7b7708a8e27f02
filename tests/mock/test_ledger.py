"""The ledger balances at any moment, whatever agents are told; and a day is the same day however it is gone through.

A day with all agents of the background tenant, and months of many seeds with a few of them, so that one
takes seconds; `scripts/soak months` plays more of them.
"""

from __future__ import annotations

import copy
import hashlib
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import pytest

from .._seeds import EVERY_STEP, drawn, one_of_each
from ._http import BASE, BNB, DAY, HOUR, START, add_agent, add_wallet, ok
from ._ledger_sums import Accountant, judged
from ._observer import BACKGROUND_TENANT, Observer, service

pytestmark = pytest.mark.long

# Tenants: one with a past, one whose agents begin now, and those that market data is mostly about.
MAIN, FRESH = "main", "fresh"
SEED = 3
# A month in scripts/soak, and some days of one in scripts/long: it takes as long as it has days.
DAYS = 31 if EVERY_STEP else 12
# Of a month: trades that are played again at each moment, and seconds in which no signal may be missed.
PLAYED, SPAN = 60, 3 * HOUR
# Agents of the background tenant that trade all month; the others want to be very sure.
BUSY, SURE = 4, 0.97
_CURSOR = re.compile(rb'"next_cursor":"[^"]*"')


@contextmanager
def begun(
    seed: int = SEED,
    agents: Sequence[tuple[int, float]] = ((BASE, 0.9), (BNB, 0.75)),
    *,
    prepare: Callable[[Observer], None] = lambda observer: None,
) -> Iterator[tuple[Observer, list[str]]]:
    """A world at its beginning with its tenants, and the ids of the new agents: (chain, confidence) of each."""
    with service(seed) as mock:
        for tenant in (MAIN, FRESH):
            mock.create_key(tenant=tenant, plan="enterprise")
        for tenant in (MAIN, BACKGROUND_TENANT):
            mock.populate(tenant)
        with Observer(mock, [MAIN, FRESH, BACKGROUND_TENANT], past={MAIN: START, BACKGROUND_TENANT: START}) as observer:
            http = observer.http[FRESH]
            wallets = {chain: add_wallet(http, chain) for chain in (BASE, BNB)}
            made = [
                add_agent(http, wallets[chain], chain_id=chain, min_confidence=confidence, max_positions=3 + place)[
                    "id"
                ]
                for place, (chain, confidence) in enumerate(agents)
            ]
            observer.note()
            prepare(observer)
            for agent in made:
                mock.start_agent(agent)
            observer.note()
            yield observer, made


# A day


def _delete(observer: Observer, agent: str) -> None:
    observer.mock.stop_agent(agent)
    observer.note()
    assert observer.http[FRESH].delete(f"/v1/agents/{agent}").status_code == 204


def _tighten(observer: Observer, agent: str) -> None:
    risk = {"stop_loss_pct": 0.7, "trailing_stop_pct": 0.5, "take_profit_pct": 1.5, "position_size_pct": 9}
    changes = {"risk": risk, "min_confidence": 0.6, "max_positions": 2}
    ok(observer.http[FRESH].patch(f"/v1/agents/{agent}", json=changes))


AGENTS = [(BASE, 0.8), (BASE, 0.85), (BASE, 0.8), (BASE, 0.9), (BASE, 0.8), (BNB, 0.75)]
# When an agent, by its place, is told something.
PLAN: list[tuple[float, int, Callable[[Observer, str], None]]] = [
    (59.5, 0, lambda observer, agent: None),
    (2 * HOUR + 7.25, 0, lambda observer, agent: observer.mock.stop_agent(agent)),
    (4 * HOUR, 1, lambda observer, agent: observer.mock.set_agent_status(agent, "paused")),
    (5 * HOUR + 1.5, 3, _tighten),
    (6 * HOUR + 59.999, 2, lambda observer, agent: observer.mock.set_agent_status(agent, "error")),
    (8 * HOUR, 0, lambda observer, agent: observer.mock.start_agent(agent)),
    (11 * HOUR, 4, _delete),
    (17 * HOUR + 1_234.5, 2, lambda observer, agent: observer.mock.start_agent(agent)),
]


def test_the_ledger_balances_all_day_whatever_agents_are_told() -> None:
    """Every trade, every sum and every signal not taken is accounted for."""
    with begun(agents=AGENTS) as (observer, agents):
        assert judged(observer, every=False).wrong == []
        for after, which, tell in PLAN:
            observer.mock.clock.set(START + after)
            if which % 2 == 0:
                assert judged(observer, every=False).wrong == [], after
            tell(observer, agents[which])
            observer.note()
        observer.mock.clock.set(START + DAY)
        signals = observer.hear(START + 1, START + DAY)
        found = judged(observer, every=False)
        look = found.look
        for tenant, account in look.accounts.items():
            for place, trade in enumerate(account.trades):
                # A part of the past of the background tenant is enough.
                if tenant != BACKGROUND_TENANT or trade["opened_at"] > START or place % 10 == 0:
                    found.trade(tenant, trade)
        for tenant, account in look.accounts.items():
            new = [trade for trade in account.trades if trade["opened_at"] > START]
            assert found.missed(tenant, account, signals) == len(new) > 5
            assert any(trade["status"] == "closed" for trade in new)
        for token in {trade["token_address"] for trade in look.accounts[BACKGROUND_TENANT].trades[:20]}:
            found.signals(token)
        assert found.wrong == []
        mine = look.accounts[FRESH].trades
        assert {trade["agent_id"] for trade in mine} == set(agents)
        assert sum(trade["chain_id"] == BNB for trade in mine) > 10


def test_what_is_wrong_is_found() -> None:
    """The judge itself: whatever is changed on the way from the world to it, it names."""
    with begun() as (observer, _):
        observer.mock.clock.set(START + 2 * HOUR)
        found = judged(observer, every=False)
        assert found.wrong == []
        look = copy.deepcopy(found.look)
        background, market = look.accounts[BACKGROUND_TENANT], look.market
        done = [each for each in background.trades if each["opened_at"] > START and each["status"] == "closed"]
        dearer, richer, longer, gone, larger, earlier = done[:6]
        dearer["entry_price_usd"] *= 1.0001
        richer["pnl_usd"] += 0.02
        longer["closed_at"] += 1
        background.trades.remove(gone)
        units, wallet = look.amounts[larger["id"]]
        look.amounts[larger["id"]] = units * 1.01, wallet
        earlier["opened_at"] -= 1
        background.positions[0]["trailing_stop_price"] *= 1.0001
        other = background.positions.pop()
        agent = next(each for each in background.agents.values() if each["id"] != gone["agent_id"])
        agent["stats"]["win_rate_pct"] += 0.02
        rich = next(iter(background.balances.values()))
        rich["native_balance_usd"] += 0.5
        tables = (market.win_rates, market.averages, market.prices)
        rated, averaged, dear = (next(iter(table.values())) for table in tables)
        rated["winRate"] += 0.02
        averaged["averageSellPriceETH"] *= 1.000001
        dear["currentPriceEth"] *= 1.000001
        market.top["ROI"].reverse()
        market.metrics["activeAgents"] += 1
        market.supported[0]["agentCount"] += 1
        judge = Accountant(observer, look)
        judge.everything(lambda trade_id: trade_id in {each["id"] for each in done[:6]})
        for words in (
            (f"trade {dearer['id']}", ": entry"),
            (f"trade {richer['id']}", ": pnl"),
            (f"trade {longer['id']}", ": exit"),
            (f"trade {longer['id']}", "nothing ended it"),
            (f"agent {gone['agent_id']}", "closed trades"),
            (f"trade {larger['id']}", "spent at"),
            (f"trade {earlier['id']}", "no BUY signal"),
            (f"agent {agent['id']}", "win rate"),
            (f"{BACKGROUND_TENANT}: open trades", other["agent_id"]),
            (f"position {background.positions[0]['id']}", "trailing_stop_price"),
            (f"wallet {rich['wallet_id']}", ": native"),
            (f"win rate of {rated['tokenSymbol']}",),
            (f"average Sell of {averaged['tokenSymbol']}",),
            (f"price of {dear['symbol']}",),
            ("top by ROI", "stands before"),
            ("metrics: activeAgents",),
            (f"supported {market.supported[0]['symbol']}",),
        ):
            assert any(all(word in line for word in words) for line in judge.wrong), words


# The same day, to the last bit


def play(steps: str) -> dict[str, bytes]:
    """A day in steps, looked at after each, and what there is to see at its end."""
    with begun() as (observer, _):
        clock = observer.mock.clock
        dice = random.Random(steps)
        moments: dict[str, list[float]] = {
            "one": [],
            "ten": sorted(dice.uniform(0, DAY) for _ in range(9)),
            "minutes": [60.0 * minute for minute in takewhile(lambda minute: minute < DAY // 60, one_of_each(4))],
        }
        for moment in moments[steps]:
            clock.set(START + moment)
            ok(observer.http[FRESH].get("/v1/signals?chain=8453&limit=1"))
        clock.set(START + DAY)
        return observer.answers()


@pytest.fixture(scope="module")
def leap() -> dict[str, bytes]:
    return play("one")


def test_a_day_minute_by_minute_is_the_same_day(leap: dict[str, bytes]) -> None:
    """Of so many minutes in a row each run stops at another one, and scripts/soak at all."""
    found = play("minutes")
    assert [what for what, answer in leap.items() if found[what] != answer] == []
    assert found.keys() == leap.keys()


def digests(answers: dict[str, bytes]) -> list[str]:
    return [f"{what} {hashlib.sha256(answer).hexdigest()}" for what, answer in answers.items()]


def test_another_process_in_other_steps_has_the_same_day(leap: dict[str, bytes]) -> None:
    code = "from tests.mock.test_ledger import *; print(*digests(play('ten')), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=Path(__file__).parents[2], env={**os.environ, "PYTHONHASHSEED": "99", "TZ": "Asia/Kathmandu"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.stdout.splitlines(), done.stderr) == (digests(leap), "")


def test_it_does_not_matter_when_somebody_first_asks_for_market_data() -> None:
    """The background tenant is as old as the world, whenever it is first asked for."""
    seen = []
    for early in (True, False):
        with service(SEED) as mock:
            with Observer(mock, [FRESH]) as before:
                if early:
                    before.buy("aggregate-metrics")
                mock.clock.set(START + 2 * HOUR + 17)
                ok(before.http[FRESH].get("/v1/signals?chain=8453&limit=1"))
                before.buy("aggregate-metrics")
            with Observer(mock, [BACKGROUND_TENANT]) as observer:
                seen.append(observer.answers())
    # When its tenant was made, and what else was written at that time, shows in the usage record and in cursors.
    first, second = (
        {what: _CURSOR.sub(b"", said) for what, said in each.items() if "usage" not in what} for each in seen
    )
    assert first == second


# Months


@dataclass(frozen=True)
class Figures:
    """What a month was made of.

    Attributes:
        trades: those of all tenants, and `played` of them were played again second by second.
        taken: signals that agents took in the spans that were looked through, of `signals` there.
        seconds: real ones, for the whole of it.
    """

    seed: int
    trades: int
    open: int
    played: int
    signals: int
    taken: int
    profit: float
    win_rate: float
    seconds: float
    wrong: tuple[str, ...]


def month(seed: int, moments: int = 2, days: int = 31) -> Figures:
    """Days of a world, judged at random moments, the latest of them on its last day."""
    began = time.perf_counter()
    dice = random.Random(seed)
    when = sorted(dice.uniform(0, (days - 1) * DAY) for _ in range(moments - 1))
    when.append(dice.uniform((days - 1) * DAY, days * DAY))
    played, signals, taken = 0, 0, 0
    looks: list[Accountant] = []
    with begun(seed, [(BASE, SURE), (BNB, SURE)], prepare=_calm) as (observer, _):
        for moment in when:
            observer.mock.clock.set(START + moment)
            while observer.http[MAIN].get("/v1/trades?limit=1").status_code == 503:
                pass  # one request goes ten days further
            looks.append(found := judged(observer, every=False))
            for tenant, account in found.look.accounts.items():
                for trade in dice.sample(account.trades, min(PLAYED // 3, len(account.trades))):
                    found.trade(tenant, trade)
                    played += 1
            upto = dice.randint(min(START + SPAN, found.look.now), found.look.now)
            heard = observer.hear(max(START + 1, upto - SPAN), upto)
            signals += len(heard)
            taken += sum(found.missed(tenant, account, heard) for tenant, account in found.look.accounts.items())
    look = looks[-1].look
    trades = sum(len(account.trades) for account in look.accounts.values())
    still = sum(len(account.positions) for account in look.accounts.values())
    profit, rate = look.market.metrics["realizedProfitUSD"], look.market.metrics["winRate"]
    seconds, wrong = time.perf_counter() - began, tuple(line for each in looks for line in each.wrong)
    return Figures(seed, trades, still, played, signals, taken, profit, rate, seconds, wrong)


def _calm(observer: Observer) -> None:
    """All agents together make 60,000 trades a month, and take a minute for it. Some of them are enough."""
    lives = observer.lives.items()
    busy = [name for name, life in lives if life.tenant == BACKGROUND_TENANT and life.terms[0].status == "active"]
    for agent in busy[BUSY:]:
        observer.mock.set_agent_status(agent, "paused")
    for agent, life in lives:
        if life.tenant == MAIN:
            ok(observer.http[MAIN].patch(f"/v1/agents/{agent}", json={"min_confidence": SURE, "max_positions": 3}))


@pytest.mark.parametrize("seeds", drawn("TRADE_LEDGER_MONTHS", 1, together=1))
def test_the_ledger_balances_all_month(seeds: range) -> None:
    """One seed of twenty; scripts/soak plays whole months of them all."""
    seed = 1 + seeds[0] % 20
    figures = month(seed, days=DAYS)
    print(figures)
    assert figures.wrong == ()
    assert figures.trades > 30 * DAYS
    assert figures.signals > 300
