"""What a wallet holds. It follows from the seed and the clock, so that reading it changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .identity import Dice
from .tokens import NATIVE_USD, lively

if TYPE_CHECKING:
    from .world import World

REFRESH = 60
_HELD = 4


def balance_record(world: World, wallet_id: str, chain_id: int, created_at: int) -> dict[str, Any]:
    """The balance as of the last refresh: once when the wallet is connected, then at every full minute."""
    now = world.second()
    refreshed = max(created_at, now - now % REFRESH)
    holds = Dice(world.seed, "balance", wallet_id)
    moves = Dice(world.seed, "balance price", wallet_id, refreshed)
    native = holds.between(0.2, 4.0) * NATIVE_USD[chain_id] * moves.between(0.98, 1.02)
    choice = lively(world.seed, chain_id)
    first = holds.below(len(choice))
    held = []
    for place in range(_HELD):
        token = choice[(first + place) % len(choice)]
        amount = round(holds.between(50.0, 2_000.0) / token.price_usd, 4)
        held.append(
            {
                "token_address": token.address,
                "token_symbol": token.symbol,
                "balance": amount,
                "balance_usd": round(amount * token.price_usd * moves.between(0.98, 1.02), 2),
            }
        )
    return {
        "wallet_id": wallet_id,
        "native_balance_usd": round(native, 2),
        "token_balances": held,
        "updated_at": refreshed,
    }
