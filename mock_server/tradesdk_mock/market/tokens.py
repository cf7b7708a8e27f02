"""The tokens of both chains: what they are called and cost from a table, addresses from the seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ..core.seeding import Dice, checksum_addresses, digest
from .tokentable import ADJECTIVES, LIVELY, NOUNS

NATIVE_USD = {8453: 3_150.0, 56: 640.0}
NETWORKS = {8453: "base", 56: "bsc"}
COUNTS = {8453: 620, 56: 20}
# Wrapped ether has the same address on Base everywhere, so here too.
ETHER = ("ETH", "Ethereum", "ethereum", NATIVE_USD[8453])
ETHER_ADDRESS = "0x4200000000000000000000000000000000000006"
_LOGOS = "https://assets.example.test/tokens"


@dataclass(frozen=True, slots=True)
class Token:
    """One token.

    Attributes:
        address: on the chain, with the checksum.
        price_usd: about what it costs; `market` says what it costs when.
        coin_id: its name in a public registry of coins.
        pool_address: where it is traded.
        logo: URL of a picture.
        market_cap: in USD.
        market_cap_rank: among all coins, not only these: 1 is the largest. Unique on a chain.
    """

    chain_id: int
    symbol: str
    address: str
    price_usd: float
    name: str
    coin_id: str
    pool_address: str
    logo: str
    market_cap: float
    market_cap_rank: int


@lru_cache(maxsize=8)
def tokens(seed: int, chain_id: int) -> tuple[Token, ...]:
    """Every token of a chain, the lively ones first; on Base ether (wrapped) comes next, then a long cheap tail."""
    live = lively(seed, chain_id)
    return live + tuple(_made(seed, chain_id, len(live), COUNTS[chain_id]))


@lru_cache(maxsize=8)
def lively(seed: int, chain_id: int) -> tuple[Token, ...]:
    """The tokens that signals and trades are about: 60 on Base, all 20 on BNB."""
    return tuple(_made(seed, chain_id, 0, len(LIVELY[chain_id])))


def find(seed: int, chain_id: int, identifier: str) -> Token | None:
    """The token that an address, a coin id or a symbol names, whatever its case; None when there is none."""
    return _names(seed, chain_id).get(identifier.lower())


@lru_cache(maxsize=8)
def _names(seed: int, chain_id: int) -> dict[str, Token]:
    return {
        name.lower(): token for token in tokens(seed, chain_id) for name in (token.symbol, token.coin_id, token.address)
    }


def _made(seed: int, chain_id: int, start: int, stop: int) -> Iterator[Token]:
    """The tokens at some places of a chain's list. Their addresses are made together: one by one takes a second."""
    rows = [_row(seed, chain_id, place) for place in range(start, stop)]
    kinds = ("token", "pool")
    bare = ["0x" + digest(seed, "address", kind, chain_id, row[0])[:20].hex() for kind in kinds for row in rows]
    made = checksum_addresses(bare)
    for at, (symbol, name, coin_id, price) in enumerate(rows):
        dice = Dice(seed, "market cap", chain_id, symbol, rolls=2)
        rank = 40 + 5 * (start + at) + dice.below(5)
        cap = 4.5e11 * rank**-1.45
        if symbol == "ETH":
            rank, cap = 2, 3.8e11
        yield Token(
            chain_id,
            symbol,
            ETHER_ADDRESS if symbol == "ETH" else made[at],
            price,
            name,
            coin_id,
            made[len(rows) + at],
            f"{_LOGOS}/{coin_id}.png",
            float(round(cap, -3)),
            rank,
        )


def _row(seed: int, chain_id: int, place: int) -> tuple[str, str, str, float]:
    """(symbol, name, coin id, price) of the token at a place of a chain's list."""
    known = LIVELY[chain_id]
    if place < len(known):
        return known[place]
    if place == len(known):
        return ETHER
    place -= len(known) + 1
    # Each pair of words once.
    first = ADJECTIVES[place % len(ADJECTIVES)]
    second = NOUNS[(place + place // len(ADJECTIVES)) % len(NOUNS)]
    symbol = (first[:3] + second[:3]).upper()
    price = 10 ** Dice(seed, "price", chain_id, symbol, rolls=1).between(-8, -1)
    return symbol, f"{first} {second}", f"{first}-{second}".lower(), significant(price, 3)


def significant(value: float, digits: int = 6) -> float:
    """A price with as many digits as anyone would quote."""
    return float(f"{value:.{digits}g}")
