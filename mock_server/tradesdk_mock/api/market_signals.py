"""Signals of the market-data API: those of the account API, and WAITING FOR SIGNAL where averages came close."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ..market.indicators import BEFORE, DAY, HOUR, LONG, PAST, SHORT, averaged, full_hours, greens, moments
from ..market.price_model import DIGITS, significant
from ..market.tokens import Token, lively
from .market_requests import BASE

if TYPE_CHECKING:
    from ..market.price_model import Prices
    from ..state.world import World
    from .market_requests import MarketQuery

WAITING = "WAITING FOR SIGNAL"
STRATEGY = "SMA crossover"
# Hourly averages are close when their distance is this share of the last twelve hours' price range: once or twice a
# day per token.
_CLOSE = 0.35
_LAST_SECOND = 253_402_300_799


def records(world: World, token: Token, limit: int, query: MarketQuery) -> list[dict[str, Any]]:
    """The newest records of one token, newest first. Due signals must have been published before."""
    found: list[tuple[int, dict[str, Any]]] = []
    if query.signal != WAITING:
        found += _published(world, token, limit, query)
    if query.signal in (WAITING, "ALL"):
        found += _waiting(world, token, limit, query)
    found.sort(key=lambda each: -each[0])
    return [record for _, record in found[:limit]]


def _published(world: World, token: Token, limit: int, query: MarketQuery) -> Iterator[tuple[int, dict[str, Any]]]:
    clauses, args = ["chain_id = ?", "token_address = ?"], [BASE, token.address]
    for clause, value in (
        ("direction = ?", None if query.signal == "ALL" else query.signal),
        ("timestamp >= ?", query.start),
        ("timestamp <= ?", query.end),
    ):
        if value is not None:
            clauses.append(clause)
            args.append(value)
    for direction, reason, usd, timestamp, short, long, crossed, green in world.store.all(
        "SELECT direction, reason, price_usd, timestamp, short_sma, long_sma, crossover, green_candles FROM signals"  # noqa: S608 - our own clauses
        f" WHERE {' AND '.join(clauses)} ORDER BY timestamp DESC, seq DESC LIMIT ?",
        (*args, limit),
    ):
        eth = significant(usd / world.prices.rate(timestamp), DIGITS)
        yield timestamp, _record(direction, reason, eth, usd, timestamp, short, long, bool(crossed), green)


def _waiting(world: World, token: Token, limit: int, query: MarketQuery) -> Iterator[tuple[int, dict[str, Any]]]:
    """When the averages of hourly candles came close and didn't cross; newest first. Follows from seed and time.

    There is none where the market makes no signals: for a token that isn't lively, and in a scripted market.
    """
    # Ether in ether is always 1: its averages never come close, so every day would be searched.
    if token.symbol == "ETH" or token not in lively(world.seed, BASE):
        return
    prices, moment = world.prices, moments(world.seed, BASE)[token.address]
    created_at = world.created_at
    first = max(created_at - PAST, query.start or 0.0, 0.0)
    last = world.now() if world.market == "live" else created_at
    last = last if query.end is None else min(last, query.end)
    count = 0
    for day in range(int(last // DAY), int(first // DAY) - 1, -1):
        for hour, short, long, green in _near(prices, token, day):
            at = hour * HOUR + moment
            if not first <= at <= last:
                continue
            eth, usd = prices.eth(token, at), prices.usd(token, at)
            reason = "The moving averages came close to each other and didn't cross."
            yield at, _record(WAITING, reason, eth, usd, at, short, long, False, green)
            count += 1
            if count == limit:
                return


def _near(prices: Prices, token: Token, day: int) -> Iterator[tuple[int, float, float, int]]:
    """(hour, averages one candle before, green candles) where they came close, the latest of a day first."""
    closes = full_hours(prices, token, range(day * 24 - BEFORE, day * 24 + 24))
    gaps, sums = averaged(closes)
    for index in range(23, -1, -1):
        before, now = gaps[index : index + 2]
        recent = closes[index + 1 : index + 1 + BEFORE]
        if before * now > 0 and abs(now) < min(abs(before), _CLOSE * (max(recent) - min(recent))):
            end = index + BEFORE
            short, long = (sums[end] - sums[end - SHORT]) / SHORT, (sums[end] - sums[end - LONG]) / LONG
            yield day * 24 + index, short, long, greens(recent)


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
        # Later dates than it can express become its last one.
        "createdAt": datetime.fromtimestamp(min(timestamp, _LAST_SECOND), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "previousShortSMA": None if short is None else significant(short, DIGITS),
        "previousLongSMA": None if long is None else significant(long, DIGITS),
        "crossoverDetected": crossed,
        "consecutiveGreenCandles": green,
    }


def _plain(value: float) -> str:
    """Five digits without an exponent."""
    return f"{Decimal(f'{value:.5g}'):f}" if 1e-18 < value < 1e15 else f"{value:.5g}"
