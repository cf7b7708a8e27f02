"""The market's signals: where two moving averages of a lively token's price cross."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate, compress, count
from math import ceil, exp
from operator import itemgetter, ne
from struct import Struct

from ..core.seeding import digest
from .price_model import CANDLE, Prices, keep
from .tokens import Token, lively

CHAINS = (8453, 56)
# Lengths of the averages in candles. Without a trend, they cross at every sixth candle.
SHORT, LONG = 2, 7
HOUR, DAY = 3_600, 86_400
# Minute candles in an hour.
CANDLES = 60
# For these days before the world was made, signals come from hour candles.
PAST = 7 * DAY

COLUMNS = (
    "published_at",
    "id",
    "token_address",
    "token_symbol",
    "chain_id",
    "direction",
    "confidence",
    "price_usd",
    "timestamp",
    "reason",
    "short_sma",
    "long_sma",
    "crossover",
    "green_candles",
)
# The values of these columns.
Row = tuple[float, str, str, str, int, str, float, float, int, str, float | None, float | None, int, int]

# Closes needed before the first candle: for the averages, the recent range and green candles.
BEFORE = 12
# The gap of the averages is scaled: (short sum / SHORT - long sum / LONG) * LONG.
_NOW, _SHORT_AGO = LONG / SHORT - 1, LONG / SHORT
_DRAWS = Struct("<60H").unpack
_ABOVE = [
    "The short moving average crossed above the long one"
    + ("." if green < 2 else f" after {green} green candles in a row.")
    for green in range(BEFORE)
]
_BELOW = "The short moving average crossed below the long one."
# Confidence follows from the strength in hundredths. Green candles add to it for a crossing upwards, missing ones for a
# crossing downwards.
_FINE = 100
_ADDED = {True: [10 * green for green in range(BEFORE)], False: [20, 10] + [0] * (BEFORE - 2)}
_STRONGEST = _FINE * (LONG + SHORT) // SHORT + 10 * BEFORE
# Hours of a chain's signals to keep, a quarter of a megabyte each on Base.
_HOURS = 8

Crossing = tuple[int, bool, float, float, int, float]
"""(candle, 0 is the first one after `BEFORE`; whether the short average is now above; short and long average a candle
before; number of green candles in a row up to this one, at most 11; strength)"""


def crossings(closes: list[float]) -> list[Crossing]:
    """Where the averages of some candles cross. Needs more than `BEFORE` closes.

    Strength is the change of the gap in one candle, divided by the price range of the last twelve.
    """
    gaps, sums = averaged(closes)
    above = [gap > 0 for gap in gaps]
    found: list[Crossing] = []
    for index in compress(count(), map(ne, above[1:], above)):
        end = index + BEFORE
        recent, total = closes[index + 1 : end + 1], sums[end]
        found.append(
            (
                index,
                above[index + 1],
                (total - sums[end - SHORT]) / SHORT,
                (total - sums[end - LONG]) / LONG,
                greens(recent),
                abs(gaps[index + 1] - gaps[index]) / (max(recent) - min(recent)),
            )
        )
    return found


def averaged(closes: list[float]) -> tuple[list[float], list[float]]:
    """(gaps: short average minus long average, times `LONG`; running sums of the closes)

    The first gap is that of the candle before the first one.
    """
    sums = list(accumulate(closes, initial=0.0))
    gaps = [
        _NOW * end - _SHORT_AGO * short + long
        for end, short, long in zip(sums[BEFORE:], sums[BEFORE - SHORT :], sums[BEFORE - LONG :], strict=False)
    ]
    return gaps, sums


def greens(recent: list[float]) -> int:
    """Green candles in a row at the end: those that closed above the one before."""
    last = len(recent) - 1
    while last and recent[last] > recent[last - 1]:
        last -= 1
    return len(recent) - 1 - last


def averages_at(prices: Prices, token: Token, at: float) -> tuple[float, float, int]:
    """(short average, long average, green candles) at the last candle closed before a service time."""
    hour, index = divmod(int(at) // CANDLE, CANDLES)
    closes = (prices.marks(token, hour - 1)[:CANDLES] + prices.marks(token, hour))[: CANDLES + index + 1][-BEFORE:]
    return sum(closes[-SHORT:]) / SHORT, sum(closes[-LONG:]) / LONG, greens(closes)


class CrossoverSeries:
    """A chain's signals since its world was made, computed by the hour."""

    def __init__(self, prices: Prices, chain_id: int) -> None:
        self._prices = prices
        self._moments = moments(prices.seed, chain_id)
        self._tokens = lively(prices.seed, chain_id)
        self._hours: dict[int, list[Row]] = {}

    def between(self, after: float, upto: float) -> list[Row]:
        """The signals with after < time <= upto, oldest first."""
        rows: list[Row] = []
        first, last = max(0, int(after // HOUR)), int(upto // HOUR)
        for hour in range(first, last + 1):
            found = self._hour(hour)
            start = bisect_right(found, after, key=itemgetter(0)) if hour == first else 0
            end = bisect_right(found, upto, key=itemgetter(0)) if hour == last else len(found)
            rows += found[start:end]
        return rows

    def next_after(self, ts: float) -> float:
        """The time of the first signal after `ts`."""
        hour = max(0, int(ts // HOUR))
        found = self._hour(hour)
        index = bisect_right(found, ts, key=itemgetter(0))
        while index == len(found):
            hour, index = hour + 1, 0
            found = self._hour(hour)
        return found[index][0]

    def _hour(self, hour: int) -> list[Row]:
        found = self._hours.get(hour)
        if found is None:
            found = []
            for token in self._tokens:
                found += _minutes(self._prices, token, self._moments[token.address], hour)
            found.sort()
            keep(self._hours, hour, found, _HOURS)
        return found


@lru_cache(maxsize=16)
def crossover_series(prices: Prices, chain_id: int) -> CrossoverSeries:
    """A chain's signals since the world was made."""
    return CrossoverSeries(prices, chain_id)


@lru_cache(maxsize=4)
def past_signals(prices: Prices, created_at: float) -> tuple[Row, ...]:
    """Both chains' signals before the world was made, from hour candles, oldest first. Cached for tests."""
    begin = max(0, created_at - PAST)
    rows = _signals_of_hours(prices, max(0, ceil((created_at - PAST) / HOUR) - 1), int(created_at // HOUR) + 1)
    return tuple(row for row in rows if begin < row[0] <= created_at)


@lru_cache(maxsize=4)
def _signals_of_hours(prices: Prices, first: int, end: int) -> list[Row]:
    """Cached, too: worlds that are made within an hour, as by tests on the machine's clock, differ only at the ends."""
    rows: list[Row] = []
    for chain_id in CHAINS:
        for token in lively(prices.seed, chain_id):
            moment = moments(prices.seed, chain_id)[token.address]
            for crossing in crossings(full_hours(prices, token, range(first - BEFORE, end))):
                hour = first + crossing[0]
                raw = hashlib.shake_128(f"{prices.seed} past signals {token.address} {hour}".encode()).digest(8)
                timestamp = hour * HOUR + moment
                at_ms = timestamp * 1_000 + int.from_bytes(raw[:2], "little") % 1_000
                rows.append(_row(token, at_ms, raw[2:].hex(), prices.usd(token, timestamp), crossing))
    return sorted(rows)


def _minutes(prices: Prices, token: Token, moment: int, hour: int) -> list[Row]:
    """A token's signals in an hour. A jump of the clock spends most of its time here."""
    marks, rates = prices.marks(token, hour), prices.rates(hour)
    raw = hashlib.shake_128(f"{prices.seed} signals {token.address} {hour}".encode()).digest(480)
    draws, ends = _DRAWS(raw[:120]), raw[120:].hex()
    moment_ms = hour * HOUR * 1_000 + moment * 1_000
    part = moment / CANDLE
    rows = []
    for crossing in crossings(prices.marks(token, hour - 1)[CANDLES - BEFORE : CANDLES] + marks[:CANDLES]):
        index = crossing[0]
        # The same as `Prices.usd`, in a third of the time.
        low, rate = marks[index], rates[index]
        eth = float(f"{low + (marks[index + 1] - low) * part:.8g}")
        usd = float(f"{eth * (int(100 * (rate + (rates[index + 1] - rate) * part) + 0.5) / 100):.8g}")
        at_ms = moment_ms + index * 60_000 + draws[index] % 1_000
        rows.append(_row(token, at_ms, ends[12 * index : 12 * index + 12], usd, crossing))
    return rows


def _row(token: Token, at_ms: int, end: str, usd: float, crossing: Crossing) -> Row:
    _, buy, short, long, green, strength = crossing
    return (
        at_ms / 1_000,
        # Ids in the order of time make inserts fast.
        "sig_%012x%s" % (at_ms, end),  # noqa: UP031 - faster than an f-string
        token.address,
        token.symbol,
        token.chain_id,
        "BUY" if buy else "SELL",
        _CONFIDENCES[int(strength * _FINE) + _ADDED[buy][green]],
        usd,
        at_ms // 1_000,
        _ABOVE[green] if buy else _BELOW,
        short,
        long,
        1,
        green,
    )


# By hundredth of strength. About 37 % of the signals have 0.75 or more, and 14 % have 0.9 or more.
_CONFIDENCES = [round(1 - 0.5 * exp(-((step / _FINE / 2.15) ** 2.5)), 3) for step in range(_STRONGEST + 1)]


@lru_cache(maxsize=8)
def moments(seed: int, chain_id: int) -> dict[str, int]:
    """By address, the second of the minute (1 to 58) of a token's signals, spread over the minute."""
    order = sorted(lively(seed, chain_id), key=lambda token: digest(seed, "moment", chain_id, token.symbol))
    return {token.address: 1 + index * (CANDLE - 2) // len(order) for index, token in enumerate(order)}


def full_hours(prices: Prices, token: Token, hours: range) -> list[float]:
    """Ether at full hours."""
    days = range(hours[0] // 24, hours[-1] // 24 + 1)
    found = [price for day in days for price in prices.hours(token, day)]
    return found[hours[0] - days[0] * 24 :][: len(hours)]
