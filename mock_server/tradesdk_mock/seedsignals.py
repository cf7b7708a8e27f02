"""Signals of the last days, the same for every tenant: a plain table that follows from the seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .identity import Dice, ident
from .tokens import significant, tokens

if TYPE_CHECKING:
    from .world import World

SPAN = 4 * 86_400
COUNTS = {8453: 2_400, 56: 600}


def ensure_signals(world: World) -> None:
    """Make the signals when they are asked for first, back from the time that the clock then shows."""
    if world.store.get_meta("signals") is not None:
        return
    with world.store:
        now = world.second()
        rows: list[tuple[object, ...]] = []
        for chain_id, count in COUNTS.items():
            choice = tokens(world.seed, chain_id)
            step = SPAN / count
            # The newest is a few seconds old, the others follow about evenly.
            for ordinal in range(1, count + 1):
                dice = Dice(world.seed, "signal", chain_id, ordinal, rolls=5)
                token = choice[dice.below(len(choice))]
                timestamp = now - int((count - ordinal) * step + 2 + dice.unit() * (step - 2))
                direction = "BUY" if dice.unit() < 0.55 else "SELL"
                confidence = round(0.5 + 0.5 * dice.unit() ** 1.5, 3)
                price = significant(token.price_usd * dice.between(0.85, 1.2))
                rows.append(
                    (
                        ident("sig", world.seed, chain_id, ordinal),
                        token.address,
                        token.symbol,
                        chain_id,
                        direction,
                        confidence,
                        price,
                        timestamp,
                    )
                )
        rows.sort(key=lambda row: (row[7], row[0]))
        world.store.run_many(
            "INSERT INTO signals (id, token_address, token_symbol, chain_id, direction, confidence, price_usd,"
            " timestamp) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        world.store.set_meta("signals", str(now))
