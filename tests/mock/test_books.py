"""The books balance, at any moment of a day; and a day is the same day however it is gone through."""

from __future__ import annotations

import copy
import hashlib
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ._books import BACKGROUND_TENANT, BASE, BNB, DAY, HOUR, Observer, service
from ._books_sums import Accountant, judged
from ._support import START, add_agent, add_wallet, ok

_CURSOR = re.compile(rb'"next_cursor":"[^"]*"')
# Tenants: one with a past, one whose two agents begin now, and those that market data is mostly about.
MAIN, FRESH = "main", "fresh"
SEED = 3
MOMENTS = (0, 59.5, 3 * HOUR + 0.001, 15 * HOUR - 1)


@contextmanager
def begun(seed: int = SEED) -> Iterator[Observer]:
    """A world at its beginning, with its tenants."""
    with service(seed) as mock:
        for tenant in (MAIN, FRESH):
            mock.create_key(tenant=tenant, plan="enterprise")
        mock.populate(MAIN)
        mock.populate(BACKGROUND_TENANT)
        with Observer(mock, [MAIN, FRESH, BACKGROUND_TENANT], past={MAIN: START, BACKGROUND_TENANT: START}) as observer:
            http = observer.http[FRESH]
            made = [
                add_agent(http, add_wallet(http, chain), chain_id=chain, min_confidence=confidence)["id"]
                for chain, confidence in ((BASE, 0.9), (BNB, 0.75))
            ]
            observer.note()
            for agent in made:
                mock.start_agent(agent)
            observer.note()
            yield observer


def test_the_books_balance_all_day() -> None:
    with begun() as observer:
        for moment in MOMENTS:
            observer.mock.clock.set(START + moment)
            assert judged(observer, every=False).wrong == [], moment
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


@pytest.mark.long
def test_what_is_wrong_is_found() -> None:
    """The judge itself: whatever is changed on the way from the world to it, it names."""
    with begun() as observer:
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


def play(steps: str) -> dict[str, bytes]:
    """A day in steps, looked at after each, and what there is to see at its end."""
    with begun() as observer:
        clock = observer.mock.clock
        dice = random.Random(steps)
        moments: dict[str, list[float]] = {
            "one": [],
            "ten": sorted(dice.uniform(0, DAY) for _ in range(9)),
            "minutes": [60.0 * minute for minute in range(1, DAY // 60)],
        }
        for moment in moments[steps]:
            clock.set(START + moment)
            ok(observer.http[FRESH].get("/v1/signals?chain=8453&limit=1"))
        clock.set(START + DAY)
        return observer.answers()


@pytest.fixture(scope="module")
def leap() -> dict[str, bytes]:
    return play("one")


@pytest.mark.long
def test_a_day_minute_by_minute_is_the_same_day(leap: dict[str, bytes]) -> None:
    found = play("minutes")
    assert [what for what, answer in leap.items() if found[what] != answer] == []
    assert found.keys() == leap.keys()


def digests(answers: dict[str, bytes]) -> list[str]:
    return [f"{what} {hashlib.sha256(answer).hexdigest()}" for what, answer in answers.items()]


def test_another_process_in_other_steps_has_the_same_day(leap: dict[str, bytes]) -> None:
    code = "from tests.mock.test_books import *; print(*digests(play('ten')), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=Path(__file__).parents[2], env={**os.environ, "PYTHONHASHSEED": "99", "TZ": "Asia/Kathmandu"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.stdout.splitlines(), done.stderr) == (digests(leap), "")


@pytest.mark.long
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
