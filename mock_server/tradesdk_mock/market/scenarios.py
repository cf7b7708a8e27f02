"""Named courses of the market, to test bots with."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from math import cos, pi
from typing import Final, Literal

from ..core.seeding import SeededRandom

Scenario = Literal["ordinary", "trending", "choppy", "crash", "quiet", "whipsaw"]
ORDINARY: Final = "ordinary"
SCENARIOS = {
    ORDINARY: "some days calm, some wild, now and then a trend",
    "trending": "long rises and long falls",
    "choppy": "up and down without getting anywhere",
    "crash": "two quiet days, a fall by half within hours, and a slow recovery",
    "quiet": "hardly any movement",
    "whipsaw": "sudden moves that are taken back within minutes",
}
"""Names of scenarios and their descriptions."""

_HOUR, _DAY = 60, 1_440
_MONTH = 30 * _DAY
# Minutes computed together.
_BLOCK = 60


class Course:
    """The effect of a scenario on the logarithm of every price, from its first minute on, always within bounds.

    Attributes:
        volatility: the part of the ordinary movement that is left.
        share: the part of the effect on the rates of ether and BNB, in addition to that on prices in ether.
    """

    def __init__(self, seed: int, scenario: str) -> None:
        self._height, self.volatility, self.share, self._spread, self._late = _COURSES[scenario]
        self._rough = _CRASH_IS_ROUGH if scenario == "crash" else ()
        self._seed = seed
        self._block = lru_cache(maxsize=128)(self._made)

    def followed_by(self, name: str) -> tuple[float, int]:
        """(part of the effect on a token, delay in minutes)"""
        rng = SeededRandom(self._seed, "follows", name, draws=2)
        return rng.between(1 - self._spread, 1 + self._spread), rng.below(self._late)

    def heights(self, first: int, count: int, step: int) -> list[float]:
        """Change of the logarithm at minutes since the beginning, `step` apart; 0 before it."""
        if step > 1:
            return [self._height(self._seed, max(0, first + step * turn)) for turn in range(count)]
        block, place = divmod(first, _BLOCK)
        found = self._block(block)[place:]
        while len(found) < count:
            block += 1
            found += self._block(block)
        return found[:count]

    def roughness(self, first: int, count: int) -> list[float] | None:
        """Additional deviation of the logarithm in each minute; None for none."""
        if not self._rough:
            return None
        # Minutes since the fall of this month began.
        minute = first % _MONTH - 2 * _DAY
        if minute + count <= 60 * self._rough[0][0] or minute >= 60 * self._rough[-1][0]:
            return None
        return [_along(self._rough, each / 60) for each in range(minute, minute + count)]

    def _made(self, block: int) -> list[float]:
        if block < 0:
            return [0.0] * _BLOCK
        return [self._height(self._seed, minute) for minute in range(block * _BLOCK, (block + 1) * _BLOCK)]


def _trending(seed: int, minute: int) -> float:
    """Rises and falls of two to six days, each by a quarter to a half."""
    return _between_turns(seed, "trending", minute, 4 * _DAY, (0.12, 0.24), smooth=False)


def _choppy(seed: int, minute: int) -> float:
    """Waves of some hours and some percent."""
    return _between_turns(seed, "choppy", minute, 3 * _HOUR, (0.015, 0.03), smooth=True)


# (hours since the fall began, share of it): in three steps, with a small recovery after each.
_FALL = ((0.0, 0.0), (1.2, 0.38), (1.9, 0.30), (3.4, 0.74), (4.1, 0.66), (5.8, 1.0))
# (hours since the fall began, deviation of a minute): the averages of a price that only falls never cross, and there
# would be no signals in the worst hours.
_CRASH_IS_ROUGH = ((-0.2, 0.0), (0.1, 0.007), (5.8, 0.007), (9.0, 0.0025), (20.0, 0.0))


def _crash(seed: int, minute: int) -> float:
    """Each month: two quiet days, a fall within six hours, back after four weeks."""
    month, minute = divmod(minute, _MONTH)
    hours = (minute - 2 * _DAY) / 60
    depth = _depth(seed, month)
    last = _FALL[-1][0]
    if hours <= last:
        return depth * _along(_FALL, hours)
    left: float = 1 - (hours - last) / (_MONTH / 60 - 48 - last)
    # The recovery is faster at first.
    return depth * float(left**1.5)


@lru_cache(maxsize=64)
def _depth(seed: int, month: int) -> float:
    return -SeededRandom(seed, "crash", month, draws=1).between(0.46, 0.5)


def _along(line: tuple[tuple[float, float], ...], place: float) -> float:
    """The height of a line through points; constant before the first one and after the last."""
    for (start, low), (end, high) in pairwise(line):
        if place <= end:
            return low + (high - low) * max(0.0, place - start) / (end - start)
    return line[-1][1]


def _quiet(seed: int, minute: int) -> float:
    return 0.0


# Share of a spike in each of its minutes.
_SPIKE = (0.0, 0.45, 1.0, 0.8, 0.35, 0.0)
_SPIKES_APART = 75


def _whipsaw(seed: int, minute: int) -> float:
    """Every 75 minutes a spike of some percent, up or down, for five minutes."""
    turn, minute = divmod(minute, _SPIKES_APART)
    begin, height = _spike(seed, turn)
    return height * _SPIKE[minute - begin] if begin < minute < begin + len(_SPIKE) else 0.0


@lru_cache(maxsize=256)
def _spike(seed: int, turn: int) -> tuple[int, float]:
    rng = SeededRandom(seed, "whipsaw", turn, draws=3)
    begin, height = rng.below(_SPIKES_APART - len(_SPIKE)), rng.between(0.055, 0.085)
    return begin, height if rng.unit() < 0.5 else -height


def _between_turns(
    seed: int, name: str, minute: int, apart: int, bounds: tuple[float, float], *, smooth: bool
) -> float:
    """Alternately up and down, at most from `-bounds[1]` to `bounds[1]`; a turn about every `apart` minutes."""
    turn = minute // apart
    if minute < _turn(seed, name, turn, apart, bounds)[0]:
        turn -= 1
    elif minute >= _turn(seed, name, turn + 1, apart, bounds)[0]:
        turn += 1
    start, low = _turn(seed, name, turn, apart, bounds)
    end, high = _turn(seed, name, turn + 1, apart, bounds)
    way = (minute - start) / (end - start)
    if smooth:
        way = (1 - cos(pi * way)) / 2
    return low + (high - low) * way


@lru_cache(maxsize=1_024)
def _turn(seed: int, name: str, turn: int, apart: int, bounds: tuple[float, float]) -> tuple[int, float]:
    """(minute, height) of a turn; the first one is at 0, 0."""
    if turn <= 0:
        return 0, 0.0
    rng = SeededRandom(seed, name, turn, draws=2)
    up = turn % 2 == SeededRandom(seed, name, "first", draws=1).below(2)
    height = rng.between(*bounds)
    return turn * apart + int(rng.between(-0.25, 0.25) * apart), height if up else -height


# (heights, volatility, share, by how much the parts of tokens differ, maximum delay in minutes)
_COURSES: dict[str, tuple[Callable[[int, int], float], float, float, float, int]] = {
    "trending": (_trending, 0.6, 0.3, 0.3, 6),
    # A large delay, so that tokens don't turn at the same time.
    "choppy": (_choppy, 0.55, 0.15, 0.3, 181),
    "crash": (_crash, 0.4, 0.45, 0.2, 6),
    "quiet": (_quiet, 0.25, 0.0, 0.3, 6),
    "whipsaw": (_whipsaw, 0.7, 0.2, 0.2, 6),
}
