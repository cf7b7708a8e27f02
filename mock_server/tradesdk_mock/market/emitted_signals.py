"""Signals that a test emits: checking the request, and filling in the rest from the seed."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import lru_cache

from ..core.checks import checked, checked_by, checks_of, choice, integer, number, quoted
from ..core.clock import END
from ..core.errors import MockServerError
from ..core.seeding import EVM_ADDRESS, SeededRandom, address, checksum_address, ident
from .indicators import CHAINS, averages_at
from .price_model import Prices, significant
from .tokens import Token, find, lively

DIRECTIONS = ("BUY", "SELL")
# The largest integer that every JSON reader keeps exact.
_LAST_TIMESTAMP = 2**53 - 1
# Seconds that `at` may be in the past: a running clock has moved since the call.
_GRACE = 60.0


@dataclass(frozen=True, slots=True)
class MockSignal:
    """A signal that was emitted.

    Attributes:
        id: as in lists of signals.
        token_address: EVM address with its checksum.
        token_symbol: ticker.
        chain_id: 8453 or 56.
        direction: `BUY` or `SELL`.
        confidence: 0.0 to 1.0.
        price_usd: USD for one token.
        timestamp: the date in the record, Unix seconds.
        published_at: time of publication, Unix seconds on the service's clock; in the future when it is scheduled.
    """

    id: str
    token_address: str
    token_symbol: str
    chain_id: int
    direction: str
    confidence: float
    price_usd: float
    timestamp: int
    published_at: float


def _chain(value: object) -> object:
    if type(value) is not int or value not in CHAINS:
        raise ValueError("must be 8453 or 56")
    return value


def _token(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("must be a symbol or an address")
    if value[:2].lower() == "0x":
        if not EVM_ADDRESS.fullmatch(value):
            raise ValueError(f"{quoted(value)} is not an EVM address: 0x and 40 hex digits")
    elif not 1 <= len(value) <= 32 or not value.isprintable() or value != value.strip():
        raise ValueError(f"{quoted(value)} is not a symbol: 1 to 32 printable characters, no space at an end")
    return value


def _price(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= sys.float_info.max:
        raise ValueError("must be a finite number above 0")
    return value


@dataclass(frozen=True, slots=True)
class EmitRequest:
    """The requested fields of a signal; None for any value.

    Attributes:
        token: an unknown one is made up.
        timestamp: the date in the record, which may be wrong; by default the time of publication.
        at: when it is published, on the service's clock; by default now.

    Raises:
        MockServerError: an invalid field; the message begins with its name.
    """

    chain_id: int = checked_by(_chain, 8453)
    token: str | None = checked_by(_token)
    direction: str | None = checked_by(choice(*DIRECTIONS))
    confidence: float | None = checked_by(number(0, 1))
    price_usd: float | None = checked_by(_price)
    timestamp: int | None = checked_by(integer(0, _LAST_TIMESTAMP))
    at: float | None = checked_by(number(0, int(END) - 1))

    def __post_init__(self) -> None:
        if isinstance(self.direction, str):
            object.__setattr__(self, "direction", self.direction.upper())
        for name, check in checks_of(self).items():
            if getattr(self, name) is not None or name == "chain_id":
                checked(name, check, getattr(self, name))

    def when(self, now: float) -> float:
        """When it is published; MockServerError if that is in the past."""
        if self.at is None or now - _GRACE <= self.at <= now:
            return now
        if self.at < now:
            raise MockServerError(f"at: {self.at:.3f} is in the past, the service's clock shows {now:.3f}")
        return float(self.at)


def signal(prices: Prices, kind: str, ordinal: int, request: EmitRequest, when: float) -> tuple[MockSignal, int]:
    """(signal, green candles before it). The same arguments give the same signal."""
    seed = prices.seed
    rng = SeededRandom(seed, kind, ordinal)
    choice = lively(seed, request.chain_id)
    # All are drawn each time, so that a requested field doesn't change the others.
    random, direction = choice[rng.below(len(choice))], DIRECTIONS[rng.below(2)]
    confidence, green = round(0.5 + 0.5 * rng.unit() ** 1.5, 3), rng.below(8)
    where, symbol, token = _named(seed, request.chain_id, random.symbol if request.token is None else request.token)
    price = request.price_usd
    if price is None:
        made_up = significant(10 ** SeededRandom(seed, "made-up price", where, draws=1).between(-4, 1))
        price = made_up if token is None else prices.usd(token, when)
    made = MockSignal(
        id=ident("sig", seed, kind, ordinal),
        token_address=where,
        token_symbol=symbol,
        chain_id=request.chain_id,
        direction=request.direction or direction,
        confidence=confidence if request.confidence is None else float(request.confidence),
        price_usd=float(price),
        timestamp=int(when) if request.timestamp is None else request.timestamp,
        published_at=when,
    )
    return made, green


def first_signal(prices: Prices, chain_id: int, ordinal: int, when: float) -> tuple[MockSignal, int, str, float, float]:
    """(signal, green candles, reason, short average, long average) for a new stream.

    The averages are those of the last candle closed before `when`.
    """
    made, _ = signal(prices, "prompt", ordinal, EmitRequest(chain_id), when)
    token = _named(prices.seed, chain_id, made.token_address)[2]
    assert token is not None  # noqa: S101 - one of the lively ones
    short, long, green = averages_at(prices, token, when)
    above = short > long
    reason = f"The short moving average is {'above' if above else 'below'} the long one."
    return replace(made, direction=DIRECTIONS[0 if above else 1]), green, reason, short, long


@lru_cache(maxsize=1_024)
def _named(seed: int, chain_id: int, name: str) -> tuple[str, str, Token | None]:
    """(address, symbol, token) of a token of the market, or of one made up for this name."""
    token = find(seed, chain_id, name)
    if token is not None:
        return token.address, token.symbol, token
    if EVM_ADDRESS.fullmatch(name):
        return checksum_address(name), f"T{name[2:6].upper()}", None
    return address(seed, "token", chain_id, name.upper()), name, None
