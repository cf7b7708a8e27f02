"""Backtests a rule on a month of signals, beside simply holding the tokens.

    python backtest_a_rule.py [--seed 7] [--days 30]     of the mock's market

The rule follows the trend: it buys on a confident BUY above the average of the prices so far, and sells
on a confident SELL below that average, or when the price is beyond its stop or its target.

It can't look ahead. It gets the signals one by one, oldest first, as from a stream. It does not trade at the price
that it decides on, but at that of the token's next signal. Every trade costs a fee. The tokens are
those that had signals before the first day.

With TRADE_API_KEY and TRADE_BASE_URL set, it reads the service's history; without both, that of a mock in this process.
"""

import argparse
import math
import os
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import httpx

from tradesdk import Signal, TradeClient
from tradesdk_mock import MockClock, MockService

BASE, DAY = 8453, 86_400.0
MONEY = 10_000.0  # USD at the start, divided equally among the tokens
BORN = 1_800_000_000  # the mock's first time: 2027-01-15 08:00 UTC


@dataclass(frozen=True)
class Rule:
    """The settings of the rule. All are shares of 1, except `memory`."""

    confidence: float = 0.8  # minimum confidence
    memory: float = DAY  # seconds over which it averages prices; older ones count less
    margin: float = 0.03  # minimum distance of a price from the average
    stop: float = 0.06  # below the entry
    target: float = 0.3  # above the entry
    fee: float = 0.003  # of what is bought or sold


@dataclass
class Result:
    """Closed trades, and what the money was worth after each signal."""

    money: float
    trades: list[float] = field(default_factory=list)  # the return of each, as a share, after fees
    times: list[float] = field(default_factory=list)
    worth: list[float] = field(default_factory=list)
    held: list[float] = field(default_factory=list)  # the same if the token is bought at the first signal and held


class Purse:
    """The money for one token."""

    def __init__(self, rule: Rule, money: float) -> None:
        self.rule, self.money, self.units = rule, money, 0.0
        self.spent = self.entry = 0.0  # on these units; their price
        self.wanted: str | None = None  # BUY or SELL, at the next price
        self.average = self.seen = 0.0  # of the prices so far; the time of the last one
        self.worth = self.held = money  # now; and if the token is held
        self.holds = 0.0  # units that are then held
        self.result = Result(money)

    def take(self, signal: Signal) -> None:
        """Take one signal. The rule knows nothing else."""
        now, price, result = signal.timestamp.timestamp(), signal.price_usd, self.result
        if not self.seen:
            self.average, self.seen = price, now
            self.holds = self.money * (1 - self.rule.fee) / price
        if self.wanted == "BUY":
            self.units, self.spent, self.entry = self.money * (1 - self.rule.fee) / price, self.money, price
            self.money = 0.0
        elif self.wanted == "SELL":
            self.money, self.units = self.units * price * (1 - self.rule.fee), 0.0
            result.trades.append(self.money / self.spent - 1)
        self.average += (price - self.average) * (1 - math.exp((self.seen - now) / self.rule.memory))
        self.seen = now
        self.wanted = self.decide(signal)
        result.times.append(now)
        self.worth, self.held = self.money + self.units * price, self.holds * price
        result.worth.append(self.worth)
        result.held.append(self.held)

    def decide(self, signal: Signal) -> str | None:
        rule, apart = self.rule, signal.price_usd / self.average - 1
        sure = signal.confidence >= rule.confidence
        if not self.units:
            return "BUY" if sure and signal.direction == "BUY" and apart > rule.margin else None
        change = signal.price_usd / self.entry - 1
        turned = sure and signal.direction == "SELL" and apart < -rule.margin
        return "SELL" if turned or not -rule.stop < change < rule.target else None


@dataclass(frozen=True)
class Run:
    """The results of all tokens, by address (symbols are not unique), and together."""

    symbols: dict[str, str]
    tokens: dict[str, Result]
    together: Result


def run(symbols: dict[str, str], signals: Iterable[Signal], rule: Rule) -> Run:
    """Take the signals of these tokens in order of time, from any source: the history, a file, a stream."""
    purses = {address: Purse(rule, MONEY / len(symbols)) for address in symbols}
    together = Result(MONEY)
    for signal in signals:
        if signal.token_address in purses and signal.price_usd > 0:
            purses[signal.token_address].take(signal)
            together.times.append(signal.timestamp.timestamp())
            together.worth.append(sum(purse.worth for purse in purses.values()))
            together.held.append(sum(purse.held for purse in purses.values()))
    results = {address: purse.result for address, purse in purses.items()}
    together.trades = [trade for result in results.values() for trade in result.trades]
    return Run(symbols, results, together)


def tokens_before(client: TradeClient, start: float, count: int) -> dict[str, str]:
    """Symbols by address of the tokens that had the latest signals before the start. Later ones would look ahead."""
    found: dict[str, str] = {}
    for signal in client.signals.history(chain=BASE, until=start, max_items=1_000):
        found.setdefault(signal.token_address, signal.token_symbol)
        if len(found) == count:
            break
    return found


