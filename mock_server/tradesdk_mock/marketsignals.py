"""Signals as market data shows them: those of the account API, and the times at which the market was left waiting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from . import market
from .identity import Dice
from .slots import CANDLE, PAST
from .tokens import Token, lively, significant

if TYPE_CHECKING:
    from .world import World

BASE = 8453
WAITING = "WAITING FOR SIGNAL"
STRATEGY = "SMA crossover"
# Three times a day a lively token may be waited for, and more often than not it is.
_WATCH = 8 * 3_600
_CHANCE = 0.6
_LAST_SECOND = 253_402_300_799


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which signals of a token: the newest `limit` of a kind (`ALL`: any) from `start` to `end`, both inclusive."""

    limit: int
    kind: str = "ALL"
    start: float | None = None
    end: float | None = None


def records(world: World, token: Token, wanted: Wanted) -> list[dict[str, Any]]:
    """Records of one token, newest first. What is due must have been published."""
    found: list[tuple[int, dict[str, Any]]] = []
    if wanted.kind != WAITING:
        found += _published(world, token, wanted)
    if wanted.kind in (WAITING, "ALL"):
        found += _waiting(world, token, wanted)
    found.sort(key=lambda each: -each[0])
    return [record for _, record in found[: wanted.limit]]


def _published(world: World, token: Token, wanted: Wanted) -> Iterator[tuple[int, dict[str, Any]]]:
    clauses, args = ["chain_id = ?", "token_address = ?"], [BASE, token.address]
    for clause, value in (
        ("direction = ?", None if wanted.kind == "ALL" else wanted.kind),
        ("timestamp >= ?", wanted.start),
        ("timestamp <= ?", wanted.end),
    ):
        if value is not None:
            clauses.append(clause)
            args.append(value)
    for direction, reason, usd, timestamp, short, long, crossed, green in world.store.all(
        "SELECT direction, reason, price_usd, timestamp, short_sma, long_sma, crossover, green_candles FROM signals"  # noqa: S608 - our own clauses
        f" WHERE {' AND '.join(clauses)} ORDER BY timestamp DESC, seq DESC LIMIT ?",
        (*args, wanted.limit),
    ):
        # The market's own signals have the price at which the last candle closed.
        rate = market.eth_usd(world.seed, timestamp - timestamp % CANDLE if crossed else timestamp)
        eth = significant(usd / rate, market.DIGITS)
        yield timestamp, _record(direction, reason, eth, usd, timestamp, short, long, bool(crossed), green)


def _waiting(world: World, token: Token, wanted: Wanted) -> Iterator[tuple[int, dict[str, Any]]]:
    """The averages came close and didn't cross: follows from the seed and the time, newest first.

    There is none where the market makes no signals: for a token that isn't lively, and in a scripted market.
    """
    if token not in lively(world.seed, BASE):
        return
    born = float(world.store.get_meta("born") or world.now())
    first = max(born - PAST, wanted.start or 0.0)
    last = world.now() if world.market == "live" else born
    last = last if wanted.end is None else min(last, wanted.end)
    count = 0
    for watch in range(int(last // _WATCH), int(first // _WATCH) - 1, -1):
        dice = Dice(world.seed, "waiting", token.address, watch, rolls=5)
        at = watch * _WATCH + dice.below(_WATCH)
        if dice.unit() > _CHANCE or not first <= at <= last:
            continue
        eth, usd = market.price_eth(world.seed, token, at), market.price_usd(world.seed, token, at)
        long = eth * dice.between(0.985, 1.015)
        short = long * dice.between(0.9985, 1.0015)
        reason = "The moving averages came close to each other and didn't cross."
        yield at, _record(WAITING, reason, eth, usd, at, short, long, False, dice.below(3))
        count += 1
        if count == wanted.limit:
            return


def _record(
    signal: str,
    reason: str,
    eth: float,
    usd: float,
    timestamp: int,
    short: float | None,
    long: float | None,
    crossed: bool,
    green: int,
) -> dict[str, Any]:
    return {
        "signal": signal,
        "reason": reason,
        "signalPriceEth": eth,
        "signalPriceUsd": usd,
        "signalPriceFormatted": f"${_plain(usd)} ({_plain(eth)} ETH)",
        "createdAt": iso(timestamp),
        "previousShortSMA": None if short is None else significant(short, market.DIGITS),
        "previousLongSMA": None if long is None else significant(long, market.DIGITS),
        "crossoverDetected": crossed,
        "consecutiveGreenCandles": green,
    }


def iso(timestamp: int) -> str:
    """ISO 8601 with Z. Signals may be emitted with dates that it has no form for; they get its last one."""
    return datetime.fromtimestamp(min(timestamp, _LAST_SECOND), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _plain(value: float) -> str:
    """Five digits without an exponent, as people write prices."""
    return f"{Decimal(f'{value:.5g}'):f}" if 1e-18 < value < 1e15 else f"{value:.5g}"
