"""The past of a tenant: made at once, and yet what its agents would have done on this market."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tradesdk_mock import MockClock, MockServerError, MockService
from tradesdk_mock.core.seeding import ident
from tradesdk_mock.market.tokens import lively
from tradesdk_mock.trading.balances import initial_native

from .._pace import pace
from .._seeds import one_of
from ._http import DAY, HOUR, START, in_process, walk
from ._ledger_rules import Levels
from ._ledger_sums import judged
from ._observer import BACKGROUND_TENANT, Observer, Record, service

pytestmark = pytest.mark.long

PASTS: list[list[tuple[int, int, float]]] = [
    [(7, 250, 0.75), (1, 8, 2.1 * DAY), (4, 250, 5 * DAY + 1.7)],
    [(9, 1_500, 0), (2, 9, 2.2 * DAY), (5, 250, 3 * DAY)],
]
"""A run plays one half of them."""


@pytest.mark.parametrize(("seed", "trades", "after"), [past for half in one_of(PASTS) for past in half])
def test_the_rules_of_the_past(seed: int, trades: int, after: float) -> None:
    """The referee plays every trade again and counts every sum, from the first money of each wallet on.

    Open trades are such as would be open still: nothing ended them in any second.
    """
    with service(seed, signals="scripted") as mock:
        mock.populate(BACKGROUND_TENANT)
        mock.clock.advance(after)
        now = int(mock.clock.now())
        past = {"main": now, BACKGROUND_TENANT: START}
        with Observer(mock, list(past), past=past) as observer:
            mock.populate("main", trades=trades)
            observer.note()
            for wallet, chain_id in observer.chains.items():
                observer.begun[wallet] = (0, initial_native(seed, wallet, chain_id))
            found = judged(observer)
        assert found.wrong == []
        account = found.look.accounts["main"]
        rows, agents = account.trades[::-1], account.agents
        assert (len(rows), [row["status"] for row in rows[-8:]]) == (trades, ["open"] * 8)
        assert all(row["closed_at"] < now for row in rows[:-8])
        assert all(row["token_symbol"] in {each.symbol for each in lively(seed, row["chain_id"])} for row in rows)
        states = [agents[row["agent_id"]]["status"] for row in rows[-8:]]
        assert [states.count(state) for state in ("active", "paused", "error")] == [5, 2, 1]
        assert all(len(agent["risk"]) == 4 for agent in agents.values())
        if trades > 100:
            assert {row["agent_id"] for row in rows} == agents.keys(), "those that are idle now have a past"
        causes: dict[str, str] = dict(mock.world.store.all("SELECT id, closed_by FROM trades"))
        for tenant in past:
            for row in found.look.accounts[tenant].trades:
                if row["status"] == "closed" and row["closed_at"] <= past[tenant]:
                    _says_why_it_ended(row, causes[row["id"]], found.observer)
        ended = {causes[row["id"]] for row in found.look.accounts[BACKGROUND_TENANT].trades}
        assert ended >= {"signal", "trailing_stop", "take_profit"}


def _says_why_it_ended(row: Record, why: str, observer: Observer) -> None:
    """Of what ends by its levels, the one that it is said to be."""
    levels = Levels.of(row["entry_price_usd"], observer.lives[row["agent_id"]].terms[0])
    hours = range(row["opened_at"] // HOUR + 1, (row["closed_at"] - 1) // HOUR + 1)
    course = (observer.usd(row["chain_id"], row["token_address"], hour * HOUR) for hour in hours)
    floor, price = levels.floor(max((row["entry_price_usd"], *course))), row["exit_price_usd"]
    if why == "take_profit":
        assert price >= levels.target * (1 - 1e-5)
    elif why != "signal":
        assert price <= floor * (1 + 1e-5)
        assert why == ("stop_loss" if levels.stop >= floor else "trailing_stop")


def dump(mock: MockService) -> list[Any]:
    tables = ("wallets", "agents", "trades", "positions", "books", "counters")
    return [mock.world.store.all(f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in tables]  # noqa: S608 - our own names


def made(seed: int = 7, *tenants: str, trades: int = 300) -> tuple[list[Any], list[Record]]:
    """All that is kept, and the trades of `main`, oldest first."""
    with service(seed, signals="scripted") as mock, in_process(mock) as http:
        for tenant in (*tenants, "main"):
            mock.populate(tenant, trades=trades)
        return dump(mock), walk(http, "/v1/trades", limit=100)[::-1]


def test_the_same_seed_is_the_same_past_however_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, trades = made()
    # The ids are those of the service, however quickly they are made.
    assert [each["id"] for each in trades] == [ident("trd", 7, "main", ordinal) for ordinal in range(1, 301)]
    assert made(8)[0] != kept
    # What another tenant has shifts nothing.
    assert made(7, "else")[1] == trades
    for size in (1, 97, 146, 292):
        monkeypatch.setattr("tradesdk_mock.trading.history._AT_ONCE", size)
        assert made()[0] == kept


def test_many_trades_crowd_together_and_are_quickly_made() -> None:
    """So many in so little time that they are short, and still no agent has more than it may."""
    before = time.process_time()
    with MockService(clock=MockClock(START), signals="scripted") as mock:
        mock.populate("main", trades=6_000)
        # A million take a minute. The bound is generous: it takes as long as twenty times the plain work.
        assert time.process_time() - before < 100 * pace()
        held: dict[str, list[tuple[str, float]]] = {}
        spans = []
        most: dict[str, int] = dict(mock.world.store.all("SELECT id, max_positions FROM agents"))
        for agent, token, opened, closed in mock.world.store.all(
            "SELECT agent_id, token_address, opened_at, closed_at FROM trades ORDER BY seq"
        ):
            mine = held[agent] = [each for each in held.get(agent, []) if each[1] > opened]
            assert token not in dict(mine)
            mine.append((token, closed or float("inf")))
            assert len(mine) <= most[agent]
            spans.append((closed or opened) - opened)
        assert len(spans) == 6_000
        assert sum(spans) / 6_000 < 3 * HOUR


def test_a_tenant_of_1970_has_no_trades_of_the_future() -> None:
    with MockService(clock=MockClock(0)) as mock, in_process(mock, "mock_full_me") as http:
        with pytest.raises(MockServerError, match="from 8 to 1,000,000"):
            mock.populate("me", trades=7)
        mock.populate("me")
        trades = walk(http, "/v1/trades")
        assert len(trades) == 250
        assert all(max(trade["opened_at"], trade["closed_at"] or 0) <= 0 for trade in trades)
