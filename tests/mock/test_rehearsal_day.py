"""A day of agents that are told things midway: every endpoint tells the same of it."""

from __future__ import annotations

from collections.abc import Callable

from ._books import BACKGROUND_TENANT, BASE, BNB, DAY, HOUR, Observer, service
from ._books_sums import judged
from ._support import START, add_agent, add_wallet, ok


def _stop(observer: Observer, agents: list[str]) -> None:
    observer.mock.stop_agent(agents[0])


def _resume(observer: Observer, agents: list[str]) -> None:
    observer.mock.start_agent(agents[0])


def _pause(observer: Observer, agents: list[str]) -> None:
    observer.mock.set_agent_status(agents[1], "paused")


def _break(observer: Observer, agents: list[str]) -> None:
    observer.mock.set_agent_status(agents[2], "error")


def _tighten(observer: Observer, agents: list[str]) -> None:
    risk = {"stop_loss_pct": 0.7, "trailing_stop_pct": 0.5, "take_profit_pct": 1.5, "position_size_pct": 9}
    changes = {"risk": risk, "min_confidence": 0.6, "max_positions": 2}
    ok(observer.http["me"].patch(f"/v1/agents/{agents[3]}", json=changes))


def _delete(observer: Observer, agents: list[str]) -> None:
    observer.mock.stop_agent(agents[4])
    observer.note()
    assert observer.http["me"].delete(f"/v1/agents/{agents[4]}").status_code == 204


def _mend(observer: Observer, agents: list[str]) -> None:
    observer.mock.start_agent(agents[2])


PLAN: list[tuple[float, Callable[[Observer, list[str]], None]]] = [
    (2 * HOUR + 7.25, _stop),
    (4 * HOUR, _pause),
    (5 * HOUR + 1.5, _tighten),
    (6 * HOUR + 59.999, _break),
    (8 * HOUR, _resume),
    (11 * HOUR, _delete),
    (17 * HOUR + 1_234.5, _mend),
]


def test_a_day_of_agents_that_are_told_things_midway() -> None:
    """Every trade, every sum and every signal not taken is accounted for, in an ordinary market."""
    with service(11) as mock, Observer(mock, ["me", BACKGROUND_TENANT]) as observer:
        mock.populate(BACKGROUND_TENANT)
        http = observer.http["me"]
        wallets = {chain: add_wallet(http, chain) for chain in (BASE, BNB)}
        agents = []
        for place, chain in enumerate((BASE, BASE, BASE, BASE, BASE, BNB)):
            confidence = (0.8, 0.85, 0.8, 0.9, 0.8, 0.75)[place]
            made = add_agent(http, wallets[chain], chain_id=chain, min_confidence=confidence, max_positions=3 + place)
            agents.append(made["id"])
        observer.note()
        for agent in agents:
            mock.start_agent(agent)
        observer.note()
        for after, change in PLAN:
            mock.clock.set(START + after)
            change(observer, agents)
            observer.note()
        mock.clock.set(START + DAY)
        signals = observer.hear(START + 1, START + DAY)
        found = judged(observer, every=False)
        me = found.look.accounts["me"]
        for trade in me.trades:
            found.trade("me", trade)
        taken = found.missed("me", me, signals)
        assert found.wrong == []
        assert taken == len(me.trades) > 100
        assert {trade["agent_id"] for trade in me.trades} == set(agents)
        assert sum(trade["chain_id"] == BNB for trade in me.trades) > 10
        assert found.look.market.metrics["totalTrades"] >= sum(
            trade["status"] == "closed" and trade["chain_id"] == BASE for trade in me.trades
        )
