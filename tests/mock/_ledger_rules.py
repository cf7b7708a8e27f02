"""Whether agents did what they had to: each trade is played again from the market's prices and signals alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ._http import HOUR
from ._observer import Account, Life, Look, Observer, Record, Terms

# A level is a price of six digits, the peak one of eight: a price so near to a level may be on either side of it.
_TOLERANCE = 1e-6
# How much a product of two straight lines may bulge between two full minutes, at the wildest.
_BULGE = 2e-3


def significant(value: float, digits: int = 6) -> float:
    return float(f"{value:.{digits}g}")


def published(signal: Record) -> float:
    """The moment of a signal to the millisecond, which is in the ids of the market's own."""
    moment = int(signal["id"][4:16], 16) / 1000 if len(signal["id"]) == 28 else -1.0
    return moment if int(moment) == signal["timestamp"] else float(signal["timestamp"])


@dataclass(frozen=True)
class Levels:
    """USD for one token at which a trade is over, and the share of the peak that it may lose."""

    stop: float
    target: float
    trailing: float

    @classmethod
    def of(cls, entry: float, terms: Terms) -> Levels:
        stop, trailing, target = (
            terms.percent(f"{name}_pct") / 100 for name in ("stop_loss", "trailing_stop", "take_profit")
        )
        return cls(significant(entry * (1 - stop)), significant(entry * (1 + target)), trailing)

    def floor(self, peak: float) -> float:
        return max(self.stop, significant(peak * (1 - self.trailing)))

    def beyond(self, price: float, peak: float, tolerance: float = 0.0) -> bool:
        """With a tolerance above 0 a price that is nearly there counts, with one below 0 it has to be well past."""
        return price <= self.floor(peak) * (1 + tolerance) or price >= self.target * (1 - tolerance)


