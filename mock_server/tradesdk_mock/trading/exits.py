"""When a position ends by its own levels: stop loss, trailing stop or take profit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..market.price_model import level

if TYPE_CHECKING:
    from ..market.price_model import Prices
    from ..market.tokens import Token

# When a full minute's price is this near to a level, all seconds around it are checked: between two full minutes the
# price, a product of two straight lines, may be slightly higher or lower.
_NEAR = 1e-4


@dataclass(frozen=True, slots=True)
class ExitLevels:
    """The levels that end a position. USD for one token.

    Attributes:
        stop_loss: it ends at or below this price.
        take_profit: it ends at or above this price.
        trailing: the share of the highest price that it may lose, such as 0.02.
    """

    stop_loss: float
    take_profit: float
    trailing: float

    def reason(self, price: float, trailing_stop: float) -> str | None:
        """Why the position ends at a price; None if it does not."""
        if price >= self.take_profit:
            return "take_profit"
        if price <= max(self.stop_loss, trailing_stop):
            return "stop_loss" if self.stop_loss >= trailing_stop else "trailing_stop"
        return None


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
    trailing = level(peak, -levels.trailing)
    lower, upper = max(stop, trailing) * (1 + _NEAR), target * (1 - _NEAR)
    minute, last = since // 60 + 1, upto // 60
    near = not lower < prices.usd(token, since) < upper
    while minute <= last:
        hour, start = divmod(minute, 60)
        stopped = min(60, last - hour * 60 + 1)
        for end, price in enumerate(prices.closes(token, hour)[start:stopped], minute):
            inside = lower < price < upper
            if near or not inside:
                before = max(since, end * 60 - 60)
                found = prices.first_outside(token, max(stop, trailing), target, before, end * 60)
                if found is not None:
                    return ExitForecast(found[0], levels.reason(found[1], trailing), peak)
            if price > peak:
                peak = max(peak, prices.usd(token, end * 60))
                trailing = level(peak, -levels.trailing)
                lower = max(stop, trailing) * (1 + _NEAR)
                inside = lower < price < upper
            near = not inside
        minute = hour * 60 + stopped
    # The rest of the last minute.
    found = prices.first_outside(token, max(stop, trailing), target, max(since, last * 60), upto)
    if found is None:
        return ExitForecast(None, None, peak)
    return ExitForecast(found[0], levels.reason(found[1], trailing), peak)
