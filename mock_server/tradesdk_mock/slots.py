"""The market's signals: which token gets one when, from the seed, the chain and the time alone."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from math import gcd
from operator import itemgetter
from struct import Struct

from .market import DIGITS, eth_usd, price_eth
from .tokens import lively

CHAINS = (8453, 56)
# Seconds for each signal while a world is followed, and in the days before it was made.
_WIDTHS = {8453: 6, 56: 24}
_PAST_WIDTHS = {8453: 144, 56: 576}
PAST = 4 * 86_400
# Signals come from candles of a minute: their price is the one at which the last candle closed.
CANDLE = 60

COLUMNS = (
    "published_at",
    "id",
    "token_address",
    "token_symbol",
    "chain_id",
    "direction",
    "confidence",
    "price_usd",
    "timestamp",
    "reason",
    "short_sma",
    "long_sma",
    "crossover",
    "green_candles",
)
# The values of these columns.
Row = tuple[float, str, str, str, int, str, float, float, int, str, float | None, float | None, int, int]

# End of the id, place in the slot, confidence, distance of the averages, their distance from the price, candles.
_DICE = Struct("<6sIHHHB")
_ORDER = Struct("<II")
# Most are near 0.5; a look here costs less than the power.
_CONFIDENCE = [round(0.5 + 0.5 * (step / 4_095) ** 1.5, 3) for step in range(4_096)]
_ABOVE = [
    "The short moving average crossed above the long one"
    + ("." if green < 2 else f" after {green} green candles in a row.")
    for green in range(8)
]
_BELOW = "The short moving average crossed below the long one."


class Slots:
    """One chain's signals. Time is cut into slots of equal length; each has one signal, somewhere in it.

    The lively tokens take turns: in every block of as many slots as there are tokens each has one signal, in an order
    of that block's own, and its direction is the opposite of the one before.
    """

    def __init__(self, seed: int, chain_id: int, width: int, kind: str) -> None:
        self._seed = seed
        self._chain_id = chain_id
        self._width = width
        self._tokens = lively(seed, chain_id)
        # Steps that lead through all tokens.
        self._steps = [step for step in range(1, len(self._tokens)) if gcd(step, len(self._tokens)) == 1]
        self._name = f"{kind} {seed} {chain_id}"
        self._last: tuple[int, bytes] = (-1, b"")

    def between(self, after: float, upto: float) -> list[Row]:
        """The signals with after < time <= upto, oldest first."""
        first, last = max(0, int(after // self._width)), int(upto // self._width)
        rows: list[Row] = []
        while first <= last:
            block, turn = divmod(first, len(self._tokens))
            turns = range(turn, min(len(self._tokens), turn + last - first + 1))
            rows += self._rows(block, turns)
            first += len(turns)
        # Only the slots at both ends may lie on the wrong side.
        while rows and rows[-1][0] > upto:
            rows.pop()
        return rows[1:] if rows and rows[0][0] <= after else rows

    def next_after(self, ts: float) -> float:
        """When the first signal after `ts` comes."""
        slot = max(0, int(ts // self._width))
        at = self._at(slot)
        return at if at > ts else self._at(slot + 1)

    def _at(self, slot: int) -> float:
        block, turn = divmod(slot, len(self._tokens))
        place: int = _DICE.unpack_from(self._dice(block), turn * _DICE.size)[1]
        return (slot * self._width * 1_000 + place % (self._width * 1_000)) / 1_000

    def _dice(self, block: int) -> bytes:
        """Random bytes for each slot of a block and, at the end, for its order: one hash is cheaper than many."""
        last, dice = self._last
        if last != block:
            size = len(self._tokens) * _DICE.size + _ORDER.size
            dice = hashlib.shake_128(f"{self._name} {block}".encode()).digest(size)
            self._last = block, dice
        return dice

    def _rows(self, block: int, turns: range) -> list[Row]:
        dice, tokens, seed, chain_id = self._dice(block), self._tokens, self._seed, self._chain_id
        millis, count = self._width * 1_000, len(tokens)
        step, shift = _ORDER.unpack_from(dice, count * _DICE.size)
        step = self._steps[step % len(self._steps)]
        rolled = _DICE.iter_unpack(dice[turns.start * _DICE.size : turns.stop * _DICE.size])
        rows: list[Row] = []
        for turn, (ident, place, sure, gap, lean, candles) in zip(turns, rolled, strict=True):
            at_ms = (block * count + turn) * millis + place % millis
            timestamp = at_ms // 1_000
            closed = timestamp - timestamp % CANDLE
            which = (turn * step + shift) % count
            token = tokens[which]
            eth = price_eth(seed, token, closed)
            long_sma = eth * (0.985 + lean * 4.5e-7)
            apart = long_sma * (1e-4 + gap * 1e-7)
            buy = (block + which) % 2 == 0
            green = 1 + candles % 7 if buy else candles % 2
            rows.append(
                (
                    at_ms / 1_000,
                    # In the order of time, so that a long history is stored fast.
                    f"sig_{at_ms:012x}{ident.hex()}",
                    token.address,
                    token.symbol,
                    chain_id,
                    "BUY" if buy else "SELL",
                    _CONFIDENCE[sure % 4_096],
                    float(_rounded(eth * _rate(seed, closed))),
                    timestamp,
                    _ABOVE[green] if buy else _BELOW,
                    # Before the crossing they stood the other way round.
                    long_sma - apart if buy else long_sma + apart,
                    long_sma,
                    1,
                    green,
                )
            )
        return rows


# As `price_usd` has it, but signals of the same minute share the rate.
_rounded = f"{{:.{DIGITS}g}}".format
_rate = lru_cache(maxsize=64)(eth_usd)


@lru_cache(maxsize=16)
def followed(seed: int, chain_id: int) -> Slots:
    """A chain's signals since the world was made."""
    return Slots(seed, chain_id, _WIDTHS[chain_id], "signal")


@lru_cache(maxsize=4)
def past(seed: int, born: float) -> tuple[Row, ...]:
    """Both chains' signals before the world was made, fewer of them, oldest first. Kept: tests make many worlds."""
    rows: list[Row] = []
    for chain_id, width in _PAST_WIDTHS.items():
        rows += Slots(seed, chain_id, width, "past signal").between(born - PAST, born)
    rows.sort(key=itemgetter(0))
    return tuple(rows)
