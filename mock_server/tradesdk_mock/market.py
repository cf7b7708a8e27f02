"""What tokens cost at a moment: functions of the seed and the time alone. And a switch that takes prices away."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from math import exp, sin, tau
from typing import TYPE_CHECKING

from .identity import Dice
from .tokens import NATIVE_USD, Token, find, significant

if TYPE_CHECKING:
    from .world import World

# Long waves are high and short ones low, as in a random walk; a price stays within a third of where the table has it.
# (period in seconds, share of the price)
_WAVES = (
    (1_500, 0.003),
    (6_000, 0.006),
    (25_000, 0.012),
    (100_000, 0.025),
    (500_000, 0.06),
    (3_000_000, 0.15),
)
DIGITS = 8
_FAILURE = "price_failure"
Waves = tuple[tuple[float, float, float], ...]


def eth_usd(seed: int, at: float) -> float:
    """One ether in USD at a service time, in whole cents."""
    return round(NATIVE_USD[8453] * exp(0.5 * _height(_waves(seed, 0, "rate"), at)), 2)


def price_eth(seed: int, token: Token, at: float) -> float:
    """One token in ether at a service time."""
    if token.symbol == "ETH":
        return 1.0
    start = token.price_usd / NATIVE_USD[8453]
    return significant(start * exp(_height(_waves(seed, token.chain_id, token.symbol), at)), DIGITS)


def price_usd(seed: int, token: Token, at: float) -> float:
    """One token in USD at a service time: its price in ether times the rate of ether."""
    return significant(price_eth(seed, token, at) * eth_usd(seed, at), DIGITS)


def _height(waves: Waves, at: float) -> float:
    return sum([share * sin(turns * at + phase) for share, turns, phase in waves])


@lru_cache(maxsize=4_096)
def _waves(seed: int, chain_id: int, name: str) -> Waves:
    """(share, radians a second, phase): each token swings in its own time."""
    dice = Dice(seed, "waves", chain_id, name, rolls=3 * len(_WAVES))
    return tuple(
        (share * dice.between(0.8, 1.1), tau / (period * dice.between(0.75, 1.3)), dice.between(0.0, tau))
        for period, share in _WAVES
    )


def set_price_failure(world: World, tokens: bool | Sequence[str]) -> None:
    """Which prices on Base can't be found: all, none, or those of some tokens, each by symbol, address or coin id.

    Only POST /v1/token-prices shows it, with 502. ValueError for a token that there isn't.
    """
    symbols: list[str] = []
    for name in () if isinstance(tokens, bool) else tokens:
        token = find(world.seed, 8453, name) if isinstance(name, str) else None
        if token is None:
            raise ValueError(f"price_failure: there is no token {str(name)[:80]!r} on Base")
        if token.symbol not in symbols:
            symbols.append(token.symbol)
    with world.store:
        world.store.set_meta(_FAILURE, json.dumps(tokens if isinstance(tokens, bool) else symbols))


def price_failure(world: World) -> bool | list[str]:
    """What was set: true for all tokens, false for none, or the symbols."""
    found: bool | list[str] = json.loads(world.store.get_meta(_FAILURE) or "false")
    return found


def price_fails(world: World, token: Token) -> bool:
    failing = price_failure(world)
    return failing if isinstance(failing, bool) else token.symbol in failing
