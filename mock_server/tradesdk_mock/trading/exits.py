"""When a position ends by its own levels: stop loss, trailing stop or take profit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..market.price_model import significant

if TYPE_CHECKING:
    from ..market.price_model import Prices
    from ..market.tokens import Token

# When a full minute's price is this near to a level, all seconds around it are checked: between two full minutes the
# price, a product of two straight lines, may be slightly higher or lower.
_NEAR = 1e-4
# The same for a second's price: the rate of ether is rounded to cents.
_ROUNDED = 1e-5


@dataclass(frozen=True, slots=True)
class ExitLevels:
    """What ends a position. USD for one token.

    Attributes:
        stop_loss: it ends at or below this price.
        take_profit: it ends at or above this price.
        trailing: the share of the highest price that it may lose, such as 0.02.
    """

    stop_loss: float
    take_profit: float
    trailing: float

    def trailing_stop(self, peak: float) -> float:
        """The trailing stop in USD after a highest price of `peak`."""
        return significant(peak * (1 - self.trailing))


@dataclass(frozen=True, slots=True)
class ExitForecast:
    """The first end of a position within some seconds.

    Attributes:
        at: the second at which the position ends; None when it doesn't.
        by: `stop_loss`, `trailing_stop` or `take_profit`.
        peak: the highest price up to the last second checked.
    """

    at: int | None
    by: str | None
    peak: float


def trailing_peak(prices: Prices, token: Token, peak: float, since: int, upto: int) -> float:
    """The highest of `peak` and the prices at the full minutes with since < minute <= upto."""
    first, last = since // 60 + 1, upto // 60
    while first <= last:
        hour, start = divmod(first, 60)
        closes = prices.closes(token, hour)[start : last - hour * 60 + 1]
        highest = max(closes)
        if highest > peak:
            peak = max(peak, prices.usd(token, (first + closes.index(highest)) * 60))
        first = hour * 60 + 60
    return peak


def first_exit(prices: Prices, token: Token, levels: ExitLevels, peak: float, since: int, upto: int) -> ExitForecast:
    """The first second with since < second <= upto at which the position ends.

    The price of every second counts. The trailing stop follows the highest price at full minutes. `peak` includes those
    up to `since` and the entry.
    """
    stop, target = levels.stop_loss, levels.take_profit
    trailing = levels.trailing_stop(peak)
    floor, ceiling = max(stop, trailing) * (1 + _NEAR), target * (1 - _NEAR)
    minute, last = since // 60 + 1, upto // 60
    near = not floor < prices.usd(token, since) < ceiling
    while minute <= last:
        hour, start = divmod(minute, 60)
        stopped = min(60, last - hour * 60 + 1)
        for place, price in enumerate(prices.closes(token, hour)[start:stopped], minute):
            inside = floor < price < ceiling
            if near or not inside:
                found = _within(prices, token, levels, trailing, max(since, place * 60 - 60), place * 60)
                if found is not None:
                    return ExitForecast(*found, peak)
            if price > peak:
                peak = max(peak, prices.usd(token, place * 60))
                trailing = levels.trailing_stop(peak)
                floor = max(stop, trailing) * (1 + _NEAR)
                inside = floor < price < ceiling
            near = not inside
        minute = hour * 60 + stopped
    # The rest of the last minute.
    found = _within(prices, token, levels, trailing, max(since, last * 60), upto)
    return ExitForecast(None, None, peak) if found is None else ExitForecast(*found, peak)


def _within(
    prices: Prices, token: Token, levels: ExitLevels, trailing: float, since: int, upto: int
) -> tuple[int, str] | None:
    """(second, reason) of the first price beyond a level with since < second <= upto, all within a minute."""
    floor, ceiling = max(levels.stop_loss, trailing), levels.take_profit
    lower, upper = floor * (1 + _ROUNDED), ceiling * (1 - _ROUNDED)
    hour, place = divmod(since // 60, 60)
    marks, rates, full = prices.marks(token, hour), prices.rates(hour), since // 60 * 60
    ether, rate = marks[place], rates[place]
    by_ether, by_rate = (marks[place + 1] - ether) / 60, (rates[place + 1] - rate) / 60
    for second in range(since + 1, upto + 1):
        step = second - full
        if lower < (ether + by_ether * step) * (rate + by_rate * step) < upper:
            continue
        price = prices.usd(token, second)
        if price >= ceiling:
            return second, "take_profit"
        if price <= floor:
            return second, "stop_loss" if levels.stop_loss >= trailing else "trailing_stop"
    return None
