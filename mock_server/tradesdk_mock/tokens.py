"""The tokens that seeded records are about: symbols and prices from a table, addresses from the seed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from .identity import address

NATIVE_USD = {8453: 3_150.0, 56: 640.0}

_TABLE: dict[int, tuple[tuple[str, float], ...]] = {
    8453: (
        ("AERO", 1.12),
        ("BRETT", 0.087),
        ("DEGEN", 0.0064),
        ("TOSHI", 0.00031),
        ("VIRTUAL", 1.74),
        ("MORPHO", 1.98),
        ("WELL", 0.029),
        ("KEYCAT", 0.0041),
        ("HIGHER", 0.0112),
        ("MOCHI", 0.0000094),
        ("SKI", 0.071),
        ("PRIME", 3.35),
        ("ZORA", 0.052),
        ("CLANKER", 41.6),
        ("NORMIE", 0.0078),
        ("SEAM", 0.61),
    ),
    56: (
        ("CAKE", 2.41),
        ("TWT", 1.08),
        ("XVS", 6.9),
        ("BAKE", 0.19),
        ("ALPACA", 0.117),
        ("FLOKI", 0.000128),
        ("BABYDOGE", 0.0000000017),
        ("LISTA", 0.43),
    ),
}


@dataclass(frozen=True, slots=True)
class Token:
    chain_id: int
    symbol: str
    address: str
    price_usd: float


@lru_cache(maxsize=8)
def tokens(seed: int, chain_id: int) -> tuple[Token, ...]:
    """The tokens of a chain; their addresses carry the checksum."""
    return tuple(
        Token(chain_id, symbol, address(seed, "token", chain_id, symbol), price) for symbol, price in _TABLE[chain_id]
    )


def significant(value: float, digits: int = 6) -> float:
    """A price with as many digits as anyone would quote."""
    return float(f"{value:.{digits}g}")
