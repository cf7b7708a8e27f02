"""Prices of tokens: functions of seed and time alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, islice
from math import exp, log, sqrt
from operator import mul
from typing import TypeVar

from ..core.seeding import SeededRandom
from .tokens import NATIVE_USD, Token

DIGITS = 8
CANDLE = 60
# An unrounded price this near to a level may be beyond it: the rate of ether is rounded to cents.
_ROUNDED = 1e-5
# Daily deviation of the logarithm of a price: of tokens between these two, of ether and of BNB.
_DEVIATIONS = (0.03, 0.05)
_NATIVE = {"rate": 0.02, "bnb": 0.022}
# Every 64 days a price is near the one in the table; deviation of its logarithm there.
_SPAN, _APART = 64, 0.12
# (volatility, drift) of six hours, both relative to an hour's ordinary movement; 16 equally likely ones.
_MOODS = (
    *[(0.5, 0.0)] * 5,  # calm
    *[(0.95, 0.0)] * 5,  # ordinary
    *[(1.9, 0.0)] * 2,  # wild
    *[(0.9, 0.8)] * 2,  # rising
    *[(0.9, -0.8)] * 2,  # falling
)
# Sizes of caches: hours of 61 prices and spans of 65 days (2 KB each), and days.
_HOURS, _CLOSES, _SPANS, _DAYS = 2_560, 1_024, 512, 1_024
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(slots=True)
class _Path:
    """One price: `name` for random numbers, the mean of its logarithm, and its daily deviation."""

    name: str
    middle: float
    deviation: float


class Prices:
    """All prices of a world. Made by `prices`, and shared by worlds with the same market.

    A price is a random walk with marks: one every 64 days, then one a day, an hour and a minute. Each level is a bridge
    between two marks of the level above, so any moment of the next three thousand years is computed directly.

    Args:
        seed: of the world.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._paths: dict[str, _Path] = {}
        self._spans: dict[tuple[str, int], list[float]] = {}
        self._days: dict[tuple[str, int], tuple[list[float], tuple[float, ...]]] = {}
        self._hours: dict[tuple[str, int], list[float]] = {}
        self._closes: dict[tuple[str, int], list[float]] = {}

    def rate(self, at: float) -> float:
        """One ether in USD at a service time, in whole cents."""
        return self._native("rate", 8453, at)

    def native_usd(self, chain_id: int, at: float) -> float:
        """One ether or BNB in USD, in whole cents."""
        return self._native("rate" if chain_id == 8453 else "bnb", chain_id, at)

    def eth(self, token: Token, at: float) -> float:
        """One token in ether at a service time."""
        hour, second = divmod(int(at), 3_600)
        index, second = divmod(second, 60)
        marks = self.marks(token, hour)
        low = marks[index]
        return significant(low + (marks[index + 1] - low) * (second / 60), DIGITS)

    def usd(self, token: Token, at: float) -> float:
        """One token in USD at a service time: price in ether times rate of ether."""
        return significant(self.eth(token, at) * self.rate(at), DIGITS)

    def first_outside(self, token: Token, low: float, high: float, since: int, upto: int) -> tuple[int, float] | None:
        """(second, USD) of the first price at or below `low`, or at or above `high`, with since < second <= upto.

        All of these are within a minute.
        """
        lower, upper = low * (1 + _ROUNDED), high * (1 - _ROUNDED)
        hour, index = divmod(since // 60, 60)
        marks, rates, full = self.marks(token, hour), self.rates(hour), since // 60 * 60
        ether, rate = marks[index], rates[index]
        by_ether, by_rate = (marks[index + 1] - ether) / 60, (rates[index + 1] - rate) / 60
        for second in range(since + 1, upto + 1):
            step = second - full
            if lower < (ether + by_ether * step) * (rate + by_rate * step) < upper:
                continue
            price = self.usd(token, second)
            if price >= high or price <= low:
                return second, price
        return None

    def closes(self, token: Token, hour: int) -> list[float]:
        """Unrounded USD at the 60 full minutes from `hour * 3600` on. Shared: do not change the list."""
        found = self._closes.get((token.address, hour))
        if found is None:
            found = list(map(mul, self.marks(token, hour), self.rates(hour)))
            found.pop()
            keep(self._closes, (token.address, hour), found, _CLOSES)
        return found

    def hours(self, token: Token, day: int) -> list[float]:
        """Ether at the 24 full hours from `day * 86400` on, without computing minutes."""
        if token.symbol == "ETH":
            return [1.0] * 24
        return list(map(exp, self._day(self._path(token), day)[0][:24]))

    def marks(self, token: Token, hour: int) -> list[float]:
        """Unrounded ether at the 61 full minutes from `hour * 3600` on; linear in between. Do not change the list."""
        found = self._hours.get((token.address, hour))
        if found is None:
            found = [1.0] * 61 if token.symbol == "ETH" else self._minutes(self._path(token), hour)
            keep(self._hours, (token.address, hour), found, _HOURS)
        return found

    def rates(self, hour: int) -> list[float]:
        """One ether in USD, in cents, at the 61 full minutes from `hour * 3600` on; linear in between."""
        return self._native_marks("rate", 8453, hour)

    def _native(self, name: str, chain_id: int, at: float) -> float:
        hour, second = divmod(int(at), 3_600)
        index, second = divmod(second, 60)
        marks = self._native_marks(name, chain_id, hour)
        low = marks[index]
        return cents(low + (marks[index + 1] - low) * (second / 60))

    def _native_marks(self, name: str, chain_id: int, hour: int) -> list[float]:
        found = self._hours.get((name, hour))
        if found is None:
            path = self._paths.get(name)
            if path is None:
                path = _Path(f"{self.seed} {name}", log(NATIVE_USD[chain_id]), _NATIVE[name])
                self._paths[name] = path
            found = [cents(price) for price in self._minutes(path, hour)]
            keep(self._hours, (name, hour), found, _HOURS)
        return found

    def _path(self, token: Token) -> _Path:
        path = self._paths.get(token.address)
        if path is None:
            name = f"{token.chain_id} {token.symbol}"
            deviation = SeededRandom(self.seed, "deviation", name, draws=1).between(*_DEVIATIONS)
            middle = log(token.price_usd / NATIVE_USD[8453])
            path = self._paths[token.address] = _Path(f"{self.seed} {name}", middle, deviation)
        return path

    def _minutes(self, path: _Path, hour: int) -> list[float]:
        """61 prices, a minute apart. Within an hour the price itself is the random walk: its logarithm is slower."""
        day, index = divmod(hour, 24)
        logs, moods = self._day(path, day)
        start, end = exp(logs[index]), exp(logs[index + 1])
        volatility = start * moods[index // 6]
        steps = _normals(f"{path.name} hour {hour}", 60)
        slope = (end - start - volatility * sum(steps)) / 60
        found = list(accumulate([volatility * each + slope for each in steps], initial=start))
        found[60] = end
        return found

    def _day(self, path: _Path, day: int) -> tuple[list[float], tuple[float, ...]]:
        """(25 logarithms, an hour apart; deviation of a minute in each quarter of the day)"""
        found = self._days.get((path.name, day))
        if found is None:
            span, index = divmod(day, _SPAN)
            start, end = self._span(path, span)[index : index + 2]
            hourly = path.deviation / sqrt(24)
            raw = hashlib.shake_128(f"{path.name} day {day}".encode()).digest(28)
            moods = [_MOODS[byte % 16] for byte in raw[24:]]
            table = _quantiles()
            steps = [
                hourly * (volatility * table[byte] + drift)
                for (volatility, drift), six in zip(moods, (raw[:6], raw[6:12], raw[12:18], raw[18:24]), strict=True)
                for byte in six
            ]
            slope = (end - start - sum(steps)) / 24
            logs = list(accumulate([each + slope for each in steps], initial=start))
            logs[24] = end
            found = logs, tuple([hourly * volatility / sqrt(60) for volatility, _ in moods])
            keep(self._days, (path.name, day), found, _DAYS)
        return found

    def _span(self, path: _Path, span: int) -> list[float]:
        """65 logarithms, a day apart."""
        found = self._spans.get((path.name, span))
        if found is None:
            out, *steps = _normals(f"{path.name} span {span}", _SPAN + 1)
            start = path.middle + _APART * out
            end = path.middle + _APART * _normals(f"{path.name} span {span + 1}", 1)[0]
            slope = (end - start - path.deviation * sum(steps)) / _SPAN
            found = list(accumulate([path.deviation * each + slope for each in steps], initial=start))
            found[_SPAN] = end
            keep(self._spans, (path.name, span), found, _SPANS)
        return found


@lru_cache(maxsize=8)
def prices(seed: int) -> Prices:
    """The prices of a market, with their caches."""
    return Prices(seed)


def cents(usd: float) -> float:
    """Round to whole cents, twice as fast as `round`."""
    return int(100 * usd + 0.5) / 100


def _normals(name: str, count: int) -> list[float]:
    """Normally distributed numbers that follow from a name."""
    return list(map(_quantiles().__getitem__, hashlib.shake_128(name.encode()).digest(count)))


@lru_cache(maxsize=1)
def _quantiles() -> list[float]:
    """Normal quantiles, one for each byte. Finer steps take a third longer and don't show in a price."""
    from statistics import NormalDist  # imported late: it takes milliseconds and only prices need it

    return [NormalDist().inv_cdf((index + 0.5) / 256) for index in range(256)]


def keep(cache: dict[_Key, _Value], key: _Key, value: _Value, limit: int) -> None:
    """Cache a value; when there are too many, drop the oldest quarter."""
    if len(cache) >= limit:
        for old in list(islice(cache, limit // 4)):
            cache.pop(old, None)
    cache[key] = value


def level(usd: float, share: float) -> float:
    """A price above another one by this share of it or, if that is negative, below."""
    return significant(usd * (1 + share))


def significant(value: float, digits: int = 6) -> float:
    """Round to significant digits."""
    return float(f"{value:.{digits}g}")
