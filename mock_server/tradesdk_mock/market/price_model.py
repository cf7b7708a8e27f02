"""What tokens cost at a moment: functions of the seed, the scenario and the time alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, islice
from math import ceil, exp, log, sqrt
from operator import mul
from typing import TypeVar

from ..core.seeding import SeededRandom
from .scenarios import ORDINARY, Course
from .tokens import NATIVE_USD, Token, significant

DIGITS = 8
CANDLE = 60
# How far a day takes a price, as its logarithm: of lively and other tokens between these two, of ether and of BNB.
_DEVIATIONS = (0.03, 0.05)
_NATIVE = {"rate": 0.02, "bnb": 0.022}
# Every 64 days a price is about where the table has it; as a logarithm, within this much as a rule.
_SPAN, _APART = 64, 0.12
# (how loud, drift) of six hours, both in an hour's ordinary movement; of 16 as many as it stands here.
_MOODS = (
    *[(0.5, 0.0)] * 5,  # calm
    *[(0.95, 0.0)] * 5,  # ordinary
    *[(1.9, 0.0)] * 2,  # wild
    *[(0.9, 0.8)] * 2,  # rising
    *[(0.9, -0.8)] * 2,  # falling
)
# How many are held: hours of 61 prices and spans of 65 days (2 KB each), and days.
_HOURS, _CLOSES, _SPANS, _DAYS = 2_560, 1_024, 512, 1_024
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(slots=True)
class _Path:
    """One price: `name` for its dice, the logarithm it swings around, how far in a day.

    `measure`, `delay` (minutes): how it follows a scenario; `origin`: what it is where that begins.
    """

    name: str
    middle: float
    deviation: float
    measure: float
    delay: int
    origin: float | None = None


class Prices:
    """Every price of a world. Made by `prices`, and shared by the worlds whose market is the same.

    A price is a random walk with marks: one in 64 days, between them one a day, an hour, a minute, each row bent so
    that it meets the marks of the row above. So any moment of the next three thousand years is near at hand.

    Args:
        seed: of the world.
        scenario: one of `SCENARIOS`.
        anchor: when it begins, Unix seconds; before, and without one (`ordinary`), the market is the ordinary one.
    """

    def __init__(self, seed: int, scenario: str, anchor: float) -> None:
        self.seed = seed
        self.scenario = scenario
        self.anchor = anchor
        self._course = None if scenario == ORDINARY else Course(seed, scenario)
        # The first full minute of the scenario, in minutes.
        self._begin = ceil(anchor / 60)
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
        place, second = divmod(second, 60)
        marks = self.marks(token, hour)
        low = marks[place]
        return significant(low + (marks[place + 1] - low) * (second / 60), DIGITS)

    def usd(self, token: Token, at: float) -> float:
        """One token in USD at a service time: its price in ether times the rate of ether."""
        return significant(self.eth(token, at) * self.rate(at), DIGITS)

    def closes(self, token: Token, hour: int) -> list[float]:
        """USD (not rounded) at the 60 full minutes from `hour * 3600` on. Not to be changed."""
        found = self._closes.get((token.address, hour))
        if found is None:
            found = list(map(mul, self.marks(token, hour), self.rates(hour)))
            found.pop()
            keep(self._closes, (token.address, hour), found, _CLOSES)
        return found

    def hours(self, token: Token, day: int) -> list[float]:
        """Ether at the 24 full hours from `day * 86400` on, without a look at what is between."""
        if token.symbol == "ETH":
            return [1.0] * 24
        path = self._path(token)
        return self._bent(path, list(map(exp, self._day(path, day)[0][:24])), day * 1_440, 60)

    def marks(self, token: Token, hour: int) -> list[float]:
        """Ether (not rounded) at the 61 full minutes from `hour * 3600` on, straight lines between. Not to change."""
        found = self._hours.get((token.address, hour))
        if found is None:
            found = [1.0] * 61 if token.symbol == "ETH" else self._made(self._path(token), hour)
            keep(self._hours, (token.address, hour), found, _HOURS)
        return found

    def rates(self, hour: int) -> list[float]:
        """One ether in USD, in cents, at the 61 full minutes from `hour * 3600` on, straight lines between."""
        return self._native_marks("rate", 8453, hour)

    def _native(self, name: str, chain_id: int, at: float) -> float:
        hour, second = divmod(int(at), 3_600)
        place, second = divmod(second, 60)
        marks = self._native_marks(name, chain_id, hour)
        low = marks[place]
        return cents(low + (marks[place + 1] - low) * (second / 60))

    def _native_marks(self, name: str, chain_id: int, hour: int) -> list[float]:
        found = self._hours.get((name, hour))
        if found is None:
            path = self._paths.get(name)
            if path is None:
                measure = 0.0 if self._course is None else self._course.share
                path = _Path(f"{self.seed} {name}", log(NATIVE_USD[chain_id]), _NATIVE[name], measure, 0)
                self._paths[name] = path
            found = [cents(price) for price in self._made(path, hour)]
            keep(self._hours, (name, hour), found, _HOURS)
        return found

    def _path(self, token: Token) -> _Path:
        path = self._paths.get(token.address)
        if path is None:
            name = f"{token.chain_id} {token.symbol}"
            deviation = SeededRandom(self.seed, "deviation", name, draws=1).between(*_DEVIATIONS)
            measure, delay = (0.0, 0) if self._course is None else self._course.followed_by(name)
            middle = log(token.price_usd / NATIVE_USD[8453])
            path = self._paths[token.address] = _Path(f"{self.seed} {name}", middle, deviation, measure, delay)
        return path

    def _made(self, path: _Path, hour: int) -> list[float]:
        found = self._minutes(path, hour)
        return found if self._course is None else self._bent(path, found, hour * 60, 1)

    def _bent(self, path: _Path, found: list[float], first: int, step: int) -> list[float]:
        """Ordinary prices as the scenario has them, `step` minutes apart from the minute `first` on."""
        course, since = self._course, first - self._begin
        if course is None or since + step * len(found) <= 0:
            return found
        if path.origin is None:
            hour, place = divmod(self._begin, 60)
            path.origin = self._minutes(path, hour)[place]
        origin, measure, loud = path.origin, path.measure, course.volatility
        heights = course.heights(since - path.delay, len(found), step)
        # At full hours it is 0, so who looks at these alone needs none of it.
        rough = course.roughness(since - path.delay, len(found)) if step == 1 else None
        if rough is not None:
            waves = _bridge(f"{path.name} rough {first // 60}")
            heights = [height + each * wave for height, each, wave in zip(heights, rough, waves, strict=True)]
        minutes = range(since, since + step * len(found), step)
        return [
            price if minute <= 0 else origin * (price / origin) ** loud * exp(measure * height)
            for minute, price, height in zip(minutes, found, heights, strict=True)
        ]

    def _minutes(self, path: _Path, hour: int) -> list[float]:
        """61 prices, a minute apart. Within an hour the walk is one of the price itself: its logarithm takes longer."""
        day, place = divmod(hour, 24)
        logs, moods = self._day(path, day)
        start, end = exp(logs[place]), exp(logs[place + 1])
        loud = start * moods[place // 6]
        steps = _normals(f"{path.name} hour {hour}", 60)
        slope = (end - start - loud * sum(steps)) / 60
        found = list(accumulate([loud * each + slope for each in steps], initial=start))
        found[60] = end
        return found

    def _day(self, path: _Path, day: int) -> tuple[list[float], tuple[float, ...]]:
        """(25 logarithms, an hour apart; how far a minute goes in each quarter of the day)"""
        found = self._days.get((path.name, day))
        if found is None:
            span, place = divmod(day, _SPAN)
            start, end = self._span(path, span)[place : place + 2]
            hourly = path.deviation / sqrt(24)
            rng = hashlib.shake_128(f"{path.name} day {day}".encode()).digest(28)
            moods = [_MOODS[byte % 16] for byte in rng[24:]]
            table = _quantiles()
            steps = [
                hourly * (loud * table[byte] + drift)
                for (loud, drift), six in zip(moods, (rng[:6], rng[6:12], rng[12:18], rng[18:24]), strict=True)
                for byte in six
            ]
            slope = (end - start - sum(steps)) / 24
            logs = list(accumulate([each + slope for each in steps], initial=start))
            logs[24] = end
            found = logs, tuple([hourly * loud / sqrt(60) for loud, _ in moods])
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
def prices(seed: int, scenario: str = ORDINARY, anchor: float = 0.0) -> Prices:
    """The prices of a market, with what has been worked out of them already."""
    return Prices(seed, scenario, anchor)


def cents(usd: float) -> float:
    """To whole cents: in half the time that `round` takes."""
    return int(100 * usd + 0.5) / 100


def _normals(name: str, count: int) -> list[float]:
    """Numbers of the normal distribution that follow from a name."""
    return list(map(_quantiles().__getitem__, hashlib.shake_128(name.encode()).digest(count)))


def _bridge(name: str) -> list[float]:
    """61 places of a walk that ends where it began, at 0; each step is about 1."""
    steps = _normals(name, 60)
    slope = sum(steps) / 60
    found = list(accumulate([each - slope for each in steps], initial=0.0))
    found[60] = 0.0
    return found


@lru_cache(maxsize=1)
def _quantiles() -> list[float]:
    """For each byte one. Finer steps cost a third more time, and nobody would see them in a price."""
    from statistics import NormalDist  # some milliseconds, which nobody pays who asks for no price

    return [NormalDist().inv_cdf((place + 0.5) / 256) for place in range(256)]


def keep(cache: dict[_Key, _Value], key: _Key, value: _Value, limit: int) -> None:
    """Hold a value; of too many, let a quarter go that has been there longest."""
    if len(cache) >= limit:
        for old in list(islice(cache, limit // 4)):
            cache.pop(old, None)
    cache[key] = value