def history(client: TradeClient, addresses: Iterable[str], start: float, end: float) -> list[Signal]:
    """The signals of some tokens, oldest first; the pager has the newest first."""
    pagers = (
        client.signals.history(chain=BASE, token_address=address, since=start, until=end) for address in addresses
    )
    return sorted((signal for pager in pagers for signal in reversed([*pager])), key=lambda signal: signal.timestamp)


def backtest(client: TradeClient, start: float, end: float, count: int, rule: Rule) -> Run:
    symbols = tokens_before(client, start, count)
    if not symbols:
        sys.exit("There are no signals before that time, so there is nothing to choose tokens from.")
    return run(symbols, history(client, symbols, start, end), rule)


def on_mock(seed: int, days: float, count: int, rule: Rule) -> Run:
    """The same on a mock whose clock is moved by those days."""
    with (
        MockService(seed=seed, clock=MockClock(BORN)) as mock,
        httpx.Client(transport=mock.transport(), timeout=120) as http,
        # On the plan enterprise: others would sometimes wait for the rate limit, in the mock's time.
        TradeClient(api_key="mock_read_enterprise_me", base_url=mock.url, http_client=http, clock=mock.clock) as client,
    ):
        mock.clock.advance(days * DAY)
        return backtest(client, BORN, BORN + days * DAY, count, rule)


def drawdown(values: Sequence[float]) -> float:
    """The largest drop from an earlier high, as a share of that high."""
    return max((1 - value / high for value, high in zip(values, accumulate(values, max), strict=True)), default=0.0)


HEAD = ("signals", "trades", "won", "rule", "rule fell", "holding", "holding fell")


def figures(result: Result) -> list[str]:
    """A row below HEAD: closed trades, and the return and the largest drop of both."""
    trades = result.trades
    won = f"{sum(trade > 0 for trade in trades) / len(trades):.0%}" if trades else "-"
    shown = [f"{len(result.times):,}", f"{len(trades)}", won]
    for values in (result.worth, result.held):
        shown += [f"{values[-1] / result.money - 1:+.1%}", f"{-drawdown(values):.1%}"] if values else ["-", "-"]
    return shown


def print_row(name: str, cells: Sequence[str]) -> None:
    print(f"{name:<9}" + "".join(f"{cell:>{max(8, len(head) + 2)}}" for cell, head in zip(cells, HEAD, strict=True)))


def round_numbers(low: float, high: float) -> list[float]:
    """About six round numbers between two."""
    least = (high - low) / 6 or 1.0
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * size for size in (1, 2, 5, 10) if power * size >= least)
    return [step * turn for turn in range(math.ceil(low / step), math.floor(high / step) + 1)]


def plot(result: Result, title: str) -> None:
    """Both lines; in color only on a terminal."""
    try:
        import plotext  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        print("\nFor the lines as a picture: pip install plotext")
        return
    every = max(1, len(result.times) // 1_000)
    days = [(moment - result.times[0]) / DAY for moment in result.times[::every]]
    held, worth = ([100 * (value / MONEY - 1) for value in line[::every]] for line in (result.held, result.worth))
    marks = round_numbers(min(*held, *worth), max(*held, *worth))
    plotext.plot_size(min(shutil.get_terminal_size((80, 24)).columns, 120), 20)
    plotext.theme("clear")  # the terminal's own background
    plotext.title(title)
    plotext.xticks(round_numbers(0, days[-1] * 1.005))
    plotext.yticks(marks, [f"{mark:+g} %" for mark in marks])
    plotext.plot(days, held, label="holding", marker="dot", color="gray")
    plotext.plot(days, worth, label="the rule", marker="braille", color="cyan")
    shown = plotext.build()
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb":
        shown = "\n".join(line.rstrip() for line in plotext.uncolorize(shown).splitlines())
    print(f"\n{shown}")


def report(done: Run, title: str) -> None:
    print_row("", HEAD)
    for address, result in done.tokens.items():
        print_row(done.symbols[address], figures(result))
    print_row("together", figures(done.together))
    if done.together.times:
        plot(done.together, title)


def main() -> None:
    parser = argparse.ArgumentParser(description="A rule tried on the past.")
    parser.add_argument("--seed", type=int, help="of the mock; 7")
    parser.add_argument("--days", type=float, default=30, help="30 take about half a minute on the mock")
    parser.add_argument("--tokens", type=int, default=5, help="how many")
    chosen = parser.parse_args()
    if not 0 < chosen.days <= 31 or chosen.tokens < 1:
        parser.error("--days: more than 0, and at most 31; --tokens: at least 1")
    if {"TRADE_API_KEY", "TRADE_BASE_URL"} & os.environ.keys():
        if chosen.seed is not None:
            parser.error("--seed is about the mock: unset TRADE_API_KEY and TRADE_BASE_URL")
        with TradeClient() as client:
            now = time.time()
            report(backtest(client, now - chosen.days * DAY, now, chosen.tokens, Rule()), "Days, the service's history")
        return
    seed, began = 7 if chosen.seed is None else chosen.seed, time.perf_counter()
    report(done := on_mock(seed, chosen.days, chosen.tokens, Rule()), f"Days of the mock's market, seed {seed}")
    print(f"{len(done.together.times):,} signals in {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
