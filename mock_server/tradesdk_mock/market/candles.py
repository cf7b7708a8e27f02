"""Candles: open, high, low and close of a token's price in USD."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.clock import END
from .price_model import CANDLE, Prices
from .tokens import Token

MOST = 100_000
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Candle:
    """Prices of one token in USD, with eight digits.

    Attributes:
        at: start, Unix seconds; it ends where the next one starts.
        open: price at the start.
        high: highest price at a full minute, both ends included.
        low: lowest price at a full minute, both ends included.
        close: price at the end.
    """

    at: int
    open: float
    high: float
    low: float
    close: float


def candles(prices: Prices, token: Token, start: float, end: float, seconds: int = CANDLE) -> list[Candle]:
    """The candles between two times, oldest first. Each starts at a multiple of its length.

    Args:
        prices: of the market.
        token: one of its tokens.
        start: no candle starts before, Unix seconds.
        end: no candle ends after, Unix seconds. It may be in the future.
        seconds: length of a candle: a multiple of 60 up to a day.

    Raises:
        ValueError: an argument is out of range, or there are more than 100,000 candles; the message begins with the
            argument's name.
    """
    for name, value in (("start", start), ("end", end)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < END:
            raise ValueError(f"{name}: must be a time in Unix seconds, not {str(value)[:60]!r}")
    if end < start:
        raise ValueError(f"end: is before start, {end:.15g} < {start:.15g}")
    if type(seconds) is not int or not CANDLE <= seconds <= _DAY or seconds % CANDLE:
        raise ValueError(f"seconds: must be a multiple of 60 up to 86,400, not {str(seconds)[:60]!r}")
    first, last = -int(-start // seconds), int(end // seconds)
    if last - first > MOST:
        raise ValueError(f"end: there are {last - first:,} candles up to then, at most 100,000 can be had at once")
    found, minutes = [], seconds // CANDLE
    for turn in range(first, last):
        minute = turn * minutes
        usd = [prices.usd(token, (minute + step) * CANDLE) for step in range(minutes + 1)]
        found.append(Candle(turn * seconds, usd[0], max(usd), min(usd), usd[-1]))
    return found
