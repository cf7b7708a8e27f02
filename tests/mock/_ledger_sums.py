"""Whether the ledger balances: every figure of both interfaces is counted again from the trades and positions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, pairwise
from math import isclose

from ._http import BASE, ok
from ._ledger_rules import Course, Levels, Referee, by_agent, guarded
from ._observer import Account, Observer, Record, ether

# With fewer closed trades of a token nothing is said of its win rate.
ENOUGH = 3


@dataclass
class Tally:
    """What one agent made of one token."""

    closed: int = 0
    won: int = 0
    gain: float = 0.0
    cost: float = 0.0


class Accountant(Referee):
    """Counts again. `wrong` has a sentence for each figure that is another one."""

    def same(self, said: float | None, counted: float | None, what: str, *, within: float = 1e-7) -> None:
        """Of equal figures the last of eight digits may differ; None is equal to None only."""
        good = said == counted if said is None or counted is None else isclose(said, counted, rel_tol=within)
        self.check(good, f"{what}: said {said}, counted {counted}")

    def cents(self, said: float | None, counted: float | None, what: str, *, within: float = 0.0051) -> None:
        """Rounded to two places."""
        good = said == counted if said is None or counted is None else abs(said - counted) <= within
        self.check(good, f"{what}: said {said}, counted {counted}")

    def everything(self, plays: Callable[[str], bool]) -> None:
        """All sums, and the trades that are to be played again."""
        for tenant, account in self.look.accounts.items():
            self.account(tenant, account)
            self.room(account)
            for trade in account.trades:
                if plays(trade["id"]):
                    self.trade(tenant, trade)
        self.market()

    # Interface A

    def account(self, tenant: str, account: Account) -> None:
        self.check(account.usage["agents"]["used"] == len(account.agents), f"{tenant}: usage {account.usage}")
        for rows, name in ((account.trades, "trades"), (account.positions, "positions")):
            times = [row["opened_at"] for row in rows]
            self.check(times == sorted(times, reverse=True), f"{tenant}: {name} aren't newest first")
            self.check(len({row["id"] for row in rows}) == len(rows), f"{tenant}: {name} are there twice")
        mine = by_agent(account.trades)
        for agent in account.agents.values():
            self._stats(agent, mine.get(agent["id"], []))
        self._positions(tenant, account)
        for wallet_id, balance in account.balances.items():
            self._wallet(wallet_id, balance, account)

    def _stats(self, agent: Record, trades: list[Record]) -> None:
        done = [trade for trade in trades if trade["status"] == "closed"]
        won = sum(trade["pnl_usd"] > 0 for trade in done)
        rate = 100 * won / len(done) if done else 0.0
        name, stats = f"agent {agent['id']}", agent["stats"]
        self.check(stats["total_trades"] == len(done), f"{name}: {stats}, {len(done)} closed trades")
        self.cents(stats["win_rate_pct"], rate, f"{name}: win rate")
        self.cents(stats["total_pnl_usd"], sum(trade["pnl_usd"] for trade in done), f"{name}: pnl")

    def _positions(self, tenant: str, account: Account) -> None:
        shared = ("agent_id", "token_address", "token_symbol", "chain_id", "entry_price_usd", "opened_at")
        opened = sorted(tuple(t[name] for name in shared) for t in account.trades if t["status"] == "open")
        held = sorted(tuple(p[name] for name in shared) for p in account.positions)
        self.check(opened == held, f"{tenant}: open trades {opened}, positions {held}")
        amounts = {
            (t["agent_id"], t["token_address"]): self.look.amounts[t["id"]][0]
            for t in account.trades
            if t["status"] == "open"
        }
        for position in account.positions:
            name = f"position {position['id']} of {tenant}"
            address, entry, now = position["token_address"], position["entry_price_usd"], self.look.now
            price, amount = position["current_price_usd"], amounts[position["agent_id"], address]
            self.same(price, self.observer.usd(position["chain_id"], address, now), f"{name}: price", within=0.0)
            if position["chain_id"] == BASE:
                market = self.look.market.prices[address]["currentPriceUsd"]
                self.same(price, market, f"{name}: price of the market", within=0.0)
            self.cents(position["unrealized_pnl_usd"], (price - entry) * amount, f"{name}: unrealized")
            self._levels(name, tenant, position)

    def _levels(self, name: str, tenant: str, position: Record) -> None:
        life, opened, now = self.observer.lives[position["agent_id"]], position["opened_at"], self.look.now
        terms = life.at(opened + 1) if opened > life.terms[0].since else life.terms[0]
        levels = Levels.of(position["entry_price_usd"], terms)
        course = Course(self.observer, position["chain_id"], position["token_address"])
        peak = position["entry_price_usd"]
        for after, upto in guarded(life, opened, now):
            for number in range(after // 60 + 1, upto // 60 + 1):
                peak = max(peak, course.minute(number))
        for field, level in (
            ("stop_loss_price", levels.stop),
            ("take_profit_price", levels.target),
            ("trailing_stop_price", peak * (1 - levels.trailing)),
        ):
            self.same(position[field], level, f"{name} of {tenant}: {field}", within=5.1e-6)
        if life.terms[-1].guards:
            price = position["current_price_usd"]
            inside = max(position["stop_loss_price"], position["trailing_stop_price"]) < price
            self.check(inside and price < position["take_profit_price"], f"{name}: beyond its levels: {position}")

    def _wallet(self, wallet_id: str, balance: Record, account: Account) -> None:
        """What is there follows from what was there at the beginning and the trades since; so does what was spent."""
        observer, now = self.observer, self.look.now
        chain_id, created_at = observer.chains[wallet_id], account.wallets[wallet_id]["created_at"]
        begun, native = observer.begun[wallet_id]
        mine = [trade for trade in account.trades[::-1] if self.look.amounts[trade["id"]][1] == wallet_id]
        steps = [(t["closed_at"], 0, t) for t in mine if t["closed_at"] is not None and t["closed_at"] > begun]
        steps += [(t["opened_at"], 1, t) for t in mine if t["opened_at"] > begun]
        steps.sort(key=lambda step: step[:2])
        busy = Counter(step[0] for step in steps)
        for second, buys, trade in steps:
            rate, amount = observer.native_usd(chain_id, second), self.look.amounts[trade["id"]][0]
            if not buys:
                native += trade["exit_price_usd"] * amount / rate
                continue
            spent = trade["entry_price_usd"] * amount
            share = observer.lives[trade["agent_id"]].at(second + 1).percent("position_size_pct")
            if busy[second] == 1:
                self.same(spent, share / 100 * native * rate, f"trade {trade['id']}: spent at {second}", within=1e-4)
            native -= spent / rate
        name, at = f"wallet {wallet_id}", balance["updated_at"]
        moved = max((t["closed_at"] or t["opened_at"] for t in mine), default=0)
        moved = max([moved, *(t["opened_at"] for t in mine)])
        wanted = max(now - now % 60, moved, created_at)
        self.check(at == wanted, f"{name}: updated at {at}, not {wanted}; now {now}")
        worth = native * observer.native_usd(chain_id, at)
        self.cents(balance["native_balance_usd"], worth, f"{name}: native", within=0.02 + 1e-6 * worth)
        self.check(native >= 0, f"{name}: {native}")
        self._held(name, balance, mine)

    def _held(self, name: str, balance: Record, mine: list[Record]) -> None:
        units: dict[str, float] = defaultdict(float)
        where = {trade["token_address"]: trade for trade in mine if trade["status"] == "open"}
        for trade in mine:
            if trade["status"] == "open":
                units[trade["token_address"]] += self.look.amounts[trade["id"]][0]
        said = balance["token_balances"]
        self.check([each["token_address"] for each in said] == sorted(units), f"{name}: {said}, counted {units}")
        for each in said:
            address = each["token_address"]
            if address in units:
                price = self.observer.usd(where[address]["chain_id"], address, balance["updated_at"])
                self.same(each["balance"], units[address], f"{name}: {each['token_symbol']}")
                self.cents(each["balance_usd"], units[address] * price, f"{name}: USD of {each['token_symbol']}")

    # Interface B

    def market(self) -> None:
        """Everything that market data says, from all tenants' trades and positions on Base."""
        accounts = self.look.accounts.values()
        trades = [t for t in chain.from_iterable(a.trades for a in accounts) if t["chain_id"] == BASE]
        by_token: dict[str, list[Record]] = defaultdict(list)
        for trade in trades:
            by_token[trade["token_address"]].append(trade)
        tallies = {address: self._tally(some) for address, some in by_token.items()}
        self._rates()
        for address, said in self.look.market.win_rates.items():
            tally = tallies.get(address, {})
            self.cents(said["winRate"], _win_rate(tally), f"win rate of {said['tokenSymbol']}")
        for address, said in self.look.market.averages.items():
            self._averages(said, by_token.get(address, []))
        traders = {address: len({trade["agent_id"] for trade in some}) for address, some in by_token.items()}
        for by, said_best in self.look.market.top.items():
            self._top(by, said_best, tallies, traders)
        self._metrics(trades)
        every = sorted(self.observer.tokens(BASE), key=lambda token: token.market_cap_rank)
        supported = self.look.market.supported
        self.check(
            [t["tokenAddress"] for t in supported] == [t.address for t in every[:500]], "supported: other tokens"
        )
        for each in supported:
            agents = traders.get(each["tokenAddress"], 0)
            self.check(each["agentCount"] == agents, f"supported {each['symbol']}: {each['agentCount']}, not {agents}")

    def _tally(self, trades: list[Record]) -> dict[str, Tally]:
        found: dict[str, Tally] = defaultdict(Tally)
        for trade in trades:
            if trade["status"] == "closed":
                tally = found[trade["agent_id"]]
                tally.closed += 1
                tally.won += trade["pnl_usd"] > 0
                tally.gain += trade["pnl_usd"]
                tally.cost += trade["entry_price_usd"] * self.look.amounts[trade["id"]][0]
        return found

    @property
    def _rate(self) -> float:
        return float(self.look.market.prices[ether(self.observer.mock.world.seed)]["currentPriceUsd"])

    def _rates(self) -> None:
        """USD is ether times its rate."""
        ours = self.look.market.prices[ether(self.observer.mock.world.seed)]
        self.check(ours["currentPriceEth"] == 1.0, f"ether: {ours}")
        self.same(self._rate, self.observer.native_usd(BASE, self.look.now), "rate of ether", within=0.0)
        for said in self.look.market.prices.values():
            self.same(said["currentPriceUsd"], said["currentPriceEth"] * self._rate, f"price of {said['symbol']}")
        for said in self.look.market.averages.values():
            for side in ("Buy", "Sell"):
                eth, usd = said[f"average{side}PriceETH"], said[f"average{side}PriceUSD"]
                self.same(usd, None if eth is None else eth * self._rate, f"average {side} of {said['tokenSymbol']}")
        metrics = self.look.market.metrics
        for name in ("totalBuy", "totalSell", "realizedProfit", "unrealizedProfit"):
            eth, usd = metrics[f"{name}ETH"], metrics[f"{name}USD"]
            self.cents(usd, eth * self._rate, f"metrics: {name}", within=0.0051 + 1e-7 * abs(usd))

    def _averages(self, said: Record, trades: list[Record]) -> None:
        units = [(trade, self.look.amounts[trade["id"]][0]) for trade in trades]
        for side, price in (("Buy", "entry_price_usd"), ("Sell", "exit_price_usd")):
            some = [(trade[price] * amount, amount) for trade, amount in units if trade[price] is not None]
            counted = sum(usd for usd, _ in some) / sum(amount for _, amount in some) if some else None
            self.same(said[f"average{side}PriceUSD"], counted, f"average {side} price of {said['tokenSymbol']}")

    def _top(self, by: str, said: list[Record], tallies: dict[str, dict[str, Tally]], traders: dict[str, int]) -> None:
        good = {address: some for address, some in tallies.items() if _closed(some) >= ENOUGH}
        figures = {address: {"winRate": _win_rate(some), "ROI": _roi(some)} for address, some in good.items()}
        self.check(len(said) == min(300, len(good)), f"top by {by}: {len(said)} of {len(good)}")
        for each in said:
            address = each["tokenAddress"]
            if address not in good:
                self.check(False, f"top by {by}: {each['symbol']} has too few trades")
                continue
            for name in ("winRate", "ROI"):
                self.cents(each[name], figures[address][name], f"top by {by}: {name} of {each['symbol']}")
            self.check(each["agentCount"] == traders[address], f"top by {by}: {each}, {traders[address]} agents")
        for one, other in pairwise(said):
            self.check(one[by] >= other[by], f"top by {by}: {one} stands before {other}")
        listed = {each["tokenAddress"] for each in said}
        least = min((each[by] for each in said), default=0.0)
        for address in good.keys() - listed:
            figure = figures[address][by] or 0.0
            self.check(
                figure <= least + 0.0051, f"top by {by}: {address} with {figure} is left out, the last has {least}"
            )

    def _metrics(self, trades: list[Record]) -> None:
        accounts = self.look.accounts.values()
        agents = [a for account in accounts for a in account.agents.values() if a["chain_id"] == BASE]
        positions = [p for account in accounts for p in account.positions if p["chain_id"] == BASE]
        done = [trade for trade in trades if trade["status"] == "closed"]
        won = sum(trade["pnl_usd"] > 0 for trade in done)
        amounts, said = self.look.amounts, self.look.market.metrics
        for name, number in (
            ("totalAgents", len(agents)),
            ("activeAgents", sum(agent["status"] == "active" for agent in agents)),
            ("totalTrades", len(done)),
            ("totalProfitableTrades", won),
        ):
            self.check(said[name] == number, f"metrics: {name} {said[name]}, counted {number}")
        self.cents(said["winRate"], 100 * won / len(done) if done else 0.0, "metrics: winRate")
        for name, usd in (
            ("totalBuyUSD", sum(trade["entry_price_usd"] * amounts[trade["id"]][0] for trade in trades)),
            ("totalSellUSD", sum(trade["exit_price_usd"] * amounts[trade["id"]][0] for trade in done)),
            ("realizedProfitUSD", sum(trade["pnl_usd"] for trade in done)),
            ("unrealizedProfitUSD", sum(position["unrealized_pnl_usd"] for position in positions)),
        ):
            self.cents(said[name], usd, f"metrics: {name}", within=0.0051 + 1e-9 * abs(usd))

    # Signals

    def signals(self, address: str) -> None:
        """What market data says of a token's signals is what the account API says."""
        observer = self.observer
        http = next(iter(observer.http.values()))
        asked: Record = {"chain": BASE, "token_address": address, "limit": 100}
        ours: list[Record] = ok(http.get("/v1/signals/history", params=asked))["data"]
        for kind in ("ALL", "BUY", "SELL"):
            said = observer.results("signal-history", [address], signalType=kind)[address]
            self.check(all(each["signal"] == kind for each in said["signals"]) or kind == "ALL", f"{kind}: {said}")
            self._records(said, kind, ours)
        newest = observer.buy("token-signals", tokens=[{"identifier": address, "limit": 100}])["results"][0]
        self._records(newest, "ALL", ours)

    def _records(self, said: Record, kind: str, ours: list[Record]) -> None:
        name, records = f"signals of {said['tokenSymbol']} ({kind})", said["signals"]
        self.check(said["signalCount"] == len(records) <= 100, f"{name}: count {said['signalCount']}")
        times = [moment(each["createdAt"]) for each in records]
        self.check(times == sorted(times, reverse=True), f"{name}: not newest first")
        crossed = [(at, each) for at, each in zip(times, records, strict=True) if each["signal"] in ("BUY", "SELL")]
        # Both are the newest hundred, but these have waiting between them, or are of one kind only.
        some = [each for each in ours if kind in ("ALL", each["direction"])][: len(crossed)]
        crossed = crossed[: len(some)]
        self.check(
            [(at, each["signal"], each["signalPriceUsd"]) for at, each in crossed]
            == [(each["timestamp"], each["direction"], each["price_usd"]) for each in some],
            f"{name}: {crossed[:2]}, the account API has {some[:2]}",
        )
        for at, each in zip(times, records, strict=True):
            rate = self.observer.native_usd(BASE, at)
            self.same(each["signalPriceUsd"], each["signalPriceEth"] * rate, f"{name}: USD at {at}")
            short, long = each["previousShortSMA"], each["previousLongSMA"]
            if each["crossoverDetected"]:
                good = short <= long if each["signal"] == "BUY" else short >= long
                self.check(good, f"{name}: before the {each['signal']} at {at} the averages were {short} and {long}")


def moment(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def judged(observer: Observer, *, every: bool = True) -> Accountant:
    """Read the world as it is and count all sums; with `every`, play each trade again, too."""
    traded = observer.mock.world.store.all("SELECT DISTINCT token_address FROM trades WHERE chain_id = 8453")
    look = observer.look(tokens=sorted(address for (address,) in traded))
    found = Accountant(observer, look)
    found.everything(lambda trade_id: every)
    return found


def _closed(some: dict[str, Tally]) -> int:
    return sum(tally.closed for tally in some.values())


def _win_rate(some: dict[str, Tally]) -> float | None:
    if _closed(some) < ENOUGH:
        return None
    return sum(100 * tally.won / tally.closed for tally in some.values()) / len(some)


def _roi(some: dict[str, Tally]) -> float:
    return 100 * sum(tally.gain for tally in some.values()) / sum(tally.cost for tally in some.values())