@dataclass
class Course:
    """A token's price while somebody holds it."""

    observer: Observer
    chain_id: int
    address: str

    def __post_init__(self) -> None:
        self.token = self.observer.token(self.chain_id, self.address)
        self.prices = self.observer.mock.world.prices

    def usd(self, second: int) -> float:
        return self.prices.usd(self.token, second)

    def minute(self, number: int) -> float:
        """The price at a full minute, as the market has it: in eight digits."""
        return significant(self.prices.closes(self.token, number // 60)[number % 60], 8)

    def ends(self, levels: Levels, peak: float, since: int, upto: int) -> tuple[set[int], int | None, float]:
        """(seconds at which it may be over, the first at which it must be, the peak then), since < second <= upto."""
        may: set[int] = set()
        for number in range(since // 60, upto // 60 + 1):
            here, there = self.minute(number), self.minute(number + 1)
            if number * 60 > since:
                peak = max(peak, here)
            low, high = min(here, there) * (1 - _BULGE), max(here, there) * (1 + _BULGE)
            if not levels.beyond(low, peak) and not levels.beyond(high, peak):
                continue
            for second in range(max(since + 1, number * 60), min(upto, number * 60 + 59) + 1):
                price = self.usd(second)
                if levels.beyond(price, peak, _TOLERANCE):
                    may.add(second)
                    if levels.beyond(price, peak, -_TOLERANCE):
                        return may, second, peak
        return may, None, peak


def guarded(life: Life, since: int, upto: int) -> Iterator[tuple[int, int]]:
    """The spans (after, up to) of seconds in which an agent watches what it holds."""
    edges = [*life.terms, Terms(math.inf, "", {}, 0.0, 0)]
    for one, other in pairwise(edges):
        start, end = max(since, int(one.since)), min(upto, other.since)
        if one.guards and start < end:
            yield start, int(end)


class Referee:
    """Judges trades of one look. What is wrong is a list of sentences with figures."""

    def __init__(self, observer: Observer, look: Look) -> None:
        self.observer = observer
        self.look = look
        self.wrong: list[str] = []

    def check(self, good: bool, text: str) -> None:
        if not good:
            self.wrong.append(f"at {self.look.now}, seed {self.observer.mock.world.seed}: {text}")

    # One trade

    def trade(self, tenant: str, trade: Record) -> None:
        """Its entry, its figures and its end."""
        observer, now = self.observer, self.look.now
        chain, address, opened, closed = (trade[n] for n in ("chain_id", "token_address", "opened_at", "closed_at"))
        name = f"trade {trade['id']} of {tenant} in {trade['token_symbol']}, {opened}..{closed}"
        course = Course(observer, chain, address)
        entry, amount = trade["entry_price_usd"], self.look.amounts[trade["id"]][0]
        self.check(trade["direction"] == "BUY", f"{name}: direction {trade['direction']}")
        self.check(entry == course.usd(opened), f"{name}: entry {entry}, the market had {course.usd(opened)}")
        self.check(opened <= (closed or now) <= now, f"{name}: not in the order of time")
        self.check((trade["status"] == "open") == (closed is None), f"{name}: status {trade['status']}")
        if closed is None:
            for field in ("exit_price_usd", "pnl_usd", "roi_pct"):
                self.check(trade[field] is None, f"{name}: open with {field} {trade[field]}")
        else:
            price = trade["exit_price_usd"]
            self.check(price == course.usd(closed), f"{name}: exit {price}, the market had {course.usd(closed)}")
            pnl, roi = (price - entry) * amount, 100 * (price - entry) / entry
            self.check(abs(trade["pnl_usd"] - pnl) < 0.005001, f"{name}: pnl {trade['pnl_usd']}, not {pnl}")
            self.check(abs(trade["roi_pct"] - roi) < 0.005001, f"{name}: roi {trade['roi_pct']}, not {roi}")
        life = observer.lives[trade["agent_id"]]
        self.check(life.chain_id == chain, f"{name}: the agent is on {life.chain_id}")
        self.check(life.created_at <= opened, f"{name}: before its agent")
        past = observer.past.get(tenant, 0)
        if closed is not None and closed <= past:
            self._past_end(name, trade, Levels.of(entry, life.terms[0]), course)
        elif opened > past:
            self._entry(name, tenant, trade, life)
        if closed is None or closed > past:
            self._end(name, tenant, trade, life, course)

    def _past_end(self, name: str, trade: Record, levels: Levels, course: Course) -> None:
        """Of the past only full hours count: over at the first that is beyond a level, or before that at any time."""
        peak = trade["entry_price_usd"]
        for hour in range(trade["opened_at"] // HOUR + 1, (trade["closed_at"] - 1) // HOUR + 1):
            price = course.usd(hour * HOUR)
            peak = max(peak, price)
            self.check(
                not levels.beyond(price, peak, -_TOLERANCE),
                f"{name}: {price} at {hour * HOUR} is beyond {levels}, peak {peak}",
            )

    def _entry(self, name: str, tenant: str, trade: Record, life: Life) -> None:
        second = trade["opened_at"]
        found = [
            (signal, life.at(published(signal)))
            for signal in self.observer.history(trade["chain_id"], second, second, trade["token_address"])
            if signal["direction"] == "BUY" and signal["price_usd"] == trade["entry_price_usd"]
        ]
        good = [each for each, terms in found if each["confidence"] >= terms.min_confidence]
        self.check(bool(good), f"{name}: no BUY signal with enough confidence; there are {[s for s, _ in found]}")
        self.check(any(terms.status == "active" for _, terms in found), f"{name}: its agent wasn't active")

    def _end(self, name: str, tenant: str, trade: Record, life: Life, course: Course) -> None:
        now, opened, closed = self.look.now, trade["opened_at"], trade["closed_at"]
        terms = life.at(opened + 1) if opened > life.terms[0].since else life.terms[0]
        levels = Levels.of(trade["entry_price_usd"], terms)
        horizon = now if closed is None else closed
        may, late, peak = set[int](), None, trade["entry_price_usd"]
        for after, upto in guarded(life, opened, horizon):
            near, late, peak = course.ends(levels, peak, after, upto)
            may |= near
            if late is not None:
                break
        sold = self._sold(tenant, trade, life, horizon)
        removed = int(life.terms[-1].since) if life.terms[-1].status == "deleted" else None
        must = min((each for each in (late, sold, removed) if each is not None), default=None)
        figures = f"{levels}, peak {peak}, may {sorted(may)}, must {late}, sold {sold}, removed {removed}"
        if closed is None:
            self.check(must is None, f"{name}: should be over at {must}; {figures}")
        else:
            self.check(closed in may | {sold, removed}, f"{name}: nothing ended it; {figures}")
            self.check(must is None or closed <= must, f"{name}: should be over at {must}; {figures}")

    def _sold(self, tenant: str, trade: Record, life: Life, upto: int) -> int | None:
        """When the first SELL with enough confidence for its agent came."""
        opened, past = trade["opened_at"], self.observer.past.get(tenant, 0)
        since = max(opened, past) + 1
        if since > upto:
            return None
        for signal in self.observer.history(trade["chain_id"], since, upto, trade["token_address"]):
            terms = life.at(published(signal))
            if signal["direction"] == "SELL" and terms.guards and signal["confidence"] >= terms.min_confidence:
                return int(signal["timestamp"])
        return None

    # All trades of an agent

    def room(self, account: Account) -> None:
        """Never more positions than allowed, never two in one token, none while not active."""
        for agent_id, trades in by_agent(account.trades).items():
            life = self.observer.lives[agent_id]
            steps = [(t["opened_at"], 1, t) for t in trades]
            steps += [(t["closed_at"], 0, t) for t in trades if t["closed_at"] is not None]
            held: set[str] = set()
            # What ends in a second makes room for what begins in it.
            for second, begins, trade in sorted(steps, key=lambda step: step[:2]):
                address = trade["token_address"]
                if not begins:
                    held.discard(address)
                    continue
                self.check(address not in held, f"agent {agent_id}: twice in {trade['token_symbol']} at {second}")
                held.add(address)
                allowed = max(life.at(second).max_positions, life.at(second + 1).max_positions)
                self.check(len(held) <= allowed, f"agent {agent_id}: {len(held)} open at {second}, {allowed} allowed")

    def missed(self, tenant: str, account: Account, signals: Sequence[Record]) -> int:
        """Signals that an agent should have taken and didn't; how often one was taken. `signals`: all of a span."""
        taken = 0
        mine = by_agent(account.trades)
        for agent_id, life in self.observer.lives.items():
            if life.tenant == tenant:
                for signal in self._wanted(life, signals):
                    taken += self._took(agent_id, life, signal, mine.get(agent_id, []))
        return taken

    def _wanted(self, life: Life, signals: Sequence[Record]) -> Iterator[Record]:
        """The signals for an agent that is active."""
        least = min(terms.min_confidence for terms in life.terms)
        for signal in signals:
            if signal["confidence"] < least or signal["direction"] != "BUY" or signal["chain_id"] != life.chain_id:
                continue
            at = published(signal)
            terms = life.at(at)
            known = self.observer.find(life.chain_id, signal["token_address"]) is not None
            enough = signal["confidence"] >= terms.min_confidence
            if enough and known and terms.status == "active" and at > life.created_at:
                yield signal

    def _took(self, agent_id: str, life: Life, signal: Record, trades: Sequence[Record]) -> bool:
        second, address = signal["timestamp"], signal["token_address"]
        # Whatever else happens in this second is taken to come in the way.
        held = [t for t in trades if t["opened_at"] <= second <= (t["closed_at"] or math.inf)]
        if any(t["opened_at"] == second and t["token_address"] == address for t in held):
            return True
        terms = life.at(published(signal))
        good = len(held) >= terms.max_positions or any(t["token_address"] == address for t in held)
        self.check(good, f"agent {agent_id} of {life.tenant} didn't take {signal}; {terms}")
        return False


def by_agent(trades: Iterable[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for trade in trades:
        found.setdefault(trade["agent_id"], []).append(trade)
    return found
